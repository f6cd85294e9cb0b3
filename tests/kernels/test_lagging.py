"""Consumers who share a tile, of whom the second ends it some slices after the first."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from deepgemm_codegen.decide import WgmmaChoice
from deepgemm_codegen.decide.wgmma.lagging import LEAST_LAG, lag
from deepgemm_codegen.plan import Program, Wgmma
from deepgemm_codegen.plan.tiles import Extent
from deepgemm_codegen.render import render_program
from tests.harness.support import assert_right, assert_wrong, program_of

SHARED = WgmmaChoice(128, 128, 2, 1, 4, 1, 1, 8)
"""Each of few blocks computes several tiles: what one leaves behind, the next would meet."""


def k_of(slices: int, split: int = 1, *, dynamic: bool = False) -> Extent:
    return Extent("k", "K", slices * 64, dynamic, 64, split=split)


@pytest.mark.parametrize(
    ("slices", "stages", "wanted"),
    [
        (64, 4, 3),  # all but one slot
        (64, 2, 0),  # one slice is too little
        (7, 4, 3),
        (6, 4, 2),  # less than half of the slices
        (5, 4, 2),
        (4, 4, 0),
        (6, 8, 2),
        (5, 8, 0),  # the first could end the next tile, too
        (3, 3, 0),
        (1, 4, 0),
    ],
)
def test_how_many_slices(slices: int, stages: int, wanted: int) -> None:
    assert lag(128, 128, k_of(slices), stages) == wanted


def test_of_parts_the_shortest_counts() -> None:
    assert lag(128, 128, k_of(13, split=2), 4) == 2
    assert lag(128, 128, k_of(14, split=2), 4) == 3


def test_no_lag_where_slices_hold_up_both() -> None:
    assert lag(128, 64, k_of(64), 6) == 0
    assert lag(128, 80, k_of(64), 6) == 5


def test_the_ring_holds_a_lag_and_no_tile_is_passed() -> None:
    for slices, stages in product(range(1, 40), range(2, 14)):
        found = lag(128, 128, k_of(slices), stages)
        if found:
            assert LEAST_LAG <= found < min(stages, slices / 2)
            # Before its wait the second has given back all but `found + 1` slices of its tile; the
            # first ends the next tile only when these and all of that are no more than the slots.
            assert slices + found + 1 > stages


@pytest.mark.parametrize(
    ("choice", "text", "wanted"),
    [
        (SHARED, "k=1024", 3),
        (SHARED, "k=1024 dtype_c=fp16 ldc=261", 3),
        (SHARED, "k=dynamic:512", 3),
        (replace(SHARED, tiles_at_once=2, stages=3), "k=1024", 0),
        (replace(SHARED, tile_m=64, consumers=1), "k=1024", 0),
        (replace(SHARED, split_k=2, cluster_k=2, stages=3), "k=1024", 0),
        (replace(SHARED, split_k=2), "k=1024", 3),
        (SHARED, "k=2048 dtype=e4m3", 0),  # sums are promoted
        (SHARED, "k=2048 dtype=e4m3 accumulate=fast", 3),
    ],
)
def test_who_lags(choice: WgmmaChoice, text: str, wanted: int) -> None:
    program = program_of(f"m=256 n=256 {text} layout=nt arch=sm_90a", choice)
    body = program.product.body
    assert isinstance(body, Wgmma)
    assert body.lag == wanted
    assert ("lag_wait()" in render_program(program)) == (wanted > 0)


@pytest.mark.parametrize(
    ("choice", "text"),
    [
        (SHARED, "m=512 n=512 k=448 epilogue=bias,gelu"),
        (SHARED, "m=500 n=392 k=328 epilogue=residual"),  # five slices and a half
        (SHARED, "m=304 n=304 k=dynamic:704 layout=tn"),  # fewer slices, too
        (replace(SHARED, split_k=3), "m=200 n=264 k=1000"),
        (replace(SHARED, cluster_m=2), "m=512 n=384 k=512"),
        (replace(SHARED, cluster_n=2), "m=384 n=512 k=512 dtype_c=fp16"),
        (replace(SHARED, tile_k=128, stages=3), "m=200 n=208 k=1008 dtype=int8"),
        (SHARED, "m=250 n=136 k=904 batch=3 dtype=bf16 dtype_d=fp32"),
        (replace(SHARED, tile_m=256, stages=3), "m=520 n=264 k=520"),
    ],
    ids=["steps", "ragged", "any k", "parts", "along m", "along n", "int8", "batch", "high"],
)
def test_they_are_right(choice: WgmmaChoice, text: str) -> None:
    line = f"{text}{'' if 'layout' in text else ' layout=nt'} arch=sm_90a sms=3"
    body = program_of(line, choice).product.body
    assert isinstance(body, Wgmma)
    assert body.lag >= LEAST_LAG
    assert_right(line, choice, effort=0.2)


def with_lag(program: Program, slices: int) -> Program:
    """The program with another lag, whatever the tree would say."""
    (kernel,) = program.kernels
    assert isinstance(kernel.body, Wgmma)
    return replace(program, kernels=(replace(kernel, body=replace(kernel.body, lag=slices)),))


def test_as_many_slices_as_slots_are_a_deadlock() -> None:
    program = program_of("m=512 n=512 k=1024 layout=nt arch=sm_90a sms=3", SHARED)
    assert_wrong(program, render_program(with_lag(program, 4)), seen="deadlock", effort=0.1)


def test_a_tile_that_the_first_passes_is_told() -> None:
    """Three slices, eight slots: the first ends the next tile before the second has waited."""
    choice = replace(SHARED, tile_n=64, stages=8)
    program = program_of("m=512 n=512 k=192 layout=nt arch=sm_90a sms=3", choice)
    assert_wrong(program, render_program(with_lag(program, 1)), seen="barrier", effort=0.1)


def test_an_end_that_nobody_tells_is_a_deadlock() -> None:
    program = program_of("m=512 n=512 k=1024 layout=nt arch=sm_90a sms=3", SHARED)
    source = render_program(program)
    told = "if (consumer == 0 && slices_to_sum > 0) lag_ends();"
    assert told in source
    assert_wrong(program, source.replace(told, ""), seen="deadlock", effort=0.1)


@pytest.mark.parametrize("sms", [3, 16], ids=["several tiles a block", "one"])
def test_a_lag_that_nobody_keeps_is_told(sms: int) -> None:
    """Its values are right: only the arrivals say that it is gone."""
    program = program_of(f"m=512 n=512 k=1024 layout=nt arch=sm_90a sms={sms}", SHARED)
    source = render_program(program)
    kept = "if (slice == held) lag_wait();"
    assert kept in source
    assert_wrong(program, source.replace(kept, ""), seen="at barrier 3", effort=0.1)
