"""Sets of ``program_sweep.py``: few rows, long k and batches, where bytes decide and not math.

A plan is a line: the tile, its consumers ("2" share it, "2t" take tiles in turn), then the parts of
k ("p2": two, added by a second kernel; "c2": two blocks of a cluster), blocks that share A ("n2")
or B ("m2"), slots of the ring ("s4"), rows of a raster group ("g2") and elements of k in a slice
("k128").
"""

from __future__ import annotations

__all__ = ["SHAPE_SETS"]

_LETTERS = {"p": "split_k", "c": "cluster_k", "n": "cluster_n", "m": "cluster_m",
            "s": "stages", "g": "raster_group", "k": "tile_k"}  # fmt: skip


def overrides(plan: str) -> str:
    """The overrides that a line such as ``64x32 1 p2 n2`` stands for."""
    tile, consumers, *words = plan.split()
    tile_m, tile_n = tile.split("x")
    count = consumers.removesuffix("t")
    found = {
        "family": "wgmma",
        "tile_m": tile_m,
        "tile_n": tile_n,
        "consumers": count,
        "tiles_at_once": "2" if count != consumers else "1",
        "cluster_m": "1",
        "cluster_n": "1",
        "cluster_k": "1",
        "split_k": "1",
        **{_LETTERS[word[0]]: word[1:] for word in words},
    }
    if found["cluster_k"] != "1":
        found["split_k"] = found["cluster_k"]
    return " ".join(f"{name}={value}" for name, value in found.items())


def plans(*lines: str) -> list[str]:
    """The overrides of several lines."""
    return [overrides(line) for line in lines]


_NARROW = plans(
    "64x32 1", "64x32 1 s8", "64x32 1 n2", "64x32 2t", "64x64 1", "64x64 1 p2", "64x64 1 c2",
    "64x64 1 p2 n2", "64x96 1 p3", "64x112 1 c3", "64x128 1 p2", "64x128 1 p4", "64x144 1 c4",
    "64x128 1 p4 n2", "64x256 1 p8", "64x256 1 p4",
)  # fmt: skip
"""n = 4096: one wave of blocks, in tiles from narrow and whole to wide and cut."""

_TWO_ROWS = plans(
    "64x64 1 g2", "64x64 1 g2 m2", "64x64 1 n2", "128x32 2", "128x32 2 n2", "128x64 2 p2",
    "128x64 2 c2", "128x64 2 p2 n2", "64x128 1 p2 g2", "64x128 1 p2 m2", "64x128 1 p2 n2",
    "128x96 2 p3", "128x112 2 c3", "128x128 2 p4", "128x144 2 c4",
)  # fmt: skip
"""The same for two rows of tiles, or one that is twice as high."""

_WIDE = plans(
    "64x64 1", "64x112 1", "64x112 2t", "64x128 1", "64x224 1", "64x224 1 n2", "64x256 1",
    "64x256 1 n2", "64x232 1",
)  # fmt: skip
"""n = 28672."""

FEW_ROWS: dict[str, list[str]] = {
    "m=64 n=4096 k=7168": _NARROW,
    "m=64 n=4096 k=14336": _NARROW,
    "m=32 n=28672 k=4096": _WIDE,
    "m=128 n=4096 k=4096": _TWO_ROWS,
    "m=32 n=4096 k=14336": _NARROW,
    "m=32 n=6144 k=4096": plans(
        "64x48 1", "64x48 1 n2", "64x64 1", "64x96 1 p2", "64x96 1 c2", "64x96 1 p2 n2",
        "64x144 1 p3", "64x160 1 c3", "64x192 1 p4", "64x208 1 c4",
    ),
    "m=64 n=4096 k=4096": _NARROW,
    "m=32 n=4096 k=4096": _NARROW,
    "m=64 n=28672 k=4096": _WIDE,
    "m=128 n=4096 k=14336": _TWO_ROWS,
    "m=128 n=7168 k=16384": plans(
        "64x112 1 g2", "64x112 1 m2", "64x112 1 n2", "64x112 2t g2", "128x56 2", "128x56 2 n2",
        "128x112 2 p2", "128x112 2 c2", "128x112 2 p2 n2", "128x160 2 p3", "128x224 2 p4",
    ),
}  # fmt: skip
"""Few rows: what the L2 delivers to a block beside what device memory does."""

