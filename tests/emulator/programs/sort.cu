// Keys sorted in shared memory by a bitonic network, a power of two of them a block.

extern "C" __global__ void sort(unsigned* keys, int n) {
    extern __shared__ unsigned held[];
    keys += (long long)blockIdx.x * n;
    for (int i = threadIdx.x; i < n; i += blockDim.x) held[i] = keys[i];
    for (int size = 2; size <= n; size *= 2)
        for (int distance = size / 2; distance > 0; distance /= 2) {
            __syncthreads();
            for (int i = threadIdx.x; i < n; i += blockDim.x) {
                const int other = i ^ distance;
                if (other > i && (held[i] > held[other]) == ((i & size) == 0)) {
                    const unsigned key = held[i];
                    held[i] = held[other];
                    held[other] = key;
                }
            }
        }
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) keys[i] = held[i];
}
