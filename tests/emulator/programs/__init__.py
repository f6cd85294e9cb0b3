"""Ordinary CUDA programs, none of them a matrix product: launches, and what must come out.

Each ``NAME.cu`` holds a kernel ``NAME``; ``NAME.ptx`` is what nvcc 13.0 makes of it (``build.py``).
Imports numpy and the emulator alone, so that a script on a GPU machine may use it too.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["PROGRAMS", "Program", "ptx"]

Array = np.ndarray[Any, np.dtype[Any]]
FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Program:
    """One launch of a program.

    Attributes:
        name: of the program; label tells its launches apart.
        grid, block: in x, y, z; shared: bytes of dynamic shared memory.
        arguments: arrays for buffers, numpy scalars, bytes for structures; in order.
        outputs: which arguments the kernel writes.
        want: from the arguments, what the outputs must be.
        relative: distance allowed between outputs of an approximating program, of the emulator and
            of a GPU alike, relative to the wanted value; 0 asks for equal bits.
        offset: bytes from a buffer's start at which the first argument points.
    """

    name: str
    label: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arguments: tuple[Any, ...]
    outputs: tuple[int, ...]
    want: Callable[..., list[Array]]
    shared: int = 0
    relative: float = 0.0
    offset: int = 0


def ptx(name: str) -> str:
    """The program's PTX."""
    return (FOLDER / f"{name}.ptx").read_text()


def _reduction(n: int, blocks: int, threads: int) -> Program:
    numbers = np.random.default_rng(n).integers(-(2**31), 2**31, n).astype(np.int32)
    start = np.array([5], np.int32)

    def want(numbers: Array, _n: Any, start: Array) -> list[Array]:
        total = int(numbers.astype(np.int64).sum()) + int(start[0])
        return [np.array([total & 0xFFFFFFFF], np.uint32).view(np.int32)]

    arguments = (numbers, np.int32(n), start)
    return Program(
        "reduction", f"{n} numbers, {blocks} x {threads}", (blocks, 1, 1), (threads, 1, 1),
        arguments, (2,), want,
    )  # fmt: skip


def _scan_row(row: Array, threads: int) -> Array:
    """A row's prefix sums in fp32, added up in the program's order."""
    out, before = [], np.float32(0)
    for start in range(0, row.size, threads):
        piece = np.zeros(threads, np.float32)
        piece[: row[start : start + threads].size] = row[start : start + threads]
        lanes = piece.reshape(-1, 32).copy()
        warps = np.zeros((1, 32), np.float32)
        for sums in (lanes, warps):
            if sums is warps:
                warps[0, : threads // 32] = lanes[:, 31]
            for distance in (1, 2, 4, 8, 16):
                sums[:, distance:] += sums[:, :-distance].copy()
        ahead = np.concatenate([[np.float32(0)], warps[0, : threads // 32 - 1]])
        out.append((lanes + (before + ahead)[:, None]).reshape(-1))
        before += warps[0, threads // 32 - 1]
    return np.concatenate(out)[: row.size]


def _scan(rows: int, n: int, threads: int) -> Program:
    values = np.random.default_rng(n).standard_normal((rows, n)).astype(np.float32)

    def want(values: Array, _n: Any, _out: Array) -> list[Array]:
        return [np.stack([_scan_row(row, threads) for row in values])]

    return Program(
        "scan", f"{rows} rows of {n}, {threads} threads", (rows, 1, 1), (threads, 1, 1),
        (values, np.int32(n), np.full_like(values, np.nan)), (2,), want,
    )  # fmt: skip


def _histogram(n: int, blocks: int, offset: int) -> Program:
    data = np.random.default_rng(n).normal(128, 30, n + offset).clip(0, 255).astype(np.uint8)

    def want(data: Array, _n: Any, counts: Array) -> list[Array]:
        return [counts + np.bincount(data[offset:], minlength=256).astype(np.uint32)]

    return Program(
        "histogram", f"{n} bytes at offset {offset}, {blocks} x 128", (blocks, 1, 1), (128, 1, 1),
        (data, np.uint32(n), np.arange(256, dtype=np.uint32)), (2,), want, offset=offset,
    )  # fmt: skip


def _transpose(rows: int, columns: int) -> Program:
    matrix = np.random.default_rng(rows).standard_normal((rows, columns))
    shape = np.array([rows, columns], np.int32).tobytes()
    return Program(
        "transpose", f"{rows} x {columns}", (-(-columns // 32), -(-rows // 32), 1), (32, 8, 1),
        (matrix, shape, np.full((columns, rows), np.nan)), (2,), lambda m, _s, _r: [m.T.copy()],
    )  # fmt: skip


def _softmax(rows: int, n: int, threads: int) -> Program:
    values = (np.random.default_rng(n).standard_normal((rows, n)) * 4).astype(np.float32)
    values[0, : n // 2] = -np.inf

    def want(values: Array, _n: Any, _out: Array) -> list[Array]:
        wide = np.exp(values.astype(np.float64) - values.max(axis=1, keepdims=True))
        return [(wide / wide.sum(axis=1, keepdims=True)).astype(np.float32)]

    # Two exponentials of 2^-21 each (nvcc's expf, of which ex2.approx is a part), n sums in a tree.
    return Program(
        "softmax", f"{rows} rows of {n}, {threads} threads", (rows, 1, 1), (threads, 1, 1),
        (values, np.int32(n), np.full_like(values, np.nan)), (2,), want, relative=2.0**-19,
    )  # fmt: skip


def _lastblock(n: int, blocks: int, threads: int) -> Program:
    numbers = np.random.default_rng(n).integers(0, 1000, n).astype(np.float32)

    def want(numbers: Array, *_rest: Any) -> list[Array]:
        place = int(numbers.argmax())
        return [np.zeros(1, np.uint32), np.array([(numbers[place], place)], "f4,i4")]

    workspace = np.zeros(blocks, "f4,i4")
    arguments = (numbers, np.int32(n), workspace, np.zeros(1, np.uint32), np.zeros(1, "f4,i4"))
    return Program(
        "lastblock", f"{n} numbers, {blocks} x {threads}", (blocks, 1, 1), (threads, 1, 1),
        arguments, (3, 4), want, shared=8 * threads,
    )  # fmt: skip


def _sort(blocks: int, n: int, threads: int) -> Program:
    keys = np.random.default_rng(n).integers(0, 2**32, (blocks, n)).astype(np.uint32)
    keys[:, ::7] = 12345
    return Program(
        "sort", f"{blocks} x {n} keys, {threads} threads", (blocks, 1, 1), (threads, 1, 1),
        (keys, np.int32(n)), (0,), lambda k, _n: [np.sort(k, axis=1)], shared=4 * n,
    )  # fmt: skip


PROGRAMS = (
    _reduction(1, 1, 32), _reduction(10007, 7, 256),
    _scan(2, 31, 64), _scan(3, 1000, 256),
    _histogram(3, 1, 0), _histogram(10011, 3, 0), _histogram(2005, 2, 1),
    _transpose(1, 70), _transpose(100, 70),
    _softmax(3, 33, 64), _softmax(4, 777, 128),
    _lastblock(900, 1, 64), _lastblock(5000, 9, 128),
    _sort(1, 64, 64), _sort(3, 512, 128),
)  # fmt: skip
