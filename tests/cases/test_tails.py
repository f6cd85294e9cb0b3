"""Cases of kind tails: sizes that no tile divides, k of zero, more stages than slices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from deepgemm_codegen.decide import MmaSyncChoice
from deepgemm_codegen.errors import InputError
from deepgemm_codegen.harness import emulate
from deepgemm_codegen.harness.inputs import Inputs, Normal, SmallIntegers, Values
from deepgemm_codegen.harness.problem import bind
from deepgemm_codegen.plan import Grid
from tests.cases import planted as faults
from tests.cases.planted import planted
from tests.harness.support import SMALL, assert_right, device_of, launch, plan_of


@planted(faults.NO_ZERO_FILL)
def test_t01_k_tail_is_filled_with_zeros() -> None:
    """Fault seen: undefined values instead of zeros where k has ended."""
    assert_right("m=1000 n=999 k=1001", effort=0.2)


def test_t01_control() -> None:
    """The same with k = 1000; its bound is no tighter than k = 1001's."""
    assert_right("m=1000 n=999 k=1000", effort=0.2)


@planted(faults.ROWS_BEYOND_K)
def test_t03_no_read_behind_the_operands() -> None:
    """Fault seen: rows of B beyond k read from behind it."""
    plan = plan_of("m=500 n=500 k=500")
    blocks = (0, 7, 63)
    first = launch(plan, blocks=blocks, a=Normal(1), b=Normal(2))
    second = launch(plan, blocks=blocks, a=Normal(1), b=Normal(2))
    for one, two in zip(first.bits, second.bits, strict=True):
        assert (one == two).all()
    assert all(np.isfinite(d).all() for d in first.d)
    assert_right("m=500 n=500 k=500", effort=0.2)


@dataclass(frozen=True)
class Padded:
    """Other values, and zeros from a row and a column on."""

    values: Values
    rows: int
    columns: int

    def at(self, batch: Any, row: Any, column: Any, xp: Any) -> Any:
        inside = (row < self.rows) & (column < self.columns)
        return xp.where(inside, self.values.at(batch, row, column, xp), xp.float32(0))


@planted(faults.LAST_COLUMN_LOST)
def test_t04_odd_square_equals_its_padded_twin() -> None:
    """Fault seen: the last column not stored."""
    blocks = (0, 7, 30, 56, 63)
    odd = launch(plan_of("m=511 n=511 k=511"), blocks=blocks, a=Normal(1), b=Normal(2))
    twin: dict[str, Any] = {"a": Padded(Normal(1), 511, 511), "b": Padded(Normal(2), 511, 511)}
    padded = launch(plan_of("m=512 n=512 k=512"), blocks=blocks, **twin)
    for one, two in zip(odd.bits, padded.bits, strict=True):
        assert (one == two[: one.shape[0], : one.shape[1]]).all()


@planted(faults.LAST_SLICE_SKIPPED)
def test_t05_remainder_of_k_when_stages_divide_the_whole_slices() -> None:
    """Fault seen: the last slice skipped."""
    shapes = [(136, 32, 4), (264, 32, 4), (1152, 256, 2)]
    for k, tile_k, stages in shapes:
        plan = plan_of(f"m=64 n=64 k={k}", MmaSyncChoice(64, 64, tile_k, 2, 2, stages, 1, 8))
        assert (launch(plan, a=1, b=1).d[0] == k).all()


@dataclass(frozen=True)
class ByBatch:
    """One number for each product of a batch."""

    numbers: tuple[float, ...]

    def at(self, batch: Any, row: Any, column: Any, xp: Any) -> Any:
        table = xp.asarray(self.numbers, dtype=xp.float32)
        index, _, _ = xp.broadcast_arrays(xp.asarray(batch), row, column)
        return table[index]


