"""Neighbouring accesses that the assembler makes one of.

The compiler's front end takes some vector accesses apart (``ld.shared.v4.f32`` becomes four
``ld.shared.f32`` of the same register); ptxas puts them together again, where the first is aligned
as the whole. What an access costs is asked of the machine code, so the costs count them as one.
Tests compare with SASS.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from deepgemm_codegen.emulator import nodes
from deepgemm_codegen.emulator.registry import lookup
from deepgemm_codegen.emulator.schedule import registers_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deepgemm_codegen.emulator.program import Program

__all__ = ["Join", "joins_of"]

_WIDEST = 16
_BITS = {"8": 1, "16": 2, "32": 4, "64": 8}
_COUNTS = {"v2": 2, "v4": 4}


@dataclass(frozen=True, slots=True)
class Join:
    """One access of the machine code.

    Attributes:
        width: bytes of the whole, which is aligned to them.
        sites: its instructions, the first of the program first.
        offsets: where in the whole each of them begins, in bytes.
    """

    width: int
    sites: tuple[int, ...]
    offsets: tuple[int, ...]


@dataclass(slots=True)
class _Open:
    """Accesses of one register and kind, with nothing between them that keeps them apart."""

    parts: list[tuple[int, int, int]] = field(default_factory=list)  # offset, width, site


def joins_of(program: Program) -> tuple[Join, ...]:
    """Accesses to shared and global memory that are one in the machine code."""
    starts = set(program.labels.values())
    found: list[Join] = []
    opened: dict[tuple[str, str, str], _Open] = {}
    for site, ins in enumerate(program.instructions):
        what = lookup(ins)
        if site in starts or what.ends_block or what.alone:
            found.extend(_closed(opened))
        if what.ends_block:
            continue
        piece = _piece(ins)
        if piece is None:
            if what.effects is not None:
                found.extend(_closed(opened))
        else:
            # A store ends runs of loads, and the reverse, for they may meet.
            verb, key, offset, width = piece
            for other in [k for k in opened if k[0] != verb]:
                found.extend(_joined(opened.pop(other)))
            opened.setdefault(key, _Open()).parts.append((offset, width, site))
        written = registers_of(ins, what.destinations)[1]
        for key in [k for k in opened if k[2] in written]:
            found.extend(_joined(opened.pop(key)))
    found.extend(_closed(opened))
    return tuple(found)


def _closed(opened: dict[tuple[str, str, str], _Open]) -> Iterator[Join]:
    for run in opened.values():
        yield from _joined(run)
    opened.clear()


def _piece(ins: nodes.Instruction) -> tuple[str, tuple[str, str, str], int, int] | None:
    """Verb, kind, offset and bytes of an ordinary access with a constant offset.

    Those through the read-only path (``.nc``) stay apart: nothing tells ptxas their alignment.
    """
    verb, *words = ins.opcode
    space = next((w for w in words if w in ("shared", "global")), "")
    rest = set(words[:-1]) - {space} - set(_COUNTS)
    if verb not in ("ld", "st") or not space or rest or ins.guard is not None:
        return None
    address = ins.operands[0 if verb == "st" else 1]
    size = _BITS.get(words[-1].lstrip("busf"))
    if not isinstance(address, nodes.Address) or address.extra or size is None:
        return None
    if not isinstance(address.base, nodes.Name):
        return None
    count = next((_COUNTS[w] for w in words if w in _COUNTS), 1)
    return verb, (verb, space, address.base.text), address.offset, size * count


def _joined(run: _Open) -> Iterator[Join]:
    """The aligned chunks that several accesses of a run fill, the widest first."""
    left = {offset: (width, site) for offset, width, site in reversed(run.parts)}
    for width in (_WIDEST, _WIDEST // 2, _WIDEST // 4):
        for start in sorted({offset // width * width for offset in left}):
            parts = [o for o in left if start <= o < start + width]
            if len(parts) < 2 or sum(left[o][0] for o in parts) != width:
                continue
            parts.sort(key=lambda offset: left[offset][1])
            sites = tuple(left[offset][1] for offset in parts)
            yield Join(width, sites, tuple(offset - start for offset in parts))
            for offset in parts:
                del left[offset]
