// D[m x n] = A[m x k] * B[k x n], fp16, sm_75: through registers into two slots of shared memory.
// One 32 x 32 tile a block, 4 warps in 2 x 2, 16 of k a slice; m, n multiples of 32, k of 16.
typedef unsigned short u16;
typedef unsigned u32;

__device__ __forceinline__ u32 shared_address(const void* p)
{
    return static_cast<u32>(__cvta_generic_to_shared(p));
}

extern "C" __global__ void __launch_bounds__(128)
staged(const u16* __restrict__ a, const u16* __restrict__ b, float* d, int n, int k)
{
    __shared__ __align__(16) u16 sa[2][32 * 24];  // rows of 16, padded to 24
    __shared__ __align__(16) u16 sb[2][16 * 40];  // rows of 32, padded to 40
    const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    const int row0 = blockIdx.y * 32, col0 = blockIdx.x * 32;
    const bool first = thread < 64;
    const int i = thread % 64;
    const u16* source = first ? a + (row0 + i / 2) * (long long)k + i % 2 * 8
                              : b + (i / 4) * (long long)n + col0 + i % 4 * 8;
    const long long step = first ? 16 : 16ll * n;
    float acc[2][4] = {};
    uint4 held = *reinterpret_cast<const uint4*>(source);
    for (int slice = 0; slice < k / 16; ++slice) {
        const int slot = slice % 2;
        u16* target = first ? &sa[slot][i / 2 * 24 + i % 2 * 8] : &sb[slot][i / 4 * 40 + i % 4 * 8];
        *reinterpret_cast<uint4*>(target) = held;
        __syncthreads();
        source += step;
        if (slice + 1 < k / 16)
            held = *reinterpret_cast<const uint4*>(source);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            u32 fa[2], fb[2];
            u32 address = shared_address(&sa[slot][(warp / 2 * 16 + lane % 16) * 24 + half * 8]);
            asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 { %0, %1 }, [%2];"
                         : "=r"(fa[0]), "=r"(fa[1]) : "r"(address));
            address = shared_address(
                &sb[slot][(half * 8 + lane % 8) * 40 + warp % 2 * 16 + lane / 8 % 2 * 8]);
            asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 { %0, %1 }, [%2];"
                         : "=r"(fb[0]), "=r"(fb[1]) : "r"(address));
#pragma unroll
            for (int j = 0; j < 2; ++j)
                asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
                             "{ %0, %1, %2, %3 }, { %4, %5 }, { %6 }, { %0, %1, %2, %3 };"
                             : "+f"(acc[j][0]), "+f"(acc[j][1]), "+f"(acc[j][2]), "+f"(acc[j][3])
                             : "r"(fa[0]), "r"(fa[1]), "r"(fb[j]));
        }
    }
#pragma unroll
    for (int j = 0; j < 2; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e)
            d[(row0 + warp / 2 * 16 + lane / 4 + e / 2 * 8) * (long long)n + col0
              + warp % 2 * 16 + j * 8 + lane % 4 * 2 + e % 2] = acc[j][e];
}
