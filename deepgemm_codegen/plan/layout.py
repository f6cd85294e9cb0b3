"""How a tile lies in shared memory: panels, the XOR swizzle, and the epilogue's slab.

One module holds these formulas. The planner sizes with them; the kernel's own expressions stand in
``templates/primitives/tile_offset.cu.j2`` and ``slab.cu.j2``, so a change is made in both places.
The tests check these against a bank-conflict count, and every kernel's emulator run checks those.

A tile of ``rows`` rows of ``row_bytes`` bytes is cut into panels ``swizzle_bytes`` wide. Panel p
holds its part of every row, one after the other, and starts at ``p * rows * swizzle_bytes``.
Inside a panel the 16-byte chunk index is XORed with the row's position in an 8-row group, which
is the pattern TMA and wgmma use for 128, 64 and 32 bytes (PTX ISA, "Shared memory swizzling").
Sixteen-byte panels need none: eight rows fill the 32 banks once.
"""

from __future__ import annotations

__all__ = [
    "AREA_ALIGNMENT",
    "BANKS",
    "CHUNK_BYTES",
    "COLUMN_BUFFER",
    "SLAB_PANEL_COLUMNS",
    "SLAB_ROWS",
    "STORE_BUFFER",
    "SWIZZLES",
    "excess_wavefronts",
    "lane_slab_mask",
    "row_panels",
    "row_slab_bytes",
    "slab_mask",
    "staged_columns",
    "store_panels",
    "swizzle",
    "swizzle_bytes_for",
    "swizzle_mask",
    "tile_offset",
]

CHUNK_BYTES = 16
"""What one lane of ldmatrix reads, and the widest cp.async."""

AREA_ALIGNMENT = 128
"""Bytes that each tile's part of a block's shared memory starts on, where a block has several: all
banks once, so that every part meets them as the first does."""

BANKS = 32
"""Shared-memory banks of 4 bytes."""

SWIZZLES = (128, 64, 32, 16)
"""Panel widths in bytes, the best first."""


def swizzle_mask(swizzle_bytes: int) -> int:
    """Address bits that the swizzle changes: 0x70, 0x30, 0x10 or none."""
    return swizzle_bytes - CHUNK_BYTES


def swizzle(offset: int, swizzle_bytes: int) -> int:
    """The swizzled byte offset; an involution on every 8-row group of a panel."""
    return offset ^ ((offset >> 3) & swizzle_mask(swizzle_bytes))


def tile_offset(row: int, column_byte: int, rows: int, swizzle_bytes: int) -> int:
    """Byte offset of (row, column byte) in a tile of ``rows`` rows."""
    panel, within = divmod(column_byte, swizzle_bytes)
    return panel * rows * swizzle_bytes + swizzle(row * swizzle_bytes + within, swizzle_bytes)


def swizzle_bytes_for(row_bytes: int, pass_bytes: int) -> int:
    """The widest panel for rows of ``row_bytes`` filled ``pass_bytes`` at a time.

    A panel width must divide the row, and eight rows of it must divide one pass of the copy
    loop, so that the swizzle phase of a thread is the same in every pass. Returns 0 if even
    sixteen bytes do not satisfy both.
    """
    for width in SWIZZLES:
        if row_bytes % width == 0 and pass_bytes % (8 * width) == 0:
            return width
    return 0


STORE_BUFFER = 16384
"""Bytes beside the ring that a consumer of wgmma stages D in for TMA: what keeps a ring of four
slots at 128x256, while a panel leaves behind the next one's conversion."""


