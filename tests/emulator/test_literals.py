"""Literals beside the types of instructions: what ptxas of CUDA 13.0 takes and what it refuses."""

from __future__ import annotations

import pytest

from deepgemm_codegen.emulator import Kernel, UnsupportedError, parse
from tests.emulator.support import entry

REGISTERS = {
    **dict.fromkeys(("u16", "s16", "b16"), "%h"),
    **dict.fromkeys(("u32", "s32", "b32"), "%r"),
    **dict.fromkeys(("u64", "s64", "b64"), "%d"),
    "f32": "%r",
    "f64": "%d",
}
LITERALS = ("3", "-3", "0x10", "3U", "1.5", "-1.5", "1e3", "0f3F800000", "0d3FF0000000000000")
WHOLE, FLOATING = {*LITERALS[:4]}, {*LITERALS[4:]}
TAKEN = {
    **dict.fromkeys(("u16", "s16", "b16", "u32", "s32", "u64", "s64"), WHOLE),
    "b32": WHOLE | {"0f3F800000"},
    "b64": (WHOLE | FLOATING) - {"0f3F800000"},
    **dict.fromkeys(("f32", "f64"), FLOATING),
}
"""By type, as ``ptxas -arch=sm_90`` answered for each pair."""


def kernel(text: str) -> Kernel:
    return Kernel(parse(entry(f"mov.u64 %d1, 0; {text} ret;")), "k")


@pytest.mark.parametrize("dtype", TAKEN)
@pytest.mark.parametrize("literal", LITERALS)
@pytest.mark.parametrize(
    "form", ["mov.{t} {r}1, {x};", "st.global.{t} [%d1], {x};", "selp.{t} {r}1, {r}1, {x}, %p1;"]
)
def test_a_literal_is_of_the_kind_that_the_type_is(form: str, literal: str, dtype: str) -> None:
    text = form.format(t=dtype, r=REGISTERS[dtype], x=literal)
    if literal in TAKEN[dtype]:
        kernel(text)
        return
    with pytest.raises(UnsupportedError, match=f"'{literal}' (is no|is not)"):
        kernel(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("add.u32 %r1, %r2, 1.5;", "'1.5' is no whole number"),
        ("shl.b32 %r1, %r2, 1.9;", "'1.9' is no whole number"),
        ("bfe.u32 %r1, %r2, 0.5, 2;", "'0.5' is no whole number"),
        ("cvt.rn.f32.u32 %r1, 0f3F800000;", "'0f3F800000' is no whole number"),
        ("add.f32 %r1, %r2, 3;",
         "'3' is no floating-point number; write 3.0"),
        ("cvt.rni.u32.f32 %r1, 3;", "'3' is no floating-point number"),
    ],
)  # fmt: skip
def test_a_refusal_says_what_to_write(text: str, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        kernel(text)
