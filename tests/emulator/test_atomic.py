from __future__ import annotations

from functools import reduce
from typing import Any

import ml_dtypes
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
    ("instruction", "message"),
    [
        ("red.global.min.f32 [%d1], %r2;", "an operation, its type"),
        ("atom.global.add.f16x2 %r1, [%d1], %r2;", "noftz was expected"),
        ("atom.global.add.noftz.u32 %r1, [%d1], %r2;", "unsupported modifier noftz"),
        ("atom.global.shared.add.u32 %r1, [%d1], %r2;", "an operation, its type"),
        ("atom.acquire.release.gpu.add.u32 %r1, [%d1], %r2;", "two memory orders or scopes"),
        ("atom.volatile.global.add.u32 %r1, [%d1], %r2;", "unsupported modifier volatile"),
        ("atom.const.add.u32 %r1, [%d1], %r2;", "unsupported modifier const"),
        ("red.async.global.add.u32 [%d1], %r2;", "unsupported modifier async"),
        ("atom.global.cas.b32 %r1, [%d1], %r2;", "an address and a value were expected"),
    ],
)
def test_what_is_no_atomic_operation_is_refused(instruction: str, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        Kernel(parse(entry(instruction)), "k")


# -- shared memory --

_SHARED = """
    .shared .align 16 .b8 box[512];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, box;
    mad.lo.u32 %r3, %r1, 8, %r2;
    mov.u64 %d3, START;
    st.shared.u64 [%r3], %d3;
    bar.sync 0;
    and.b32 %r4, %r1, CELLS;
    mad.lo.u32 %r5, %r4, 8, %r2;
    cvt.u64.u32 %d4, %r5;
    cvta.shared.u64 %d5, %d4;
    add.u32 %r10, %r1, 1;
    cvt.u64.u32 %d10, %r10;
    cvt.rn.f32.u32 %r12, %r10;
    cvt.rn.f64.u32 %d12, %r10;
    mov.u32 %r11, 0;
    mov.u64 %d11, 0;
    INSTRUCTION
    bar.sync 0;
    ld.shared.u64 %d6, [%r3];
    ld.param.u64 %d1, [k_param_0];
    ld.param.u64 %d2, [k_param_1];
    mad.wide.u32 %d7, %r1, 8, %d1;
    st.global.u64 [%d7], %d6;
    mad.wide.u32 %d8, %r1, 8, %d2;
    OLD
"""


def _shared(
    instruction: str, start: int, *, wide: bool = False, cells: int = 3
) -> tuple[Array, Array]:
    """64 threads apply their number + 1 to ``cells`` + 1 of 64 cells of 8 bytes in turn."""
    after, old = np.zeros(64, np.uint64), np.zeros(64, np.uint64)
    store = "st.global.u64 [%d8], %d11;" if wide else "st.global.u32 [%d8], %r11;"
    body = _SHARED.replace("INSTRUCTION", instruction).replace("OLD", store)
    body = body.replace("START", str(start)).replace("CELLS", str(cells))
    buffers = [GlobalBuffer("m", after, writable=True), GlobalBuffer("o", old, writable=True)]
    report = launch(entry(body, 2), buffers, threads=64, blocks=1)
    assert report.findings == (), str(report)
    return after, old


@pytest.mark.parametrize("spelling", ["shared", "shared::cta", ""])
@pytest.mark.parametrize("verb", ["atom", "red"])
def test_shared_and_generic_sums(spelling: str, verb: str) -> None:
    address = "[%d5]" if not spelling else "[%r5]"
    out = "%r11, " if verb == "atom" else ""
    dotted = f".{spelling}" if spelling else ""
    after, old = _shared(f"{verb}{dotted}.add.u32 {out}{address}, %r10;", 5)
    numbers = np.arange(1, 65).reshape(16, 4)
    np.testing.assert_array_equal(after[:4], 5 + numbers.sum(axis=0))
    np.testing.assert_array_equal(after[4:], 5)
    if verb == "atom":
        before = 5 + np.cumsum(numbers, axis=0) - numbers
        np.testing.assert_array_equal(old.reshape(16, 4), before)


def _inc(old: int, limit: int) -> int:
    return 0 if old >= limit else old + 1


def _dec(old: int, limit: int) -> int:
    return limit if old == 0 or old > limit else old - 1


@pytest.mark.parametrize(
    ("operation", "start", "function"),
    [
        ("min.u32", 40, min), ("max.s32", 40, max), ("and.b32", 0xFF, int.__and__),
        ("or.b32", 0, int.__or__), ("xor.b32", 0x55, int.__xor__), ("inc.u32", 0, _inc),
        ("dec.u32", 3, _dec), ("exch.b32", 9, lambda _, b: b),
    ],
)  # fmt: skip
@pytest.mark.parametrize("verb", ["atom", "red"])
def test_shared_operations(verb: str, operation: str, start: int, function: Any) -> None:
    if (verb, operation) == ("red", "exch.b32"):
        with pytest.raises(UnsupportedError, match="an exchange returns"):
            Kernel(parse(entry("red.shared.exch.b32 [%r5], %r10;")), "k")
        return
    out = "%r11, " if verb == "atom" else ""
    after, _ = _shared(f"{verb}.shared.{operation} {out}[%r5], %r10;", start)
    want = [reduce(function, range(cell + 1, 65, 4), start) for cell in range(4)]
    assert after[:4].tolist() == want


def test_shared_wide_and_floating_sums() -> None:
    after, old = _shared("atom.shared.add.u64 %d11, [%r5], %d10;", 1 << 40, wide=True)
    np.testing.assert_array_equal(after[:4], (1 << 40) + np.arange(1, 65).reshape(16, 4).sum(0))
    assert old[:4].tolist() == [1 << 40] * 4
    after, _ = _shared("red.shared.add.f32 [%r5], %r12;", 0)
    sums = after[:4].view(np.float32).reshape(4, 2)[:, 0]
    np.testing.assert_array_equal(sums, np.arange(1, 65).reshape(16, 4).sum(0))
    after, _ = _shared("red.shared.add.f64 [%r5], %d12;", 0)
    np.testing.assert_array_equal(
        after[:4].view(np.float64), np.arange(1, 65).reshape(16, 4).sum(0)
    )


def test_shared_float_sums_keep_subnormals_as_global_ones_do_not() -> None:
    after, _ = _shared("red.shared.add.f32 [%r5], 0f00000001;", 0)
    assert after[0] == 16


@pytest.mark.parametrize(("kind", "dtype"), [("f16x2", np.float16), ("bf16x2", "bfloat16")])
def test_packed_halves(kind: str, dtype: Any) -> None:
    one = 0x3C003C00 if kind == "f16x2" else 0x3F803F80
    after, old = _shared(f"atom.shared.add.noftz.{kind} %r11, [%r5], {one};", 0)
    typed = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    assert after[:1].view(typed)[:2].astype(float).tolist() == [16, 16]
    assert old[-1:].view(typed)[:2].astype(float).tolist() == [15, 15]


def test_a_compare_and_swap_of_16_bits() -> None:
    after, old = _shared("atom.shared.cas.b16 %h1, [%r5], 7, 9; cvt.u32.u16 %r11, %h1;", 7, cells=0)
    assert after[0] == 9
    assert old.tolist() == [7] + [9] * 63


def test_atomic_operations_on_local_memory_are_a_finding() -> None:
    body = """
        .local .align 4 .b8 mine[16];
        mov.u64 %d1, mine;
        cvta.local.u64 %d2, %d1;
        atom.add.u32 %r1, [%d2], 1;
    """
    report = launch(entry(body), [])
    assert [f.kind for f in report.findings] == ["out-of-bounds-write"]


def test_sums_at_one_address_in_many_blocks() -> None:
    body = """
        ld.param.u64 %d1, [k_param_0];
        red.global.add.u32 [%d1], 1;
    """
    memory = np.zeros(1, np.uint32)
    launch(entry(body, 1), [GlobalBuffer("m", memory, writable=True)], threads=96, blocks=40)
    assert memory[0] == 96 * 40
