"""Cases of kind alpha_beta_nan: who reads what at which scalar, and where NaN and zeros go."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np

from deepgemm_codegen.harness.inputs import Constant, Nans, SmallIntegers
from deepgemm_codegen.harness.problem import bind
from tests.cases import planted as faults
from tests.cases.planted import planted
from tests.harness.support import NAN, assert_right, launch, plan_of

NUMBERS = [[float(i) for i in range(64)]]


def product(m: int, n: int, k: int) -> Any:
    """What `SmallIntegers` of seeds 1 and 2 give."""
    rows, columns, along = np.arange(m), np.arange(n), np.arange(k)
    a = SmallIntegers(1, 3).at(0, rows[:, None], along[None, :], np)
    b = SmallIntegers(2, 3).at(0, along[:, None], columns[None, :], np)
    return (a @ b).astype(np.float64)


INTEGERS: dict[str, Any] = {"a": SmallIntegers(1, 3), "b": SmallIntegers(2, 3)}


@planted(faults.C_ALWAYS_READ)
def test_b01_beta_zero_does_not_read_c() -> None:
    """NaN, infinity, and a null pointer for C. Fault seen: C read whatever beta is."""
    plan = plan_of("m=128 n=128 k=128 dtype_c=fp16")
    unread: list[dict[str, Any]] = [{"c": NAN}, {"c": float("inf")}, {}]
    for c in unread:
        assert (launch(plan, **INTEGERS, **c).d[0] == product(128, 128, 128)).all()


@planted(faults.C_ALWAYS_READ)
def test_b02_nor_do_tail_tiles() -> None:
    """Fault seen: C read whatever beta is."""
    plan = plan_of("m=65 n=67 k=33 dtype_c=fp16")
    assert (launch(plan, **INTEGERS, c=NAN).d[0] == product(65, 67, 33)).all()


@planted(faults.C_ALWAYS_READ)
def test_b04_nor_does_any_type_or_layout() -> None:
    """Fault seen: C read whatever beta is."""
    types = ("fp16 dtype_c=fp16", "bf16 dtype_c=fp32 dtype_d=fp32")
    layouts = ("nn", "nt", "tn", "tt")
    for dtype, layout, (m, n) in itertools.product(types, layouts, ((64, 64), (65, 67))):
        plan = plan_of(f"m={m} n={n} k=32 dtype={dtype} layout={layout}")
        assert (launch(plan, **INTEGERS, c=NAN).d[0] == product(m, n, 32)).all()


@planted(faults.text(r"if \(alpha != 0\.0f\)", "if (true)"))
def test_b05_alpha_zero_reads_neither_a_nor_b() -> None:
    """Fault seen: A and B read whatever alpha is."""
    plan = plan_of("m=64 n=64 k=64 dtype_c=fp16")
    halves = launch(plan, bind(plan, alpha=0.0, beta=0.5), a=NAN, b=1, c=2)
    assert (halves.d[0] == 1.0).all()
    zeros = launch(plan, bind(plan, alpha=0.0, beta=0.0), a=NAN, b=1, c=2)
    assert (zeros.d[0] == 0.0).all()
    nobody = launch(plan, bind(plan, alpha=0.0, beta=0.0))
    assert (nobody.d[0] == 0.0).all()


@planted(faults.text(r"add_bias\(value\[v\], ([^;]*)\);", r"add_bias(value[v], alpha * (\1));"))
def test_b06_alpha_does_not_scale_the_bias() -> None:
    """Fault seen: the bias times alpha."""
    plan = plan_of("m=1 n=1 k=4 epilogue=bias")
    assert launch(plan, bind(plan, alpha=0.5), a=1, b=1, bias0=10).d[0].tolist() == [[12.0]]


@planted(
    faults.text(r"__fmul_rn\(alpha, value\[v\]\)", "__fmul_rn(alpha, fminf(value[v], 65504.0f))")
)
def test_b08_products_beyond_fp16() -> None:
    """Fault seen: sums clamped to fp16's range before alpha."""
    wide = plan_of("m=8 n=8 k=8 dtype_d=fp32")
    assert (launch(wide, a=300, b=300).d[0] == 720000.0).all()
    narrow = plan_of("m=8 n=8 k=8")
    found = launch(narrow, bind(narrow, alpha=0.01), a=300, b=300)
    assert (found.d[0] == 7200.0).all()
    assert (launch(narrow, a=300, b=300).d[0] == np.inf).all()


@planted(faults.text(r"x < 0\.0f \? 0\.0f : x", "fmaxf(x, 0.0f)"))
def test_b09_relu_lets_nan_through() -> None:
    """Fault seen: relu as a maximum."""
    plan = plan_of("m=64 n=64 k=32 epilogue=relu")
    d = launch(plan, a=Nans(Constant(-1.0), rows=(5, 0)), b=1).d[0]
    assert np.isnan(d[5]).all()
    assert (np.delete(d, 5, axis=0) == 0).all()


@planted(faults.text(r"x < 0\.0f \? 0\.0f : x", "x < 0.0f ? 0.0f : x + 1.0f"))
def test_b10_relu_of_minus_zero() -> None:
    """Plus and minus zero are equal. Fault seen: another relu."""
    plan = plan_of("m=8 n=8 k=1 epilogue=relu")
    assert (launch(plan, a=-0.0, b=1).d[0] == 0).all()
    assert (launch(plan, bind(plan, alpha=-1.0), a=-0.0, b=1).d[0] == 0).all()


