"""Steps as text: what is read, what is refused, and that text round-trips."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from deepgemm_codegen.dtypes import BF16, FP16, FP32, INT8
from deepgemm_codegen.epilogue import STEPS, EpilogueStep, StepOperand, parse_epilogue
from deepgemm_codegen.errors import InputError
from deepgemm_codegen.spec import GemmSpec
from tests.epilogue.strategies import chains

Q = "epilogue step 'quantize'"
NORM = "epilogue step 'rms_norm'"
LO, FINITE = "epilogue step 'clamp': lo", "not a finite decimal number; give one, or leave"
PER = "per_tensor or per_token or per_channel or dynamic or a number"


def one(text: str) -> EpilogueStep:
    (step,) = parse_epilogue(text, FP16)
    return step


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("bias", "bias:fp16"),
        ("bias:axis=column:dtype=half", "bias:fp16"),
        ("bias:per_token:bf16", "bias:row:bf16"),
        ("bias:bf16:row", "bias:row:bf16"),
        ("scale", "scale"),
        ("scale:per_tensor", "scale"),
        ("scale:per_token:fp32", "scale:row"),
        ("scale:per_channel:fp16", "scale:column:fp16"),
        ("residual", "residual:fp16"),
        ("residual:ld=4096:fp32:align=8", "residual:fp32:ld=4096:align=8"),
        ("residual:align=16", "residual:fp16"),
        ("store", "store:fp16"),
        ("store:ld=99:fp32", "store:fp32:ld=99"),
        ("clamp:0:6", "clamp:lo=0:hi=6"),
        ("clamp:hi=6.50", "clamp:hi=6.5"),
        ("clamp:-1e-3:.1", "clamp:lo=-0.001:hi=0.1"),
        ("clamp:lo=3:hi=3", "clamp:lo=3:hi=3"),
        ("clamp:16777217:1e38", "clamp:lo=16777216:hi=1e+38"),
        ("gelu", "gelu"),
        ("swiglu:gate=first", "swiglu"),
        ("geglu:second", "geglu:gate=second"),
        ("quantize:to=int8", "quantize:int8"),
        ("quantize:s8:row", "quantize:int8:scale=per_token"),
        (
            "quantize:int8:per_token:per_tensor:divide",
            "quantize:int8:scale=per_token:zero_point=per_tensor:divide=yes",
        ),
        ("quantize:uint8:0.5:128", "quantize:uint8:scale=0.5:zero_point=128"),
        (
            "quantize:scale=per_channel:scale_dtype=bf16:saturate=no:to=e4m3",
            "quantize:e4m3:scale=per_channel:scale_dtype=bf16:saturate=no",
        ),
        ("quantize:e5m2:saturate=true:divide=false", "quantize:e5m2"),
        ("bias:per_product=yes", "bias:fp16:per_product"),
        ("scale:axis=row:per_product=true", "scale:row:per_product"),
        ("bias:per_product=no", "bias:fp16"),
        (
            "quantize:int8:per_product=yes:per_token:per_channel",
            "quantize:int8:scale=per_token:zero_point=per_channel:per_product",
        ),
        ("quantize:s8:dynamic", "quantize:int8:scale=dynamic"),
        ("quantize:to=e4m3:scale=dynamic:scale_dtype=fp32", "quantize:e4m3:scale=dynamic"),
    ],
)
def test_spellings(text: str, same: str) -> None:
    assert str(one(text)) == same
    assert one(same) == one(text)


def test_what_a_step_holds() -> None:
    assert one("bias:row:fp32") == EpilogueStep("bias", (StepOperand("bias", "row", FP32),))
    (stored,) = one("store:fp32").operands
    assert (stored.access, stored.written) == ("full", True)
    assert one("residual:bf16:ld=9").operands == (StepOperand("residual", "full", BF16, 9),)
    assert one("clamp:0:1").settings == (("lo", "0"), ("hi", "1"))
    assert one("bias").operands[0].argument(3) == "bias3"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gleu", f"unknown epilogue step 'gleu'; known: {', '.join(STEPS)} (did you mean 'gelu'?)"),
        ("gelu:fast", "epilogue step 'gelu' does not take 'fast'; options it takes: none"),
        ("relu:axis=row", "unknown option 'axis' of 'relu'; known: none"),
        (
            "scale:full",
            "epilogue step 'scale': unknown dtype 'full'; known: fp16, bf16, fp32",
        ),
        (
            "bias:axis=rows",
            "epilogue step 'bias': axis = rows: give column or row (did you mean 'row'?)",
        ),
        (
            "residual:row",
            "epilogue step 'residual' does not take 'row'; options it takes: dtype, ld, align",
        ),
        ("residual:ld=0", "epilogue step 'residual': ld = 0: too small; the smallest is 1"),
        (
            "residual:ld=wide",
            "epilogue step 'residual': ld = wide: not a whole number; give a whole number",
        ),
        (
            "bias:row:column",
            "epilogue step 'bias' is given axis twice; give it once",
        ),
        ("bias:fp16:axis=row:fp32", "epilogue step 'bias' is given dtype twice; give it once"),
        (
            "bias:diagonal:row",
            "epilogue step 'bias': unknown dtype 'diagonal'; known: fp16, bf16, fp32, int32",
        ),
        ("bias:dtype=fp16:dtype=fp16", "epilogue step 'bias' is given dtype twice; give it once"),
        (
            "scale:fp16",
            (
                "epilogue step 'scale': dtype = fp16: a scalar scale is an argument of type fp32;"
                " leave dtype out, or give axis row or column"
            ),
        ),
        ("clamp", "epilogue step 'clamp': no bound is given; give lo, hi or both"),
        ("clamp:6:0", "epilogue step 'clamp': lo = 6 is above hi = 0; exchange them"),
        ("clamp:lo=nan", f"{LO} = nan: {FINITE} lo out"),
        ("clamp:lo=-inf", f"{LO} = -inf: {FINITE} lo out"),
        (
            "clamp:hi=4e38",
            "epilogue step 'clamp': hi = 4e38: beyond fp32, whose largest is 3.4028235e38",
        ),
        ("clamp:hi=0x10", f"epilogue step 'clamp': hi = 0x10: {FINITE} hi out"),
        ("clamp:lo=", f"{LO} = : {FINITE} lo out"),
        ("swiglu:third", "epilogue step 'swiglu' does not take 'third'; options it takes: gate"),
        (
            "swiglu:gate=secnd",
            "epilogue step 'swiglu': gate = secnd: give first or second (did you mean 'second'?)",
        ),
        ("quantize", f"{Q}: to is missing; give one of int8, uint8, e4m3, e5m2"),
        ("quantize:to=fp16", f"{Q}: to = fp16: give one of int8, uint8, e4m3, e5m2"),
        (
            "bias:dtype=int8",
            "epilogue step 'bias': dtype = int8: give one of fp16, bf16, fp32, int32",
        ),
        ("quantize:int8:scale=nan", f"{Q}: scale = nan: give {PER}"),
        (
            "quantize:int8:scale=per_row",
            f"{Q}: scale = per_row: give {PER} (did you mean 'per_token'?)",
        ),
        ("quantize:int8:scale=-0.5", f"{Q}: scale = -0.5: give a number above 0"),
        ("quantize:int8:scale=0.0e-50", f"{Q}: scale = 0: give a number above 0"),
        (
            "quantize:int8:scale=1e-50",
            f"{Q}: scale = 1e-50: below fp32, whose smallest is 1.4012985e-45",
        ),
        (
            "rms_norm:eps=-1e-60",
            f"{NORM}: eps = -1e-60: below fp32, whose smallest is 1.4012985e-45",
        ),
        (
            "rms_norm:bias_dtype=fp32",
            f"{NORM}: bias_dtype = fp32: there is no bias; leave it out, or give bias: yes",
        ),
        (
            "rms_norm:weight=no:align=32",
            f"{NORM}: align = 32: there is neither weight nor bias; leave it out",
        ),
        (
            "quantize:int4",
            f"{Q}: unknown dtype 'int4'; known: int8, uint8, e4m3, e5m2 (did you mean 'int8'?)",
        ),
        ("quantize:fp16", f"{Q}: to is missing; give one of int8, uint8, e4m3, e5m2"),
        (
            "bias:row:int8",
            "epilogue step 'bias': dtype = int8: give one of fp16, bf16, fp32, int32",
        ),
        ("bias,", "epilogue = bias,: a comma with no step beside it; leave the comma out"),
        (",", "epilogue = ,: a comma with no step beside it; leave the comma out"),
        (
            "quantize:int8:scale_dtype=fp16",
            (
                f"{Q}: scale_dtype = fp16: a scalar scale is an argument of type fp32; leave"
                " scale_dtype out, or give scale row or column"
            ),
        ),
        ("quantize:int8:1:128", f"{Q}: zero_point = 128: give a whole number from -128 to 127"),
        ("quantize:uint8:1:2.5", f"{Q}: zero_point = 2.5: give a whole number from 0 to 255"),
        (
            "quantize:e4m3:zero_point=per_token",
            f"{Q}: zero_point: e4m3 has none; leave it out, or give to: int8 or uint8",
        ),
        (
            "quantize:int8:saturate=no",
            f"{Q}: saturate = no: int8 always saturates; leave it out",
        ),
        ("quantize:int8:divide=maybe", f"{Q}: divide = maybe: give yes or no"),
        (
            "quantize:int8:scale=dynamik",
            f"{Q}: scale = dynamik: give {PER} (did you mean 'dynamic'?)",
        ),
        (
            "quantize:uint8:dynamic",
            f"{Q}: scale = dynamic: uint8 has no negative numbers; give to: int8, e4m3 or e5m2",
        ),
        (
            "quantize:int8:dynamic:zero_point=0",
            f"{Q}: scale = dynamic: the range lies evenly about zero; leave zero_point out",
        ),
        (
            "quantize:int8:dynamic:divide",
            f"{Q}: scale = dynamic: it always divides; leave divide out",
        ),
        (
            "quantize:e4m3:dynamic:saturate=no",
            f"{Q}: scale = dynamic: nothing lies beyond the range; leave saturate out",
        ),
        (
            "quantize:int8:dynamic:scale_dtype=fp16",
            f"{Q}: scale = dynamic: computed scales are fp32; leave scale_dtype out",
        ),
        (
            "scale:0.5",
            (
                "epilogue step 'scale' does not take '0.5'; options it takes: axis (scalar or row"
                " or column), dtype, per_product; its numbers are arguments of the launch"
            ),
        ),
        (
            "bias:dynamic",
            "epilogue step 'bias': unknown dtype 'dynamic'; known: fp16, bf16, fp32, int32",
        ),
    ],
)
def test_refusals(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_epilogue(text, FP16)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"epilogue": "residual:ld=63"},
            (
                "epilogue step 'residual': ld = 63: too small; a stored row holds 64 elements, as"
                " D's does, so give 64 or more"
            ),
        ),
        (
            {"epilogue": "residual:fp32:align=2"},
            "epilogue step 'residual': align = 2: give a power of two from 4 to 4096 (bytes)",
        ),
        (
            {"epilogue": "residual:align=24"},
            "epilogue step 'residual': align = 24: give a power of two from 2 to 4096 (bytes)",
        ),
        (
            {"epilogue": "quantize:int8:dynamic", "n": "dynamic:64"},
            (
                "n = dynamic:64: epilogue step 'quantize' computes scales of rows, whose length"
                " is known when the kernel is written; give n a number"
            ),
        ),
        (
            {"epilogue": "quantize:int8", "dtype_d": "fp16"},
            "dtype_d = fp16: quantize makes D int8; leave dtype_d out",
        ),
        (
            {"epilogue": "quantize:int8,relu"},
            "epilogue step 'quantize' is followed by 'relu', but it makes D; put it last",
        ),
        (
            {"epilogue": "quantize:int8,quantize:int8"},
            (
                "epilogue steps 'quantize:int8' and 'quantize:int8': D is made once; leave one of"
                " them out"
            ),
        ),
        (
            {"epilogue": "swiglu", "dtype_c": "fp16"},
            (
                "epilogue step 'swiglu' halves what C would be added to; leave dtype_c out, and put"
                " a residual behind the step"
            ),
        ),
        (
            {"epilogue": "swiglu,geglu"},
            "epilogue step 'swiglu': one step of the epilogue may pair halves; leave out another",
        ),
        (
            {"epilogue": "store,swiglu"},
            (
                "epilogue step 'store' stands before 'swiglu', where there are two values an"
                " element of D; put it behind 'swiglu'"
            ),
        ),
        (
            {"n": 2**30, "epilogue": "swiglu"},
            (
                "epilogue step 'swiglu': B's columns = 2147483648: too large; the largest is"
                " 2147482624"
            ),
        ),
        (
            {"n": 64, "ldb": 100, "epilogue": "swiglu"},
            (
                "ldb = 100: too small; a stored row of B holds 128 elements (layout nn, D n), so"
                " give 128 or more"
            ),
        ),
        (
            {"epilogue": "relu", "dtype_d": "int8"},
            (
                "dtype_d = int8: fp32 sums become no int8; give one of fp16, bf16, fp32, or let the"
                " epilogue step quantize make it"
            ),
        ),
    ],
)
def test_what_the_spec_refuses(fields: dict[str, str], message: str) -> None:
    with pytest.raises(InputError) as caught:
        GemmSpec.from_fields({"m": 32, "n": 64, "k": 32, **fields})
    assert str(caught.value) == message


def test_quantize_tells_the_type_of_d() -> None:
    sizes = {"m": 32, "n": 64, "k": 32}
    spec = GemmSpec.from_fields({**sizes, "epilogue": "bias,quantize:int8"})
    assert (spec.dtype_d, str(spec.epilogue[0])) == (INT8, "bias:fp16")
    assert "dtype_d" not in str(spec)
    assert GemmSpec.from_text(str(spec)) == spec
    assert (
        GemmSpec.from_fields({**sizes, "epilogue": "quantize:int8", "dtype_d": "int8"}).dtype_d
        == INT8
    )
    assert spec.saturates
    assert not GemmSpec.from_fields({**sizes, "epilogue": "quantize:e5m2:saturate=no"}).saturates


def test_a_dense_residual_needs_no_leading_dimension() -> None:
    sizes = {"m": 32, "n": 64, "k": 32}
    dense = GemmSpec.from_fields({**sizes, "epilogue": "residual"})
    assert GemmSpec.from_fields({**sizes, "epilogue": "residual:ld=64"}) == dense
    transposed = {**sizes, "layout_d": "t"}
    column_major = GemmSpec.from_fields({**transposed, "epilogue": "residual:ld=32"})
    assert column_major == GemmSpec.from_fields({**transposed, "epilogue": "residual"})


@settings(max_examples=200, deadline=None)
@given(chains(most=6))
def test_the_text_form_round_trips(steps: list[str]) -> None:
    found = parse_epilogue(",".join(steps), FP16)
    assert len(found) == len(steps)
    assert parse_epilogue(",".join(map(str, found)), BF16) == found  # and names every type


@settings(max_examples=100, deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
@example(3.4025001647762064e38)  # its shorter decimals lie beyond fp32
@example(-3.4028234663852886e38)
@example(-0.0)
@example(1.401298464324817e-45)
def test_any_fp32_survives_as_a_constant(value: float) -> None:
    step = one(f"clamp:lo={value!r}")
    assert float(step.settings[0][1]) == pytest.approx(value, rel=2**-24, abs=2**-150)
    assert one(str(step)) == step
