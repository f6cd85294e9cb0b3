// A two-stage fp16 kernel whose epilogue goes through a slab of shared memory for each warp.

typedef unsigned short fp16;
typedef unsigned int u32;
typedef long long i64;

// ---- problem: D = alpha * A * B ------------------------------------------------------------
constexpr int M = 1024;    // rows of A and D
constexpr int N = 1024;    // columns of B and D
constexpr int K = 1024;    // columns of A, rows of B
constexpr i64 LDA = 1024;  // A is stored m x k
constexpr i64 LDB = 1024;  // B is stored n x k
constexpr i64 LDD = 1024;  // D is stored m x n

// ---- decisions -----------------------------------------------------------------------------
constexpr int TILE_M = 64;
constexpr int TILE_N = 64;
constexpr int TILE_K = 32;
constexpr int WARPS_M = 2;
constexpr int WARPS_N = 2;
constexpr int MMA_M = 16;
constexpr int MMA_N = 8;
constexpr int STAGES = 2;
constexpr int MIN_BLOCKS = 4;
constexpr int RASTER_GROUP = 8;
constexpr int A_SWIZZLE = 64;
constexpr int B_SWIZZLE = 64;
constexpr int VECTOR_D = 4;

// ---- what follows from them ----------------------------------------------------------------
constexpr int THREADS = 32 * WARPS_M * WARPS_N;
constexpr int WARP_M = TILE_M / WARPS_M;
constexpr int WARP_N = TILE_N / WARPS_N;
constexpr int FRAGMENTS_M = WARP_M / MMA_M;
constexpr int FRAGMENTS_N = WARP_N / MMA_N;
constexpr int STEPS = TILE_K / 16;
constexpr int SLICES = (K + TILE_K - 1) / TILE_K;
constexpr int TILES_M = (M + TILE_M - 1) / TILE_M;
constexpr int TILES_N = (N + TILE_N - 1) / TILE_N;

// ---- shared memory: STAGES times (A's tile, B's tile); the epilogue's slabs reuse it ---------
constexpr int A_BYTES = TILE_M * TILE_K * 2;
constexpr int B_BYTES = TILE_N * TILE_K * 2;
constexpr int STAGE_BYTES = A_BYTES + B_BYTES;
constexpr int SLAB_BYTES = MMA_M * WARP_N * 4;
constexpr int A_PASS_ROWS = THREADS * 16 / A_SWIZZLE;
constexpr int A_PASSES = TILE_M / A_PASS_ROWS;
constexpr int B_PASS_ROWS = THREADS * 16 / B_SWIZZLE;
constexpr int B_PASSES = TILE_N / B_PASS_ROWS;
constexpr int PASS_BYTES = THREADS * 16;
static_assert(STAGES * STAGE_BYTES == 16384, "the planner's shared-memory total");
static_assert(WARPS_M * WARPS_N * SLAB_BYTES <= STAGES * STAGE_BYTES, "slabs fit in the stages");

// ---- primitives ----------------------------------------------------------------------------
__device__ __forceinline__ u32 a_offset(int row, int byte)
{
    const int offset = row * A_SWIZZLE + byte;
    return offset ^ ((offset >> 3) & (A_SWIZZLE - 16));
}

__device__ __forceinline__ u32 b_offset(int row, int byte)
{
    const int offset = row * B_SWIZZLE + byte;
    return offset ^ ((offset >> 3) & (B_SWIZZLE - 16));
}

__device__ __forceinline__ void cp_async_16(u32 target, const void* source)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"(target), "l"(source));
}

__device__ __forceinline__ void cp_async_commit()
{
    asm volatile("cp.async.commit_group;");
}

template <int PENDING>
__device__ __forceinline__ void cp_async_wait()
{
    asm volatile("cp.async.wait_group %0;" : : "n"(PENDING));
}

__device__ __forceinline__ void ldmatrix_x4(u32 (&r)[4], u32 address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 { %0, %1, %2, %3 }, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address));
}

__device__ __forceinline__ void mma_m16n8k16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{ %0, %1, %2, %3 }, { %4, %5, %6, %7 }, { %8, %9 }, { %0, %1, %2, %3 };"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ u32 pack_fp16x2(float low, float high)
{
    u32 bits;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}

// Chunk of 4 floats in a slab, XORed so that fragment writes and row reads meet no bank twice.
__device__ __forceinline__ int slab_index(int row, int column)
{
    return row * WARP_N + (column ^ ((row & 3) << 3));
}

