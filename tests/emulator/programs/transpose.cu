// A matrix transposed by 32 x 32 tiles in shared memory; a column of padding keeps the banks apart.

struct Shape {
    int rows, columns;
};

extern "C" __global__ void transpose(const double* matrix, Shape shape, double* result) {
    __shared__ double tile[32][33];
    const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        if (x < shape.columns && y + j < shape.rows)
            tile[threadIdx.y + j][threadIdx.x] = matrix[(long long)(y + j) * shape.columns + x];
    __syncthreads();

    const int row = blockIdx.x * 32 + threadIdx.y, column = blockIdx.y * 32 + threadIdx.x;
    for (int j = 0; j < 32; j += 8)
        if (row + j < shape.columns && column < shape.rows)
            result[(long long)(row + j) * shape.rows + column] = tile[threadIdx.x][threadIdx.y + j];
}
