"""Cases of kind overflow_grid: offsets beyond 2^31 and batches beyond 2^16, by sampled blocks.

Operands of gigabytes are computed where they are read. The emulator places buffers so that an
offset cut to 32 bits leaves its buffer.
"""

from __future__ import annotations

from deepgemm_codegen.decide import MmaSyncChoice, WgmmaChoice
from deepgemm_codegen.harness.inputs import Constant, SmallIntegers
from deepgemm_codegen.harness.problem import bind
from tests.cases import planted as faults
from tests.cases.planted import planted
from tests.harness.support import assert_right, launch, plan_of

NARROW_A = faults.text(
    r"first \+ pass \* A_PASS_ROWS \* LDA",
    "a + slice * TILE_K + a_byte / 2 + static_cast<int>((m0 + a_row + pass * A_PASS_ROWS) * LDA)",
)
TINY = MmaSyncChoice(16, 16, 32, 1, 1, 2, 1, 8)
FOUR = MmaSyncChoice(16, 16, 32, 1, 1, 2, 1, 8, abreast=4)
STAYING = WgmmaChoice(64, 64, 2, 2, 3, 1, 1, 2)


@planted(NARROW_A, full=True)
def test_o05_a_long_row_times_a_column() -> None:
    """Fault seen: row * lda in 32 bits."""
    plan = plan_of("m=12347 n=1 k=174000", MmaSyncChoice(64, 16, 256, 4, 1, 2, 1, 8))
    problem = bind(plan)
    assert problem.m * problem.k == 2148378000
    last = problem.grid - 1
    found = launch(plan, problem, blocks=(last,), a=Constant(1.0), b=SmallIntegers(1, 1))
    ones = [int(v) for v in found.d[0].ravel()]
    assert len(set(ones)) == 1  # every row is the sum of B
    assert found.d[0].shape == (12347 - last * 64, 1)


@planted(NARROW_A)
def test_o07_an_operand_that_reaches_beyond_two_thousand_million_elements() -> None:
    """Fault seen: row * lda in 32 bits."""
    lda = 34920640
    assert 63 * lda > 2200000000
    assert_right(f"m=64 n=64 k=64 lda={lda}")


@planted(faults.NARROW_OFFSETS, full=True)
def test_o07_a_d_that_reaches_as_far() -> None:
    """Fault seen: D's offset in 32 bits."""
    assert_right("m=64 n=64 k=64 layout_d=t ldd=34920640")


@planted(faults.text(r"(\b[a-d] \+= )([^;]*);", r"\1static_cast<int>(\2);"))
def test_o08_the_last_of_many_products() -> None:
    """Fault seen: the offset of a product in 32 bits."""
    assert bind(plan_of("m=599 n=1024 k=64 batch=4096")).matrix("d").elements == 2512388096
    assert_right("m=599 n=1024 k=64 batch=4096", effort=0.2)


@planted(faults.text(r"blockIdx\.x", "(blockIdx.x & 65535)"))
def test_o09_batches_round_two_to_the_sixteen() -> None:
    """Fault seen: the block's index in 16 bits."""
    for batch in (65535, 65536, 65537):
        assert_right(f"m=16 n=16 k=8 batch={batch}", TINY, effort=0.3)


@planted(faults.text(r"const int batch = ", "const int batch = 65535 & "))
def test_o09_in_the_other_families() -> None:
    """Fault seen: the product's number in 16 bits."""
    for text in ("m=4 n=8 k=16 family=bandwidth abreast=1", "m=32 n=32 k=8 family=simt"):
        assert_right(f"{text} batch=65537", None, effort=0.1)


@planted(faults.text(r"const int batch = ", "const int batch = 65535 & "))
def test_o09_where_k_is_cut() -> None:
    """Fault seen: the product's number in 16 bits, where parts of k are added."""
    assert_right("m=16 n=16 k=256 batch=65537 split_k=2 tile_m=16 tile_n=16", None, effort=0.1)


@planted(faults.text(r"batch = tile / own_tiles;", "batch = tile / own_tiles & 65535;"))
def test_o09_on_blocks_that_stay() -> None:
    """Fault seen: the product's number in 16 bits, where persistent blocks walk all products."""
    for batch in (65536, 65537):
        assert_right(f"m=8 n=8 k=8 batch={batch} layout=nt arch=sm_90a", STAYING, effort=0.1)


@planted(faults.text(r"own_block = blockIdx\.x", "own_block = (blockIdx.x & 16383)"))
def test_o09_on_blocks_of_four_tiles() -> None:
    """Fault seen: the block's index in 14 bits, which 65,536 tiles would fill."""
    for batch in (65536, 65537):
        assert_right(f"m=16 n=16 k=8 batch={batch}", FOUR, effort=0.3)


@planted(faults.text(r"if \(idle\) return;", ""))
def test_o11_a_slot_without_a_tile_stores_nothing() -> None:
    """Fault seen: a block's spare slot adds beta * C to a tile that another has finished."""
    assert_right("m=8 n=8 k=8 batch=65537 dtype_c=fp16", FOUR, effort=0.3)


@planted(faults.text(r"row >= M \|\| column >= N", "column >= N"))
def test_o11_nothing_is_written_behind_the_last_product() -> None:
    """Fault seen: rows beyond m stored, which behind the last product leave D."""
    assert_right("m=8 n=8 k=8 batch=65537", TINY, effort=0.3)


@planted(
    faults.text(
        r"__fmaf_rn\(beta, old\[v\], value\[v\]\)",
        "__fmaf_rn(beta, old[v], __fmaf_rn(beta, old[v], value[v]))",
    )
)
def test_o12_very_many_columns_and_beta_once() -> None:
    """Fault seen: beta * C added twice."""
    plan = plan_of(
        f"m=16 n={65536 * 64 + 1} k=16 dtype_c=fp16", MmaSyncChoice(16, 64, 16, 1, 2, 2, 1, 8)
    )
    problem = bind(plan, beta=0.5)
    last = problem.grid - 1
    for d in launch(problem.plan, problem, blocks=(0, last - 1, last), a=1, b=1, c=1).d:
        assert (d == 16.5).all()
