"""Tensor copies of one to five dimensions."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest

from deepgemm_codegen.emulator import GlobalBuffer, LaunchError, TensorMap
from tests.emulator.test_bulk import LOAD, text, unswizzled
from tests.emulator.test_bulk_store import STORE
from tests.emulator.warpgroup import execute, kinds, output

Array = np.ndarray[Any, np.dtype[Any]]


def _body(body: str, box_bytes: int, at: tuple[int, ...]) -> str:
    """The kernel of two dimensions with others in its place."""
    rank = len(at)
    names = [f"%r{20 + i}" for i in range(rank)]
    moves = "".join(f"mov.u32 {n}, {v};\n" for n, v in zip(names, at, strict=True))
    body = body.replace("tensor.2d", f"tensor.{rank}d").replace(
        "{%r5, %r6}", "{" + ", ".join(names) + "}"
    )
    return moves + text(body, box_bytes, 0, 0)


# sizes, padding of each stride in elements, box, coordinates; the contiguous dimension first.
_CASES = [
    ((100,), (), (64,), (0,)), ((100,), (), (64,), (70,)), ((100,), (), (64,), (-20,)),
    ((64, 9, 5), (8, 0), (32, 4, 2), (0, 0, 0)), ((64, 9, 5), (8, 16), (32, 4, 2), (32, 7, 4)),
    ((61, 9, 5), (3, 8), (64, 3, 3), (-3, -1, 3)),
    ((40, 3, 4, 3), (0, 8, 0), (8, 2, 3, 2), (8, 2, 2, 2)),
    ((40, 3, 4, 3), (0, 8, 0), (8, 2, 3, 2), (8, -1, -1, -1)),
    ((24, 3, 2, 3, 2), (0, 0, 8, 0), (8, 2, 2, 2, 2), (16, 1, 0, 2, 1)),
]  # fmt: skip


def _tensor(sizes: tuple[int, ...], padding: tuple[int, ...]) -> tuple[Array, list[int]]:
    """Storage of halfwords in whole 16 bytes, and element strides of each dimension."""
    strides = [1]
    for size, more in zip(sizes[:-1], padding, strict=True):
        strides.append(strides[-1] * size + more)
    count = -(-strides[-1] * sizes[-1] // 8) * 8
    return np.arange(count, dtype=np.uint32).astype(np.uint16), strides


@pytest.mark.parametrize(
    ("sizes", "padding", "box", "at", "swizzle"),
    [(*case, swizzle) for case in _CASES for swizzle in (0, 64, 128)
     if not swizzle or case[2][0] * 2 <= swizzle],
)  # fmt: skip
def test_loads_and_stores(
    sizes: tuple[int, ...],
    padding: tuple[int, ...],
    box: tuple[int, ...],
    at: tuple[int, ...],
    swizzle: int,
) -> None:
    data, strides = _tensor(sizes, padding)
    bytes_of = tuple(2 * s for s in strides[1:])
    total = prod(box) * 2
    ends = (-(-sizes[0] // 8) * 8, *sizes[1:])  # a store writes whole 16 bytes
    where, inside, written = [], [], []
    for index in product(*(range(b) for b in reversed(box))):
        place = [c + i for c, i in zip(at, reversed(index), strict=True)]
        inside.append(all(0 <= p < s for p, s in zip(place, sizes, strict=True)))
        written.append(all(0 <= p < s for p, s in zip(place, ends, strict=True)))
        where.append(sum(p * s for p, s in zip(place, strides, strict=True)))
    fits = np.array(inside)
    at_fits = np.array(where)[fits]
    want = np.zeros(prod(box), np.uint16)
    want[fits] = data[at_fits]
    pitch = swizzle or box[0] * 2
    room = pitch * prod(box[1:])

    tensor = TensorMap(GlobalBuffer("a", data), 2, sizes, bytes_of, box, swizzle)
    out, buffer = output(room // 4)
    body = _body(LOAD, room, at).replace(f"_, [%r4+32768], {room}", f"_, [%r4+32768], {total}")
    narrow = pitch != box[0] * 2
    report = execute(body, [tensor, buffer], shared=32776)
    assert set(kinds(report)) <= ({"uninitialised-read"} if narrow else set()), str(report)
    raw = out.view(np.uint8)
    got = unswizzled(raw, swizzle, pitch).reshape(-1, pitch)[:, : box[0] * 2]
    np.testing.assert_array_equal(np.ascontiguousarray(got).view(np.uint16).reshape(-1), want)

    if narrow:
        return
    d = np.full_like(data, 0xEEEE)
    tensor = TensorMap(GlobalBuffer("d", d, writable=True), 2, sizes, bytes_of, box, swizzle)
    report = execute(_body(STORE, total, at), [tensor], shared=32776)
    assert report.findings == (), str(report)
    words = np.arange(total // 4, dtype=np.uint32).view(np.uint8)
    tile = unswizzled(words, swizzle, box[0] * 2).view(np.uint16).reshape(-1)
    stored = np.full_like(data, 0xEEEE)
    stored[np.array(where)[written]] = tile[written]
    np.testing.assert_array_equal(d, stored)


def test_a_copy_through_a_map_of_another_rank() -> None:
    tensor = TensorMap(GlobalBuffer("a", np.zeros(4096, np.uint16)), 2, (64, 8, 8), (128, 1024),
                       (64, 8, 1), 128)  # fmt: skip
    _, buffer = output(256)
    report = execute(text(LOAD, 1024, 0, 0), [tensor, buffer], shared=32776)
    finding = report.findings[0]
    assert (finding.kind, finding.message) == (
        "bad-descriptor", "a copy of 2 dimensions through a map of 3"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("sizes", "strides", "box", "message"),
    [
        ((64, 8), (), (64, 8), "2 sizes, 0 strides and a box of 2 numbers; with n sizes"),
        ((64, 8), (128,), (64,), "2 sizes, 1 strides and a box of 1 numbers"),
        ((8,) * 6, (128,) * 5, (8,) * 6, "6 sizes, 5 strides and a box of 6 numbers"),
        ((64, 8, 8), (128, 1032), (64, 8, 1), "strides of 128, 1032 bytes"),
        ((64, 8, 0), (128, 1024), (64, 8, 1), r"sizes \(64, 8, 0\)"),
        ((64, 8, 8), (128, 1024), (64, 8, 257), r"a box of \(64, 8, 257\)"),
    ],
)
def test_maps_that_the_driver_would_refuse(
    sizes: tuple[int, ...], strides: tuple[int, ...], box: tuple[int, ...], message: str
) -> None:
    with pytest.raises(LaunchError, match=message):
        TensorMap(GlobalBuffer("a", np.zeros(8, np.uint16)), 2, sizes, strides, box)