// ---- kernel --------------------------------------------------------------------------------
extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
slab_kernel(const fp16* __restrict__ a, const fp16* __restrict__ b, fp16* d, float alpha)
{
    extern __shared__ __align__(1024) unsigned char shared[];
    const u32 stages = static_cast<u32>(__cvta_generic_to_shared(shared));

    // -- who am I --
    const int thread = threadIdx.x;
    const int warp = thread / 32;
    const int lane = thread % 32;
    const int warp_m = warp % WARPS_M;
    const int warp_n = warp / WARPS_M;

    // -- which tile: groups of RASTER_GROUP tile rows, walked column by column --
    const int group = blockIdx.x / (RASTER_GROUP * TILES_N);
    const int within = blockIdx.x % (RASTER_GROUP * TILES_N);
    const int height = min(RASTER_GROUP, TILES_M - group * RASTER_GROUP);
    const int m0 = (group * RASTER_GROUP + within % height) * TILE_M;
    const int n0 = within / height * TILE_N;

    float acc[FRAGMENTS_M][FRAGMENTS_N][4] = {};

    if (alpha != 0.0f) {
        // -- where this thread copies from and to --
        const int a_row = thread / (A_SWIZZLE / 16);
        const int a_byte = thread % (A_SWIZZLE / 16) * 16;
        const fp16* a_source = a + (m0 + a_row) * LDA + a_byte / 2;
        const u32 a_target = stages + a_offset(a_row, a_byte);
        const int b_row = thread / (B_SWIZZLE / 16);
        const int b_byte = thread % (B_SWIZZLE / 16) * 16;
        const fp16* b_source = b + (n0 + b_row) * LDB + b_byte / 2;
        const u32 b_target = stages + A_BYTES + b_offset(b_row, b_byte);

        // -- where this lane reads its fragments --
        const u32 a_lane = stages + a_offset(warp_m * WARP_M + lane % 16, lane / 16 * 16);
        const u32 b_lane = stages + A_BYTES
            + b_offset(warp_n * WARP_N + lane / 16 * 8 + lane % 8, lane / 8 % 2 * 16);

        // -- prologue: fill all stages but one --
        u32 write = 0;
        for (int slice = 0; slice < STAGES - 1; ++slice) {
            if (slice < SLICES) {
#pragma unroll
                for (int pass = 0; pass < A_PASSES; ++pass)
                    cp_async_16(a_target + write + pass * PASS_BYTES,
                                a_source + pass * A_PASS_ROWS * LDA);
#pragma unroll
                for (int pass = 0; pass < B_PASSES; ++pass)
                    cp_async_16(b_target + write + pass * PASS_BYTES,
                                b_source + pass * B_PASS_ROWS * LDB);
                a_source += TILE_K;
                b_source += TILE_K;
            }
            cp_async_commit();
            write += STAGE_BYTES;
        }

        // -- main loop: slice s computes while slice s + STAGES - 1 is on its way --
        u32 read = 0;
        for (int slice = 0; slice < SLICES; ++slice) {
            cp_async_wait<STAGES - 2>();  // this thread's part of the slice has landed
            __syncthreads();              // everyone's has, and nobody reads the oldest stage
            if (slice + STAGES - 1 < SLICES) {
#pragma unroll
                for (int pass = 0; pass < A_PASSES; ++pass)
                    cp_async_16(a_target + write + pass * PASS_BYTES,
                                a_source + pass * A_PASS_ROWS * LDA);
#pragma unroll
                for (int pass = 0; pass < B_PASSES; ++pass)
                    cp_async_16(b_target + write + pass * PASS_BYTES,
                                b_source + pass * B_PASS_ROWS * LDB);
                a_source += TILE_K;
                b_source += TILE_K;
            }
            cp_async_commit();

#pragma unroll
            for (int step = 0; step < STEPS; ++step) {
                u32 a_fragment[FRAGMENTS_M][4];
                u32 b_fragment[FRAGMENTS_N / 2][4];
#pragma unroll
                for (int i = 0; i < FRAGMENTS_M; ++i)
                    ldmatrix_x4(a_fragment[i], ((a_lane + read) ^ (step * 32)) + i * 16 * A_SWIZZLE);
#pragma unroll
                for (int j = 0; j < FRAGMENTS_N / 2; ++j)
                    ldmatrix_x4(b_fragment[j], ((b_lane + read) ^ (step * 32)) + j * 16 * B_SWIZZLE);
#pragma unroll
                for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                    for (int j = 0; j < FRAGMENTS_N; ++j)
                        mma_m16n8k16(acc[i][j], a_fragment[i], b_fragment[j / 2][j % 2 * 2],
                                     b_fragment[j / 2][j % 2 * 2 + 1]);
            }
            read = read + STAGE_BYTES == STAGES * STAGE_BYTES ? 0 : read + STAGE_BYTES;
            write = write + STAGE_BYTES == STAGES * STAGE_BYTES ? 0 : write + STAGE_BYTES;
        }
        cp_async_wait<0>();
        __syncthreads();  // the slabs reuse the stages
    }

    // -- epilogue: 16 rows at a time through this warp's slab, then whole rows to D --
    float* slab = reinterpret_cast<float*>(shared + warp * SLAB_BYTES);
    const int lane_row = lane / (WARP_N / VECTOR_D);
    const int lane_column = lane % (WARP_N / VECTOR_D) * VECTOR_D;
#pragma unroll
    for (int i = 0; i < FRAGMENTS_M; ++i) {
        __syncwarp();
#pragma unroll
        for (int j = 0; j < FRAGMENTS_N; ++j) {
            const int column = j * MMA_N + lane % 4 * 2;
            float2 low = { acc[i][j][0], acc[i][j][1] };
            float2 high = { acc[i][j][2], acc[i][j][3] };
            *reinterpret_cast<float2*>(slab + slab_index(lane / 4, column)) = low;
            *reinterpret_cast<float2*>(slab + slab_index(lane / 4 + 8, column)) = high;
        }
        __syncwarp();
#pragma unroll
        for (int row = lane_row; row < MMA_M; row += 32 / (WARP_N / VECTOR_D)) {
            const float4 sums = *reinterpret_cast<const float4*>(slab + slab_index(row, lane_column));
            float value[VECTOR_D] = { alpha * sums.x, alpha * sums.y, alpha * sums.z, alpha * sums.w };
            const int global_row = m0 + warp_m * WARP_M + i * MMA_M + row;
            const int global_column = n0 + warp_n * WARP_N + lane_column;
            uint2 bits = { pack_fp16x2(value[0], value[1]), pack_fp16x2(value[2], value[3]) };
            *reinterpret_cast<uint2*>(d + global_row * LDD + global_column) = bits;
        }
    }
}
