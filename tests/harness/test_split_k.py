"""Programs that cut k: the product's partial sums, the reduction, and how both are judged."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from deepgemm_codegen.checks import Settings
from deepgemm_codegen.decide import MmaSyncChoice, WgmmaChoice
from deepgemm_codegen.harness.blocks import blocks_for, region_of, written_by
from deepgemm_codegen.harness.cases import cases_of, inputs_for
from deepgemm_codegen.harness.matrix import Region
from deepgemm_codegen.harness.oracle import Oracle
from deepgemm_codegen.harness.problem import bind
from deepgemm_codegen.harness.sums import StepModel
from deepgemm_codegen.harness.verdict import format_verdict
from deepgemm_codegen.harness.verify import judge
from tests.harness.support import (
    SMALL,
    assert_right,
    assert_wrong,
    device_of,
    program_of,
    source_of,
)

CASES = [
    ("m=64 n=64 k=128 layout=nt", 2),
    ("m=100 n=72 k=200 dtype_c=fp16 epilogue=bias,relu", 3),
    ("m=70 n=67 k=99 layout=tn dtype=bf16 dtype_d=fp32", 4),
    ("m=33 n=130 k=500 layout_d=t dtype_c=fp32 epilogue=bias:row layout=tt", 7),
    ("m=64 n=64 k=32 batch=3 layout=nt", 5),  # more parts than slices
    ("m=dynamic:90 n=dynamic:80 k=dynamic:400 dtype_c=bf16 dtype=bf16 batch=2", 3),
    ("m=1 n=1 k=1000", 16),
    ("m=64 n=64 k=0", 2),
    ("m=70 n=64 k=200 arch=sm_75 epilogue=bias,relu6", 2),
    ("m=100 n=72 k=400 dtype=int8 layout=tn dtype_c=int32", 3),
    (
        "m=64 n=40 k=256 dtype=uint8 dtype_b=int8 epilogue=bias,quantize:int8 batch=2",
        4,
    ),
    ("m=80 n=64 k=128 dtype=int8 layout=nt arch=sm_75 dtype_d=fp32", 2),
    ("m=70 n=66 k=200 epilogue=scale:row:fp32,residual,store:bf16,silu layout_d=t", 4),
    ("m=70 n=64 k=200 epilogue=bias launch=dependent arch=sm_90", 3),
]


WGMMA = WgmmaChoice(64, 64, 1, 1, 4, 1, 1, 8)
WGMMA_CASES = [
    ("m=64 n=64 k=512 layout=nt arch=sm_90a", WGMMA, 2),
    (
        "m=200 n=136 k=600 dtype_c=fp16 epilogue=bias,relu arch=sm_90a",
        WgmmaChoice(128, 64, 2, 1, 4, 2, 1, 8),
        3,
    ),
    ("m=100 n=72 k=328 layout=tn lda=104 dtype=bf16 dtype_d=fp32 layout_d=t arch=sm_90a", WGMMA, 5),
    ("m=dynamic:90 n=dynamic:80 k=dynamic:520 lda=520 ldb=80 arch=sm_90a", WGMMA, 3),
    ("m=64 n=64 k=64 layout=nt arch=sm_90a", WGMMA, 4),  # more parts than slices
]


TWO = WgmmaChoice(128, 64, 2, 1, 3, 1, 1, 8)
GATHERED = [
    ("m=64 n=64 k=512 layout=nt", WGMMA, 2),
    ("m=100 n=40 k=600 layout=nt dtype_c=fp16 epilogue=bias,relu", TWO, 3),
    ("m=60 n=40 k=328 layout=tn lda=64 dtype=bf16 dtype_d=fp32 layout_d=t", WGMMA, 5),
    ("m=dynamic:70 n=dynamic:40 k=dynamic:200 lda=200 ldb=40", WGMMA, 2),
    ("m=64 n=64 k=64 layout=nt", WGMMA, 4),  # more parts than slices
    pytest.param(
        "m=50 n=23 k=500 layout=nt lda=504 ldb=504",
        WgmmaChoice(64, 24, 1, 1, 4, 1, 1, 1),
        7,
        marks=pytest.mark.full,
    ),
    # The sums take more than the ring.
    pytest.param(
        "m=65 n=70 k=300 layout=nt lda=304 ldb=304",
        WgmmaChoice(128, 256, 2, 1, 2, 1, 1, 1),
        2,
        marks=pytest.mark.full,
    ),
    ("m=70 n=66 k=200 layout=nt epilogue=scale:row:fp32,residual,store:bf16,silu", WGMMA, 3),
    ("m=20 n=24 k=640 layout=nt epilogue=quantize:e4m3 launch=dependent", WGMMA, 4),
    ("m=60 n=72 k=400 dtype=int8 layout=nt dtype_c=int32", WGMMA, 3),
    ("m=64 n=40 k=640 dtype=uint8 dtype_b=int8 layout=nt epilogue=bias,quantize:int8", WGMMA, 4),
    ("m=64 n=64 k=1024 dtype=e4m3 layout=nt dtype_d=bf16", TWO, 3),
    ("m=100 n=40 k=600 batch=3 layout=nt dtype_c=fp16 stride_c=shared epilogue=residual", TWO, 3),
    (
        "m=dynamic:70 n=72 k=328 batch=2 layout=nt stride_a=shared stride_d=pointers layout_d=t",
        WGMMA,
        2,
    ),
]
"""Parts that the blocks of a cluster add up; of each the numbers of a plan."""


def cut(parts: int) -> MmaSyncChoice:
    return replace(SMALL, split_k=parts)


@pytest.mark.parametrize(("text", "parts"), CASES)
def test_split_k_is_right(text: str, parts: int) -> None:
    verdict = assert_right(text, cut(parts))
    assert {check.name for check in verdict.checks} == {"exact", "random", "hostile"}


@pytest.mark.parametrize(("text", "choice", "parts"), WGMMA_CASES)
def test_split_k_through_wgmma_is_right(text: str, choice: WgmmaChoice, parts: int) -> None:
    assert_right(text, replace(choice, split_k=parts))


@pytest.mark.parametrize(("text", "choice", "parts"), GATHERED)
def test_parts_that_meet_in_a_cluster_are_right(text: str, choice: WgmmaChoice, parts: int) -> None:
    tile_k = 128 if any(f"dtype={name}" in text for name in ("int8", "uint8", "e4m3")) else 64
    choice = replace(choice, split_k=parts, cluster_k=parts, tile_k=tile_k)
    verdict = assert_right(f"{text} arch=sm_90a", choice)
    assert {check.name for check in verdict.checks} == {"exact", "random", "hostile"}


def test_parts_of_k_are_whole_slices_and_all_of_k() -> None:
    problem = bind(program_of("m=64 n=64 k=dynamic:1000", cut(7)), k=333)
    assert problem.parts_of_k == (
        (0, 64), (64, 128), (128, 192), (192, 256), (256, 288), (288, 320), (320, 333),
    )  # fmt: skip


def test_all_blocks_of_a_tile_run_and_no_others() -> None:
    program = program_of("m=300 n=200 k=256 batch=2 layout=nt", cut(4))
    problem = bind(program)
    product, reduction = program.kernels
    assert problem.grid == 2 * 5 * 4
    assert problem.blocks_of(product) == 4 * problem.grid
    tile = 27  # of the second product: the eighth of its twenty
    assert blocks_for(problem, product, (tile,)) == (4 * 20 + 7, 5 * 20 + 7, 6 * 20 + 7, 7 * 20 + 7)
    region = region_of(problem, tile)
    covered = np.zeros((300, 200), int)
    for written in written_by(problem, (tile,)):
        assert written.batch == region.batch == 1
        covered[written.row : written.row_end, written.column : written.column_end] += 1
    assert covered.max() == 1
    assert covered[region.row : region.row_end, region.column : region.column_end].all()
    assert blocks_for(problem, reduction, None) is None


def test_sampled_tiles_of_a_large_program_pass() -> None:
    text = "m=1000 n=1000 k=4096 layout=nt epilogue=bias"
    verdict = assert_right(text, MmaSyncChoice(128, 128, 32, 2, 4, 3, 2, 8, 4), effort=0.2)
    assert verdict.sampled < verdict.grid == 64


def test_the_bound_charges_the_additions_of_parts() -> None:
    """Wider than the sum of the parts' bounds, and far below one lost part."""
    text = "m=16 n=16 k=4096 layout=nt"
    whole, parts = (bind(program_of(text, cut(number))) for number in (1, 8))
    inputs = inputs_for(whole, "random", "normal", 3)
    region = Region(0, 0, 16, 0, 16)
    model = StepModel.of("sm_80", whole.plan)
    one = Oracle(whole, inputs, np, model).products(region)
    eight = Oracle(parts, inputs, np, model).products(region)
    assert np.allclose(one.value, eight.value, rtol=1e-12)
    assert (eight.error > 0).all()
    assert (eight.error < np.abs(one.value).mean() / 20).all()


