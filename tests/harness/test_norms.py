"""Norms of whole rows: the bound holds fp32 sums of any order, and sees what is not the norm."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepgemm_codegen.checks import Settings
from deepgemm_codegen.decide import MmaSyncChoice, RowChoice, SimtChoice
from deepgemm_codegen.epilogue import STEPS
from deepgemm_codegen.harness.cases import cases_of
from deepgemm_codegen.harness.norms import normalized
from deepgemm_codegen.harness.verdict import format_verdict
from deepgemm_codegen.harness.verify import judge
from deepgemm_codegen.plan import Rows
from tests.harness.support import NAN, assert_wrong, device_of, launch, program_of, source_of

F32 = np.float32
ROWS = "op=epilogue arch=sm_80 "


def in_fp32(kind: str, x: Any, eps: float, order: Any) -> Any:
    """The norm as a kernel does it, its sums taken in some order, one element after the other."""

    def mean(values: Any) -> Any:
        total = np.zeros(len(values), F32)
        for column in order:
            total = (total + values[:, column]).astype(F32)
        return (total * F32(1 / values.shape[1]))[:, None]

    x = x.astype(F32)
    if kind == "layer_norm":
        x = x - mean(x)
    return x * (F32(1) / np.sqrt(mean(x * x) + F32(eps)))


@given(
    kind=st.sampled_from(["rms_norm", "layer_norm"]),
    n=st.integers(1, 200),
    seed=st.integers(0, 2**31),
    offset=st.sampled_from([0.0, 1.0, -1e3, 3e4]),
    scale=st.sampled_from([1.0, 1e-3, 1e-18, 1e15]),
    eps=st.sampled_from([1e-5, 1e-12, 1.0]),
)
def test_sums_in_any_order_stay_inside(
    kind: str, n: int, seed: int, offset: float, scale: float, eps: float
) -> None:
    draw = np.random.default_rng(seed)
    x = ((draw.standard_normal((3, n)) + offset) * scale).astype(F32).astype(float)
    with np.errstate(all="ignore"):
        _, low, high = normalized(STEPS[kind], (x, x, x), {"eps": eps}, n, np)
        low, high = low.astype(F32), high.astype(F32)
        got = in_fp32(kind, x, eps, draw.permutation(n))
    assert (got >= low).all()
    assert (got <= high).all()


@pytest.mark.parametrize("wrong", ["difference", "unbiased", "no eps", "one element less"])
def test_other_formulas_do_not_pass(wrong: str) -> None:
    """What kernels do by mistake, on the values that the cases hold."""
    x = np.random.default_rng(1).standard_normal((4, 768))
    x = x + 4000 if wrong == "difference" else x * 1e-3 if wrong == "no eps" else x
    x = x.astype(F32).astype(float)
    _, low, high = normalized(STEPS["layer_norm"], (x, x, x), {"eps": 1e-5}, 40, np)
    single = x.astype(F32)
    mean = single.mean(axis=1, keepdims=True)
    if wrong == "difference":
        square = (single * single).mean(axis=1, keepdims=True) - mean * mean
    elif wrong == "one element less":
        square = ((single - mean)[:, 1:] ** 2).sum(axis=1, keepdims=True) / F32(768)
    else:
        square = single.var(axis=1, keepdims=True, ddof=wrong == "unbiased")
    with np.errstate(invalid="ignore"):
        got = (single - mean) / np.sqrt(square + F32(0 if wrong == "no eps" else 1e-5))
    inside = (got >= low.astype(F32)) & (got <= high.astype(F32))
    assert inside.mean() < 0.6


KERNELS: dict[str, tuple[str, Any]] = {
    "held": (
        ROWS + "m=6 n=1000 dtype=bf16 dtype_d=fp32 epilogue=residual,layer_norm,scale:row",
        RowChoice(1, 2, 4),
    ),
    "warp": (ROWS + "m=6 n=260 dtype=fp32 epilogue=rms_norm:bias", RowChoice(4, 1, 3)),
    "long": (ROWS + "m=3 n=3000 dtype=fp16 epilogue=gelu,store,layer_norm", RowChoice(1, 4, 0)),
    "batch": (
        ROWS + "m=6 n=264 batch=3 dtype=bf16 dtype_d=fp32 lda=272 stride_a=1640"
        " ldd=800 stride_d=264 epilogue=residual,store:fp32,layer_norm",
        RowChoice(4, 1, 3),
    ),
    "pointers": (
        ROWS + "m=dynamic:5 n=1000 batch=2 stride_a=pointers stride_d=pointers epilogue=rms_norm",
        RowChoice(1, 4, 2),
    ),
    "product": (
        "m=80 n=136 k=96 dtype=bf16 dtype_d=fp32 layout=nt epilogue=bias,layer_norm arch=sm_80",
        MmaSyncChoice(64, 64, 32, 2, 2, 2, 2, 8),
    ),
    "tile": (
        "m=70 n=60 k=96 dtype=bf16 dtype_d=fp32 layout=nt epilogue=bias,layer_norm arch=sm_80",
        MmaSyncChoice(64, 64, 32, 4, 1, 2, 2, 8, 1, holds_rows=True),
    ),
    "parts": (
        "m=40 n=72 k=512 dtype=fp16 layout=nt epilogue=rms_norm arch=sm_80",
        MmaSyncChoice(64, 64, 32, 2, 2, 2, 2, 8, 3),
    ),
}

MUTANTS: dict[str, tuple[str, Any, str]] = {
    # pattern, replacement, kernels it is tried in
    "mean left in": (
        r"__fsub_rn\(value(s\[i\])?\[v\], mean\)",
        r"value\1[v]",
        "held long product tile",
    ),
    "mean of one more": (r"1\.0f / N", "1.0f / (N + 1)", "held warp long product parts tile"),
    "no eps": (r"1e-05f", "0.0f", "warp parts"),
    "not the root": (r"__fsqrt_rn\((.*)\)\);", r"\1);", "held warp long product parts"),
    "weight left out": (r"(\(x, inverse\)), weight", r"\1, 1.0f", "held warp"),
    "bias left out": (r"(inverse\), weight), bias\)", r"\1, 0.0f)", "held warp long product"),
    "half of a warp": (r"apart < 32", "apart < 16", "held warp long product parts"),
    "lanes not added": (r"apart < 8", "apart < 4", "tile"),
    "rows of the slab early": (r"__syncwarp\(\);  // these rows", "// these rows", "tile"),
    "warps not added": (r"apart < WARPS_N", "apart < 1", "held long"),
    "no barrier": (r"__syncthreads\(\);", "", "held long"),
    "tail counted": (
        r"if \(\(i \* ROW_THREADS \+ rank\) \* D_VECTOR >= N\) continue;\n",
        "\n",
        "held product tile",
    ),
    "nothing stored": (r"store_fp16\(store1[^;]*;", "", "long"),
    "norm before the bias": (r"value\[v\] = add_bias\([^;]*;", "value[v] = value[v];", "product"),
    "a part left out": (r"int part = 1; part", "int part = 2; part", "parts"),
    "the first matrix for all": (
        r"a \+= batch[^;]*;|a_of\[batch\]",
        lambda found: "a_of[0]" if "_of" in found[0] else "",
        "batch pointers",
    ),
    "all to the first matrix": (
        r"d \+= batch[^;]*;|d_of\[batch\]",
        lambda found: "d_of[0]" if "_of" in found[0] else "",
        "batch pointers",
    ),
    "one residual for all": (r"residual0 \+= batch[^;]*;", "", "batch"),
    "stored to one matrix": (r"store1 \+= batch[^;]*;", "", "batch"),
    "alpha left out": (r"__fmul_rn\(alpha, (\w+\[v\])\)", r"\1", "product"),
}


@pytest.mark.parametrize("name", KERNELS)
def test_right_kernels_pass(name: str) -> None:
    plan = program_of(*KERNELS[name])
    verdict = judge(device_of(plan), plan)
    assert verdict.passed, "\n".join(format_verdict(verdict))


@pytest.mark.parametrize(
    ("mutant", "name"), [(m, name) for m, spec in MUTANTS.items() for name in spec[2].split()]
)
def test_mutants_fail(mutant: str, name: str) -> None:
    pattern, replacement, _ = MUTANTS[mutant]
    plan = program_of(*KERNELS[name])
    source = source_of(plan)
    changed = re.sub(pattern, replacement, source)
    assert changed != source
    assert_wrong(plan, changed)


@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_any_shape_and_chain_is_right(data: st.DataObject) -> None:
    """Odd lengths, strides, alignments, types, steps round the norm; the tree chooses."""
    draw = data.draw
    n = draw(st.sampled_from([1, 2, 7, 31, 96, 256, 769, 1024]))
    dtype, dtype_d = (draw(st.sampled_from(["fp16", "bf16", "fp32"])) for _ in range(2))
    size = f"dynamic:{n}" if draw(st.booleans()) else str(n)
    words = [f"m={draw(st.integers(1, 5))}", f"n={size}", f"dtype={dtype}"]
    if draw(st.booleans()):
        words.append(f"lda={n + draw(st.integers(0, 9))}")
    if draw(st.booleans()):
        words.append(f"align_a={draw(st.sampled_from([4, 8]))}")
    kinds = ["rms_norm", "layer_norm", "rms_norm:bias", "layer_norm:weight=no"]
    kind = draw(st.sampled_from(kinds))
    weighed = draw(st.sampled_from(["fp16", "fp32"]))
    types = "" if "weight" in kind else f":weight_dtype={weighed}"
    before = draw(st.sampled_from([[], ["residual"], ["bias", "store:fp32"]]))
    after = draw(st.sampled_from([[], ["relu"], ["quantize:int8:per_token"], ["quantize:e4m3"]]))
    if not (after and after[0].startswith("quantize")):
        words.append(f"dtype_d={dtype_d}")
    steps = ",".join([*before, kind + types, *after])
    plan = program_of(f"{ROWS}{' '.join(words)} epilogue={steps}", None)
    verdict = judge(device_of(plan), plan)
    assert verdict.passed, "\n".join(format_verdict(verdict))


def test_rows_of_one_value_give_the_bias() -> None:
    plan = program_of(ROWS + "m=2 n=96 dtype=fp32 epilogue=layer_norm", None)
    d = launch(plan, a=[[0.1] * 96], weight0=3.0, bias0=0.25).d[0]
    assert np.allclose(d, 0.25, atol=1e-4)
    d = launch(plan, a=[[0.0] * 96], weight0=3.0, bias0=0.25).d[0]
    assert (d == 0.25).all()


def test_a_row_of_one_element() -> None:
    plan = program_of(ROWS + "m=3 n=1 dtype=fp32 epilogue=layer_norm", None)
    assert (launch(plan, a=7.0, weight0=2.0, bias0=-1.5).d[0] == -1.5).all()
    plan = program_of(ROWS + "m=3 n=1 dtype=fp32 epilogue=rms_norm:eps=1", None)
    assert launch(plan, a=-1.0, weight0=2.0).d[0] == pytest.approx(-(2**0.5))


@pytest.mark.parametrize("odd", [NAN, float("inf"), -float("inf")])
def test_what_is_not_finite_stays_in_its_row(odd: float) -> None:
    rows = [[1.0, odd, 2.0, 3.0] * 8, [1.0, 2.0, 3.0, 4.0] * 8]
    for kind in ("layer_norm", "rms_norm"):
        plan = program_of(f"{ROWS}m=2 n=32 dtype=fp32 epilogue={kind}:weight=no", None)
        given_bias: dict[str, Any] = {"bias0": 0.0} if kind == "layer_norm" else {}
        d = launch(plan, a=rows, **given_bias).d[0]
        assert np.isfinite(d[1]).all()
        finite = np.arange(32) % 4 != 1
        assert np.isnan(d[0, ~finite]).all()
        if kind == "layer_norm" or np.isnan(odd):
            assert np.isnan(d[0]).all()
        else:
            assert (d[0, finite] == 0).all()


def test_cuda_cores_keep_sums_for_rows() -> None:
    text = "m=40 n=70 k=33 dtype=fp32 epilogue=residual,rms_norm arch=sm_80"
    plan = program_of(text, SimtChoice(64, 64, 16, 2, 2, 3, 2, 8))
    assert [kernel.body.role for kernel in plan.kernels] == ["product", "rows"]
    verdict = judge(device_of(plan), plan)
    assert verdict.passed, "\n".join(format_verdict(verdict))


def test_rows_of_whole_vectors_end_within_a_block_of_rows() -> None:
    text = "m=dynamic:512 n=dynamic:512 k=256 arch=sm_90 epilogue=layer_norm"
    program = program_of(text, MmaSyncChoice(64, 64, 32, 2, 2, 3, 2, 8))
    rows = program.kernels[-1].m.tile
    sizes = [(c.problem.m, c.problem.n) for c in cases_of(program, 0) if c.problem.n % 16 == 0]
    assert any(m > rows and m % rows for m, n in sizes if n)


def test_rows_of_several_warps_in_a_batch_of_products_with_a_dynamic_m() -> None:
    text = "m=dynamic:5 n=1030 k=16 batch=2 epilogue=layer_norm"
    program = program_of(text, MmaSyncChoice(64, 64, 32, 2, 2, 2, 2, 8))
    rows = program.kernels[-1].body
    assert isinstance(rows, Rows)
    assert rows.warps_n > 1
    verdict = judge(device_of(program), program, Settings(effort=0.2))
    assert verdict.passed, "\n".join(format_verdict(verdict))