@planted(faults.text(r"(slice|next) < SLICES", r"\1 < (SLICES + STAGES - 1) / STAGES * STAGES"))
def test_t06_the_loop_ends_with_k_and_not_with_the_stages() -> None:
    """Fault seen: the loop runs a whole number of times the stages, into the next product."""
    for stages in (4, 2):
        plan = plan_of(
            "m=64 n=64 k=96 batch=2 dtype_d=fp32 layout=nt",
            MmaSyncChoice(64, 64, 32, 2, 2, stages, 1, 8),
        )
        ones = ByBatch((1.0, 100.0))
        first, second = launch(plan, a=ones, b=ones).d
        assert (first == 96).all()
        assert (second == 10000 * 96).all()


@planted(faults.text(r"if \(slice < SLICES\)", "if (true)"))
def test_t07_no_slices_at_all() -> None:
    """Fault seen: a prologue that fills its slots even so, from a buffer of no elements."""
    plan = plan_of("m=64 n=64 k=0", MmaSyncChoice(64, 64, 32, 2, 2, 3, 2, 8))
    assert (launch(plan, a=1, b=1).d[0] == 0).all()


@planted(faults.C_NEVER_READ)
def test_t09_k_zero_gives_c() -> None:
    """Fault seen: C not read."""
    plan = plan_of("m=3 n=3 k=0 dtype_c=fp16")
    found = launch(plan, bind(plan, beta=1.0), c=Normal(1))
    c = Normal(1).at(0, np.arange(3)[:, None], np.arange(3)[None, :], np).astype(np.float16)
    assert (found.bits[0] == c.view(np.uint16)).all()


@planted(faults.C_NEVER_READ)
def test_t10_k_zero_scales_c() -> None:
    """Fault seen: C not read."""
    plan = plan_of("m=4 n=4 k=0 dtype_c=fp16")
    assert (launch(plan, bind(plan, beta=0.5), c=4).d[0] == 2.0).all()


@planted(faults.text(r"__fadd_rn\(x, bias\)", "x"))
def test_t11_k_zero_adds_the_bias() -> None:
    """Fault seen: the bias left out."""
    plan = plan_of("m=2 n=3 k=0 epilogue=bias")
    assert launch(plan, bias0=[[1, 2, 3]]).d[0].tolist() == [[1, 2, 3]] * 2


@planted(faults.text(r"(acc\[FRAGMENTS_M\]\[FRAGMENTS_N\]\[4\]) = \{\}", r"\1 = {{{ 1.0f }}}"))
def test_t12_inner_dimension_of_zero() -> None:
    """In fp16. Fault seen: accumulators that do not start at zero."""
    d = launch(plan_of("m=16 n=16 k=0")).d[0]
    assert d.shape == (16, 16)
    assert (d == 0).all()


