"""What each operator does to PTX, on kernels of a few lines."""

from __future__ import annotations

import re

import pytest

from deepgemm_codegen.emulator.printer import print_module
from tests.mutation.edits import Listing
from tests.mutation.operators import OPERATORS, Mutant, mutants_of
from tests.mutation.rings import parities, rings

HEAD = """
.version 8.0
.target sm_90a
.address_size 64
.file 1 "/k.cu"
.extern .shared .align 1024 .b8 shared[];
.visible .entry k(.param .u64 p)
.maxntid {threads}, 1, 1
{{
.reg .pred %p<9>;
.reg .b32 %r<99>;
.reg .b64 %d<9>;
"""

# A ring of three slots of 64 bytes, copied into and read from.
RING = """
mov.u32 %r2, 0;
mov.u32 %r1, 128;
LOOP:
.loc 1 20 5
add.s32 %r3, %r9, %r1;
@%p1 bra SKIP;
cp.async.cg.shared.global [%r3], [%d1], 16, %r8;
SKIP:
cp.async.commit_group;
cp.async.wait_group 1;
.loc 1 22 5
bar.sync 0;
.loc 1 23 5
ld.shared.u32 %r4, [%r2];
add.s32 %r5, %r1, 64;
setp.eq.s32 %p2, %r5, 192;
selp.b32 %r1, 0, %r5, %p2;
.loc 1 24 5
st.shared.u32 [%r9], %r4;
@%p3 bra LOOP;
ret;
"""

# Waits on mbarriers, a product in flight, a message to another block.
HOPPER = """
mov.u32 %r1, 1;
setmaxnreg.dec.sync.aligned.u32 40;
LOOP:
AGAIN:
.loc 1 30 5
{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%r9], %r1; selp.u32 %r2, 1, 0, p; }
setp.eq.s32 %p1, %r2, 0;
@%p1 bra AGAIN;
.loc 1 31 5
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r8], %r7;
cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster \
[%r3], [%d1, {%r4, %r5}], [%r8], %h1;
wgmma.fence.sync.aligned;
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
setp.eq.s32 %p2, %r6, 0;
selp.u32 %r10, 1, 0, %p2;
xor.b32 %r1, %r1, %r10;
mapa.shared::cluster.u32 %r11, %r8, %r12;
mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r11];
fence.proxy.async.shared::cta;
@%p3 bra LOOP;
ret;
"""


def listing(body: str, threads: int = 384) -> Listing:
    registers = ".reg .b16 %h<2>;\n"
    return Listing.of(HEAD.format(threads=threads) + registers + body + "}\n", "k")


def of(operator: str, body: str, threads: int = 384) -> list[Mutant]:
    assert operator in {o.name for o in OPERATORS}
    return [m for m in mutants_of(listing(body, threads)) if m.operator == operator]


def changed(body: str, mutant: Mutant) -> tuple[list[str], list[str]]:
    """Lines that a mutant lacks, and lines that it has more, by their text."""
    before = print_module(listing(body).module).splitlines()
    after = print_module(mutant.module).splitlines()
    after.remove("\t.reg .b32 %mutant;")
    gone = [line for line in before if before.count(line) > after.count(line)]
    come = [line for line in after if after.count(line) > before.count(line)]
    return [line.strip() for line in gone], [line.strip() for line in come]


