/* Chooses among the generated kernels at run time and launches one. Plain C: only the kernels need
   nvcc, and only they know which instructions the GPU has. */
#include "engine.h"

#include "dispatch.h" /* of the generated folder */

int linear_relu(const void* x, const void* weight, void* bias, void* y, int m, int n, int k,
                int arch, void* stream)
{
    dgemm_arguments arguments;
    const dgemm_kernel* kernel =
        dgemm_select(DGEMM_FP16_NT_BIAS_FP16_RELU, m, n, k, arch);
    if (kernel == NULL) return -1;
    memset(&arguments, 0, sizeof arguments);
    arguments.a = x;
    arguments.b = weight;
    arguments.d = y;
    arguments.operands = &bias;
    arguments.alpha = 1.0f;
    arguments.m = m;
    arguments.n = n;
    arguments.k = k;
    return dgemm_launch(kernel, &arguments, stream);
}
