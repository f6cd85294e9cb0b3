"""Specs: what they accept, what they refuse and how they say it, and the round trip."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepgemm_codegen.dtypes import BF16, E4M3, E5M2, FP16, FP32, INT8, INT32, UINT8, DType
from deepgemm_codegen.epilogue import STEPS, EpilogueStep, StepOperand
from deepgemm_codegen.errors import InputError
from deepgemm_codegen.numbers import MAX_DIMENSION
from deepgemm_codegen.spec import GemmSpec
from deepgemm_codegen.spec.dimension import Dim
from deepgemm_codegen.spec.overrides import OVERRIDES, Overrides
from deepgemm_codegen.spec.text import FIELDS


def spec(**fields: Any) -> GemmSpec:
    return GemmSpec.from_fields({"m": 64, "n": 32, "k": 16, **fields})


def test_defaults() -> None:
    plain = spec()
    assert (plain.m, plain.n, plain.k) == (Dim(64), Dim(32), Dim(16))
    assert (plain.dtype_a, plain.dtype_b, plain.dtype_c) == (FP16, FP16, None)
    assert (plain.dtype_d, plain.dtype_acc) == (FP16, FP32)
    assert (plain.lda, plain.ldb, plain.ldc, plain.ldd) == (16, 32, 0, 32)
    assert str(plain) == "m=64 n=32 k=16 dtype=fp16 arch=sm_80"


@pytest.mark.parametrize(
    ("layout", "layout_d", "leading"),
    [
        ("nn", "n", (16, 32, 32)),
        ("nt", "n", (16, 16, 32)),
        ("tn", "n", (64, 32, 32)),
        ("tt", "t", (64, 16, 64)),
    ],
)
def test_dense_leading_dimensions(
    layout: str, layout_d: str, leading: tuple[int, int, int]
) -> None:
    given_layout = spec(layout=layout, layout_d=layout_d)
    assert (given_layout.lda, given_layout.ldb, given_layout.ldd) == leading


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"m": 0}, "m = 0: too small; the smallest is 1"),
        ({"n": -5}, "n = -5: too small; the smallest is 1"),
        ({"k": -1}, "k = -1: too small; the smallest is 0"),
        ({"m": 2**31}, f"m = 2147483648: too large; the largest is {MAX_DIMENSION}"),
        ({"m": "abc"}, "m = abc: not a whole number; give a whole number, dynamic, or dynamic:MAX"),
        ({"m": "1.5"}, "m = 1.5: not a whole number; give a whole number, dynamic, or dynamic:MAX"),
        ({"m": "1e3"}, "m = 1e3: a whole number is wanted; write 1000"),
        ({"m": True}, "m = True: not a whole number; give a whole number, dynamic, or dynamic:MAX"),
        ({"k": "dynamic:0"}, "k = dynamic:0: too small; the smallest maximum is 1"),
        (
            {"m": "dynamic:x"},
            "m = x: not a whole number; give a whole number, dynamic, or dynamic:MAX",
        ),
        ({"batch": 0}, "batch = 0: too small; the smallest is 1"),
        ({"layout": "xn"}, "layout = xn: unknown; A's letter then B's: nn, nt, tn or tt"),
        ({"layout_d": "x"}, "layout_d = x: unknown; n (row-major) or t"),
        (
            {"lda": 15},
            (
                "lda = 15: too small; a stored row of A holds 16 elements (layout nn, D n), so give"
                " 16 or more"
            ),
        ),
        ({"ldc": 32}, "ldc = 32: the kernel has no C; give dtype_c or leave ldc out"),
        ({"align_a": 3}, "align_a = 3: give a power of two from 2 to 4096 (bytes)"),
        ({"align_a": 1}, "align_a = 1: give a power of two from 2 to 4096 (bytes)"),
        (
            {"align_d": 2, "dtype_d": "fp32"},
            "align_d = 2: give a power of two from 4 to 4096 (bytes)",
        ),
        (
            {"dtype": "fp17"},
            (
                "unknown dtype 'fp17'; known: fp16, bf16, fp32, e4m3, e5m2, int8, uint8, int32"
                " (did you mean 'fp16'?)"
            ),
        ),
        (
            {"dtype": "int32"},
            (
                "dtype_a = int32: no kernel family multiplies int32 operands; give one of fp16,"
                " bf16, fp32, e4m3, e5m2, int8, uint8"
            ),
        ),
        ({"dtype": "fp8"}, "dtype 'fp8' is more than one type; give e4m3 or e5m2"),
        (
            {"dtype": "tf32"},
            (
                "dtype 'tf32' has no kernels yet (tensor cores multiply it from sm_80 on); known:"
                " fp16, bf16, fp32, e4m3, e5m2, int8, uint8, int32"
            ),
        ),
        (
            {"dtype": "int8", "dtype_b": "e4m3"},
            (
                "dtype_a = int8, dtype_b = e4m3: the tensor cores multiply operands of one type,"
                " e4m3 with e5m2, or int8 with uint8; give both the same"
            ),
        ),
        (
            {"dtype": "int8", "dtype_acc": "fp32"},
            "dtype_acc = fp32: int8 products are summed in int32; give int32 or leave it out",
        ),
        (
            {"dtype_d": "int32"},
            "dtype_d = int32: fp32 sums become no int32; give one of fp16, bf16, fp32",
        ),
        (
            {"dtype": "int8", "dtype_d": "int8"},
            (
                "dtype_d = int8: int32 sums become no int8; give one of int32, fp32, fp16, bf16, or"
                " let the epilogue step quantize make it"
            ),
        ),
        (
            {"dtype": "int8", "dtype_c": "fp16"},
            ("dtype_c = fp16: a D of int32 adds an int32 C; give dtype_c int32, or dtype_d fp32"),
        ),
        (
            {"dtype": "e4m3", "dtype_c": "e4m3"},
            "dtype_c = e4m3: C is added in fp32; give one of fp16, bf16, fp32",
        ),
        (
            {"dtype": "int8", "dtype_d": "fp32", "dtype_c": "int32"},
            "dtype_c = int32: C is added in fp32; give one of fp16, bf16, fp32",
        ),
        (
            {"dtype": "int8", "epilogue": "relu"},
            (
                "epilogue = relu: a D of int32, the default, is the sums as they are; give"
                " dtype_d fp32, fp16 or bf16, or leave epilogue out"
            ),
        ),
        (
            {"dtype_b": "bf16"},
            (
                "dtype_a = fp16, dtype_b = bf16: the tensor cores multiply operands of one type,"
                " e4m3 with e5m2, or int8 with uint8; give both the same"
            ),
        ),
        (
            {"dtype_acc": "fp16"},
            "dtype_acc = fp16: fp16 products are summed in fp32; give fp32 or leave it out",
        ),
        (
            {"epilogue": "bais"},
            f"unknown epilogue step 'bais'; known: {', '.join(STEPS)} (did you mean 'bias'?)",
        ),
        (
            {"epilogue": "relu:row"},
            "epilogue step 'relu' does not take 'row'; options it takes: none",
        ),
        ({"epilogue": ",".join(["relu"] * 65)}, "epilogue = 65 steps: too many; the most is 64"),
        ({"tile_m": 0}, "tile_m = 0: too small; the smallest is 1"),
        ({"tile_mm": 1}, "unknown field 'tile_mm' (did you mean 'tile_m'?)"),
    ],
)
def test_refusals(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        spec(**fields)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("fields", "types"),
    [
        ({"dtype": "int8"}, (INT8, INT8, INT32, INT32)),
        ({"dtype": "uint8", "dtype_b": "int8", "dtype_d": "bf16"}, (UINT8, INT8, INT32, BF16)),
        ({"dtype": "e4m3"}, (E4M3, E4M3, FP32, BF16)),
        ({"dtype_a": "e5m2", "dtype_b": "e4m3"}, (E5M2, E4M3, FP32, BF16)),
        ({"dtype": "e4m3", "dtype_d": "fp32"}, (E4M3, E4M3, FP32, FP32)),
    ],
)
def test_eight_bit_operands_and_what_their_sums_become(
    fields: dict[str, str], types: tuple[DType, ...]
) -> None:
    found = spec(**fields)
    assert (found.dtype_a, found.dtype_b, found.dtype_acc, found.dtype_d) == types
    assert GemmSpec.from_text(str(found)) == found


def test_a_missing_dimension_is_named() -> None:
    with pytest.raises(InputError) as caught:
        GemmSpec.from_fields({"m": 1, "n": 1})
    assert str(caught.value) == "k is missing; give --k=SIZE or --k=dynamic"


def test_a15_leading_dimensions_of_size_one() -> None:
    """A15: a leading dimension of 1 is legal where the row holds one element."""
    assert GemmSpec.from_fields({"m": 1, "n": 8, "k": 64, "lda": 64}).lda == 64
    assert GemmSpec.from_fields({"m": 8, "n": 1, "k": 64, "ldb": 1}).ldb == 1
    one = GemmSpec.from_fields({"m": 1, "n": 1, "k": 1, "lda": 1, "ldb": 1, "ldd": 1})
    assert (one.lda, one.ldb, one.ldd) == (1, 1, 1)


def test_dynamic_dimensions_leave_strides_open() -> None:
    dynamic = spec(m="dynamic", k="dynamic:100", layout="tn")
    assert (dynamic.m, dynamic.k) == (Dim(4096, dynamic=True), Dim(100, dynamic=True))
    assert (dynamic.lda, dynamic.ldb) == (0, 32)


def test_epilogue_operands_default_to_the_type_of_d() -> None:
    steps = spec(dtype_d="fp32", epilogue="bias, relu,bias:row:bf16").epilogue
    assert steps == (
        EpilogueStep("bias", (StepOperand("bias", "column", FP32),)),
        EpilogueStep("relu"),
        EpilogueStep("bias", (StepOperand("bias", "row", BF16),)),
    )


def test_every_field_has_help() -> None:
    assert all(FIELDS.values())
    assert all(OVERRIDES.values())


DIMS = st.one_of(
    st.integers(1, 5000).map(str),
    st.integers(1, 5000).map(lambda size: f"dynamic:{size}"),
)


@st.composite
def fields(draw: st.DrawFn) -> dict[str, str]:
    found = {key: draw(DIMS) for key in ("m", "n", "k")}
    choices: dict[str, st.SearchStrategy[str]] = {
        "batch": st.integers(1, 99).map(str),
        "dtype": st.sampled_from(["fp16", "bf16", "half", "e4m3", "float8_e5m2"]),
        "dtype_c": st.sampled_from(["fp16", "fp32", "none"]),
        "dtype_d": st.sampled_from(["fp16", "bf16", "fp32"]),
        "layout": st.sampled_from(["nn", "nt", "tn", "tt"]),
        "layout_d": st.sampled_from(["n", "t"]),
        "lda": st.integers(5000, 9999).map(str),
        "align_b": st.sampled_from(["2", "4", "256"]),
        "epilogue": st.sampled_from(["relu", "bias", "bias:row,relu", "bias:fp32"]),
        "gpu": st.sampled_from(["", "A100"]),
        "label": st.text(st.characters(categories=("L", "N", "P", "S")), max_size=12),
        "sms": st.integers(0, 200).map(str),
        "stages": st.integers(1, 9).map(str),
        "tile_m": st.integers(1, 256).map(str),
    }
    for key, strategy in choices.items():
        if draw(st.booleans()):
            found[key] = draw(strategy)
    return found


@settings(max_examples=200, deadline=None)
@given(fields())
def test_the_text_form_round_trips(given_fields: dict[str, str]) -> None:
    first = GemmSpec.from_fields(given_fields)
    assert GemmSpec.from_text(str(first)) == first
    assert GemmSpec.from_fields(first.to_fields()) == first


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("m=64 n=64 k=64 m=65", "m = 65: m is given already, as 64"),
        ("m=64 n=64 k", "'k': a spec is fields with values, such as m=64 n=64 k=64"),
        ("m=64,n=64 n=1 k=64", "m = 64,n=64: not a whole number; give a whole number, dynamic, or"),
        ("m=64 n=64 k=64 label='a", "m=64 n=64 k=64 label='a: no closing quotation"),
        (None, "a spec's line is text such as m=64 n=64 k=64, not None"),
        (b"m=64", "a spec's line is text such as m=64 n=64 k=64, not b'm=64'"),
        ("", "m is missing; give --m=SIZE or --m=dynamic"),
    ],
)
def test_a_line_that_is_no_spec(line: Any, message: str) -> None:
    """The second of two values won, and None waited for standard input."""
    with pytest.raises(InputError) as caught:
        GemmSpec.from_text(line)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("name", [*FIELDS, *OVERRIDES])
def test_values_of_any_type_are_read_or_refused(name: str) -> None:
    """As a caller's library gives them; what is read comes back from its text."""
    odd: tuple[Any, ...] = (None, 0, -1, 2**40, 1.5, float("nan"), True, b"1", [], {}, (1,))
    for value in (*odd, "", " ", "\0"):
        fields = {"m": 64, "n": 64, "k": 64, "batch": 2, "dtype": "int8", name: value}
        try:
            spec = GemmSpec.from_fields(fields)
        except InputError:
            continue
        assert GemmSpec.from_text(str(spec)) == spec


