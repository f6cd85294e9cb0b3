// mma.sync from registers alone: no memory, no tile. Its rate is the most that any kernel built on
// this instruction can reach on the chip.
extern "C" __global__ void __launch_bounds__(256)
mma_ceiling(float* sink, const unsigned* random, int rounds)
{
    unsigned a[4][4], b[4][2];
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    for (int i = 0; i < 16; ++i) a[i / 4][i % 4] = random[(thread * 24 + i) & 0xfffff];
    for (int i = 0; i < 8; ++i) b[i / 2][i % 2] = random[(thread * 24 + 16 + i) & 0xfffff];
    float c[4][4][4] = {};
    for (int round = 0; round < rounds; ++round)
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
            for (int j = 0; j < 4; ++j)
                asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                             "{ %0, %1, %2, %3 }, { %4, %5, %6, %7 }, { %8, %9 }, "
                             "{ %0, %1, %2, %3 };"
                             : "+f"(c[i][j][0]), "+f"(c[i][j][1]), "+f"(c[i][j][2]), "+f"(c[i][j][3])
                             : "r"(a[i][0]), "r"(a[i][1]), "r"(a[i][2]), "r"(a[i][3]),
                               "r"(b[j][0]), "r"(b[j][1]));
    float sum = 0;
    for (int i = 0; i < 64; ++i) sum += c[i / 16][i / 4 % 4][i % 4];
    if (sum == 1.2345f) sink[thread] = sum;
}
