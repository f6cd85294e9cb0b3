"""The compiled kernels in ``data/``, each with a problem to run it on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from deepgemm_codegen.emulator import Checks, GlobalBuffer, Kernel, Launch, Report, parse, run
from tests.emulator.support import DATA

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Array = np.ndarray[Any, np.dtype[Any]]

__all__ = ["CASES", "Case", "Problem"]


@dataclass(frozen=True)
class Problem:
    """Operands as stored, D to fill, and what D must be (float64)."""

    buffers: list[GlobalBuffer]
    d: Array
    want: Array
    launch: Launch


@dataclass(frozen=True)
class Case:
    file: str
    entry: str
    make: Callable[..., Problem]
    blocks: Sequence[tuple[int, int, int]] | None = None

    def text(self) -> str:
        return (DATA / self.file).read_text()

    def run(
        self, text: str | None = None, *, arithmetic: str = "sm_90", checks: Checks | None = None,
        max_findings: int = 20, **sizes: Any,
    ) -> tuple[Problem, Report]:  # fmt: skip
        problem = self.make(**sizes)
        kernel = Kernel(parse(text or self.text()), self.entry, arithmetic)
        report = run(kernel, problem.launch, self.blocks, checks, max_findings=max_findings)
        return problem, report


def _operands(dtype: Any, *shapes: tuple[int, int], whole: bool) -> list[Array]:
    rng = np.random.default_rng(7)
    if whole:
        return [rng.integers(-4, 5, s).astype(dtype) for s in shapes]
    return [rng.standard_normal(s).astype(dtype) for s in shapes]


def _gemm(
    dtype: Any, m: int = 64, n: int = 64, k: int = 64, pad: int = 0, *, whole: bool = True
) -> Problem:
    """``gemm.cu``: B is n x k; leading dimensions are padded by ``pad``."""
    a, b = _operands(dtype, (m, k), (n, k), whole=whole)
    stored = [np.pad(x, ((0, 0), (0, pad)), constant_values=np.nan) for x in (a, b)]
    d = np.full((m, n + pad), np.nan, np.float32)
    buffers = [GlobalBuffer("a", stored[0]), GlobalBuffer("b", stored[1])]
    buffers.append(GlobalBuffer("d", d, writable=True))
    grid = (-(-n // 64), -(-m // 64), 1)
    params: list[Any] = [*buffers, m, n, k, k + pad, k + pad, n + pad]
    want = a.astype(np.float64) @ b.astype(np.float64).T
    return Problem(buffers, d[:, :n], want, Launch(grid, (128, 1, 1), 0, params))


def _slab(*, whole: bool = True, alpha: float = 1.0) -> Problem:
    """``slab.cu``: 1024-cubed, fp16 out."""
    a, b = _operands(np.float16, (1024, 1024), (1024, 1024), whole=whole)
    d = np.full((1024, 1024), np.nan, np.float16)
    buffers = [GlobalBuffer("a", a), GlobalBuffer("b", b), GlobalBuffer("d", d, writable=True)]
    want = a[:64].astype(np.float64) @ b[:64].astype(np.float64).T * alpha
    shape = Launch((256, 1, 1), (128, 1, 1), 16384, [*buffers, alpha])
    return Problem(buffers, d[:64, :64], want, shape)


def _staged(m: int = 64, n: int = 32, k: int = 80, *, whole: bool = True) -> Problem:
    """``staged.cu``: B is k x n."""
    a, b = _operands(np.float16, (m, k), (k, n), whole=whole)
    d = np.full((m, n), np.nan, np.float32)
    buffers = [GlobalBuffer("a", a), GlobalBuffer("b", b), GlobalBuffer("d", d, writable=True)]
    want = a.astype(np.float64) @ b.astype(np.float64)
    return Problem(
        buffers, d, want, Launch((n // 32, m // 32, 1), (128, 1, 1), 0, [*buffers, n, k])
    )


CASES = {
    "gemm_f16_sm80": Case("gemm_f16_sm80.ptx", "gemm", lambda **s: _gemm(np.float16, **s)),
    "gemm_bf16_sm100": Case(
        "gemm_bf16_sm100.ptx", "gemm", lambda **s: _gemm(ml_dtypes.bfloat16, **s)
    ),
    "slab_sm80": Case("slab_sm80.ptx", "slab_kernel", _slab, [(0, 0, 0)]),
    "slab_sm100": Case("slab_sm100.ptx", "slab_kernel", _slab, [(0, 0, 0)]),
    "staged_f16_sm75": Case("staged_f16_sm75.ptx", "staged", _staged),
}
