"""Loads and stores when they run: lanes to addresses, and words to and from registers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator.buffers import RAW
from deepgemm_codegen.emulator.instructions.order import synchronise
from deepgemm_codegen.emulator.registry import runtime
from deepgemm_codegen.emulator.windows import CLUSTER_SHIFT, WINDOW_SIZE, by_window

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.context import Context
    from deepgemm_codegen.emulator.listeners import Order

__all__ = ["Site", "shared_places"]

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Site:
    """What is fixed of one load or store.

    Attributes:
        number: of the instruction.
        offset: bytes added to the address register.
        width: bytes of an element.
        count: elements.
        dtype: numpy type of an element as loaded.
        order: of a strong access, None for an ordinary one.
        volatile: whether it is so by ``.volatile``. That orders nothing by itself, and programs
            that rely on it in shared memory are racy: there it is checked as an ordinary access.
    """

    number: int
    offset: int
    width: int
    count: int
    dtype: np.dtype[Any]
    order: Order | None = None
    volatile: bool = False

    @property
    def shared_order(self) -> Order | None:
        """Order in shared memory."""
        return None if self.volatile else self.order

    @property
    def total(self) -> int:
        """Bytes of a lane's access."""
        return self.width * self.count


def _active(
    context: Context, site: Site, address: Array, mask: Array | None
) -> tuple[Array, Array, Array | None]:
    """Addresses (int64) and identities of the active lanes, and their numbers or None for all."""
    ids = context.ids(site.number)
    lanes = None
    if mask is not None:
        lanes = np.flatnonzero(mask)
        address, ids = address[lanes], ids[lanes]
    wide = address.astype(np.int64)
    if site.offset:
        wide += site.offset
    return wide, ids, lanes


def _deliver(values: Array, site: Site, outs: tuple[Array, ...], lanes: Array | None) -> None:
    """Raw words of whole accesses to the destination registers, extended where those are wider."""
    parts = values.view(site.dtype).reshape(-1, len(outs))
    for i, out in enumerate(outs):
        if lanes is None:
            out[...] = parts[:, i]
        else:
            out[lanes] = parts[:, i]


def _gather(sources: tuple[Array, ...], width: int, lanes: Array | None) -> Array:
    """The lanes' vectors as raw words of all their bytes; a wider source gives its low bytes."""
    dtype = RAW[width]
    size = sources[0].size if lanes is None else lanes.size
    words = np.empty((size, len(sources)), dtype)
    for i, source in enumerate(sources):
        chosen = source if lanes is None else source[lanes]
        words[:, i] = chosen.view(dtype) if chosen.itemsize == width else chosen.astype(dtype)
    return words.reshape(-1).view(RAW[width * len(sources)])


