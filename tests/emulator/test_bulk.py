from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from deepgemm_codegen.emulator import (
    GlobalBuffer,
    Kernel,
    Launch,
    LaunchError,
    TensorMap,
    UnsupportedError,
    parse,
    run,
)
from tests.emulator.warpgroup import execute, kinds, module, output

Array = np.ndarray[Any, np.dtype[Any]]

# Thread 0 loads a box to offset 0 and announces BYTES; all wait, and copy shared memory out.
# %d0 is the map, %d1 the output of WORDS words; the coordinates are X and Y.
LOAD = """
mov.u32 %r4, shared;
setp.ne.u32 %p1, %r0, 0;
@%p1 bra made;
mbarrier.init.shared::cta.b64 [%r4+32768], 1;
fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4+32768], BYTES;
mov.u32 %r5, X;
mov.u32 %r6, Y;
add.u32 %r7, %r4, 32768;
cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes
    [%r4], [%d0, {%r5, %r6}], [%r7];
made:
bar.sync 0;
wait:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r4+32768], 0;
@!%p2 bra wait;
mov.u32 %r8, %r0;
copy:
setp.ge.u32 %p3, %r8, WORDS;
@%p3 bra done;
shl.b32 %r9, %r8, 2;
add.u32 %r10, %r4, %r9;
ld.shared.u32 %r11, [%r10];
mad.wide.u32 %d9, %r8, 4, %d1;
st.global.u32 [%d9], %r11;
add.u32 %r8, %r8, 32;
bra copy;
done:
"""