ODD: tuple[Any, ...] = (None, -1, 2**70, 1.5, float("nan"), True, "x", "8", b"8", (), [], {}, (1,))
"""What Python code may give where something else is meant."""


@pytest.mark.parametrize("name", [each.name for each in dataclasses.fields(GemmSpec) if each.init])
def test_attributes_of_any_type_are_kept_or_refused(name: str) -> None:
    """The constructor's own; it took an op of x and arch of None, and some ended in Python."""
    whole = spec(batch=2, dtype="int8", dtype_d="fp32", dtype_c="fp32", stride_a="shared")
    for value in (*ODD, Dim(-1), Dim(2**40), Dim("8"), Dim(0, dynamic=True)):  # type: ignore[arg-type]
        try:
            found = dataclasses.replace(whole, **{name: value})
        except InputError:
            continue
        assert GemmSpec.from_text(str(found)) == found


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"m": 64}, "m = 64: int, where GemmSpec has Dim; give that, or leave it to GemmSpec.fr"),
        ({"dtype_c": "fp16"}, "dtype_c = 'fp16': str, where GemmSpec has DType or None; give that"),
        ({"epilogue": ("relu",)}, "epilogue[0] = 'relu': str, where GemmSpec has EpilogueStep; gi"),
        ({"m": Dim(-3)}, "m = -3: too small; the smallest is 1"),
        ({"k": Dim(0, dynamic=True)}, "k = 0: too small; the smallest is 1"),
        (
            {"op": "produkt"},
            "op = produkt: unknown; give product or epilogue (did you mean 'produc",
        ),
        ({"sms": -1}, "sms = -1: too small; the smallest is 0"),
        ({"arch": "x"}, "arch = x: not an architecture; known: sm_75"),
        ({"batch": 2, "stride_a": "near"}, "stride_a = near: unknown; give elements, dense, shar"),
        ({"batch": 2, "stride_a": 2**70}, f"stride_a = {2**70}: too large; the largest is"),
    ],
)
def test_attributes_that_no_text_gives(attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        dataclasses.replace(spec(), **attributes)
    assert str(caught.value).startswith(message)


def test_an_architecture_has_one_spelling() -> None:
    assert dataclasses.replace(spec(), arch="9.0a") == spec(arch="sm_90a")


@pytest.mark.parametrize("fields", [None, [("m", 64)], {5: 64}, {None: 1}])
def test_fields_that_are_none(fields: Any) -> None:
    with pytest.raises(
        InputError, match=r"^a spec's fields are a dict by name, such as m and n, no"
    ):
        GemmSpec.from_fields(fields)


VECTOR = StepOperand("bias", "column", FP16)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (EpilogueStep("nope"), "unknown epilogue step 'nope'; known: bias"),
        (EpilogueStep("bias"), "epilogue step 'bias': other operands than it has (bias); let"),
        (EpilogueStep("relu", (VECTOR,)), "epilogue step 'relu': other operands than it has (bi"),
        (EpilogueStep("clamp"), "epilogue step 'clamp': no bound is given; give lo, hi or both"),
        (EpilogueStep("clamp", (), (("lo", "1.50"),)), "epilogue step 'clamp': lo = 1.50: give it"),
        (EpilogueStep("clamp", (), (("low", "1"),)), "unknown option 'low' of 'clamp' (did you me"),
        (EpilogueStep("quantize"), "epilogue step 'quantize': other operands than it has (scale)"),
        (EpilogueStep("relu", []), "epilogue[0] = EpilogueStep(kind='relu', operands=[], "),  # type: ignore[arg-type]
        (EpilogueStep("clamp", (), (("lo", 1),)), "epilogue[0] = EpilogueStep(kind='clamp', "),  # type: ignore[arg-type]
    ],
)
def test_steps_that_no_text_gives(step: EpilogueStep, message: str) -> None:
    with pytest.raises(InputError) as caught:
        dataclasses.replace(spec(), epilogue=(step,))
    assert str(caught.value).startswith(message)


def test_overrides_are_kept_as_they_are_read() -> None:
    given = dataclasses.replace(spec(), overrides=Overrides(tile_m="64"))  # type: ignore[arg-type]
    assert given == spec(tile_m=64)
    assert given.overrides.tile_m == 64
