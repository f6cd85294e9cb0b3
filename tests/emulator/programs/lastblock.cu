// The largest number and its place: each block writes its own to a workspace, and the block that
// finishes last, found by a counter behind a fence, goes through them.

struct Found {
    float value;
    int place;
};

__device__ Found better(Found a, Found b) {
    return b.value > a.value || (b.value == a.value && b.place < a.place) ? b : a;
}

__device__ Found over_block(Found mine, Found* found) {
    found[threadIdx.x] = mine;
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            found[threadIdx.x] = better(found[threadIdx.x], found[threadIdx.x + half]);
    }
    __syncthreads();
    return found[0];
}

extern "C" __global__ void lastblock(const float* numbers, int n, Found* workspace,
                                     unsigned* counter, Found* result) {
    extern __shared__ Found found[];
    __shared__ bool last;
    Found mine = {-INFINITY, n};
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        mine = better(mine, {numbers[i], i});
    mine = over_block(mine, found);

    if (threadIdx.x == 0) {
        workspace[blockIdx.x] = mine;
        __threadfence();
        last = atomicInc(counter, gridDim.x - 1) == gridDim.x - 1;
        __threadfence();
    }
    __syncthreads();
    if (!last) return;

    mine = {-INFINITY, n};
    for (int i = threadIdx.x; i < gridDim.x; i += blockDim.x)
        mine = better(mine, workspace[i]);
    mine = over_block(mine, found);
    if (threadIdx.x == 0) *result = mine;
}
