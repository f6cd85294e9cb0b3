/* Runs the layer on small whole numbers, which fp16 holds exactly, and compares every element. */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine.h"

enum { N = 1024, K = 1024, MOST_ROWS = 100 };

/* The fp16 of a whole number between -2048 and 2048. */
static unsigned short half_of(int value)
{
    unsigned sign = value < 0 ? 0x8000u : 0u;
    unsigned bits = (unsigned)abs(value);
    unsigned exponent = 25;
    if (bits == 0) return 0;
    while (bits < 1024) {
        bits <<= 1;
        --exponent;
    }
    while (bits > 2047) {
        bits >>= 1;
        ++exponent;
    }
    return (unsigned short)(sign | exponent << 10 | (bits & 1023u));
}

/* Few enough products are not zero for sums to stay below 2048. */
static int x_at(int row, int column) { return (row * 7 + column * 3) % 13 == 0 ? 1 : 0; }
static int weight_at(int row, int column) { return (row + column * 5) % 11 - 5; }
static int bias_at(int column) { return column % 9 - 4; }

static void* on_device(const unsigned short* host, size_t count)
{
    void* device = NULL;
    if (cudaMalloc(&device, count * 2) != cudaSuccess) return NULL;
    if (cudaMemcpy(device, host, count * 2, cudaMemcpyHostToDevice) != cudaSuccess) return NULL;
    return device;
}

static int check(int rows, int arch)
{
    static unsigned short x[MOST_ROWS * K], weight[N * K], bias[N], y[MOST_ROWS * N];
    void *device_x, *device_weight, *device_bias, *device_y;
    int i, j, k, error;
    for (i = 0; i < rows * K; ++i) x[i] = half_of(x_at(i / K, i % K));
    for (i = 0; i < N * K; ++i) weight[i] = half_of(weight_at(i / K, i % K));
    for (i = 0; i < N; ++i) bias[i] = half_of(bias_at(i));
    device_x = on_device(x, (size_t)rows * K);
    device_weight = on_device(weight, (size_t)N * K);
    device_bias = on_device(bias, N);
    device_y = on_device(y, (size_t)rows * N);
    if (!device_x || !device_weight || !device_bias || !device_y) return 1;
    error = linear_relu(device_x, device_weight, device_bias, device_y, rows, N, K, arch, NULL);
    if (error == 0) error = (int)cudaDeviceSynchronize();
    if (error == 0)
        error = (int)cudaMemcpy(y, device_y, (size_t)rows * N * 2, cudaMemcpyDeviceToHost);
    cudaFree(device_x);
    cudaFree(device_weight);
    cudaFree(device_bias);
    cudaFree(device_y);
    if (error != 0) {
        printf("m = %d: error %d\n", rows, error);
        return 1;
    }
    for (i = 0; i < rows; ++i)
        for (j = 0; j < N; ++j) {
            int sum = bias_at(j);
            for (k = 0; k < K; ++k) sum += x_at(i, k) * weight_at(j, k);
            if (sum < 0) sum = 0;
            if (y[i * N + j] != half_of(sum)) {
                printf("m = %d: y[%d][%d] is 0x%04x, not %d\n", rows, i, j, y[i * N + j], sum);
                return 1;
            }
        }
    printf("m = %d: ok\n", rows);
    return 0;
}

int main(void)
{
    int major = 0, minor = 0;
    if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0) != cudaSuccess ||
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0) != cudaSuccess) {
        puts("no GPU");
        return 3;
    }
    if (check(1, 10 * major + minor) || check(64, 10 * major + minor)) return 1;
    return check(MOST_ROWS, 10 * major + minor);
}