MUTANTS: list[tuple[str, str, str]] = [
    ("a partial sum is dropped", r"int>\(SPLIT_K\)", "int>(SPLIT_K) - 1"),
    ("a part is added twice", r"sums\[other\]\[owner\]", "sums[0][owner]"),
    ("the last group is left out", r"other < GROUPS - 1", "other < GROUPS - 2"),
    ("no barrier before the groups meet", r"__syncthreads\(\);(\n    if \(group_of)", r"\1"),
    ("parts overlap", r"k0 = first_slice \* TILE_K", "k0 = 0"),
    ("the rest of the slices is forgotten", r" \+ \(part < SLICES % SPLIT_K\)", ""),
    ("parts write to one place", r"= partials \+ unit", "= partials + 0"),
    ("the batch's parts are mixed up", r"batch \* \(SPLIT_K \* part_e", "batch * (1 * part_e"),
    ("alpha scales nothing", r"__fmul_rn\(alpha, value\[v\]\)", "value[v]"),
    ("the epilogue runs in every part", r"(__fadd_rn\(total\[v\], sum\[v\]\))", r"relu(\1)"),
    ("rows past the tail are summed", r"row < M && column < N", "column < N"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "replacement"), [pytest.param(*m[1:], id=m[0]) for m in MUTANTS]
)
def test_a_mutant_dies(pattern: str, replacement: str) -> None:
    program = program_of(
        "m=67 n=44 k=280 layout=nt batch=2 dtype_c=fp16 epilogue=bias,relu", cut(5)
    )
    source = source_of(program)
    found = list(re.finditer(pattern, source))
    assert found, f"nothing in the file matches {pattern!r}"
    match = found[-1]
    mutated = source[: match.start()] + match.expand(replacement) + source[match.end() :]
    cases = cases_of(program, 0)[:2]
    assert_wrong(program, mutated, cases=cases)


