"""Cases of kind quantise: rounding, the ends of the range, NaN, and who reads what.

Values come through C: with alpha 0 and beta 1 the epilogue gets any fp32 as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from deepgemm_codegen.harness.problem import bind
from tests.cases import planted as faults
from tests.cases.planted import planted
from tests.harness.support import NAN, launch, plan_of, program_of

if TYPE_CHECKING:
    from collections.abc import Sequence

INF = float("inf")


def quantized(
    x: Sequence[float],
    step: str,
    arch: str = "sm_80",
    scalars: dict[str, float] | None = None,
    **read: Any,
) -> list[float]:
    """What a quantize step makes of a row of fp32 values."""
    plan = plan_of(f"m=1 n={len(x)} k=0 dtype_c=fp32 epilogue={step} arch={arch}")
    problem = bind(plan, alpha=0.0, beta=1.0, scalars=scalars)
    found: list[list[float]] = launch(plan, problem, c=[list(x)], **read).d[0].tolist()
    return found[0]


@planted(faults.text(r"cvt\.pack\.sat\.s8", "cvt.pack.sat.u8"))
def test_q04_the_range_of_int8_is_whole() -> None:
    """-128 is a value. Fault seen: another range."""
    x = [-129, -128, -127, 127, 128]
    assert quantized(x, "quantize:int8") == [-128, -128, -127, 127, 127]


@planted(faults.text(r"cvt\.pack\.sat\.u8", "cvt.pack.sat.s8"))
def test_q05_uint8_ends_at_zero() -> None:
    """Fault seen: the signed range."""
    assert quantized([-10, -0.4, 0, 5, 300], "quantize:uint8") == [0, 0, 0, 5, 255]


@planted(faults.text(r"__float2int_rn\((\w+)\)", r"__float2int_rz(\1 + copysignf(0.5f, \1))"))
def test_q06_halves_go_to_the_even_number() -> None:
    """Fault seen: halves away from zero."""
    x = [0.5, 1.5, 2.5, -0.5, -1.5, -2.5]
    for arch in ("sm_75", "sm_80"):
        assert quantized(x, "quantize:int8", arch) == [0, 2, 2, 0, -2, -2]


@planted(faults.text(r"__fadd_rn\(scaled, 12582912\.0f\)", "(truncf(scaled) + 12582912.0f)"))
def test_q07_one_rounding_for_every_form_of_zero_point() -> None:
    """A constant, an argument, and a vector. Fault seen: truncation before the zero point."""
    x = [0.99, -0.99, 1.5]
    for form, read in (
        ("7", {}),
        ("per_tensor", {"scalars": {"zero_point0": 7}}),
        ("per_token", {"zero_point0": 7}),
        ("per_channel", {"zero_point0": 7}),
    ):
        step = f"quantize:int8:zero_point={form}"
        assert quantized(x, step, **read) == [8, 6, 9]


def test_a_half_goes_to_the_even_number_before_an_odd_zero_point_is_added() -> None:
    """Rounding the sum instead would give 2, 2, 4, 2."""
    assert quantized([0.5, 1.5, 2.5, -0.5], "quantize:int8:1:1") == [1, 3, 3, 1]


@planted(
    faults.text(r"cvt\.pack\.sat\.s8\.s32\.b32 %0, %1, %2, %3;", "prmt.b32 %0, %2, %1, 0x0040;")
)
def test_q09_and_q10_what_is_beyond_the_range_does_not_wrap() -> None:
    """Fault seen: the low bytes."""
    assert quantized([-236, 300, 1e30, -INF], "quantize:int8") == [-128, 127, 127, -128]
    for zero in ("127", "-128"):
        ends = quantized([1e30, -1e30, INF, -INF, 4.2e6, -4.2e6], f"quantize:int8:1:{zero}")
        assert ends == [127, -128] * 3


def test_q11_one_rounding() -> None:
    """7984 * 0.0014402703931141053 is 11.4991; rounding twice would give 12."""
    scalars = {"scale0": 0.0014402703931141053}
    assert quantized([7984], "quantize:int8", scalars=scalars) == [11]


@planted(faults.text(r"scaled == scaled \? shifted : zero", "shifted"))
def test_q14_rounding_up_to_128_and_nan() -> None:
    """NaN is the zero point. Fault seen: NaN is zero whatever the zero point."""
    assert quantized([127.6, -128.6, NAN], "quantize:int8") == [127, -128, 0]
    assert quantized([127.6, -128.6, NAN], "quantize:int8:1:5") == [127, -124, 5]
    assert quantized([NAN, -3], "quantize:uint8:1:128") == [128, 125]


E4M3 = [464, 464.0001, 448, -1000, INF, NAN, 2.0**-10, 1.5 * 2.0**-9, -(2.0**-7), 0.0]
E5M2 = [61439, 61440, 57344, -1e30, INF, NAN, 2.0**-17, 1.5 * 2.0**-16, -(2.0**-15), 0.0]


def same(found: list[float], wanted: list[float]) -> bool:
    return bool(np.array_equal(found, wanted, equal_nan=True))


@pytest.mark.parametrize("arch", ["sm_80", "sm_89"])
def test_q03_fp8_saturates(arch: str) -> None:
    """By the instruction and by software: rounding comes before the range."""
    small = [0.0, 2.0**-8, -(2.0**-7), 0.0]
    assert same(quantized(E4M3, "quantize:e4m3", arch), [448, 448, 448, -448, 448, NAN, *small])
    small = [0.0, 2.0**-15, -(2.0**-15), 0.0]
    most = [57344, 57344, 57344, -57344, 57344, NAN]
    assert same(quantized(E5M2, "quantize:e5m2", arch), [*most, *small])


@planted(faults.text(r"size <= 464\.0f", "size < 464.0f"))
def test_q03_fp8_that_does_not_saturate() -> None:
    """464 rounds to 448, what is beyond is NaN. Fault seen: the range before the rounding."""
    for arch in ("sm_80", "sm_89"):
        e4m3 = quantized(E4M3, "quantize:e4m3:saturate=no", arch)
        assert same(e4m3[:6], [448, NAN, 448, NAN, NAN, NAN])
        e5m2 = quantized(E5M2, "quantize:e5m2:saturate=no", arch)
        assert same(e5m2[:6], [57344, INF, 57344, -INF, INF, NAN])


def test_every_finite_fp8_survives() -> None:
    """Each of the 256 patterns becomes itself, and what lies half way the even neighbour."""
    from ml_dtypes import float8_e4m3fn, float8_e5m2  # noqa: PLC0415

    for name, twin in (("e4m3", float8_e4m3fn), ("e5m2", float8_e5m2)):
        every = np.arange(256, dtype=np.uint8).view(twin).astype(np.float32)
        finite = np.sort(every[np.isfinite(every)])
        between = (finite[1:] + finite[:-1]) / 2
        x = np.concatenate([finite, between])
        wanted = x.astype(twin).astype(np.float64)
        for arch in ("sm_80", "sm_89"):
            for saturate in ("", ":saturate=no"):
                found = quantized(x.tolist(), f"quantize:{name}{saturate}", arch)
                assert found == wanted.tolist()


@planted(faults.text(r"at_least\((__fdiv_rn\([^;]*\)), 1\.17549435e-38f\)", r"\1"))
def test_q12_a_row_of_zeros_has_a_scale() -> None:
    """Computed scales. Fault seen: a scale of zero, and 0 / 0 in the row."""
    program = program_of("m=4 n=64 k=0 dtype_c=fp32 epilogue=quantize:e4m3:dynamic")
    rows = [[1.0, -448.0] * 32, [0.5] * 64, [0.0] * 64, [3.0] * 64]
    d = launch(program, bind(program, alpha=0.0, beta=1.0), c=rows).d[0]
    assert d.tolist() == [[1.0, -448.0] * 32, [448.0] * 64, [0.0] * 64, [448.0] * 64]


def test_division_by_the_scale() -> None:
    """1 / 3 is no fp32, so a product by it rounds another way; 0 / 0 is NaN, so the zero point."""
    x = [4.5, 7.5, -10.5, 16.5]
    by_three = quantized(x, "quantize:int8:divide", scalars={"scale0": 3.0})
    assert by_three == np.rint(np.array(x) / 3).tolist()
    zero = quantized([1, -1, 0], "quantize:int8:divide:zero_point=9", scalars={"scale0": 0.0})
    assert zero == [127, -128, 9]


@pytest.mark.parametrize("layout_d", ["n", "t"])
def test_t28_a_scale_a_row_in_the_last_tile(layout_d: str) -> None:
    """T28: the vector holds exactly m values, and reading beyond is a fault."""
    plan = plan_of(
        f"m=129 n=33 k=32 layout_d={layout_d} epilogue=quantize:int8:per_token:zero_point=per_token"
    )
    assert bind(plan).matrix("scale0").elements == 129
    scales = [[float(i % 3) for i in range(129)]]
    d = launch(plan, a=1, b=0.25, scale0=scales, zero_point0=[[1.0, 2.0]]).d[0]
    wanted = 8 * (np.arange(129) % 3) + 1 + np.arange(129) % 2
    assert (d == wanted[:, None]).all()


def test_a_scale_a_column_of_a_square_d() -> None:
    scales = [[float(i) for i in range(64)]]
    plan = plan_of("m=64 n=64 k=16 epilogue=quantize:uint8:per_channel")
    d = launch(plan, a=1, b=0.0625, scale0=scales).d[0]
    assert (d == np.arange(64)[None, :]).all()


@pytest.mark.parametrize("m", [1, 2, 3, 5, 7, 8, 16])
def test_t19_t29_t30_few_tokens(m: int) -> None:
    """T19, T29, T30: any number of rows, fewer than a tile has; `launch` looks for other writes."""
    plan = plan_of("m=dynamic:64 n=72 k=32 epilogue=scale:per_token,quantize:e4m3:per_channel")
    d = launch(plan, bind(plan, m=m), a=1, b=1, scale0=0.5, scale1=2.0).d[0]
    assert d.shape == (m, 72)
    assert (d == 32).all()
