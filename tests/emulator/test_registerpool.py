"""setmaxnreg: what a block's warpgroups hold together, and who waits for more."""

from __future__ import annotations

import pytest

from deepgemm_codegen.emulator import Kernel, Launch, Report, parse, run
from deepgemm_codegen.emulator.program import link
from tests.emulator.warpgroup import kinds, module


def text(body: str, directives: str) -> str:
    return module(body, []).replace("\n{", f"\n{directives}\n{{", 1)


def execute(body: str, threads: int, directives: str | None = None) -> Report:
    if directives is None:
        directives = f".maxntid {threads}, 1, 1\n.minnctapersm 1"
    kernel = Kernel(parse(text(body, directives)), "k")
    return run(kernel, Launch((1, 1, 1), (threads, 1, 1), 4096))


def roles(first: int, others: int) -> str:
    """Warpgroup 0 keeps ``first`` registers, every other takes ``others``."""
    return f"""
setp.lt.u32 %p1, %r0, 128;
@%p1 bra gives;
setmaxnreg.inc.sync.aligned.u32 {others};
bra.uni on;
gives:
setmaxnreg.dec.sync.aligned.u32 {first};
on:
bar.sync 0;
"""


@pytest.mark.parametrize(
    ("directives", "count"),
    [
        ("", 0),
        (".maxntid 384, 1, 1", 168),
        (".maxntid 128, 2, 1\n.minnctapersm 1", 256),
        (".maxntid 128, 1, 1", 256),
        (".maxntid 128, 1, 1\n.minnctapersm 3", 168),
        (".maxntid 256, 1, 1\n.maxnreg 96", 96),
    ],
)
def test_what_a_thread_starts_with(directives: str, count: int) -> None:
    assert link(parse(text("", directives)), "k").bounds.registers == count


def test_what_one_gives_others_take() -> None:
    # 65,536 registers for 384 threads are 168 each; 40 + 2 * 232 = 3 * 168.
    assert execute(roles(40, 232), 384).findings == ()


@pytest.mark.parametrize(("first", "others"), [(48, 232), (40, 240)])
def test_who_asks_for_more_than_there_is_waits_for_ever(first: int, others: int) -> None:
    (finding,) = execute(roles(first, others), 384).findings
    assert finding.kind == "deadlock"
    lack = others - 168
    assert f"for {lack} more registers a thread (the block's pool holds " in finding.message


def test_nothing_is_known_of_a_kernel_without_launch_bounds() -> None:
    assert execute(roles(48, 232), 384, directives="").findings == ()


def test_registers_come_only_when_they_are_given() -> None:
    # The others wait at a barrier that the giver reaches first: it gives too late.
    late = """
setp.lt.u32 %p1, %r0, 128;
@%p1 bra gives;
setmaxnreg.inc.sync.aligned.u32 232;
bar.sync 0;
bra.uni on;
gives:
bar.sync 0;
setmaxnreg.dec.sync.aligned.u32 40;
on:
"""
    assert kinds(execute(late, 384)) == ["deadlock"]


def test_more_than_is_held_is_no_gift_and_less_no_request() -> None:
    body = "setmaxnreg.dec.sync.aligned.u32 240;\nsetmaxnreg.inc.sync.aligned.u32 24;\n"
    assert execute(body, 384).findings == ()
