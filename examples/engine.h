/* What the engine offers: one layer, of any number of rows that a kernel was generated for. */
#ifndef ENGINE_H
#define ENGINE_H

#ifdef __cplusplus
extern "C" {
#endif

/* y = relu(x W^T + bias) on the device, in order with the work of `stream`, a cudaStream_t.
   x is m x k, weight n x k, bias n, y m x n, all fp16 and row-major; arch is the GPU's compute
   capability as a number, such as 90. Returns a cudaError_t, or -1 where no kernel covers the
   problem. Allocates nothing and waits for nothing, so that it may be captured into a graph. */
int linear_relu(const void* x, const void* weight, void* bias, void* y, int m, int n, int k,
                int arch, void* stream);

#ifdef __cplusplus
}
#endif
#endif