LONG_K: dict[str, list[str]] = {
    "m=512 n=512 k=16384": plans(
        "64x128 1 p4 g8", "64x128 1 p4 m2", "64x128 1 p4 n2", "128x64 2 p4", "128x128 2 p8",
        "128x128 2 p8 m2", "128x128 2 p8 n2", "128x128 2 p6", "128x256 2 p16", "128x256 2 p16 m2",
        "64x256 1 p8 m2", "64x256 1 p8", "256x128 2 p16",
    ),
    "m=128 n=128 k=65536": plans(
        "64x32 1 p16 g2", "64x32 1 p16 n2", "64x32 1 p16 m2", "128x32 2 p32", "128x32 2 p32 n2",
        "64x64 1 p32", "64x64 1 p32 m2", "64x64 1 p32 n2", "64x64 1 p16", "64x64 1 p16 m2",
        "64x128 1 p32", "128x64 2 p64", "128x64 2 p32", "64x16 1 p16 n2",
    ),
    "m=784 n=512 k=2048": plans(
        "64x64 1 g8", "64x64 1 m2", "64x64 1 n2", "128x64 2 p2", "64x128 1 c2", "128x64 2 c2",
        "64x72 1", "64x56 1", "128x32 2", "128x32 2 n2",
    ),
    "m=64 n=1280 k=1280": plans(
        "64x16 1", "64x16 1 n2", "64x24 1", "64x32 1 c2", "64x48 1 c3", "64x64 1 c4", "64x64 1 c3",
    ),
}  # fmt: skip
"""Long k: parts of it, in tiles that share an operand or not."""

BATCHES: dict[str, list[str]] = {
    "m=4096 n=80 k=40 batch=8 layout=nt": plans(
        "256x128 2 s2", "256x128 2 s2 m2", "256x96 2 s2", "256x80 2 s2", "256x64 2 s2",
        "128x128 2 m2 s2", "128x128 2 s2", "128x80 2 s2", "128x80 2t s2", "128x96 2t s2",
        "128x64 2t s2",
    ),
    "m=4096 n=4096 k=40 batch=8 layout=nt": plans(
        "256x192 2 n2", "256x192 2 n2 g1", "256x192 2 n2 g2", "256x192 2", "256x128 2 n2",
        "256x128 2 n2 g1", "256x128 2", "128x128 2 m2 s2", "128x256 2 m2", "128x256 2 g1",
        "64x256 2t m2 s2",
    ),
    "m=2048 n=2048 k=128 batch=32 layout=nt": plans(
        "256x128 2 n2", "128x256 2 g16", "128x256 2 m2 g8", "256x128 2 g4", "128x192 2t m2",
        "128x128 2t", "256x192 2 n2",
    ),
    "m=4096 n=40 k=4096 batch=8": plans(
        "256x64 2", "128x64 2", "128x64 2 m2", "256x64 2 m2", "64x64 1", "64x64 1 m2", "64x64 2t",
    ),
    "m=1024 n=64 k=1024 batch=12": plans(
        "64x64 1", "128x64 2", "128x64 2t", "128x64 2 m2", "64x64 2t", "64x64 1 m2", "256x64 2",
    ),
    "m=4928 n=320 k=768 layout=nt": plans(
        "128x128 2 g1", "128x160 2 g1", "128x112 2 g1", "256x64 2 g1", "256x80 2 g1", "128x80 2t",
        "64x160 2t", "128x64 2t", "128x160 2t",
    ),
    "m=64 n=64 k=64 batch=10000": plans("64x64 1", "64x64 2t", "128x64 2", "64x128 1"),
}  # fmt: skip
"""Batches, and one weight for all, whose D is most of the traffic or whose tiles are few."""


