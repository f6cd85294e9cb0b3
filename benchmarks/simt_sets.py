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


def _cube(size: int, letters: str) -> str:
    return f"m={size} n={size} k={size} dtype=fp32 tensor_cores=off layout={letters}"


SIMT_SETS: dict[str, list[tuple[str, list[str]]]] = {
    "fp32_small": [
        *((_cube(1024, letters), _SMALL) for letters in ("nn", "nt", "tn")),
        *((_cube(2048, letters), _MIDDLE) for letters in ("nn", "nt")),
    ],
}
"""By name, as `program_sets.SETS` has them."""
