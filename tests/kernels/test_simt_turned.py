"""Operands of the CUDA cores whose k turns round on its way, judged on the emulator."""

from __future__ import annotations

import pytest

from deepgemm_codegen.decide import SimtChoice
from deepgemm_codegen.decide.simt.constraints import whole_rows
from deepgemm_codegen.plan import Simt
from tests.harness.support import assert_right, program_of

QUADS = SimtChoice(32, 64, 16, 2, 2, 2, 1, 2)
RAGGED = SimtChoice(16, 128, 8, 1, 4, 2, 1, 2)
"""A pass of the copy has 64 rows, A's tile 16."""
ELEMENTS = SimtChoice(32, 64, 16, 2, 2, 3, 1, 2, elements=True)
"""Single elements stay in flight, so that three slots are of use."""


def travel(text: str) -> set[tuple[str, int]]:
    """How both operands travel: mechanism and bytes."""
    body = program_of(text, None).product.body
    assert isinstance(body, Simt)
    return {(operand.mechanism, operand.vector_bytes) for operand in body.operands}


@pytest.mark.parametrize(
    ("more", "mechanism", "vector_bytes"),
    [
        ("k=64", "cp_async", 4),  # both turn round
        ("k=66", "cp_async", 4),  # a row ends within a quad
        ("k=dynamic:64", "cp_async", 4),
        ("k=64 lda=65 ldb=67", "cp_async", 4),
        ("k=64 align_a=8 align_b=8", "cp_async", 4),
        ("k=64 dtype=fp16 tensor_cores=off", "registers", 8),
        ("k=66 dtype=fp16 tensor_cores=off", "registers", 2),
    ],
)
def test_four_k_travel_together_where_rows_are_whole_quads(
    more: str, mechanism: str, vector_bytes: int
) -> None:
    dtype = "" if "dtype" in more else "dtype=fp32"
    text = f"m=64 n=64 {more} {dtype} layout=nt arch=sm_80"
    assert travel(text) == {(mechanism, vector_bytes)}


@pytest.mark.parametrize(
    ("more", "turned"),
    [
        ("m=4096 n=4096 k=4096", ("registers", 16)),
        ("m=4096 n=4096 k=4096 stages=3", ("cp_async", 4)),  # registers run one slice ahead
        ("m=1024 n=1024 k=1024 arch=sm_90", ("cp_async", 4)),
        ("m=1024 n=1024 k=1024 arch=sm_75", ("registers", 16)),  # no cp.async
    ],
)
def test_one_operand_that_turns_round_travels_by_quads_that_have_the_time(
    more: str, turned: tuple[str, int]
) -> None:
    arch = "" if "arch" in more else "arch=sm_80"
    straight = ("registers" if "sm_75" in more else "cp_async", 16)
    assert travel(f"{more} dtype=fp32 layout=nn {arch}") == {turned, straight}


def test_a_copy_by_elements_says_why() -> None:
    program = program_of("m=1024 n=1024 k=1024 dtype=fp32 arch=sm_90", None)
    copy = next(d for d in program.product.decisions if d.question == "copy of A")
    assert copy.reason == (
        "k is contiguous and has to turn round, an element at a time: through registers, in half"
        " a slice's time, four would come too late"
    )


@pytest.mark.parametrize("choice", [QUADS, RAGGED], ids=["16 of k", "8 of k, ragged"])
@pytest.mark.parametrize("more", ["nn dtype=fp32", "tt dtype=fp32", "nt dtype=bf16"])
def test_quads_land_where_they_belong(choice: SimtChoice, more: str) -> None:
    assert_right(f"m=41 n=72 k=52 tensor_cores=off layout={more} arch=sm_80", choice, effort=0.2)


@pytest.mark.parametrize("letters", ["nn", "tt"])
def test_elements_land_where_quads_would(letters: str) -> None:
    text = f"m=41 n=72 k=52 dtype=fp32 layout={letters} arch=sm_80"
    assert_right(text, ELEMENTS, effort=0.2)


def test_quads_of_both_halves_of_b() -> None:
    choice = SimtChoice(32, 64, 16, 2, 1, 2, 1, 2)
    text = "m=41 n=72 k=52 dtype=fp16 tensor_cores=off layout=nt epilogue=swiglu arch=sm_80"
    assert_right(text, choice, effort=0.2)


def test_a_pass_has_the_rows_that_exchange_theirs() -> None:
    """Sixteen of quads, four of single elements: 4 vectors a row need 64 threads, 16 do too."""
    assert whole_rows(4, 64, 16) is None
    assert whole_rows(4, 32, 16) == (4, 2)
    assert whole_rows(16, 64, 4) is None
    assert whole_rows(16, 32, 4) == (16, 8)