GATHER_MUTANTS: list[tuple[str, str, str]] = [
    ("a part is dropped", r"other < CLUSTER_K; \+\+other", "other < CLUSTER_K - 1; ++other"),
    ("a part is added twice", r"load_cluster_sums\(sum, place, other\)",
     "load_cluster_sums(sum, place, other / 2)"),
    ("nobody waits for the others' sums", r"cluster_sync\(\);  // every part", "// every part"),
    ("a block leaves before the others have read it",
     r"cluster_sync\(\);  // nobody", "// nobody"),
    ("the other consumer still reads the ring", r"consumers_barrier\(\);  // by", "// by"),
    ("parts overlap", r"k0 = first_slice \* TILE_K", "k0 = 0"),
    ("the rest of the slices is forgotten", r" \+ \(part < SLICES % CLUSTER_K\)", ""),
    ("every block finishes the same share", r"= part \* OWN_VECTORS", "= OWN_VECTORS"),
    ("a share is one vector short", r"mine >= OWN_VECTORS", "mine >= OWN_VECTORS - 1"),
    ("lower rows lie with upper ones", r"slab_index\(row \+ 8, ", "slab_index(row, "),
    ("rows past the tail are stored", r" \|\| row >= M", ""),
    ("the epilogue runs in every part", r"(__fadd_rn\(total\[own\]\[v\], sum\[v\]\))", r"relu(\1)"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "replacement"), [pytest.param(*m[1:], id=m[0]) for m in GATHER_MUTANTS]
)
def test_a_mutant_of_the_cluster_dies(pattern: str, replacement: str) -> None:
    program = program_of(
        "m=100 n=16 k=456 layout=nt epilogue=bias,relu arch=sm_90a",
        replace(WgmmaChoice(128, 16, 2, 1, 2, 1, 1, 8), split_k=3, cluster_k=3),
    )
    source = source_of(program)
    found = list(re.finditer(pattern, source))
    assert found, f"nothing in the file matches {pattern!r}"
    match = found[-1]
    mutated = source[: match.start()] + match.expand(replacement) + source[match.end() :]
    cases = cases_of(program, 0)[:2]
    assert_wrong(program, mutated, cases=cases)


@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [
        (
            r"const int batch = blockIdx.x / CLUSTER_K / \(TILES_M \* TILES_N\)",
            "const int batch = 0",
        ),
        (r"CLUSTER_K % \(TILES_M \* TILES_N\)", "CLUSTER_K % TILES_M"),
        (r"d = d_first \+ batch[^;]*;", ""),
        (r"residual1 = residual1_first \+ batch[^;]*;", ""),
    ],
)
def test_a_cluster_that_takes_the_wrong_product_dies(pattern: str, replacement: str) -> None:
    program = program_of(
        "m=100 n=24 k=456 batch=3 layout=nt epilogue=bias,residual arch=sm_90a",
        replace(WgmmaChoice(64, 16, 1, 1, 2, 1, 1, 8), split_k=3, cluster_k=3),
    )
    mutated, count = re.subn(pattern, replacement, source_of(program))
    assert count == 1
    assert_wrong(program, mutated, cases=cases_of(program, 0)[:2])


def test_a_lost_part_is_named() -> None:
    """A hypothesis of the diagnosis: one slice left out, by its place in all of k."""
    program = program_of("m=64 n=64 k=64 layout=nt", cut(2))
    part = "const int part = first + group_of_parts;"
    source = source_of(program).replace(part, f"{part} if (part == SPLIT_K - 1) continue;")
    verdict = judge(device_of(program, source), program, Settings(effort=0.5))
    text: Any = "\n".join(format_verdict(verdict))
    assert "slice 1 of 2 (k 32 to 64) was left out" in text
