"""Strides of a batch: what is read, normalised and refused."""

from __future__ import annotations

import re

import pytest

from deepgemm_codegen.errors import InputError
from deepgemm_codegen.spec import GemmSpec

SHAPE = "m=50 n=40 k=24"

SAME = {
    "batch=3 stride_a=1200": "batch=3",
    "batch=3 stride_a=dense stride_d=dense": "batch=3",
    "batch=3 stride_b=shared": "batch=3 stride_b=0",
    "stride_a=7 stride_b=0": "",
    "batch=3 lda=32 stride_a=1600": "batch=3 lda=32",
}


@pytest.mark.parametrize("text", SAME)
def test_two_ways_to_say_one_thing(text: str) -> None:
    left, right = (GemmSpec.from_text(f"{SHAPE} {each}") for each in (text, SAME[text]))
    assert left == right
    assert str(left) == str(right)


@pytest.mark.parametrize(
    "text",
    [
        "batch=3 stride_b=shared",
        "batch=3 stride_a=4000",
        "batch=3 stride_a=pointers stride_d=pointers",
        "batch=3 lda=128 stride_a=24",
        "m=dynamic:50 batch=3 stride_a=5000 stride_d=4000",
    ],
)
def test_the_text_reads_back(text: str) -> None:
    spec = GemmSpec.from_text(f"{SHAPE} {text}" if "m=" not in text else f"n=40 k=24 {text}")
    assert GemmSpec.from_text(str(spec)) == spec
    assert "stride" in str(spec)


REFUSED = {
    "batch=3 stride_d=0": ("stride_d = 0: 3 products would write one D; leave it out"),
    "batch=3 stride_d=1999": (
        "stride_d = 1999: products would overlap; give 2000 elements or more"
    ),
    "batch=3 stride_a=24": (
        "stride_a = 24: matrices overlap; give 1200 elements or more, or 0 for one that all"
        " products share"
    ),
    "batch=3 lda=71 stride_a=24": (
        "stride_a = 24: matrices overlap; give 3503 elements or more, or 0 for one that all"
        " products share"
    ),
    "stride_a=pointers": ("stride_a = pointers: there is one product; give batch, or leave it out"),
    "batch=3 stride_a=-1": "stride_a = -1: too small; the smallest is 0",
    "batch=3 stride_a=1e6": "stride_a = 1e6: a whole number is wanted; write 1000000",
    "batch=3 stride_a=1.5": (
        "stride_a = 1.5: not a whole number; give elements, dense, shared or pointers"
    ),
    "batch=3 stride_a=share": (
        "stride_a = share: unknown; give elements, dense, shared or pointers"
        " (did you mean 'shared'?)"
    ),
    "batch=3 stride_c=2000": (
        "stride_c = 2000: the kernel has no C; give dtype_c or leave stride_c out"
    ),
    "k=dynamic:24 batch=3 stride_a=1200": (
        "stride_a = 1200: lda is known only at run time; give lda, or leave stride_a out"
    ),
}


@pytest.mark.parametrize("text", REFUSED)
def test_refusals(text: str) -> None:
    shape = "m=50 n=40" if "k=" in text else SHAPE
    with pytest.raises(InputError, match=f"^{re.escape(REFUSED[text])}") as raised:
        GemmSpec.from_text(f"{shape} {text}")
    assert raised.value.exit_code == 2
