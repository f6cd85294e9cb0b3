from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from deepgemm_codegen.emulator import GlobalBuffer, Kernel, UnsupportedError, parse
from tests.emulator.support import entry, launch

Array = np.ndarray[Any, np.dtype[Any]]


def _run(
    instruction: str, start: Array, *, threads: int = 64, step: int = 0, guard: str = ""
) -> tuple[Array, Array]:
    """Each thread applies its number (as the memory's type) to one cell; memory and old values."""
    memory = start.copy()
    bits = memory.dtype.itemsize * 8
    old = np.zeros(threads, memory.dtype)
    value = {
        "float32": "cvt.rn.f32.u32 %r10, %r1;", "uint64": "cvt.u64.u32 %d10, %r1;",
    }.get(memory.dtype.name, "mov.u32 %r10, %r1;")  # fmt: skip
    bank = "%d" if bits == 64 else "%r"
    store = "" if instruction.startswith("red") else f"st.global.b{bits} [%d4], {bank}11;"
    body = f"""
        mov.u32 %r1, %tid.x;
        ld.param.u64 %d1, [k_param_0];
        ld.param.u64 %d2, [k_param_1];
        mad.wide.u32 %d3, %r1, {step}, %d1;
        mad.wide.u32 %d4, %r1, {bits // 8}, %d2;
        {value}
        setp.lt.u32 %p1, %r1, 10;
        {guard} {instruction}
        {store}
    """
    buffers = [GlobalBuffer("m", memory, writable=True), GlobalBuffer("o", old, writable=True)]
    report = launch(entry(body, 2), buffers, threads=threads)
    assert report.findings == (), str(report)
    return memory, old


def test_sums_and_the_values_before_them() -> None:
    memory, old = _run("atom.global.add.u32 %r11, [%d3], %r10;", np.array([5], np.uint32))
    assert memory[0] == 5 + 64 * 63 // 2
    np.testing.assert_array_equal(old, 5 + np.cumsum([0, *range(63)]))


@pytest.mark.parametrize("spelling", ["red.global.add", "red.release.gpu.global.add"])
def test_red_in_several_types(spelling: str) -> None:
    for dtype, kind in (
        (np.uint32, "u32"),
        (np.int32, "s32"),
        (np.uint64, "u64"),
        (np.float32, "f32"),
    ):
        bank = "%d" if kind == "u64" else "%r"
        memory, _ = _run(f"{spelling}.{kind} [%d3], {bank}10;", np.array([7], dtype))
        assert memory[0] == 7 + 64 * 63 // 2


def test_distinct_addresses_and_guards() -> None:
    memory, _ = _run(
        "red.global.add.u32 [%d3], %r10;", np.zeros(64, np.uint32), step=4, guard="@%p1"
    )
    np.testing.assert_array_equal(memory, np.where(np.arange(64) < 10, np.arange(64), 0))


@pytest.mark.parametrize(
    ("operation", "start", "want"),
    [
        ("min.u32", 40, 0), ("max.u32", 40, 63), ("min.s32", -5, -5), ("max.s32", -5, 63),
        ("xor.b32", 1, 1), ("or.b32", 64, 127), ("and.b32", 63, 0), ("exch.b32", 99, 63),
    ],
)  # fmt: skip
def test_operations(operation: str, start: int, want: int) -> None:
    memory, _ = _run(f"atom.global.{operation} %r11, [%d3], %r10;", np.array([start], np.int32))
    assert memory[0] == want


def test_inc_and_dec_wrap_at_their_limit() -> None:
    memory, old = _run("atom.global.inc.u32 %r11, [%d3], 2;", np.zeros(1, np.uint32))
    np.testing.assert_array_equal(old, np.arange(64) % 3)
    assert memory[0] == 64 % 3
    _, old = _run("atom.global.dec.u32 %r11, [%d3], 2;", np.array([1], np.uint32))
    np.testing.assert_array_equal(old[:5], [1, 0, 2, 1, 0])


def test_one_lane_wins_a_compare_and_swap() -> None:
    memory, old = _run("atom.acq_rel.gpu.global.cas.b32 %r11, [%d3], 0, 9;", np.zeros(1, np.uint32))
    assert memory[0] == 9
    np.testing.assert_array_equal(old, [0] + [9] * 63)


def test_float_sums_flush_subnormals() -> None:
    memory, _ = _run(
        "red.global.add.f32 [%d3], %r10;",
        np.array([1], np.uint32).view(np.float32),
        threads=32,
        guard="@!%p1",
    )
    assert memory[0] == sum(range(10, 32))
    tiny = np.array([1], np.uint32).view(np.float32)
    memory, _ = _run("red.global.add.f32 [%d3], 0f00000001;", tiny)
    assert memory.view(np.uint32)[0] == 0


def test_a_lock_between_blocks_gets_everyone_through() -> None:
    # One thread a block takes the lock, adds 1 with plain accesses, and releases it.
    body = """
        mov.u32 %r1, %tid.x;
        setp.ne.u32 %p1, %r1, 0;
        @%p1 ret;
        ld.param.u64 %d1, [k_param_0];
    SPIN:
        atom.acquire.gpu.global.cas.b32 %r2, [%d1], 0, 1;
        setp.ne.u32 %p2, %r2, 0;
        @%p2 bra SPIN;
        ld.global.u32 %r3, [%d1+4];
        add.u32 %r3, %r3, 1;
        st.global.u32 [%d1+4], %r3;
        atom.release.gpu.global.exch.b32 %r4, [%d1], 0;
        ret;
    """
    memory = np.zeros(2, np.uint32)
    report = launch(entry(body, 1), [GlobalBuffer("m", memory, writable=True)], blocks=8)
    assert report.findings == ()
    assert memory.tolist() == [0, 8]


@pytest.mark.parametrize(
    "instruction",
    ["atom.shared.add.u32 %r1, [%r2], 1;", "red.global.add.f64 [%d1], %d2;",
     "atom.global.add.noftz.f16x2 %r1, [%d1], %r2;"],
)  # fmt: skip
def test_what_is_not_built_is_refused(instruction: str) -> None:
    with pytest.raises(UnsupportedError, match="only these words are known"):
        Kernel(parse(entry(instruction)), "k")
