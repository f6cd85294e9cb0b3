"""The oracle's prefix sums on a GPU: one kernel of our own, compiled by the toolchain.

The same sums and the same charges as `sums.prefix_sums`, one element of D a thread. A library
product would need one call for each step of k, and cuBLAS installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.harness.sums import ROUND, Expected, finish_bound
from deepgemm_codegen.toolchain import build_cubin

if TYPE_CHECKING:
    from deepgemm_codegen.harness.sums import StepModel

__all__ = ["SOURCE", "GpuPrefixSums"]

NAME = "deepgemm_codegen_prefix_sums"
TILE = 16

SOURCE = f"""\
// The harness's float64 oracle: A * B by prefix sums, with the loss charged at every step of k.
constexpr int TILE = {TILE};
constexpr double ROUND = {ROUND!r};

extern "C" __global__ void __launch_bounds__(TILE * TILE)
{NAME}(const double* a, const double* b, double* total, double* error,
       int rows, int columns, int k, int length, int apart, double cut, double unit,
       double scaling)
{{
    __shared__ double a_tile[TILE][TILE + 1];
    __shared__ double b_tile[TILE][TILE + 1];
    const int x = threadIdx.x % TILE;
    const int y = threadIdx.x / TILE;
    const int tiles_n = (columns + TILE - 1) / TILE;
    const long long row = static_cast<long long>(blockIdx.x / tiles_n) * TILE + y;
    const long long column = static_cast<long long>(blockIdx.x % tiles_n) * TILE + x;
    double sum = 0.0;      // what was added in fp32, and its error
    double sum_loss = 0.0;
    double part = 0.0;     // what was summed since
    double loss = 0.0;
    double largest = 0.0;  // of this step's addends: the sum before it, and its products
    const int last = (k + TILE - 1) / TILE * TILE;  // k rounded up
    for (int start = 0; start < k; start += TILE) {{
        const bool has_a = row < rows && start + x < k;
        const bool has_b = column < columns && start + y < k;
        a_tile[y][x] = has_a ? a[row * k + start + x] : 0.0;
        b_tile[y][x] = has_b ? b[static_cast<long long>(start + y) * columns + column] : 0.0;
        __syncthreads();
        for (int i = 0; i < TILE; ++i) {{
            const double product = a_tile[y][i] * b_tile[i][x];
            if ((start + i) % length == 0)
                largest = fabs(part) + loss;
            largest = fmax(largest, fabs(product));
            part += product;
            if ((start + i + 1) % length == 0 || start + i + 1 == last) {{
                loss += cut * largest;
                loss += unit * (fabs(part) + loss);
            }}
            if (apart && ((start + i + 1) % apart == 0 || start + i + 1 == last)) {{
                loss += scaling * (fabs(part) + loss);
                sum += part;
                sum_loss += loss;
                sum_loss += ROUND * (fabs(sum) + sum_loss);
                part = 0.0;
                loss = 0.0;
            }}
        }}
        __syncthreads();
    }}
    if (row < rows && column < columns) {{
        total[row * columns + column] = sum + part;
        error[row * columns + column] = sum_loss + loss;
    }}
}}
"""


class GpuPrefixSums:
    """Computes what `sums.prefix_sums` computes, on cupy arrays."""

    def __init__(self, cupy: Any, arch: str) -> None:
        self._cupy = cupy
        module = cupy.cuda.function.Module()
        module.load(build_cubin(SOURCE, name=NAME, arch=arch).cubin)
        self._function = module.get_function(NAME)

    def __call__(self, a: Any, b: Any, model: StepModel | None, xp: Any) -> Expected:
        """A * B and its bound; see `sums.prefix_sums`."""
        a, b = xp.ascontiguousarray(a), xp.ascontiguousarray(b)
        rows, k = a.shape
        columns = b.shape[1]
        total = xp.empty((rows, columns))
        error = xp.empty((rows, columns))
        steps = (model.length, model.apart) if model else (TILE, 0)
        tiles = -(-rows // TILE) * -(-columns // TILE)
        arguments = (
            *(np.uint64(array.data.ptr) for array in (a, b, total, error)),
            *(np.int32(value) for value in (rows, columns, k, *steps)),
            np.float64(model.cut if model else 0.0),
            np.float64(model.unit if model else 0.0),
            np.float64(model.scaling if model else 0.0),
        )
        self._function((tiles, 1, 1), (TILE * TILE, 1, 1), arguments)
        if model is None:
            return Expected.around(total + 0.0, error)
        return finish_bound(total, error, k, model)
