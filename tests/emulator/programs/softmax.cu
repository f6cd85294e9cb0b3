// Softmax of each row: the largest, the sum of exponentials, the quotients. One block a row.

__device__ float over_block(float value, bool largest, float* of_warp) {
    for (int distance = 16; distance > 0; distance /= 2) {
        const float other = __shfl_xor_sync(0xffffffff, value, distance);
        value = largest ? fmaxf(value, other) : value + other;
    }
    __syncthreads();  // nobody reads the last round's values any more
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
    __syncthreads();
    value = of_warp[0];
    for (int warp = 1; warp < blockDim.x / 32; ++warp)
        value = largest ? fmaxf(value, of_warp[warp]) : value + of_warp[warp];
    return value;
}

extern "C" __global__ void softmax(const float* rows, int n, float* result) {
    __shared__ float of_warp[32];
    rows += (long long)blockIdx.x * n;
    result += (long long)blockIdx.x * n;

    float largest = -INFINITY;
    for (int i = threadIdx.x; i < n; i += blockDim.x) largest = fmaxf(largest, rows[i]);
    largest = over_block(largest, true, of_warp);
    float sum = 0.0f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += expf(rows[i] - largest);
    sum = over_block(sum, false, of_warp);
    for (int i = threadIdx.x; i < n; i += blockDim.x) result[i] = expf(rows[i] - largest) / sum;
}