def text(body: str, box_bytes: int, x: int, y: int) -> str:
    for name, value in (("BYTES", box_bytes), ("X", x), ("Y", y), ("WORDS", box_bytes // 4)):
        body = body.replace(f", {name};", f", {value};")
    return body


def matrix(rows: int, columns: int, pitch: int, dtype: Any) -> tuple[Array, Array]:
    """A matrix of distinct values in rows of ``pitch`` elements, and its storage."""
    stored = np.arange(rows * pitch).astype(np.uint64).reshape(rows, pitch).astype(dtype)
    return stored[:, :columns], stored


def expected(source: Array, box: tuple[int, int], x: int, y: int) -> Array:
    """The box, zeros where out of bounds."""
    result = np.zeros((box[1], box[0]), source.dtype)
    for j in range(box[1]):
        for i in range(box[0]):
            if 0 <= y + j < source.shape[0] and 0 <= x + i < source.shape[1]:
                result[j, i] = source[y + j, x + i]
    return result


def unswizzled(raw: Array, width: int, row_bytes: int) -> Array:
    """Rows of a box from shared memory at a multiple of 1024; the rule written out by bits."""
    if not width:
        return raw
    result = np.empty_like(raw)
    for address in range(raw.size):
        bits = {128: 7, 64: 3, 32: 1}[width]
        result[address] = raw[address ^ (((address >> 7) & bits) << 4)]
    assert row_bytes == width
    return result


@pytest.mark.parametrize(
    ("dtype", "box", "swizzle"),
    [
        (np.uint16, (64, 32), 128),
        (np.uint16, (32, 16), 64),
        (np.uint16, (16, 64), 32),
        (np.uint16, (24, 10), 0),
        (np.uint32, (32, 8), 128),
        (np.uint8, (128, 8), 128),
        (np.uint64, (16, 9), 128),
        (np.uint16, (256, 3), 0),
    ],
)
@pytest.mark.parametrize(
    ("x", "y"), [(0, 0), (64, 3), (-8, -2), (72, 30), (61, 0), (-1000, 0), (3, 5), (0, 100)]
)
def test_a_load_brings_the_box_swizzled_with_zeros_out_of_bounds(
    dtype: Any, box: tuple[int, int], swizzle: int, x: int, y: int
) -> None:
    size = np.dtype(dtype).itemsize
    source, stored = matrix(40, 101, 112, dtype)
    tensor = TensorMap(GlobalBuffer("a", stored), size, (101, 40), (112 * size,), box, swizzle)
    total = box[0] * box[1] * size
    out, buffer = output(total // 4)
    report = execute(text(LOAD, total, x, y), [tensor, buffer], shared=32776)
    assert report.findings == (), str(report)
    raw = unswizzled(out.view(np.uint8), swizzle, box[0] * size)
    np.testing.assert_array_equal(
        raw.view(dtype).reshape(box[1], box[0]), expected(source, box, x, y)
    )


def test_chunk_c_of_row_r_lands_at_c_xor_r() -> None:
    # As seen on an H200.
    _, stored = matrix(8, 64, 64, np.uint16)
    tensor = TensorMap(GlobalBuffer("a", stored), 2, (64, 8), (128,), (64, 8), 128)
    out, buffer = output(256)
    assert execute(text(LOAD, 1024, 0, 0), [tensor, buffer], shared=32776).findings == ()
    chunks = out.view(np.uint16).reshape(8, 8, 8)[:, :, 0]
    for r in range(8):
        for c in range(8):
            assert chunks[r, c ^ r] == stored[r, 8 * c]


def plain() -> tuple[TensorMap, Any]:
    _, stored = matrix(32, 64, 64, np.uint16)
    tensor = TensorMap(GlobalBuffer("a", stored), 2, (64, 32), (128,), (64, 32), 128)
    return tensor, output(1024)[1]


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        # Bytes announced: too few (the rest is never asked for), too many, none.
        (", BYTES;", ", 4080;", ["deadlock"]),
        (", BYTES;", ", 4112;", ["deadlock"]),
        (
            "expect_tx.shared::cta.b64 _, [%r4+32768], BYTES",
            "shared::cta.b64 _, [%r4+32768]",
            ["in-flight-read", "transaction-count", "exit-in-flight"],
        ),
        ("@!%p2 bra wait;", "", ["in-flight-read", "exit-in-flight"]),
        ("fence.mbarrier_init.release.cluster;", "", ["missing-fence"]),
        ("fence.mbarrier_init.release.cluster;", "fence.proxy.async;", []),
        ("bulk.tensor.2d.shared::cluster", "bulk.tensor.2d.shared::cta", []),
        ("  [%r4]", "  [%r4+64]", ["misaligned", "deadlock"]),
        ("  [%r4]", "  [%r4+30720]", ["out-of-bounds-access", "deadlock"]),
        ("[%d0, {", "[%d1, {", ["bad-descriptor", "deadlock"]),
        ("[%r7];", "[%r7+8];", ["no-mbarrier", "deadlock"]),
        # A write of one's own to the place before: fenced, and not.
        (
            "mov.u32 %r5, X;",
            "st.shared.u32 [%r4], %r4;\nfence.proxy.async.shared::cta;\nmov.u32 %r5, X;",
            [],
        ),
        ("mov.u32 %r5, X;", "st.shared.u32 [%r4], %r4;\nmov.u32 %r5, X;", ["missing-fence"]),
        ("mov.u32 %r5, X;", "ld.shared.u32 %r12, [%r4];\nmov.u32 %r5, X;", ["uninitialised-read"]),
        # Somebody else's write before, with no order.
        (
            "bar.sync 0;",
            "st.shared.u32 [%r4], %r4;\nbar.sync 0;",
            ["race", "in-flight-write", "in-flight-read"],
        ),
    ],
)
def test_faults_of_a_load(old: str, new: str, found: list[str]) -> None:
    tensor, buffer = plain()
    assert old in LOAD
    body = text(LOAD.replace(old, new), 4096, 0, 0)
    report = execute(body, [tensor, buffer], shared=32776)
    assert set(kinds(report)) == set(found) or (
        "race" in found and set(kinds(report)) & set(found)
    ), str(report)


def test_a_second_load_must_wait_for_those_who_read_the_first() -> None:
    tensor, buffer = plain()
    again = """
setp.ne.u32 %p4, %r0, 0;
@%p4 bra over;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4+32768], 4096;
cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes
    [%r4], [%d0, {%r5, %r6}], [%r7];
over:
again:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r4+32768], 1;
@!%p2 bra again;
"""
    body = text(LOAD, 4096, 0, 0)
    report = execute(body + again, [tensor, buffer], shared=32776)
    assert kinds(report) == ["race", "missed-phase"]  # nor does anybody wait for who still waits
    assert "write to bytes that another thread read" in report.findings[0].message
    report = execute(body + "bar.sync 0;" + again, [tensor, buffer], shared=32776)
    assert report.findings == (), str(report)


def test_a_map_that_reaches_past_its_buffer() -> None:
    _, stored = matrix(32, 64, 64, np.uint16)
    tensor = TensorMap(GlobalBuffer("a", stored), 2, (64, 33), (128,), (64, 32), 128)
    report = execute(text(LOAD, 4096, 0, 1), [tensor, output(1024)[1]], shared=32776)
    assert kinds(report) == ["out-of-bounds-read"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"element_bytes": 3}, "elements of 3 bytes; they have 1, 2, 4 or 8"),
        ({"element_bytes": "2"}, "elements of 2 bytes; they have 1, 2, 4 or 8"),
        ({"sizes": (0, 4)}, r"sizes \(0, 4\); each is 1 to 2\^32"),
        ({"sizes": 64}, "sizes = 64; give a tuple of whole numbers"),
        ({"box": (64.0, 32)}, r"box = \(64\.0, 32\); give a tuple of whole numbers"),
        ({"buffer": np.zeros(4)}, "of a ndarray; give a GlobalBuffer, or a pointer into one"),
        ({"strides_bytes": (130,)}, r"strides of 130 bytes; each is a multiple of 16 < 2\^40"),
        ({"box": (64, 257)}, r"a box of \(64, 257\); each number is 1 to 256"),
        ({"box": (4, 4)}, "a box row of 8 bytes, no multiple of 16"),
        ({"box": (128, 4)}, "a box row of 256 bytes, wider than the swizzle's 128"),
        ({"swizzle_bytes": 16}, "a swizzle of 16 bytes; it is one of 0, 32, 64, 128"),
        ({"swizzle_bytes": None}, "a swizzle of None bytes; it is one of 0, 32, 64, 128"),
    ],
)
def test_maps_that_the_driver_would_refuse(change: dict[str, Any], message: str) -> None:
    fields: dict[str, Any] = {
        "buffer": GlobalBuffer("a", np.zeros(4096, np.uint16)),
        "element_bytes": 2,
        "sizes": (64, 32),
        "strides_bytes": (128,),
        "box": (64, 32),
        "swizzle_bytes": 128,
    }
    TensorMap(**fields)
    with pytest.raises(LaunchError, match=message):
        TensorMap(**(fields | change))


