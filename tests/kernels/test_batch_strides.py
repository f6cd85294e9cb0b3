"""Where the matrices of a batch lie: apart, side by side, or one for all; every family."""

from __future__ import annotations

import pytest

from deepgemm_codegen.decide import MmaSyncChoice, WgmmaChoice
from deepgemm_codegen.plan import Rows
from tests.harness.support import Choice, assert_right, program_of

MMA = MmaSyncChoice(32, 32, 32, 2, 1, 2, 1, 2)
CUT = MmaSyncChoice(32, 32, 32, 2, 1, 2, 1, 2, 2)
WGMMA = WgmmaChoice(64, 64, 1, 1, 3, 1, 1, 2)

FAMILIES: dict[str, tuple[str, Choice | None]] = {
    "mma_sync": ("m=40 n=48 k=56", MMA),
    "split k": ("m=40 n=48 k=128", CUT),
    "wgmma": ("m=40 n=48 k=56 arch=sm_90a", WGMMA),
    "bandwidth": ("m=2 n=48 k=64 layout=nt family=bandwidth", None),
    "simt": ("m=40 n=48 k=56 family=simt", None),
}

STRIDES = {
    "gaps": "stride_a=8000 stride_b=9000 stride_c=4800 stride_d=6000",
    "one B": "stride_b=shared",
    "one A and one C": "stride_a=0 stride_c=0",
    "heads of a sequence": (
        "lda=1024 stride_a=128 ldb=1024 stride_b=136 ldc=256 stride_c=56 ldd=208 stride_d=48"
    ),
}


@pytest.mark.parametrize("strides", STRIDES)
@pytest.mark.parametrize("family", FAMILIES)
def test_strides(family: str, strides: str) -> None:
    fields, choice = FAMILIES[family]
    text = f"{fields} batch=3 dtype_c=fp16 epilogue=bias {STRIDES[strides]}"
    assert_right(text, choice, effort=0.1)


def test_an_odd_stride_narrows_the_vectors() -> None:
    assert_right(
        "m=40 n=48 k=56 batch=3 stride_a=2241 stride_b=2690 stride_d=1923", MMA, effort=0.1
    )


@pytest.mark.parametrize("stride", ["dense", "shared"])
def test_a_batch_that_is_copied_first(stride: str) -> None:
    """Of an operand that all products share there is one copy."""
    fields = f"m=40 n=48 k=57 batch=3 layout=nt stride_a={stride} repack=on arch=sm_90a"
    verdict = assert_right(fields, None, effort=0.1)
    assert verdict.passed
    program = program_of(fields, None)
    a, b = (program.workspace.region(name).bytes.evaluate({}) for name in ("a_packed", "b_packed"))
    assert a == (40 if stride == "shared" else 120) * 128
    assert b == 144 * 128


COPIED = {
    "gaps": "m=40 n=48 k=57 stride_a=3001 stride_b=2800",
    "side by side": "m=40 n=48 k=57 lda=299 stride_a=60",
    "pointers": "m=40 n=48 k=57 stride_a=pointers stride_b=pointers align_a=2 align_b=2",
    "pointers on 16 bytes": "m=40 n=48 k=64 stride_a=pointers family=wgmma",
    "bytes that lie across": (
        "m=48 n=40 k=57 dtype=e4m3 layout=tn stride_a=3001 stride_b=pointers"
    ),
    "parts of k": "m=40 n=48 k=520 stride_a=pointers split_k=3 family=wgmma",
}


@pytest.mark.parametrize("how", COPIED)
def test_matrices_that_lie_anywhere_are_copied_behind_each_other(how: str) -> None:
    layout = "" if "layout" in COPIED[how] else "layout=nt"
    text = f"{COPIED[how]} {layout} batch=3 repack=on arch=sm_90a"
    assert program_of(text, None).kernels[0].body.role == "repack"
    assert_right(text, None, effort=0.2)


def test_the_tree_says_what_it_copies_them_for() -> None:
    text = "m=1024 n=1024 k=1024 batch=8 layout=nt arch=sm_90a gpu=H200"
    program = program_of(f"{text} stride_a=pointers stride_b=1048577", None)
    (told,) = [each for each in program.decisions if each.question == "operands"]
    assert told.choice == "A and B repacked"
    assert told.reason.startswith(
        "B's batch: rows start off 16 bytes; A through pointers, which no tensor map holds; "
    )


def test_matrices_with_gaps_are_read_as_they_lie() -> None:
    fields = "m=1024 n=1024 k=1023 batch=3 layout=nt stride_a=1048000 repack=off arch=sm_90a"
    program = program_of(fields, None)
    assert program.workspace.regions == ()
    assert program.decisions[0].choice == "mma_sync"
    assert program.decisions[0].reason == (
        "no wgmma: lda = 1023 is 2046 bytes, no multiple of 16, and repack = off"
    )


POINTERS = {
    "all": "stride_a=pointers stride_b=pointers stride_c=pointers stride_d=pointers",
    "A and D, one B": "stride_a=pointers stride_b=shared stride_d=pointers",
    "of two bytes' alignment": (
        "stride_a=pointers stride_b=pointers stride_d=pointers align_a=2 align_b=2 align_d=2"
    ),
}


@pytest.mark.parametrize("pointers", POINTERS)
@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "wgmma"])
def test_arrays_of_pointers(family: str, pointers: str) -> None:
    """Arrays are not followed where alpha or beta is 0: they may be null then."""
    fields, choice = FAMILIES[family]
    text = f"{fields} batch=3 dtype_c=fp16 epilogue=bias {POINTERS[pointers]}"
    assert_right(text, choice, effort=0.1)


def test_wgmma_writes_through_pointers_and_reads_c_through_them() -> None:
    fields, choice = FAMILIES["wgmma"]
    text = f"{fields} batch=3 dtype_c=fp16 stride_c=pointers stride_d=pointers"
    assert_right(text, choice, effort=0.1)


def test_several_tiles_abreast_have_pointers_of_their_own() -> None:
    choice = MmaSyncChoice(32, 32, 32, 2, 1, 2, 1, 2, abreast=4)
    text = "m=32 n=32 k=32 batch=7 stride_a=pointers stride_d=pointers"
    assert_right(text, choice, effort=0.2)


def test_the_tree_says_why_wgmma_cannot_read_them() -> None:
    text = "m=512 n=512 k=512 batch=3 stride_b=pointers repack=off arch=sm_90a"
    program = program_of(text, None)
    assert program.decisions[0].choice == "mma_sync"
    assert program.decisions[0].reason == (
        "no wgmma: each product has a pointer to its B, a tensor map holds one address,"
        " and repack = off"
    )


NORMS = {
    "gaps": "stride_b=shared stride_d=900",
    "pointers": "stride_a=pointers stride_c=pointers stride_d=pointers",
}


@pytest.mark.parametrize("strides", NORMS)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_rows_that_are_normed_behind_the_product(arch: str, strides: str) -> None:
    if arch == "sm_90a":
        strides = strides.replace("pointers", "gaps")
    text = f"m=10 n=64 k=64 batch=3 dtype_c=fp16 epilogue=residual,rms_norm {NORMS[strides]}"
    assert_right(f"{text} arch={arch}", None, effort=0.1)


def test_rows_of_several_warps_in_products_of_run_time_rows() -> None:
    """Which product a row is of follows from an m that only the launch tells."""
    text = "m=dynamic:3 n=1100 k=16 batch=2 epilogue=rms_norm"
    body = program_of(text, None).kernels[-1].body
    assert isinstance(body, Rows)
    assert body.warps_n > 1
    assert_right(text, None, effort=0.1)