@pytest.mark.parametrize("sizes", [{"m": 0}, {"n": 0}])
def test_t13_nothing_to_compute_launches_nothing(
    sizes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault seen: a grid of at least one block."""
    plan = plan_of("m=dynamic n=dynamic k=64")
    problem = bind(plan, **{"m": 64, "n": 64, **sizes})
    device = device_of(plan)

    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("a launch was attempted")

    monkeypatch.setattr(emulate, "run", forbidden)
    assert problem.grid == 0
    outcome = device.launch(problem, Inputs("none", {}), None)
    assert outcome.d.size == 0
    assert outcome.faults == ()


@pytest.mark.parametrize("name", ["m", "n"])
def test_t13_a_fixed_zero_is_refused(name: str) -> None:
    sizes = {"m": "64", "n": "64", "k": "64", name: "0"}
    with pytest.raises(InputError, match=rf"^{name} = 0: "):
        plan_of(" ".join(f"{key}={value}" for key, value in sizes.items()))


@planted(faults.text(r"= warp / WARPS_M", "= min(warp / WARPS_M, 11)"))
def test_t15_columns_that_warps_do_not_divide() -> None:
    """Fault seen: the last columns' warp computes its neighbour's columns."""
    thirteen = plan_of("m=16 n=104 k=64 layout=nt", MmaSyncChoice(16, 104, 64, 1, 13, 2, 1, 8))
    twelve = plan_of("m=16 n=104 k=64 layout=nt", MmaSyncChoice(16, 96, 64, 1, 12, 2, 1, 8))
    for plan in (thirteen, twelve):
        a = SmallIntegers(1, 4)
        d = launch(plan, a=a, b=SmallIntegers(2, 4)).d[0]
        rows, columns, along = np.arange(16), np.arange(104), np.arange(64)
        left = a.at(0, rows[:, None], along[None, :], np)
        right = SmallIntegers(2, 4).at(0, along[:, None], columns[None, :], np)
        assert (d == left @ right).all()


@planted(
    faults.text(
        r"min\(static_cast<int>\(RASTER_GROUP\), TILES_M - group \* RASTER_GROUP\)",
        "static_cast<int>(RASTER_GROUP)",
    )
)
def test_t17_every_tile_of_a_ragged_group_once() -> None:
    """Fault seen: a last group taken to be as high as the others."""
    # Our groups are of rows; a transposed D makes them groups of the case's nine columns.
    for shape in ("m=512 n=576 k=32 layout_d=t", "m=576 n=512 k=32"):
        plan = plan_of(shape, MmaSyncChoice(64, 64, 32, 2, 2, 2, 2, 8))
        d = launch(plan, a=1, b=1).d[0]
        assert (d == 32).all()
    tiles = {Grid(8).tile_of(block, 9, 8) for block in range(72)}
    assert len(tiles) == 72


@planted(faults.LAST_SLICE_SKIPPED)
def test_t18_several_slices_and_an_unaligned_last_one() -> None:
    """Fault seen: the last slice skipped."""
    for k in (200, 128, 256):
        assert_right(f"m=64 n=128 k={k}", MmaSyncChoice(64, 64, 128, 2, 2, 2, 1, 8))


@planted(faults.STORE_BEYOND_N)
def test_t20_the_overhang_of_a_tile_does_not_reach_the_next_row() -> None:
    """Fault seen: stores guarded along m alone."""
    plan = plan_of("m=4 n=33 k=64")
    for _ in range(2):  # of the case's twenty: the emulator repeats itself bit for bit
        d = launch(plan, a=[[1], [2], [4], [8]], b=1).d[0]
        assert d.tolist() == [[64.0 * 2**i] * 33 for i in range(4)]


@planted(faults.text(r"row < M \? K - column : 0", "row < M ? 8 : 0"))
def test_t21_padding_full_of_nan_is_not_multiplied() -> None:
    """In fp16, with 32 NaN behind each row of A. Fault seen: whole vectors read past k."""
    plan = plan_of("m=4 n=4 k=124 lda=160 ldb=8", MmaSyncChoice(64, 64, 256, 2, 2, 2, 1, 8))
    d = launch(plan, a=SmallIntegers(1, 2), b=1).d[0]
    assert np.isfinite(d).all()
    assert_right("m=4 n=4 k=128 lda=160", MmaSyncChoice(64, 64, 256, 2, 2, 2, 1, 8))


@planted(faults.LAST_COLUMN_LOST)
def test_t25_narrow_and_ragged_n() -> None:
    """Fault seen: the last column not stored."""
    for n in (32, 96):
        # no guard is printed where the tile divides n, so the odd twin stands beside it
        for columns in (n, n - 1):
            d = launch(plan_of(f"m=1 n={columns} k=1024"), a=1, b=1).d[0]
            assert (d == 1024).all()


@planted(faults.LAST_COLUMN_LOST)
def test_t26_sizes_that_no_blocking_divides() -> None:
    """Fault seen: the last column not stored."""
    assert_right("m=35 n=79 k=19")


@planted(faults.text(r"store_d\(d", "if (D_VECTOR == 4) store_d(d"))
def test_t27_n_below_the_vector() -> None:
    """Fault seen: only vectors of four are stored."""
    plan = plan_of("m=1 n=2 k=768 dtype_c=fp16")
    d = launch(plan, bind(plan, beta=1.0), a=1, b=[[1, 2]], c=[[3, 4]]).d[0]
    assert d.tolist() == [[771, 1540]]


def test_small_is_the_tile_these_cases_name() -> None:
    assert (SMALL.tile_m, SMALL.tile_n, SMALL.tile_k) == (64, 64, 32)