def store_panels(rows: int, columns: int, element_bytes: int) -> tuple[int, int]:
    """(columns of a panel, panels that fit the buffer) of D on its way through shared memory.

    A panel is as wide as a swizzle pattern that divides the tile's row: the widest of which all or
    two fit, so that one leaves while the next is made, else the widest. Returns (0, 0) where no
    pattern divides it.

    Args:
        rows: of a consumer.
        columns: of the tile.
        element_bytes: of D.
    """
    row = columns * element_bytes
    found = [
        (width // element_bytes, min(row // width, STORE_BUFFER // (rows * width)))
        for width in (128, 64, 32)
        if row % width == 0
    ]
    apart = (panel for panel in found if panel[1] > 1 or panel[0] == columns)
    return next(apart, found[0] if found else (0, 0))


SLAB_ROWS, SLAB_PANEL_COLUMNS = 8, 32
"""Rows of a D of 32 bits that a warp has TMA write at a time: a fragment's half; and columns of it
in a swizzle pattern of 128 bytes."""


def row_panels(columns: int) -> tuple[int, int]:
    """(panels of a row of a 32-bit tile of D that a warp's slab holds, those one copy writes).

    The slab of 256 columns holds half of them, so that a ring of four slots fits at 128x256. Rows
    of a copy are as many panels side by side, of which each is swizzled by where it lies: eight
    bytes a lane, four rows to a half-warp, then meet no bank twice where the panels are 2 or 6.
    (0, 0) where a row is no even number of panels.

    Args:
        columns: of the tile.
    """
    panels, rest = divmod(columns, SLAB_PANEL_COLUMNS)
    if rest or panels % 2:
        return 0, 0
    return (4, 2) if panels % 4 == 0 else (panels, panels)


def row_slab_bytes(columns: int, consumers: int) -> int:
    """Bytes of the slabs of all warps of so many consumers, of rows of so many columns."""
    return consumers * 4 * SLAB_ROWS * row_panels(columns)[0] * SLAB_PANEL_COLUMNS * 4


COLUMN_BUFFER = 1024
"""Bytes in which a consumer of wgmma keeps what steps read of a tile's columns: one vector of 256
floats, which leaves a ring of four slots at 128x256 beside D's panels."""


def staged_columns(vectors: int, columns: int) -> int:
    """How many vectors of a float a column of the tile fit what a consumer keeps of them.

    Args:
        vectors: that the steps read.
        columns: of the tile.
    """
    return min(vectors, COLUMN_BUFFER // (columns * 4))


def slab_mask(warp_n: int, row: int, *, interleaved: bool = False, paired: bool = False) -> int:
    """XOR applied to the 16-byte chunk index of ``row`` in a warp's epilogue slab.

    The slab holds 16 rows of ``warp_n`` fp32 values with no padding. Accumulator fragments write
    8 bytes a lane (four rows to a half-warp), or 16 where the columns of two fragments are
    interleaved; the store loop reads whole rows, or half of each where columns are ``paired``. With
    this mask neither meets a bank twice, but for reads of half rows of 48 columns and the like.
    """
    chunks = warp_n * 4 // CHUNK_BYTES
    if interleaved:
        return (row & 1) << 2 if chunks % 8 == 0 else 0
    if chunks % 8 == 0:
        return ((row & 1) << 2 | (row & 2)) if paired else (row & 3) << 1
    if chunks % 8 == 4:
        return row & 2
    return 0


def lane_slab_mask(group: int, width: int, row: int, column: int, *, paired: bool = False) -> int:
    """XOR applied to the column in a slab of the bandwidth family, in elements.

    A lane writes up to four neighbours of its 2 * group in a row, lane % 4 of which follow each
    other, at row lane / 4; later lanes read columns one after the other, of half a row and then of
    the next where columns are ``paired``.

    Args:
        group: neighbours of a fragment's group, 1 to 8.
        width: columns of the slab; a multiple of 32 where group is above 2.
        row: in the slab.
        column: in the slab.
        paired: whether columns are two halves.
    """
    if group == 1 and paired and width % 16:
        return row // 4 % 2 * 4
    if group == 1:
        return slab_mask(width, row, paired=paired) * 4
    if group == 2:
        return row % 2 * 16 if width % BANKS == 0 else 0
    return row % 2 * (20 if paired else 4) if group == 4 else row % 4 * 8 ^ column // 32 % 2 * 4


def excess_wavefronts(addresses: list[int], width: int) -> int:
    """Wavefronts beyond the least that one warp's shared access takes.

    Args:
        addresses: byte address of each active lane, lane order.
        width: bytes a lane accesses (4, 8 or 16; narrower counts as 4).

    Returns:
        Sum over the access's natural groups of lanes (32, 16 or 8 lanes, so that a group moves
        128 bytes) of (most distinct words in one bank - 1).
    """
    lanes = 128 // max(width, 4)
    excess = 0
    for first in range(0, len(addresses), lanes):
        words: dict[int, set[int]] = {}
        for address in addresses[first : first + lanes]:
            for word in range(address // 4, (address + width - 1) // 4 + 1):
                words.setdefault(word % BANKS, set()).add(word)
        excess += max(map(len, words.values()), default=1) - 1
    return excess