def _every(heights: tuple[int, ...], widths: tuple[int, ...], *shared: str) -> list[str]:
    """Overrides: all tiles of some rows and columns, alone and with what neighbours share."""
    consumers = {64: ("1", "2t"), 128: ("2", "2t"), 256: ("2",)}
    return plans(
        *(
            f"{rows}x{columns} {count} {word}".strip()
            for rows in heights
            for columns in widths
            for count in consumers[rows]
            for word in ("", *shared)
        )
    )


_TILES = _every((64, 128, 256), (64, 96, 128, 160, 192, 256), "m2", "n2")

_ORDERS = plans(
    *(
        f"{tile} g{group}"
        for tile in (
            "128x128 2 m2 s2", "128x256 2 m2", "64x256 2t m2", "256x192 2 n2", "128x128 2t",
            "128x192 2t m2",
        )
        for group in (1, 2, 4, 8, 16)
    )
)  # fmt: skip

WRITING: dict[str, list[str]] = {
    "m=4096 n=4096 k=40 batch=8 layout=nt": _TILES + _ORDERS + plans(
        "128x128 2 s2", "128x128 2 n2 s2", "64x128 2t m2 s2", "128x128 2t m2 s2",
        "128x256 2 m2 s2", "64x256 2t m2 s2",
    ),
    "m=2048 n=2048 k=128 batch=32 layout=nt": _TILES + _ORDERS,
    "m=64 n=64 k=64 batch=10000": plans(
        "64x64 1", "64x64 1 s6", "64x64 1 s4", "64x64 2t", "64x64 2t s6", "64x64 2t s4",
        "64x64 2t s3", "64x128 1", "128x64 2", "128x64 2t",
    ),
    "m=4096 n=4096 k=64 batch=8 layout=nt": _TILES,
    "m=1024 n=64 k=1024 batch=12": _every((64, 128, 256), (64,), "m2")
    + plans("128x64 2t s5", "128x64 2 s5", "128x64 2 s3"),
    "m=4096 n=40 k=4096 batch=8": _every((64, 128, 256), (64,), "m2"),
    "m=12544 n=512 k=128 layout=nt": _TILES,
    "m=4096 n=2560 k=320 layout=nt": _TILES,
    "m=4096 n=77 k=40 batch=8 layout=nt": plans(
        "64x96 2t", "64x96 1", "128x96 2", "128x96 2t", "128x96 2 s2", "256x96 2", "128x80 2t",
        "128x80 2", "128x128 2 s2",
    ),
    "m=4096 n=80 k=40 batch=8 layout=nt": plans(
        "64x96 2t", "64x96 1", "128x96 2", "128x96 2t", "128x96 2 s2", "256x96 2", "256x96 2 s2",
        "128x80 2t", "128x80 2", "128x128 2 s2", "64x80 2t", "256x80 2",
    ),
    "m=4928 n=320 k=768 layout=nt": plans(
        "128x128 2", "128x160 2", "64x160 1", "64x64 1", "64x128 1",
    ),
}  # fmt: skip
"""Products whose time goes into writing D, or into few bytes a tile: every tile and what its
neighbours share."""

SHAPE_SETS: dict[str, list[tuple[str, list[str]]]] = {
    "few_rows": [(f"{shape} layout=nt dtype=bf16", lines) for shape, lines in FEW_ROWS.items()],
    "long_k": [(f"{shape} layout=nt dtype=bf16", lines) for shape, lines in LONG_K.items()],
    "batches": [(f"{shape} dtype=fp16", lines) for shape, lines in BATCHES.items()],
    "writing": [(f"{shape} dtype=fp16", lines) for shape, lines in WRITING.items()],
}
"""By name, as `program_sets.SETS` has them."""
