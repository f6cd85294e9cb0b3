"""Sets of ``program_sweep.py``: fp32 on the CUDA cores, in sizes whose tiles are one for each SM.

A plan is a line: the block tile, warps along m and n, resident blocks and stages. With two stages
k may turn round by quads, which pass through registers; with more it goes by elements.
"""

from __future__ import annotations

__all__ = ["SIMT_SETS"]


def _plans(*lines: str) -> list[str]:
    """The overrides that lines such as ``64x128x16 2x2 1 4`` stand for."""
    found = []
    for line in lines:
        tile, warps, blocks, stages = line.split()
        names = ("tile_m", "tile_n", "tile_k", "warps_m", "warps_n", "min_blocks", "stages")
        values = (*tile.split("x"), *warps.split("x"), blocks, stages)
        found.append(" ".join(f"{n}={v}" for n, v in zip(names, values, strict=True)))
    return found


_SMALL = _plans(
    "64x128x16 2x2 1 4", "64x128x16 2x2 1 3", "64x128x16 2x2 1 2", "64x128x16 2x2 1 6",
    "64x128x8 2x2 1 8", "64x128x8 2x2 1 2", "128x64x16 2x2 1 4", "128x64x16 4x1 1 2",
    "128x64x16 4x1 1 4", "64x64x16 1x2 2 4", "64x64x16 2x1 2 4", "64x64x16 2x2 2 4",
    "64x64x16 2x2 2 2", "64x64x16 1x2 2 2", "64x128x16 2x4 1 4", "64x128x16 2x4 1 2",
    "128x128x16 2x4 1 4", "128x32x16 4x1 2 4", "64x256x16 2x4 1 4", "64x256x16 1x4 1 4",
    "32x128x16 1x2 2 4",
)  # fmt: skip
"""1024-cubed: 128 tiles of 64x128."""

_MIDDLE = _plans(
    "128x256x16 2x4 1 2", "128x256x16 2x4 1 4", "128x256x8 2x4 1 6", "128x128x16 2x2 2 2",
    "128x128x16 2x2 2 4", "128x128x16 2x4 1 2", "256x128x16 4x2 1 2", "256x128x16 4x2 1 4",
    "64x128x16 2x2 3 2", "64x256x16 1x4 2 4", "128x128x8 2x2 2 6",
)  # fmt: skip
"""2048-cubed: 128 tiles of 128x256."""


_TILES = _plans(
    "64x256x16 2x2 1 2", "64x128x16 2x2 3 2", "64x64x16 2x2 3 2", "32x128x16 2x2 4 2",
    "64x256x16 2x4 1 2", "64x256x16 2x4 1 4", "128x64x16 4x1 3 2", "64x128x16 2x2 3 4",
    "32x64x16 2x2 4 2",
)  # fmt: skip
"""Beside what the tree took before for products of models: four warps, 128 sums a thread."""

_BEFORE = {
    "nn": {
        "m=4096 n=320 k=1280": "64x256x16 2x2 1 2", "m=6144 n=2304 k=768": "64x256x16 2x2 2 2",
        "m=4096 n=320 k=320": "64x256x16 2x2 1 2", "m=4096 n=2560 k=320": "64x256x16 2x2 2 2",
        "m=12544 n=512 k=128": "64x256x16 2x2 2 2",
    },
    "nt": dict.fromkeys(
        ("m=6144 n=2304 k=768", "m=4096 n=2560 k=320", "m=12544 n=512 k=128"), "128x128x16 2x2 2 4"
    ),
    "tn": {
        "m=4096 n=320 k=1280": "128x128x16 2x2 1 4", "m=6144 n=2304 k=768": "128x128x16 2x2 2 4",
        "m=4096 n=320 k=320": "128x128x16 2x2 1 4", "m=4096 n=2560 k=320": "128x128x16 2x2 2 4",
        "m=12544 n=512 k=128": "128x128x16 2x2 2 4",
    },
}  # fmt: skip
"""What the tree took before, of products whose pick has changed since."""


def _product(sizes: str, letters: str) -> str:
    return f"{sizes} dtype=fp32 tensor_cores=off layout={letters}"


def _cube(size: int, letters: str) -> str:
    return _product(f"m={size} n={size} k={size}", letters)


SIMT_SETS: dict[str, list[tuple[str, list[str]]]] = {
    "fp32_small": [
        *((_cube(1024, letters), _SMALL) for letters in ("nn", "nt", "tn")),
        *((_cube(2048, letters), _MIDDLE) for letters in ("nn", "nt")),
    ],
    "fp32_tiles": [
        *((_product(sizes, "nn"), _TILES) for sizes in _BEFORE["nn"]),
        (_product("m=4096 n=320 k=1280", "nt"), _TILES),
    ],
    "fp32_picks": [
        (_product(sizes, letters), _plans(plan))
        for letters, before in _BEFORE.items()
        for sizes, plan in before.items()
    ],
}
"""By name, as `program_sets.SETS` has them."""
