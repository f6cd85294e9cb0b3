// The sum of whole numbers: a warp by shuffles, a block through an atomic in shared memory, the
// grid through one in global memory.

extern "C" __global__ void reduction(const int* numbers, int n, int* sum) {
    __shared__ int of_block;
    if (threadIdx.x == 0) of_block = 0;
    __syncthreads();

    int mine = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        mine += numbers[i];
    for (int distance = 16; distance > 0; distance /= 2)
        mine += __shfl_down_sync(0xffffffff, mine, distance);
    if (threadIdx.x % 32 == 0) atomicAdd(&of_block, mine);
    __syncthreads();

    if (threadIdx.x == 0) atomicAdd(sum, of_block);
}
