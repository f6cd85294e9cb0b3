// Inclusive prefix sums of each row: shuffles inside a warp, then the sums of the warps before it,
// then what earlier pieces of the row came to. One block a row.

extern "C" __global__ void scan(const float* rows, int n, float* sums) {
    __shared__ float of_warp[32];
    __shared__ float before;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    rows += (long long)blockIdx.x * n;
    sums += (long long)blockIdx.x * n;
    if (threadIdx.x == 0) before = 0.0f;

    for (int start = 0; start < n; start += blockDim.x) {
        const int i = start + threadIdx.x;
        float sum = i < n ? rows[i] : 0.0f;
        for (int distance = 1; distance < 32; distance *= 2) {
            const float other = __shfl_up_sync(0xffffffff, sum, distance);
            if (lane >= distance) sum += other;
        }
        if (lane == 31) of_warp[warp] = sum;
        __syncthreads();
        if (warp == 0) {
            float total = lane < warps ? of_warp[lane] : 0.0f;
            for (int distance = 1; distance < 32; distance *= 2) {
                const float other = __shfl_up_sync(0xffffffff, total, distance);
                if (lane >= distance) total += other;
            }
            if (lane < warps) of_warp[lane] = total;
        }
        __syncthreads();
        sum += before + (warp > 0 ? of_warp[warp - 1] : 0.0f);
        if (i < n) sums[i] = sum;
        __syncthreads();
        if (threadIdx.x == 0) before += of_warp[warps - 1];
        __syncthreads();
    }
}
