"""Kernels of the wgmma family, compiled here and now, with problems to run them on."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

from deepgemm_codegen import emulator
from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.decide import WgmmaChoice
from deepgemm_codegen.emulator import Checks, GlobalBuffer, Kernel, Launch, Report, parse, run
from deepgemm_codegen.errors import EnvironmentLackError
from deepgemm_codegen.render import render_kernel
from deepgemm_codegen.spec import GemmSpec
from deepgemm_codegen.toolchain import compile_ptx

if TYPE_CHECKING:
    from collections.abc import Callable

    from deepgemm_codegen.plan import KernelPlan

Array = np.ndarray[Any, np.dtype[Any]]

__all__ = ["Compiled", "Outcome", "build", "compile_source", "solve"]

DTYPES: dict[str, Any] = {"fp16": np.float16, "bf16": ml_dtypes.bfloat16, "fp32": np.float32}


@dataclass(frozen=True)
class Compiled:
    plan: KernelPlan
    source: str
    ptx: str

    def edited(self, old: str, new: str, *, count: int = 0) -> Compiled:
        """The kernel with its PTX changed; ``count`` places, 0 for all of at least one."""
        assert old in self.ptx, f"no '{old}' in the PTX"
        text = self.ptx.replace(old, new, count or -1)
        return dataclasses.replace(self, ptx=text)

    def rewritten(self, *edits: tuple[str, str], count: int = 0) -> Compiled:
        """The kernel with its CUDA source changed and compiled again."""
        text = self.source
        for old, new in edits:
            assert old in text, f"no '{old}' in the source"
            text = text.replace(old, new, count or -1)
        return Compiled(self.plan, text, compile_source(text, self.plan.name))


def compile_source(source: str, name: str) -> str:
    """PTX for sm_90a; skips the test where NVRTC is missing."""
    try:
        return compile_ptx(source, name=name, arch="sm_90a", cached=False).ptx
    except EnvironmentLackError as error:
        pytest.skip(f"needs NVRTC: {error}")


@cache
def _build(choice: WgmmaChoice, fields: tuple[tuple[str, object], ...]) -> Compiled:
    spec = GemmSpec.from_fields({"arch": "sm_90a", **dict(fields)})
    plan = choice.program(spec, load_arch(spec.arch)).kernels[0]
    source = render_kernel(plan)
    return Compiled(plan, source, compile_source(source, plan.name))


@cache
def _translated(ptx: str, name: str) -> Kernel:
    return Kernel(parse(ptx), name, "sm_90")


def build(choice: tuple[int, ...], **fields: object) -> Compiled:
    """The kernel of a choice (see ``WgmmaChoice``) and the fields of a spec, compiled once."""
    return _build(WgmmaChoice(*choice), tuple(sorted(fields.items())))


@dataclass(frozen=True)
class Outcome:
    """D and what it must be (float64, NaN where no chosen block writes); operands, the report."""

    d: Array
    want: Array
    report: Report
    a: Array
    b: Array

    def kinds(self) -> set[str]:
        return {f.kind for f in self.report.findings}


def _values(rng: Any, shape: tuple[int, int], dtype: Any, *, whole: bool) -> Array:
    numbers = rng.integers(-3, 4, shape, np.int8) if whole else rng.standard_normal(shape)
    result: Array = numbers.astype(dtype)
    return result


def solve(
    kernel: Compiled,
    *,
    grid: int | None = None,
    whole: bool = True,
    alpha: float = 1.0,
    beta: float = 0.0,
    checks: Checks | None = None,
    blocks: list[int] | None = None,
    max_findings: int = 20,
    **sizes: int,
) -> Outcome:
    """Run a kernel on numbers; ``sizes`` are its dynamic dimensions, ``grid`` its blocks."""
    plan, spec = kernel.plan, kernel.plan.spec
    m, n, k = (sizes.get(x, getattr(spec, x).size) for x in "mnk")
    rng = np.random.default_rng(1)
    a = _values(rng, (m, k), DTYPES[spec.dtype_a.name], whole=whole)
    b = _values(rng, (k, n), DTYPES[spec.dtype_b.name], whole=whole)
    bound = {"m": m, "n": n, "k": k, "sms": 132}
    arrays: dict[str, Array] = {
        "a": _stored(a, spec.layout[0], spec.lda),
        "b": _stored(b, spec.layout[1], spec.ldb),
    }
    steps: list[Callable[[Array], Array]] = [lambda x: np.float64(alpha) * x]
    if spec.dtype_c is not None:
        c = _values(rng, (m, n), DTYPES[spec.dtype_c.name], whole=True)
        arrays["c"] = _stored(c, spec.layout_d, spec.ldc)
        steps.append(lambda x: x + beta * c.astype(np.float64))
    for index, step in enumerate(plan.spec.epilogue):
        if step.kind == "bias":
            (operand,) = step.operands
            length = n if operand.access == "column" else m
            values = _values(rng, (1, length), DTYPES[operand.dtype.name], whole=True)[0]
            arrays[f"bias{index}"] = values
            wide = values.astype(np.float64)
            wide = wide[None, :] if operand.access == "column" else wide[:, None]
            steps.append(partial(np.add, wide))
        else:
            assert step.kind == "relu"
            steps.append(lambda x: np.maximum(x, 0))
    d = np.full((m, n), np.nan, DTYPES[spec.dtype_d.name])
    arrays["d"] = _stored(d, spec.layout_d, spec.ldd, filling=np.nan)
    buffers = {name: GlobalBuffer(name, x, writable=name == "d") for name, x in arrays.items()}
    for letter in "abcd":
        if letter in arrays:
            bound[f"ld{letter}"] = arrays[letter].shape[1]
    maps = {
        t.name: emulator.TensorMap(
            buffers[t.pointer],
            t.dtype.bytes,
            tuple(size.evaluate(bound) for size in t.sizes),
            tuple(stride.evaluate(bound) * t.dtype.bytes for stride in t.strides),
            t.box,
            t.swizzle_bytes,
        )
        for t in plan.tensor_maps
    }
    scalars: dict[str, Any] = {"alpha": alpha, "beta": beta, **bound}
    params = [{**scalars, **buffers, **maps}[p.name] for p in plan.kernel_parameters]
    size = plan.blocks.evaluate(bound) if grid is None else grid
    launch = Launch((size, 1, 1), (plan.body.threads, 1, 1), plan.body.shared_bytes, params)
    which = None if blocks is None else [(b, 0, 0) for b in blocks]
    compiled = _translated(kernel.ptx, plan.name)
    report = run(compiled, launch, which, checks, max_findings=max_findings)
    stored = arrays["d"]
    result = (stored[:n, :m].T if spec.layout_d == "t" else stored[:m, :n]).copy()
    padding = stored[:, m if spec.layout_d == "t" else n :]
    assert np.isnan(padding.astype(np.float32)).all(), "padding of D was written"
    # With some blocks only, most of a large product need not be computed.
    written = np.ones(result.shape, bool)
    if blocks is not None:
        written = ~np.isnan(result.astype(np.float32))
    rows, columns = written.any(axis=1), written.any(axis=0)
    want = np.full(result.shape, np.nan)
    part = a[rows].astype(np.float64) @ b[:, columns].astype(np.float64)
    want[np.ix_(rows, columns)] = part
    for apply in steps:
        want = apply(want)
    return Outcome(result, np.where(written, want, np.nan), report, a, b)


def _stored(x: Array, letter: str, leading: int, filling: float = 7.0) -> Array:
    x = x.T if letter == "t" else x
    width = max(leading, x.shape[1])
    result = np.full((x.shape[0], width), filling, x.dtype)
    result[:, : x.shape[1]] = x
    return result
