"""The wgmma family, as it is printed, on the emulator: unmutated, everything comes out exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deepgemm_codegen.emulator import Checks
from deepgemm_codegen.plan import Wgmma
from tests.emulator.hopper import Compiled, Outcome, build, compile_source, solve
from tests.emulator.reference import fused_dot
from tests.rendering.plans import GOLDEN


def assert_exact(outcome: Outcome) -> None:
    assert outcome.report.findings == (), str(outcome.report)
    want = outcome.want.astype(np.float32).astype(outcome.d.dtype)
    np.testing.assert_array_equal(outcome.d.astype(np.float64), want.astype(np.float64))


PADDED = {"lda": 40, "ldb": 40}


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize("grid", [None, 2])
def test_every_layout_with_tails_in_every_dimension(layout: str, grid: int | None) -> None:
    # Six slices through three slots, D by TMA; four tiles by one block each, or by two blocks.
    kernel = build((128, 128, 2, 1, 3, 1, 1, 8), m=200, n=136, k=328, layout=layout)
    assert_exact(solve(kernel, grid=grid))


@pytest.mark.parametrize("layout", ["nt", "tn"])
def test_a_column_major_d(layout: str) -> None:
    kernel = build((128, 128, 2, 1, 3, 1, 1, 8), m=200, n=136, k=136, layout=layout, layout_d="t")
    assert_exact(solve(kernel))


@pytest.mark.parametrize(
    ("choice", "fields"),
    [
        # k in part of a slice: 40 of two and a half steps, 36 in rows of 40, 8 of half a step.
        ((128, 64, 2, 2, 2, 1, 1, 8), {"m": 300, "n": 80, "k": 40, "layout": "nt"}),
        ((64, 64, 1, 1, 2, 1, 1, 8), {"m": 20, "n": 72, "k": 36, "layout": "nt", **PADDED}),
        ((64, 64, 1, 1, 2, 1, 1, 8), {"m": 70, "n": 72, "k": 8, "layout": "nt"}),
        ((64, 64, 1, 1, 2, 1, 1, 8), {"m": 70, "n": 72, "k": 16, "layout": "nt"}),
        ((128, 128, 2, 1, 2, 2, 1, 8), {"m": 300, "n": 200, "k": 40, "layout": "nt"}),
        ((128, 128, 2, 1, 2, 1, 2, 8), {"m": 300, "n": 200, "k": 24, "layout": "nt"}),
        ((64, 64, 1, 1, 2, 1, 1, 8), {"m": 70, "n": 72, "k": 40, "layout": "nn"}),
        # n or m in part of a panel: what lies behind is multiplied, and stored nowhere.
        ((64, 64, 1, 1, 3, 1, 1, 8), {"m": 70, "n": 40, "k": 328, "layout": "nn"}),
        ((64, 128, 1, 1, 3, 1, 1, 8), {"m": 70, "n": 24, "k": 200, "layout": "nn"}),
        ((64, 64, 1, 1, 3, 1, 1, 8), {"m": 56, "n": 72, "k": 200, "layout": "tt"}),
        ((64, 64, 1, 1, 3, 1, 1, 8), {"m": 40, "n": 48, "k": 40, "layout": "tn"}),
    ],
)  # fmt: skip
def test_operands_narrower_than_a_panel(choice: tuple[int, ...], fields: dict[str, Any]) -> None:
    kernel = build(choice, **fields)
    body = kernel.plan.body
    assert isinstance(body, Wgmma)
    assert body.landed_bytes < body.stage_bytes
    assert_exact(solve(kernel, grid=body.cluster))  # one block, or cluster, does all tiles


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize(
    ("choice", "fields"),
    [
        # Slices of two rows of k, whose last ends in the second row or in the first, or is whole.
        ((64, 64, 1, 1, 2, 1, 1, 8, 1, 128), {"m": 136, "n": 136, "k": 328}),
        ((64, 128, 1, 1, 3, 1, 1, 8, 1, 128), {"m": 136, "n": 136, "k": 512}),
        ((128, 64, 2, 1, 2, 1, 1, 8, 1, 128), {"m": 200, "n": 136, "k": 200}),
        ((128, 64, 2, 2, 3, 1, 1, 8, 1, 128), {"m": 264, "n": 72, "k": 400}),
    ],
)
def test_slices_of_two_rows_of_k(
    layout: str, choice: tuple[int, ...], fields: dict[str, Any]
) -> None:
    kernel = build(choice, **fields, layout=layout)
    body = kernel.plan.body
    assert isinstance(body, Wgmma)
    assert body.landed_bytes == body.stage_bytes == (body.tile_m + body.tile_n) * 256
    assert_exact(solve(kernel, grid=1))


@pytest.mark.parametrize(
    ("choice", "fields"),
    [
        ((128, 176, 2, 1, 2, 1, 1, 8), {"m": 200, "n": 200, "k": 136, "layout": "nn"}),
        ((128, 224, 2, 1, 2, 1, 1, 8), {"m": 136, "n": 232, "k": 72, "layout": "tn"}),
        ((128, 112, 2, 1, 3, 1, 1, 8), {"m": 64, "n": 40, "k": 200, "layout": "nn"}),
        ((128, 112, 2, 1, 3, 2, 1, 8), {"m": 304, "n": 232, "k": 72, "layout": "nn"}),
        ((128, 112, 2, 1, 2, 1, 2, 8), {"m": 120, "n": 280, "k": 72, "layout": "tn"}),
        # D^T = B^T * A^T: the plan's B is the caller's A.
        (
            (128, 112, 2, 1, 2, 1, 1, 8),
            {"m": 120, "n": 72, "k": 72, "layout": "tt", "layout_d": "t"},
        ),
    ],
)  # fmt: skip
def test_tiles_that_end_inside_a_panel(choice: tuple[int, ...], fields: dict[str, Any]) -> None:
    kernel = build(choice, **fields)
    body = kernel.plan.body
    assert isinstance(body, Wgmma)
    assert body.b.ragged
    assert_exact(solve(kernel, grid=body.cluster))


@pytest.mark.parametrize("slices", [1, 2, 3, 4, 5])
def test_fewer_slices_than_slots_and_more(slices: int) -> None:
    # P05 and P10 of the known faults: one block carries its slots from tile to tile.
    kernel = build((64, 64, 1, 1, 3, 1, 1, 8), m=130, n=120, k=64 * slices, layout="nt")
    assert_exact(solve(kernel, grid=1))


def test_steps_and_c_beside_the_tma_store() -> None:
    kernel = build(
        (128, 192, 2, 1, 4, 1, 1, 8), m=136, n=200, k=200, layout="tn", dtype="bf16",
        dtype_c="fp32", epilogue="bias,relu",
    )  # fmt: skip
    assert_exact(solve(kernel, alpha=2.0, beta=-1.0, grid=1))
    assert_exact(solve(kernel, beta=0.0))


@pytest.mark.parametrize(("m", "grid"), [(130, None), (1, None), (200, 2)])
def test_d_through_slabs(m: int, grid: int | None) -> None:
    kernel = build(
        (64, 48, 1, 1, 4, 1, 1, 4), m="dynamic:512", n=101, k=320, layout="nt", epilogue="bias"
    )
    assert_exact(solve(kernel, m=m, grid=grid))


def test_alpha_zero_reads_no_operand() -> None:
    kernel = build((128, 128, 2, 1, 3, 1, 1, 8), m=200, n=136, k=328, layout="nt")
    outcome = solve(kernel, alpha=0.0)
    assert outcome.report.findings == ()
    assert (outcome.d == 0).all()


@pytest.mark.parametrize("columns", [24, 40, 56, 72])
def test_widths_congruent_to_8_modulo_16(columns: int) -> None:
    # T16 of the known faults.
    kernel = build((64, columns, 1, 1, 3, 1, 1, 8), m=64, n=columns, k=64, layout="nt")
    assert_exact(solve(kernel))


@pytest.mark.parametrize("grid", [None, 2])
@pytest.mark.parametrize(
    ("choice", "fields", "sizes"),
    [
        ((128, 128, 2, 1, 3, 2, 1, 8), {"m": 300, "n": 200, "k": 264, "layout": "nt"}, {}),
        (
            (128, 64, 2, 1, 4, 1, 2, 8),
            {"m": 200, "n": "dynamic:256", "k": 328, "layout": "tn", "ldb": 256},
            {"n": 131},
        ),
        ((64, 64, 1, 1, 2, 2, 1, 8), {"m": 190, "n": 72, "k": 200, "layout": "nn"}, {}),
    ],
)
def test_clusters(
    choice: tuple[int, ...], fields: dict[str, Any], sizes: dict[str, Any], grid: int | None
) -> None:
    # P09 of the known faults: an odd number of tiles along the cluster.
    assert_exact(solve(build(choice, **fields), grid=grid, **sizes))


def test_a_cluster_of_four() -> None:
    kernel = build((64, 64, 1, 1, 3, 4, 1, 8), m=256, n=64, k=264, layout="nt")
    assert_exact(solve(kernel))


def test_some_clusters_of_many() -> None:
    kernel = build((128, 128, 2, 1, 3, 2, 1, 8), m=300, n=200, k=264, layout="nt")
    outcome = solve(kernel, blocks=[2, 3])
    assert outcome.report.findings == ()
    assert outcome.report.statistics.blocks == 2
    done = ~np.isnan(outcome.d.astype(np.float32))
    assert 0 < done.sum() < done.size
    np.testing.assert_array_equal(outcome.d[done], outcome.want[done].astype(np.float16))


GOLDEN_BLOCKS: dict[str, tuple[list[int], dict[str, Any]]] = {
    "wgmma_nt": ([301], {"grid": 512}),
    "wgmma_tails_tn": ([23], {"grid": 24, "beta": 1.0}),
    "wgmma_slab_nt": ([0, 62], {"m": 130, "grid": 63}),
    "wgmma_cluster_m_nt": ([130, 131], {"grid": 132}),
    "wgmma_ping_pong_nt": ([6, 7], {"grid": 24}),
    "wgmma_few_rows_nt": ([0, 8], {"grid": 9}),
    "wgmma_cluster_n_tn": ([0, 1, 62, 63], {"n": 1000, "grid": 128}),
}


@pytest.mark.parametrize("name", list(GOLDEN_BLOCKS))
def test_the_golden_kernels(name: str) -> None:
    source = (Path(__file__).parents[1] / "golden" / f"{name}.cu").read_text()
    plan = GOLDEN[name].product
    kernel = Compiled(plan, source, compile_source(source, plan.name))
    blocks, arguments = GOLDEN_BLOCKS[name]
    outcome = solve(kernel, blocks=blocks, **arguments)
    assert_exact(outcome)
    assert (~np.isnan(outcome.want)).any()


def test_random_sums_are_the_hardware_s_bit_for_bit() -> None:
    kernel = build((128, 128, 2, 1, 3, 1, 1, 8), m=128, n=128, k=136, layout="tn", dtype_d="fp32")
    outcome = solve(kernel, whole=False)
    assert outcome.report.findings == ()
    a, b = (np.ascontiguousarray(x).view(np.uint16) for x in (outcome.a, outcome.b))
    padded = (np.zeros((128, 56), np.uint16), np.zeros((56, 128), np.uint16))
    a, b = np.concatenate([a, padded[0]], axis=1), np.concatenate([b, padded[1]])
    bits = np.ascontiguousarray(outcome.d).view(np.uint32)
    for i, j in ((0, 0), (17, 41), (63, 63), (64, 127), (127, 8), (99, 100)):
        want = 0
        for k in range(0, 192, 16):
            want = fused_dot(
                a[i, k : k + 16].tolist(), b[k : k + 16, j].tolist(), want, "f16", "f32",
                group=16, fraction=25,
            )  # fmt: skip
        assert int(bits[i, j]) == want


def test_runs_repeat_bit_for_bit_with_and_without_checks() -> None:
    kernel = build((128, 128, 2, 1, 3, 1, 1, 8), m=200, n=136, k=328, layout="nt")
    results = set()
    runs = (
        (Checks(), None),
        (Checks(), 3),
        (Checks(races=False), None),
        (Checks(lanes=2048), None),
        (Checks(costs=True), 3),
    )
    for checks, grid in runs:
        outcome = solve(kernel, whole=False, checks=checks, grid=grid)
        assert outcome.report.findings == ()
        results.add(outcome.d.tobytes())
    assert len(results) == 1


def test_stores_of_the_epilogue_meet_no_bank_twice() -> None:
    kernel = build((128, 128, 2, 1, 3, 1, 1, 8), m=200, n=136, k=328, layout="nt")
    outcome = solve(kernel, checks=Checks(costs=True))
    costs = [c for c in outcome.report.statistics.shared_costs if "stmatrix" in c.place.text]
    assert costs
    assert all(c.excess == 0 for c in costs)


def test_a_wait_that_an_older_round_of_the_ring_could_end() -> None:
    """Without the turn, a consumer waits for a slot more than a round ahead: parities repeat."""
    kernel = build((128, 64, 2, 2, 3, 1, 1, 8), m=512, n=64, k=64 * 9, layout="nt")
    assert_exact(solve(kernel, grid=2))
    turn = "        mbarrier_wait(turn + consumer * 8, turn_parity);\n"
    assert turn in kernel.source
    source = kernel.source.replace(turn, "")
    broken = Compiled(kernel.plan, source, compile_source(source, kernel.plan.name))
    kinds = {finding.kind for finding in solve(broken, grid=2).report.findings}
    assert "race" in kinds or "in-flight-read" in kinds
