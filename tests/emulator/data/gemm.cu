// D[m x n] = A[m x k] * B[n x k]^T, fp16 (or bf16) in, fp32 or fp16 out, row-major.
#ifndef TM
#define TM 64
#define TN 64
#define TK 32
#define WM 32
#define WN 32
#define STAGES 3
#endif
#define CHUNKS (TK / 8)
typedef unsigned short u16; typedef unsigned u32; typedef unsigned long long u64;
__device__ __forceinline__ u32 shared_address(const void *p) { return (u32)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void copy16(u32 dst, const void *src, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(dst), "l"(src), "r"(bytes) : "memory");
}
__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ __forceinline__ void wait() { asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory"); }
__device__ __forceinline__ void ldmatrix4(u32 (&r)[4], u32 a) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 { %0, %1, %2, %3 }, [%4];"
    : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(a) : "memory");
}
__device__ __forceinline__ void mma(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." TYPE "." TYPE ".f32 { %0, %1, %2, %3 }, { %4, %5, %6, %7 }, { %8, %9 }, { %0, %1, %2, %3 };"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ u32 swz(int row, int chunk) { return row * (TK * 2) + ((chunk ^ ((row >> 1) & (CHUNKS - 1))) * 16); }

template <int ROWS> __device__ __forceinline__ void load_tile(u32 dst, const u16 *src, int row0, int rows, int k0, int k, int ld) {
#pragma unroll
  for (int j = 0; j < ROWS * CHUNKS / 128; ++j) {
    unsigned i = threadIdx.x + j * 128; int r = i / CHUNKS, c = i % CHUNKS;
    int left = (k - (k0 + c * 8)) * 2;
    int bytes = row0 + r < rows ? (left < 0 ? 0 : left > 16 ? 16 : left) : 0;
    const u16 *p = src + (bytes ? (long long)(row0 + r) * ld + k0 + c * 8 : 0);
    copy16(dst + swz(r, c), p, bytes);
  }
}

extern "C" __global__ void __launch_bounds__(128) gemm(const u16 *a, const u16 *b, float *d, int m, int n, int k, int lda, int ldb, int ldd) {
  __shared__ __align__(128) u16 sa[STAGES][TM * TK];
  __shared__ __align__(128) u16 sb[STAGES][TN * TK];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int wm = (warp / (TN / WN)) * WM, wn = (warp % (TN / WN)) * WN;
  const int row0 = blockIdx.y * TM, col0 = blockIdx.x * TN;
  const int tiles = (k + TK - 1) / TK;
  float acc[WM / 16][WN / 8][4] = {};
  for (int s = 0; s < STAGES - 1; ++s) {
    if (s < tiles) {
      load_tile<TM>(shared_address(sa[s]), a, row0, m, s * TK, k, lda);
      load_tile<TN>(shared_address(sb[s]), b, col0, n, s * TK, k, ldb);
    }
    commit();
  }
  int slot = 0;
  for (int t = 0; t < tiles; ++t) {
    wait<STAGES - 2>();
    __syncthreads();
    int next = t + STAGES - 1;
    if (next < tiles) {
      int to = slot == 0 ? STAGES - 1 : slot - 1;
      load_tile<TM>(shared_address(sa[to]), a, row0, m, next * TK, k, lda);
      load_tile<TN>(shared_address(sb[to]), b, col0, n, next * TK, k, ldb);
    }
    commit();
#pragma unroll
    for (int kk = 0; kk < TK / 16; ++kk) {
      u32 af[WM / 16][4], bf[WN / 16][4];
#pragma unroll
      for (int i = 0; i < WM / 16; ++i) ldmatrix4(af[i], shared_address(sa[slot]) + swz(wm + i * 16 + (lane & 15), kk * 2 + (lane >> 4)));
#pragma unroll
      for (int j = 0; j < WN / 16; ++j) ldmatrix4(bf[j], shared_address(sb[slot]) + swz(wn + j * 16 + (lane & 7) + ((lane >> 4) << 3), kk * 2 + ((lane >> 3) & 1)));
#pragma unroll
      for (int i = 0; i < WM / 16; ++i)
#pragma unroll
        for (int j = 0; j < WN / 8; ++j) mma(acc[i][j], af[i], bf[j / 2][(j & 1) * 2], bf[j / 2][(j & 1) * 2 + 1]);
    }
    slot = slot == STAGES - 1 ? 0 : slot + 1;
  }
#pragma unroll
  for (int i = 0; i < WM / 16; ++i)
#pragma unroll
    for (int j = 0; j < WN / 8; ++j)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        int r = row0 + wm + i * 16 + (lane >> 2) + h * 8, c = col0 + wn + j * 8 + (lane & 3) * 2;
        float *p = d + (long long)r * ldd + c;
        if (r < m) {
          if (c + 1 < n && (ldd & 1) == 0) asm volatile("st.global.v2.f32 [%0], { %1, %2 };" :: "l"(p), "f"(acc[i][j][h * 2]), "f"(acc[i][j][h * 2 + 1]) : "memory");
          else { if (c < n) p[0] = acc[i][j][h * 2]; if (c + 1 < n) p[1] = acc[i][j][h * 2 + 1]; }
        }
      }
}