@runtime
def load_global(
    context: Context, site: Site, address: Array, outs: tuple[Array, ...], mask: Array | None
) -> None:
    """``ld.global``."""
    where, ids, lanes = _active(context, site, address, mask)
    # A GPU moves at most 16 bytes a lane before sm_100: wider ones go in two.
    step = min(len(outs), 16 // site.width)
    for i in range(0, len(outs), step):
        at = (where + i * site.width).view(np.uint64)
        strong = site.order is not None
        values = context.memory.load(at, site.width * step, ids, strong=strong)
        if site.order is not None:
            synchronise(context, at.view(np.int64), ids, site.order, reads=True, writes=False)
        _deliver(values, site, outs[i : i + step], lanes)


@runtime
def store_global(
    context: Context, site: Site, address: Array, sources: tuple[Array, ...], mask: Array | None
) -> None:
    """``st.global``."""
    where, ids, lanes = _active(context, site, address, mask)
    step = min(len(sources), 16 // site.width)
    for i in range(0, len(sources), step):
        at = (where + i * site.width).view(np.uint64)
        values = _gather(sources[i : i + step], site.width, lanes)
        if site.order is not None:
            synchronise(context, at.view(np.int64), ids, site.order, reads=False, writes=True)
        strong = site.order is not None
        context.memory.store(at, site.width * step, values, ids, strong=strong)


@runtime
def load_shared(
    context: Context, site: Site, address: Array, outs: tuple[Array, ...], mask: Array | None
) -> None:
    """``ld.shared``."""
    where, ids, lanes = _active(context, site, address, mask)
    base = context.shared.base
    if base is not None and lanes is not None:
        base = base[lanes]
    if where.size:
        values = context.shared.load(where, site.total, base, ids, site.shared_order)
        _deliver(values, site, outs, lanes)


@runtime
def store_shared(
    context: Context, site: Site, address: Array, sources: tuple[Array, ...], mask: Array | None
) -> None:
    """``st.shared``."""
    where, ids, lanes = _active(context, site, address, mask)
    base = context.shared.base
    if base is not None and lanes is not None:
        base = base[lanes]
    if where.size:
        values = _gather(sources, site.width, lanes)
        context.shared.store(where, site.total, base, ids, values, site.shared_order)


def _local(
    context: Context, site: Site, address: Array, verb: str, mask: Array | None
) -> tuple[Array, Array]:
    """Lane numbers and byte indices, shape (n, bytes), of the in-bounds local accesses."""
    where, _, lanes = _active(context, site, address, mask)
    lanes = context.lane_ids if lanes is None else lanes
    size = context.local.shape[1]
    bad = (where < 0) | (where > size - site.total)
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        context.collector.add(
            f"out-of-bounds-{verb}",
            f"local {verb} outside the thread's {size} bytes",
            site.number,
            int(lanes[first]),
            address=int(where[first]),
            count=int(bad.sum()),
        )
        lanes, where = lanes[~bad], where[~bad]
    return lanes, where[:, None] + np.arange(site.total)


@runtime
def load_local(
    context: Context, site: Site, address: Array, outs: tuple[Array, ...], mask: Array | None
) -> None:
    """``ld.local``."""
    lanes, where = _local(context, site, address, "read", mask)
    raw = np.ascontiguousarray(context.local[lanes[:, None], where])
    _deliver(raw.reshape(-1), site, outs, lanes)


@runtime
def store_local(
    context: Context, site: Site, address: Array, sources: tuple[Array, ...], mask: Array | None
) -> None:
    """``st.local``."""
    lanes, where = _local(context, site, address, "write", mask)
    raw = _gather(sources, site.width, lanes).view(np.uint8).reshape(-1, site.total)
    context.local[lanes[:, None], where] = raw


def shared_places(
    context: Context, number: int, where: Array, lanes: Array
) -> tuple[Array, Array | None]:
    """Offsets and window starts of shared::cluster addresses.

    Args:
        context: of the batch.
        number: of the instruction.
        where: int64 addresses.
        lanes: who uses them.
    """
    if context.blocks == 1:
        return where, None
    state = context.state
    owner, offset = state.owners(lanes, where)
    bad = owner < 0
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        context.collector.add(
            "bad-rank",
            f"an address in block {int(where[first] >> CLUSTER_SHIFT) - 1} of a cluster of "
            f"{state.cluster}",
            number,
            int(lanes[first]),
            address=int(where[first]),
            count=int(bad.sum()),
        )
        # Such an access lies outside of everything.
        owner, offset = np.where(bad, 0, owner), np.where(bad, -WINDOW_SIZE, offset)
    far = np.flatnonzero((owner != lanes // context.threads) & ~bad)
    if far.size:
        for listener in context.shared.listeners:
            listener.reach(lanes[far], owner[far], number)
    return offset, owner * context.shared.stride


@runtime
def load_cluster(
    context: Context, site: Site, address: Array, outs: tuple[Array, ...], mask: Array | None
) -> None:
    """``ld.shared::cluster``."""
    where, ids, lanes = _active(context, site, address, mask)
    if where.size:
        who = context.lane_ids if lanes is None else lanes
        at, base = shared_places(context, site.number, where, who)
        values = context.shared.load(at, site.total, base, ids, site.shared_order)
        _deliver(values, site, outs, lanes)


@runtime
def store_cluster(
    context: Context, site: Site, address: Array, sources: tuple[Array, ...], mask: Array | None
) -> None:
    """``st.shared::cluster``."""
    where, ids, lanes = _active(context, site, address, mask)
    if where.size:
        who = context.lane_ids if lanes is None else lanes
        at, base = shared_places(context, site.number, where, who)
        values = _gather(sources, site.width, lanes)
        context.shared.store(at, site.total, base, ids, values, site.shared_order)


@runtime
def load_param(
    context: Context, site: Site, address: Array, outs: tuple[Array, ...], mask: Array | None
) -> None:
    """``ld`` with a generic address of the parameters."""
    where, _, lanes = _active(context, site, address, mask)
    image = np.frombuffer(context.parameters, np.uint8)
    bad = (where < 0) | (where > image.size - site.total)
    who = context.lane_ids if lanes is None else lanes
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        message = f"read outside the {image.size} bytes of the parameters"
        at = int(where[first])
        context.collector.add(
            "out-of-bounds-read", message, site.number, int(who[first]), address=at
        )
        where = np.where(bad, 0, where)
    raw = np.ascontiguousarray(image[where[:, None] + np.arange(site.total)])
    _deliver(raw.reshape(-1), site, outs, lanes)


@runtime
def store_param(
    context: Context, site: Site, _address: Array, _sources: tuple[Array, ...], mask: Array | None
) -> None:
    """``st`` with a generic address of the parameters: they are read-only."""
    lanes = np.flatnonzero(context.alive if mask is None else mask)
    if lanes.size:
        message = "a write to the kernel's parameters"
        context.collector.add("read-only-write", message, site.number, int(lanes[0]))


_LOADS = {"shared": load_cluster, "local": load_local, "param": load_param, "global": load_global}
_STORES = {
    "shared": store_cluster, "local": store_local, "param": store_param, "global": store_global,
}  # fmt: skip


@runtime
def load_generic(
    context: Context, site: Site, address: Array, outs: tuple[Array, ...], mask: Array | None
) -> None:
    """``ld`` with a generic address."""
    lanes = context.alive if mask is None else mask
    for name, where, part in by_window(address, site.offset, lanes):
        _LOADS[name](context, site, where, outs, part)


@runtime
def store_generic(
    context: Context, site: Site, address: Array, sources: tuple[Array, ...], mask: Array | None
) -> None:
    """``st`` with a generic address."""
    lanes = context.alive if mask is None else mask
    for name, where, part in by_window(address, site.offset, lanes):
        _STORES[name](context, site, where, sources, part)