@pytest.mark.parametrize(
    ("operator", "body", "gone", "come"),
    [
        ("barrier dropped", RING, [["bar.sync 0;"]], [[]]),
        ("wait dropped", RING, [["cp.async.wait_group 1;"]], [[]]),
        ("wait loosened", RING, [["cp.async.wait_group 1;"]], [["cp.async.wait_group 2;"]]),
        ("commit dropped", RING, [["cp.async.commit_group;"]], [[]]),
        (
            "predicate dropped",
            RING,
            [["@%p1 bra SKIP;"], ["@%p1 bra SKIP;"], ["@%p3 bra LOOP;"], ["@%p3 bra LOOP;"]],
            [["bra SKIP;"], [], ["bra LOOP;"], []],
        ),
        (
            "filling dropped",
            RING,
            [["cp.async.cg.shared.global [%r3], [%d1], 16, %r8;"]],
            [["cp.async.cg.shared.global [%r3], [%d1], 16;"]],
        ),
        (
            "stage wrapped wrong",
            RING,
            [["setp.eq.s32 %p2, %r5, 192;"]] * 2,
            [["setp.eq.s32 %p2, %r5, 128;"], ["setp.eq.s32 %p2, %r5, 256;"]],
        ),
        (
            "stage off by one",
            RING,
            [["add.s32 %r3, %r9, %r1;"]] * 2,
            [
                ["add.s32 %mutant, %r1, -64;", "add.s32 %r3, %r9, %mutant;"],
                ["add.s32 %mutant, %r1, 64;", "add.s32 %r3, %r9, %mutant;"],
            ],
        ),
        ("stage started wrong", RING, [[]], [["add.s32 %r1, %r1, 64;"]]),
        ("registers off", HOPPER, [["setmaxnreg.dec.sync.aligned.u32 40;"]] * 2,
         [[], ["setmaxnreg.dec.sync.aligned.u32 48;"]]),
        ("wait disobeyed", HOPPER, [["@%p1 bra AGAIN;"]], [[]]),
        ("fence dropped", HOPPER, [["wgmma.fence.sync.aligned;"],
                                   ["fence.proxy.async.shared::cta;"]], [[], []]),
        (
            "parity flipped",
            HOPPER,
            [
                ["mbarrier.try_wait.parity.shared::cta.b64 p, [%r9], %r1;"],
                [],
                ["xor.b32 %r1, %r1, %r10;"],
            ],
            [
                ["xor.b32 %mutant, %r1, 1;",
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%r9], %mutant;"],
                ["xor.b32 %r1, %r1, 1;"],
                ["mov.b32 %r1, %r1;"],
            ],
        ),
        (
            "count off",
            HOPPER,
            [["mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r8], %r7;"]] * 2,
            [
                ["add.s32 %mutant, %r7, -16;",
                 "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r8], %mutant;"],
                ["add.s32 %mutant, %r7, 16;",
                 "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r8], %mutant;"],
            ],
        ),
        (
            "choice fixed",
            HOPPER,
            [["selp.u32 %r10, 1, 0, %p2;"]] * 2,
            [["mov.u32 %r10, 1;"], ["mov.u32 %r10, 0;"]],
        ),
        (
            "order weakened",
            HOPPER,
            [
                ["mbarrier.try_wait.parity.shared::cta.b64 p, [%r9], %r1;"],
                ["mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r8], %r7;"],
                ["mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r11];"],
                ["fence.proxy.async.shared::cta;"],
            ],
            [
                ["mbarrier.try_wait.parity.relaxed.cta.shared::cta.b64 p, [%r9], %r1;"],
                ["mbarrier.arrive.expect_tx.relaxed.cta.shared::cta.b64 _, [%r8], %r7;"],
                ["mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%r11];"],
                ["fence.proxy.async.global;"],
            ],
        ),
    ],
)  # fmt: skip
def test_what_an_operator_changes(
    operator: str, body: str, gone: list[list[str]], come: list[list[str]]
) -> None:
    found = [changed(body, mutant) for mutant in of(operator, body)]
    assert [lines for lines, _ in found] == gone
    assert [lines for _, lines in found] == come


def order(mutant: Mutant, *words: str) -> list[str]:
    """Which of some instructions stand in a mutant, in order."""
    text = print_module(mutant.module)
    return re.findall("|".join(map(re.escape, words)), text)


def test_moves_go_where_less_is_ordered() -> None:
    names = ("cp.async.wait_group", "bar.sync", "ld.shared", "st.shared", "commit_group")
    whole = ["commit_group", "cp.async.wait_group", "bar.sync", "ld.shared", "st.shared"]
    assert order(of("barrier dropped", RING)[0], *names) == [n for n in whole if n != "bar.sync"]
    up, down = of("barrier moved", RING)
    assert order(up, *names)[1:3] == ["bar.sync", "cp.async.wait_group"]
    assert order(down, *names)[2:4] == ["ld.shared", "bar.sync"]
    # A wait moved up passes no access, only a commit; a commit moved down no copy, only a wait.
    up, down = of("wait moved", RING)
    assert order(up, *names)[:2] == ["cp.async.wait_group", "commit_group"]
    assert order(down, *names)[1:3] == ["bar.sync", "cp.async.wait_group"]
    (down,) = of("commit moved", RING)
    assert order(down, *names)[:2] == ["cp.async.wait_group", "commit_group"]


