// How often each byte occurs: a table a block by atomics in shared memory, added to the result's.
// Four bytes a load where the address allows it.

extern "C" __global__ void histogram(const unsigned char* bytes, unsigned n, unsigned* counts) {
    __shared__ unsigned table[256];
    for (unsigned i = threadIdx.x; i < 256; i += blockDim.x) table[i] = 0;
    __syncthreads();

    const unsigned first = blockIdx.x * blockDim.x + threadIdx.x, step = gridDim.x * blockDim.x;
    const unsigned words = (size_t)bytes % 4 == 0 ? n / 4 : 0;
    for (unsigned i = first; i < words; i += step) {
        const uchar4 four = ((const uchar4*)bytes)[i];
        atomicAdd(&table[four.x], 1u);
        atomicAdd(&table[four.y], 1u);
        atomicAdd(&table[four.z], 1u);
        atomicAdd(&table[four.w], 1u);
    }
    for (unsigned i = 4 * words + first; i < n; i += step) atomicAdd(&table[bytes[i]], 1u);
    __syncthreads();

    for (unsigned i = threadIdx.x; i < 256; i += blockDim.x)
        if (table[i] > 0) atomicAdd(&counts[i], table[i]);
}
