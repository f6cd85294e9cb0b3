"""Exchange within a warp: shfl after the manual's pseudocode, match, redux, and what is refused."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepgemm_codegen.emulator import Kernel, UnsupportedError, parse
from tests.emulator.support import entry, execute, launch

Array = np.ndarray[Any, np.dtype[Any]]


def _shuffle(mode: str, lane: int, b: int, c: int) -> tuple[int, bool]:
    """Source lane and predicate: the pseudocode of "shfl.sync" in the PTX ISA."""
    mask, clamp, b = c >> 8 & 31, c & 31, b & 31
    highest, lowest = (lane & mask) | (clamp & ~mask & 31), lane & mask
    source, good = {
        "up": (lane - b, lane - b >= highest),
        "down": (lane + b, lane + b <= highest),
        "bfly": (lane ^ b, lane ^ b <= highest),
        "idx": (lowest | (b & ~mask & 31), (lowest | (b & ~mask & 31)) <= highest),
    }[mode]
    return (source if good else lane), good


_WORD = st.integers(0, 2**32 - 1)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(["up", "down", "bfly", "idx"]),
    st.lists(_WORD, min_size=32, max_size=32),
    st.lists(_WORD, min_size=32, max_size=32),
)
def test_any_operands_of_a_shuffle(mode: str, b: list[int], c: list[int]) -> None:
    value = np.arange(32, dtype=np.uint32) * 7 + 1
    arrays = [value, np.array(b, np.uint32), np.array(c, np.uint32)]
    body = f"shfl.sync.{mode}.b32 %r40|%p1, %r1, %r2, %r3, 0xffffffff;"
    got = execute(body, arrays, "%r40", np.uint32)
    valid = execute(body, arrays, "%p1", np.uint32)
    for lane in range(32):
        source, good = _shuffle(mode, lane, b[lane], c[lane])
        assert (int(got[lane]), bool(valid[lane])) == (int(value[source]), good), lane


def test_a_shuffle_of_half_a_warp_and_its_sinks() -> None:
    value = np.arange(32, dtype=np.uint32)
    body = """
        mov.u32 %r40, 99;
        setp.lt.u32 %p1, %r1, 16;
        @!%p1 bra OUT;
        shfl.sync.bfly.b32 _|%p2, %r1, 1, 31, 0xffff;
        shfl.sync.bfly.b32 %r40, %r1, 15, 31, 0xffff;
    OUT:
    """
    got = execute(body, [value], "%r40", np.uint32)
    np.testing.assert_array_equal(got, np.where(value < 16, 15 - value, 99))


@pytest.mark.parametrize(
    ("operation", "kind", "function"),
    [
        ("add", "u32", lambda a, b: a + b & 0xFFFFFFFF), ("add", "s32", lambda a, b: a + b),
        ("min", "u32", min), ("min", "s32", min), ("max", "u32", max), ("max", "s32", max),
        ("and", "b32", int.__and__), ("or", "b32", int.__or__), ("xor", "b32", int.__xor__),
    ],
)  # fmt: skip
def test_redux(operation: str, kind: str, function: Any) -> None:
    bits = np.random.default_rng(1).integers(0, 1 << 32, 64).astype(np.uint32)
    typed = bits.view(np.int32) if kind == "s32" else bits
    got = execute(f"redux.sync.{operation}.{kind} %r40, %r1, -1;", [bits], "%r40", np.uint32)
    part = """
        mov.u32 %r40, 0;
        and.b32 %r2, %r60, 31;
        setp.lt.u32 %p1, %r2, 9;
        @%p1 redux.sync.OP %r40, %r1, 0x1ff;
    """.replace("OP", f"{operation}.{kind}")
    some = execute(part, [bits], "%r40", np.uint32)
    for warp in range(2):
        values = typed[32 * warp : 32 * warp + 32].tolist()
        whole, low = reduce(function, values), reduce(function, values[:9])
        assert set(got[32 * warp : 32 * warp + 32].tolist()) == {whole & 0xFFFFFFFF}
        assert set(some[32 * warp : 32 * warp + 9].tolist()) == {low & 0xFFFFFFFF}


def test_match() -> None:
    value = np.random.default_rng(2).integers(0, 4, 64).astype(np.uint32)
    value[32:] = 7
    got = execute("match.any.sync.b32 %r40, %r1, -1;", [value], "%r40", np.uint32)
    both = "match.all.sync.b32 %r40|%p1, %r1, -1;"
    every = execute(both, [value], "%r40", np.uint32)
    predicate = execute(both, [value], "%p1", np.uint32)
    for lane in range(64):
        warp = value[lane // 32 * 32 :][:32]
        assert got[lane] == sum(1 << i for i in range(32) if warp[i] == value[lane])
    assert every.tolist() == [0] * 32 + [0xFFFFFFFF] * 32
    assert predicate.tolist() == [0] * 32 + [1] * 32
    wide = value.astype(np.uint64) << np.uint64(40)
    again = execute("match.any.sync.b64 %r40, %d1, -1;", [wide], "%r40", np.uint32)
    np.testing.assert_array_equal(again, got)


@pytest.mark.parametrize(
    "instruction",
    [
        "shfl.sync.idx.b32 %r2, %r1, 0, 31, 0xffff;",
        "vote.sync.any.pred %p1, %p2, 0xffff;",
        "match.any.sync.b32 %r2, %r1, 0xffff;",
        "redux.sync.add.u32 %r2, %r1, 0xffff;",
    ],
)
def test_a_member_mask_that_leaves_an_executing_thread_out(instruction: str) -> None:
    report = launch(entry(instruction), [])
    assert [f.kind for f in report.findings] == ["divergent-instruction"]


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        ("shfl.sync.idx.b64 %d2, %d1, 0, 31, -1;", "unsupported modifier"),
        ("shfl.sync.around.b32 %r2, %r1, 0, 31, -1;", "unsupported modifier"),
        ("shfl.idx.b32 %r2, %r1, 0, 31;", "unknown instruction"),
        ("shfl.sync.idx.b32 %r2, %r1, 0, 31;", "5 operands were expected"),
        ("vote.sync.ballot.pred %r2, %p1, -1;", "unsupported modifier"),
        ("vote.sync.most.pred %p2, %p1, -1;", "unsupported modifier"),
        ("match.any.sync.b32 %r2|%p1, %r1, -1;", "one destination was expected"),
        ("redux.sync.add.b32 %r2, %r1, -1;", "unsupported operation or type"),
        ("redux.sync.min.f32 %r2, %r1, -1;", "unsupported operation or type"),
        ("redux.sync.add.abs.u32 %r2, %r1, -1;", "unsupported modifier"),
        ("activemask.u32 %r2;", "unsupported modifier"),
    ],
)
def test_what_has_no_meaning_is_refused(instruction: str, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        Kernel(parse(entry(instruction)), "k")