def test_a_wait_goes_with_the_loop_that_obeys_it() -> None:
    (dropped, _) = of("wait dropped", HOPPER)
    text = print_module(dropped.module)
    assert "try_wait" not in text
    assert "bra AGAIN" not in text
    assert "AGAIN:" not in text
    moved = next(m for m in of("wait moved", HOPPER) if "try_wait" in m.what)
    names = ("try_wait", "bra AGAIN", "arrive.expect_tx")
    assert order(moved, *names) == ["arrive.expect_tx", "try_wait", "bra AGAIN"]


def test_copies_of_one_predicate_are_dropped_together() -> None:
    # An unrolled loop: the same place of the CUDA text twice.
    body = """
.loc 1 7 3
@%p1 st.shared.u32 [%r1], %r2;
.loc 1 7 3
@%p2 st.shared.u32 [%r1], %r3;
.loc 1 8 3
@%p2 st.shared.u32 [%r1], %r3;
ret;
"""
    both, other = of("predicate dropped", body)
    assert print_module(both.module).count("@%p") == 1
    assert both.what.endswith(", and 1 copies")
    assert print_module(other.module).count("@%p") == 2


def test_two_warpgroups_cannot_run_short_of_registers() -> None:
    assert of("registers off", HOPPER, threads=256) == []


def test_rings_and_parities_are_found() -> None:
    (ring,) = rings(listing(RING))
    assert {register for _, register in ring.uses} == {"%r1"}
    assert ring.step == 64
    assert [len(ring.uses), len(ring.starts)] == [1, 1]
    (parity,) = parities(listing(HOPPER))
    assert parity.registers == {"%r1"}
    assert [len(parity.waits), len(parity.toggles), len(parity.starts)] == [1, 1, 1]


def test_a_ring_is_read_where_its_value_is() -> None:
    """A register that holds a stage's index holds something else before and after it does."""
    body = """
mov.u32 %r1, 0;
mov.u32 %r6, %r1;
shfl.sync.idx.b32 %r7|%p4, %r8, %r1, 31, -1;
setp.lt.s32 %p3, %r6, 1;
LOOP:
mul.lo.s32 %r3, %r1, 512;
add.s32 %r2, %r1, 1;
setp.eq.s32 %p1, %r2, 3;
selp.b32 %r1, 0, %r2, %p1;
@%p2 mov.u32 %r5, %r1;
shl.b32 %r3, %r5, 3;
@%p3 bra OUT;
bra LOOP;
DEAD:
add.s32 %r3, %r1, %r1;
OUT:
mov.u32 %r9, %r1;
mov.u32 %r1, %r8;
sub.s32 %r3, %r1, %r9;
ret;
"""
    (ring,) = rings(listing(body))
    found = [(site.instruction.opcode[0], register) for site, register in ring.uses]
    assert found == [("mul", "%r1"), ("shl", "%r5"), ("sub", "%r9")]
    assert len(ring.starts) == 2


def test_a_mutant_knows_its_lines() -> None:
    (mutant,) = of("barrier dropped", RING)
    text = HEAD.format(threads=384) + ".reg .b16 %h<2>;\n" + RING
    assert text.splitlines()[mutant.line - 1] == "bar.sync 0;"
    assert mutant.row == 22
    (message, _multicast) = of("block mistaken", HOPPER)[::-1]
    assert message.what.startswith("the other block: mapa")


def test_every_operator_has_its_own_name_and_a_meaning() -> None:
    names = [operator.name for operator in OPERATORS]
    assert len(set(names)) == len(names)
    assert all(operator.meaning for operator in OPERATORS)
