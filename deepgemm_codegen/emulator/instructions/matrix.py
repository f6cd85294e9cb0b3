"""ldmatrix and mma.sync, many of them in one call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator import nodes
from deepgemm_codegen.emulator.fragments import INTEGERS, Shape
from deepgemm_codegen.emulator.instructions.matrices import (
    Matrices,
    batch_key,
    matrices_of,
    whole_warps,
)
from deepgemm_codegen.emulator.listeners import SITE_SHIFT
from deepgemm_codegen.emulator.registry import runtime, semantics
from deepgemm_codegen.emulator.tensorcore import multiply_accumulate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deepgemm_codegen.emulator.context import Context
    from deepgemm_codegen.emulator.emitter import Emitter
    from deepgemm_codegen.emulator.generations import Sums
    from deepgemm_codegen.emulator.nodes import Instruction

Array = np.ndarray[Any, np.dtype[Any]]

# -- ldmatrix --


def _emit_ldmatrix(emitter: Emitter, batch: list[Instruction]) -> None:
    for load in matrices_of(emitter, batch, address=1):
        emitter.line(f"load_matrices({emitter.object(load)}, {emitter.mask})")


@semantics(
    "ldmatrix",
    effects=(("shared", "read"),),
    batch=batch_key,
    emit_batch=_emit_ldmatrix,
    shared_width=lambda _: 16,
    converged=True,
)
def _ldmatrix(emitter: Emitter, ins: Instruction) -> None:
    _emit_ldmatrix(emitter, [ins])


@runtime
def load_matrices(context: Context, load: Matrices, mask: Array | None) -> None:
    """``ldmatrix``: see `matrices`."""
    n, count, warps = load.sites.size, load.count, context.lanes // 32
    key = id(load)
    cached = context.cache.get(key)
    if cached is None:
        lanes = context.lane_ids.reshape(warps, 32)[:, : 8 * count].reshape(-1)
        ids = (lanes + (load.sites[:, None] << SITE_SHIFT)).reshape(-1)
        base = context.shared.base
        cached = (ids, None if base is None else np.tile(base[lanes], n))
        context.cache[key] = cached
    ids, base = cached
    address = context.banks[load.bank][load.addresses].astype(np.int64)
    address += load.offsets[:, None]
    flat = address.reshape(n * warps, 32)[:, : 8 * count].reshape(-1)
    if mask is not None:
        whole = whole_warps(context, int(load.sites[0]), mask)
        if not whole.any():
            return
        lanes = np.tile(np.repeat(whole, 8 * count), n)
        rows = np.zeros(flat.size, np.complex128)
        part = None if base is None else base[lanes]
        rows[lanes] = context.shared.load(flat[lanes], 16, part, ids[lanes])
    else:
        rows = context.shared.load(flat, 16, base, ids)
    if load.transposed:
        # Lane (g, t) gets rows 2t and 2t + 1 of column g.
        halves = rows.view(np.uint16).reshape(n, warps, count, 4, 2, 8)
        words = np.ascontiguousarray(halves.transpose(0, 2, 1, 5, 3, 4)).view(np.uint32)
    else:
        words = rows.view(np.uint32).reshape(n, warps, count, 32).transpose(0, 2, 1, 3)
    result = words.reshape(n * count, context.lanes)
    bank, targets = context.banks["r"], load.registers.reshape(-1)
    if mask is not None:
        result = np.where(np.repeat(whole, 32), result, bank[targets])
    bank[targets] = result


# -- mma --


@dataclass(frozen=True, slots=True)
class _Products:
    """Several mma of one shape, as grids of distinct A and B fragments.

    Attributes:
        shape: of the instruction.
        rules: how its products are summed; None for integers.
        saturate: whether integer sums clamp.
        site: of the first instruction.
        a: rows of A's registers, shape (groups, M, registers).
        b: likewise (groups, N, registers).
        c, d: likewise (groups, M, N, registers); c of -1 is the constant zero.
    """

    shape: Shape
    rules: Sums | None
    saturate: bool
    site: int
    a: Array
    b: Array
    c: Array
    d: Array


def _mma_key(ins: Instruction) -> tuple[str, ...] | None:
    return None if ins.guard is not None else ins.opcode


def _shape(emitter: Emitter, ins: Instruction) -> tuple[Shape, bool]:
    """The shape, and whether integer sums clamp."""
    words = ins.opcode
    if len(words) < 10 or words[1:3] != ("sync", "aligned") or words[4:6] != ("row", "col"):
        raise emitter.fail(ins, "unsupported modifier")
    types = words[6:]
    saturate = types[0] == "satfinite"
    shape = Shape.find(words[3], types[1:] if saturate else types)
    if shape is None or (saturate and shape.kind not in INTEGERS):
        raise emitter.fail(ins, "unsupported shape or types")
    return shape, saturate


def _rows(
    emitter: Emitter, ins: Instruction, operand: nodes.Operand, count: int
) -> tuple[int, ...]:
    items = operand.items if isinstance(operand, nodes.Vector) else (operand,)
    if len(items) != count:
        raise emitter.fail(ins, f"a fragment of {count} registers was expected")
    rows = []
    for item in items:
        if isinstance(item, nodes.Immediate) and emitter.literal(item, "u32", ins) == 0:
            rows.append(-1)
        else:
            rows.append(emitter.row(item, "r", ins))
    return tuple(rows)


def _emit_mma(emitter: Emitter, batch: list[Instruction]) -> None:
    shape, saturate = _shape(emitter, batch[0])
    rules = None if shape.kind in INTEGERS else emitter.sums(shape.kind, batch[0])
    fragments = []
    for ins in batch:
        d, a, b, c = ins.operands
        fragments.append(
            (
                _rows(emitter, ins, a, shape.a_registers),
                _rows(emitter, ins, b, shape.b_registers),
                _rows(emitter, ins, c, shape.c_registers),
                _rows(emitter, ins, d, shape.c_registers),
            )
        )
    for grid in _grids(fragments):
        a_rows, b_rows, c_rows, d_rows = grid
        site = emitter.site(batch[0])
        products = _Products(shape, rules, saturate, site, a_rows, b_rows, c_rows, d_rows)
        emitter.line(f"multiply_matrices({emitter.object(products)}, {emitter.mask})")


Rows = tuple[int, ...]


def _grids(
    fragments: Sequence[tuple[Rows, Rows, Rows, Rows]],
) -> list[tuple[Array, Array, Array, Array]]:
    """The products as one full grid A x B where they form one, otherwise one by one."""
    a_all = list(dict.fromkeys(f[0] for f in fragments))
    b_all = list(dict.fromkeys(f[1] for f in fragments))
    at = {(f[0], f[1]): f for f in fragments}
    if len(at) == len(fragments) == len(a_all) * len(b_all):
        c = [[at[a, b][2] for b in b_all] for a in a_all]
        d = [[at[a, b][3] for b in b_all] for a in a_all]
        return [(np.array([a_all]), np.array([b_all]), np.array([c]), np.array([d]))]
    return [
        (
            np.array([[f[0]] for f in fragments]),
            np.array([[f[1]] for f in fragments]),
            np.array([[[f[2]]] for f in fragments]),
            np.array([[[f[3]]] for f in fragments]),
        )
    ]


@semantics("mma", batch=_mma_key, emit_batch=_emit_mma, order=2, operands=4, converged=True)
def _mma(emitter: Emitter, ins: Instruction) -> None:
    _emit_mma(emitter, [ins])


@runtime
def multiply_matrices(context: Context, products: _Products, mask: Array | None) -> None:
    """Run a batch of mma for all warps."""
    bank = context.banks["r"]
    c = bank[products.c]
    if (products.c < 0).any():
        c[products.c < 0] = 0
    a, b = bank[products.a], bank[products.b]
    saturate = products.saturate
    result = multiply_accumulate(products.shape, products.rules, a, b, c, saturate=saturate)
    if mask is not None:
        whole = np.repeat(whole_warps(context, products.site, mask), 32)
        result = np.where(whole, result, bank[products.d])
    bank[products.d] = result
