"""A set of ``program_sweep.py``: norms behind products, by one kernel or by two."""

from __future__ import annotations

__all__ = ["ROW_SETS"]

STEPS = {
    "in place": "bias:bf16,layer_norm",
    "gpt2": "bias:bf16,residual:bf16,store:bf16,layer_norm",
    "bert": "bias:bf16,residual:bf16,layer_norm,quantize:int8:scale=per_token",
    "llama": "residual:bf16,store:bf16,rms_norm",
}
"""Epilogues by the model that has them."""

SHAPES = (
    "m=8192 n=768 k=768 gpt2", "m=8192 n=768 k=3072 gpt2", "m=1024 n=768 k=768 gpt2",
    "m=64 n=768 k=768 gpt2", "m=8192 n=1024 k=1024 bert", "m=8192 n=1024 k=4096 bert",
    "m=512 n=1024 k=4096 bert", "m=4096 n=2048 k=2048 llama", "m=256 n=2048 k=2048 llama",
    "m=2048 n=1280 k=1280 gpt2", "m=4096 n=320 k=320 in place", "m=4096 n=640 k=640 in place",
    "m=32768 n=128 k=512 in place", "m=32768 n=256 k=256 in place", "m=16384 n=512 k=512 gpt2",
)  # fmt: skip
"""Sizes, and an epilogue."""

TILES = ((64, 1, 1), (64, 2, 2), (128, 1, 1), (128, 2, 1), (128, 2, 2), (256, 2, 1))
"""Rows of a tile, its consumers, and tiles in their hands."""


def _problem(line: str) -> str:
    sizes, steps = line.split(" k=")
    depth, name = steps.split(" ", 1)
    return f"{sizes} k={depth} dtype=bf16 layout=nt epilogue={STEPS[name]}"


def _programs(line: str) -> list[str]:
    """Overrides: each number of blocks that can have the rows, in tiles of each height."""
    columns = int(line.split("n=")[1].split(" ", 1)[0])
    blocks = [number for number in range(1, 9) if columns <= number * 256]
    return [
        f"family=wgmma cluster_rows={number} tile_m={tile_m} consumers={consumers}"
        f" tiles_at_once={at_once}"
        for number in blocks
        for tile_m, consumers, at_once in TILES
        if tile_m * at_once // consumers * -(-columns // number) <= 64 * 256
    ]


ROW_SETS = {"whole_rows": [(_problem(line), _programs(line)) for line in SHAPES]}
"""Problems with the overrides under which each is measured."""