def test_a_map_needs_its_parameter_and_an_aligned_matrix() -> None:
    tensor, buffer = plain()
    kernel = Kernel(parse(module(LOAD_NOTHING, [buffer])), "k")
    with pytest.raises(LaunchError, match="is no tensor map of 128 bytes"):
        run(kernel, Launch((1, 1, 1), (32, 1, 1), 0, [tensor]))
    odd = GlobalBuffer("a", np.zeros(4096, np.uint16), misalign=2)
    tensor = TensorMap(odd, 2, (64, 32), (128,), (64, 32), 128)
    with pytest.raises(LaunchError, match="buffer 'a' starts at no multiple of 16"):
        execute("", [tensor])
    # A pointer into the buffer may mend that.
    execute("", [TensorMap(odd.at(14), 2, (64, 32), (128,), (64, 32), 128)])


LOAD_NOTHING = "mov.u32 %r3, 0;"


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        ("cp.async.bulk.tensor.6d.global.shared::cta.bulk_group [%d0, {%r5}], [%r4];",
         "one to five dimensions"),
        ("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%d0, {%r5, %r5}], [%r4];",
         "coordinates of 3 dimensions were expected"),
        (("cp.async.bulk.tensor.2d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
         "[%r4], [%d0, {%r5, %r5}], [%r7];"), "unsupported modifier"),
        ("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%d0, {%r5}], [%r4];",
         "coordinates of 2 dimensions were expected"),
        ("cp.async.bulk.wait_group %r5;", "unsupported modifier"),
        (("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group "
         "[%d0, {%r5, %r5}], [%r4];"), "only reductions of a run of bytes"),
    ],
)  # fmt: skip
def test_what_has_no_semantics_is_refused_loudly(instruction: str, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        Kernel(parse(module(instruction, [])), "k")


def test_hints_change_nothing() -> None:
    tensor, _ = plain()
    body = "prefetch.tensormap [%d0];\ngriddepcontrol.wait;\ngriddepcontrol.launch_dependents;"
    body += "\npmevent 0;\npmevent.mask 6;"
    assert execute(body, [tensor]).findings == ()


class _Counting:
    """A lazy matrix: byte i is i modulo 251."""

    nbytes = 1 << 40 >> 8

    def read(self, offsets: Array, width: int) -> Array:
        result: Array = ((offsets[:, None] + np.arange(width)) % 251).astype(np.uint8)
        return result


def test_a_matrix_too_large_to_hold() -> None:
    row = 1 << 20
    lazy = GlobalBuffer("a", _Counting())
    tensor = TensorMap(lazy, 2, (row // 2, 4096), (row,), (64, 32), 128)
    out, buffer = output(1024)
    x, y = 1000, 3000
    report = execute(text(LOAD, 4096, x, y), [tensor, buffer], shared=32776)
    assert report.findings == (), str(report)
    want = ((y + np.arange(32))[:, None] * row + 2 * x + np.arange(128)) % 251
    raw = unswizzled(out.view(np.uint8), 128, 128).reshape(32, 128)
    np.testing.assert_array_equal(raw, want)