@planted(faults.text(r"x < 0\.0f \? 0\.0f : x", "x"))
def test_b12_relu_on_turing_equals_ampere() -> None:
    """Fault seen: relu left out."""
    for arch in ("sm_75", "sm_80"):
        plan = plan_of(f"m=64 n=64 k=64 epilogue=relu arch={arch}")
        d = launch(plan, **INTEGERS).d[0]
        assert (d == np.maximum(product(64, 64, 64), 0)).all()


@planted(faults.text(r"\(bits \+ 0x7fff \+ odd\) >> 16", "(bits + 0x8000) >> 16"))
def test_a_bf16_d_on_turing_equals_ampere_s() -> None:
    """sm_75 rounds by hand what sm_80 has an instruction for. Fault seen: halves away from zero."""
    halves = [1.00390625, 1.01171875, -1.00390625, 2.0**-134 * 3, 3.4e38, 3.39e38]
    row = [*halves, 0.0, 2.0**-149, NAN, float("inf"), float("-inf")]
    found = []
    for arch in ("sm_75", "sm_80"):
        line = f"m=1 n={len(row)} k=0 dtype_c=fp32 dtype_d=bf16 arch={arch}"
        plan = plan_of(f"{line} epilogue=store:bf16")
        problem = bind(plan, alpha=0.0, beta=1.0)
        found.append(launch(plan, problem, c=[row]).bits[0].tolist())
    assert found[0] == found[1]
    wanted = np.array(row, np.float32).astype(ml_dtypes.bfloat16).view(np.uint16)
    wanted[row.index(NAN)] = 0x7FFF
    assert found[0] == [wanted.tolist()]


@planted(
    faults.text(
        r"__fmul_rn\(alpha, value\[v\]\)",
        "(fabsf(value[v]) < 1.17549435e-38f ? 0.0f : value[v])",
    )
)
def test_b13_subnormal_results_in_fp32() -> None:
    """Our own build does not flush them. Fault seen: a flush to zero before alpha."""
    plan = plan_of("m=8 n=8 k=1 dtype=bf16 dtype_d=fp32")
    d = launch(plan, a=1e-20, b=1e-20).d[0]
    exact = float(ml_dtypes.bfloat16(1e-20)) ** 2
    assert (np.abs(d - exact) <= 2.0**-149).all()


@planted(
    faults.text(
        r"__fmul_rn\(alpha, value\[v\]\)", "(fabsf(value[v]) < 6.1035156e-5f ? 0.0f : value[v])"
    )
)
def test_b14_the_smallest_fp16_survives() -> None:
    """Fault seen: a flush of what is subnormal in fp16."""
    plan = plan_of("m=8 n=8 k=1")
    assert (launch(plan, a=2.0**-24, b=1).d[0] == 2.0**-24).all()


@planted(faults.text(r"bias0\[(column \+ v|row)\]", r"bias0[(\1) / 2]"))
def test_b17_a_column_bias_of_a_column_major_d() -> None:
    """The bias holds n elements, and reading beyond is a fault. Fault seen: another index."""
    plan = plan_of("m=5 n=7 k=16 layout_d=t epilogue=bias")
    assert bind(plan).matrix("bias0").elements == 7
    d = launch(plan, a=0, b=1, bias0=NUMBERS).d[0]
    assert d.tolist() == [[0, 1, 2, 3, 4, 5, 6]] * 5


@planted(faults.text(r"bias0\[column \+ v\]", "bias0[row]"))
def test_b18_a_column_bias_of_a_square_d() -> None:
    """Fault seen: the bias along rows."""
    d = launch(plan_of("m=64 n=64 k=16 epilogue=bias"), a=0, b=1, bias0=NUMBERS).d[0]
    assert (d == np.arange(64)[None, :]).all()


@planted(faults.text(r"bias0\[row\]", "bias0[column]"))
def test_b18_a_row_bias_of_a_square_d() -> None:
    """Fault seen: the bias along columns."""
    d = launch(plan_of("m=64 n=64 k=16 epilogue=bias:row"), a=0, b=1, bias0=NUMBERS).d[0]
    assert (d == np.arange(64)[:, None]).all()


@planted(faults.text(r"row \* LDRESIDUAL0 \+ column", "column"))
def test_b20_a_bias_of_two_dimensions_is_a_matrix() -> None:
    """Fault seen: its first row for every row."""
    rows = [[float(8 * i + j) for j in range(8)] for i in range(4)]
    d = launch(plan_of("m=4 n=8 k=16 epilogue=residual"), a=0, b=1, residual0=rows).d[0]
    assert d.tolist() == rows


@planted(
    faults.text(r"__fmul_rn\(y, y\)", "(y * y * y > 65504.0f ? __int_as_float(0x7fc00000) : y * y)")
)
def test_b15_gelu_tanh_of_values_whose_cube_is_beyond_fp16() -> None:
    """Fault seen: a cube that overflows."""
    plan = plan_of("m=8 n=8 k=1 epilogue=gelu_tanh")
    for value in (41.0, 300.0):
        assert (launch(plan, a=value, b=1).d[0] == value).all()


@planted(faults.text(r"const float y = at_least\(x, -16\.0f\)", "const float y = x - x + x"))
def test_b16_gelu_tanh_of_large_arguments() -> None:
    """No infinity meets its own reciprocal. Fault seen: minus infinity times zero."""
    plan = plan_of("m=8 n=8 k=1 dtype=bf16 dtype_d=fp32 epilogue=gelu_tanh")
    for value, wanted in ((-13.5, 0.0), (200.0, 200.0), (float("-inf"), 0.0)):
        d = launch(plan, a=value, b=1).d[0]
        assert (np.abs(d - wanted) < 1e-30).all()


def test_the_judged_kernel_of_b05_passes_whole() -> None:
    assert_right("m=64 n=64 k=64 dtype_c=fp16")
