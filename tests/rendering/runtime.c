// What a launcher calls of CUDA, on a machine without a GPU: counts launches, and checks tensor
// maps as the driver does (CUDA driver API, cuTensorMapEncodeTiled).

#include <stddef.h>
#include <stdint.h>

typedef struct { unsigned x, y, z; } Dim3;

int launches;  // since it was last set to 0

static Dim3 configured_grid, configured_block;

static int encode(void* map, int type, unsigned rank, void* pointer, const uint64_t* sizes,
                  const uint64_t* strides, const uint32_t* box, const uint32_t* steps,
                  int interleave, int swizzle, int promotion, int fill)
{
    if ((uintptr_t)map % 64 || pointer == NULL || (uintptr_t)pointer % 16) return 1;
    for (unsigned i = 0; i < rank; ++i)
        if (sizes[i] == 0 || sizes[i] > (1ull << 32) || box[i] == 0 || box[i] > 256) return 1;
    for (unsigned i = 0; i + 1 < rank; ++i)
        if (strides[i] == 0 || strides[i] % 16 || strides[i] >= (1ull << 40)) return 1;
    return 0;
}

int cudaGetDriverEntryPointByVersion(const char* name, void** entry, unsigned version,
                                     unsigned long long flags, int* found)
{
    *entry = (void*)encode;
    *found = 0;
    return 0;
}

int cudaGetDevice(int* device) { return *device = 0; }

int cudaDeviceGetAttribute(int* value, int attribute, int device)
{
    *value = 132;
    return 0;
}

int cudaFuncSetAttribute(const void* kernel, int attribute, int value) { return 0; }

int cudaGetLastError(void) { return 0; }

int __cudaLaunchKernel(void* kernel, Dim3 grid, Dim3 block, void** arguments, size_t shared,
                       void* stream)
{
    ++launches;
    return grid.x && block.x ? 0 : 9;  // cudaErrorInvalidConfiguration
}

int cudaLaunchKernel(const void* kernel, Dim3 grid, Dim3 block, void** arguments, size_t shared,
                     void* stream)
{
    return __cudaLaunchKernel((void*)kernel, grid, block, arguments, shared, stream);
}

int cudaLaunchKernelExC(const void* config, const void* kernel, void** arguments)
{
    ++launches;
    return 0;
}

// What nvcc writes round kernels and launches.
unsigned __cudaPushCallConfiguration(Dim3 grid, Dim3 block, size_t shared, void* stream)
{
    configured_grid = grid;
    configured_block = block;
    return 0;
}

int __cudaPopCallConfiguration(Dim3* grid, Dim3* block, size_t* shared, void** stream)
{
    *grid = configured_grid;
    *block = configured_block;
    *shared = 0;
    *stream = NULL;
    return 0;
}

void** __cudaRegisterFatBinary(void* binary)
{
    static void* handle;
    return &handle;
}

void __cudaRegisterFatBinaryEnd(void** handle) {}
void __cudaUnregisterFatBinary(void** handle) {}
void __cudaRegisterFunction(void** handle, const char* host, char* device, const char* name,
                            int limit, void* a, void* b, void* c, void* d, int* e) {}
int __cudaInitModule(void** handle) { return 1; }
int __cudaGetKernel(void** kernel, const void* function) { return *kernel = (void*)function, 0; }
