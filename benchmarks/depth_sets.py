"""The set "depths" of ``program_sweep.py``: one tile with few slots of the ring and with many.

Plans are lines as in ``shape_sets.py``.
"""

from __future__ import annotations

from shape_sets import plans

__all__ = ["DEPTH_SETS", "slots"]


def slots(tiles: dict[str, str]) -> list[str]:
    """Overrides: each tile with each number of slots, "2 3 4"; the tree's where that is empty."""
    return plans(
        *(f"{tile} s{count}" for tile, counts in tiles.items() for count in counts.split())
    )


DEPTHS: dict[str, list[str]] = {
    "m=64 n=4096 k=4096 layout=nt dtype=bf16": slots(
        {"64x64 1 c2": "4 5 6 8 10 14", "64x32 1": "6 8 12 16", "64x32 2t": "6 8 12 16"}
    ),
    "m=64 n=4096 k=7168 layout=nt dtype=bf16": slots(
        {"64x64 1 c2": "4 5 6 8 10 14", "64x32 1": "8 16", "64x32 2t": "6 8 12 16"}
    ),
    "m=64 n=4096 k=14336 layout=nt dtype=bf16": slots({"64x64 1 c2": "5 8 10 14"}),
    "m=32 n=28672 k=4096 layout=nt dtype=bf16": slots({"64x256 1": "2 3 4 5", "64x224 1": "3 4 5"}),
    "m=64 n=28672 k=4096 layout=nt dtype=bf16": slots(
        {"64x256 1": "2 3 4 5", "64x224 1": "2 3 4 5"}
    ),
    "m=128 n=4096 k=4096 layout=nt dtype=bf16": slots({"64x64 1 g2": "4 6 8 10 13"}),
    "m=128 n=4096 k=14336 layout=nt dtype=bf16": slots({"64x128 1 p2 g2": "4 5 6 9"}),
    "m=128 n=7168 k=16384 layout=nt dtype=bf16": slots({"64x112 1 g2": "4 5 6 7 9"}),
    "m=1024 n=64 k=1024 batch=12 dtype=fp16": slots(
        {"128x64 2": "3 4 5 6 8", "128x64 2t": "4 5 6"}
    ),
    "m=4096 n=40 k=4096 batch=8 dtype=fp16": slots({"256x64 2": "2 3 4", "128x64 2t": "3 4 5 8"}),
    "m=384 n=64 k=384 batch=192 dtype=fp16": slots(
        {"64x64 1": "4 6 8 13", "64x64 2t": "4 6 13", "128x64 2": "4 8"}
    ),
    "m=64 n=64 k=64 batch=10000 dtype=fp16": slots({"64x64 2t": "2 3 4 5 13", "64x64 1": "2 3 13"}),
    "m=2048 n=2048 k=128 batch=32 layout=nt dtype=fp16": slots(
        {
            "64x128 2t m2": "3 4 6 8",
            "64x256 2t m2": "3 4",
            "64x192 2t m2": "3 4 6",
            "128x192 2t m2": "3 4",
        }
    ),
    "m=4096 n=4096 k=40 batch=8 layout=nt dtype=fp16": slots(
        {
            "128x128 2 n2": "2 3 4 6",
            "64x256 2t m2": "2 3 4",
            "128x128 2 m2": "2 3 4 6",
            "128x128 2 n2 g1": "2",
            "128x128 2 n2 g4": "2",
            "128x128 2 n2 g16": "2",
            "128x128 2 n2 g32": "2",
        }
    ),
    "m=1024 n=1024 k=64 batch=12 layout=nt dtype=fp16": slots(
        {
            "128x64 2t": "2 4 8",
            "128x64 2t n2": "8",
            "64x64 2t": "13",
            "64x128 2t n2": "8",
            "64x128 2t m2": "8",
            "64x128 2t": "3 8",
            "128x128 2t": "2 4 6",
            "128x128 2": "2 4",
        }
    ),
    "m=384 n=384 k=64 batch=192 layout=nt dtype=fp16": slots(
        {
            "128x192 2 n2": "2 4",
            "128x192 2": "2 4",
            "128x128 2": "2 6",
            "64x192 2t": "2 6",
            "64x128 2t": "3 8",
            "128x128 2t": "3 6",
            "64x128 2t m2": "8",
            "128x192 2t": "2 4",
        }
    ),
    "m=1024 n=1024 k=80 batch=16 layout=nt dtype=fp16": slots(
        {
            "128x256 2": "2 4",
            "64x128 2t": "4 8",
            "64x256 2t": "4",
            "128x128 2t": "3 6",
            "128x128 2": "3 6",
            "64x128 2t m2": "8",
        }
    ),
    "m=12544 n=512 k=128 layout=nt dtype=fp16": slots(
        {"128x128 2t": "2 3 4 6", "64x128 2t": "4 8"}
    ),
    "m=4096 n=2560 k=320 layout=nt dtype=fp16": slots({"128x160 2t": "3 4 5"}),
    "m=4096 n=4096 k=320 layout=nt dtype=fp16": slots(
        {"128x128 2t": "3 4 5 6", "64x256 2t": "3 4", "128x160 2t": "3 4 5"}
    ),
}
"""Operands that stream past once first, then products that write most of what they move."""

DEPTH_SETS: dict[str, list[tuple[str, list[str]]]] = {"depths": list(DEPTHS.items())}
"""By name, as `program_sets.SETS` has them."""
