"""The sets of problems and overrides that ``program_sweep.py`` measures."""

from __future__ import annotations

from depth_sets import DEPTH_SETS
from int8_sets import INT8_SETS
from ring_sets import RING_SETS
from row_sets import ROW_SETS
from shape_sets import SHAPE_SETS
from simt_sets import SIMT_SETS

__all__ = ["SETS"]


def _parts(*numbers: int) -> list[str]:
    """Overrides: each number of parts, by either family and in tiles that want some."""
    tiles = ("tile_m=64 tile_n=64", "tile_m=64 tile_n=128", "tile_m=128 tile_n=128")
    found = [f"split_k={number} family={f}" for number in numbers for f in ("wgmma", "mma_sync")]
    found += [f"split_k={number} family=wgmma {tile}" for number in numbers for tile in tiles]
    return ["split_k_from=0", *found]


TINY = [
    "abreast=1",
    "abreast=2",
    "abreast=4",
    "abreast=8",
    "abreast=16",
    *(f"abreast={number} family=mma_sync" for number in (1, 2, 4, 8)),
]
"""Overrides: so many tiles of a batch a block, by the tree's family and by mma.sync."""


def _gathered(*numbers: int, apart: tuple[int, ...] = ()) -> list[str]:
    """Overrides: parts that meet in a cluster, in several tiles, or by a second kernel."""
    tiles = ("", " tile_m=64 tile_n=32", " tile_m=64 tile_n=64", " tile_m=64 tile_n=128",
             " tile_m=128 tile_n=128")  # fmt: skip
    found = [f"cluster_k={number}{tile}" for number in numbers for tile in tiles]
    found += [f"split_k={number} cluster_k=1" for number in (*numbers, *apart)]
    return ["split_k_from=0", *found]


def _shared(*numbers: int) -> list[str]:
    """Overrides: blocks beside each other share A by multicast, k whole or in parts apart."""
    tiles = (32, 64, 96, 128, 192, 256)
    wide = [f"cluster_n=2 tile_m=64 tile_n={tile}" for tile in tiles]
    return [
        "family=mma_sync split_k=1",
        *(f"{each} split_k=1" for each in wide),
        *(f"{each} split_k={number}" for number in numbers for each in wide[1:5]),
        *(f"cluster_m=2 tile_m=64 tile_n={tile} split_k={numbers[0]}" for tile in (64, 128)),
    ]


def _tiles(*shapes: str) -> list[str]:
    """Overrides of a wgmma tile, each "rows x columns consumers at once cluster_m cluster_n"."""
    names = ("tile_m", "tile_n", "consumers", "tiles_at_once", "cluster_m", "cluster_n")
    return [
        " ".join(f"{name}={value}" for name, value in zip(names, shape.split(), strict=True))
        for shape in shapes
    ]


WIDE = _tiles(
    *("128 256 2 1 1 1", "128 256 2 1 2 1", "128 256 2 1 1 2", "64 256 2 2 2 1", "64 256 2 2 1 1"),
    *("128 192 2 1 1 1", "128 192 2 1 2 1", "128 192 2 2 1 1", "128 192 2 2 2 1"),
    *("128 176 2 1 1 1", "128 176 2 2 1 1", "128 160 2 1 1 1", "128 160 2 1 2 1"),
    *("128 160 2 2 1 1", "128 128 2 1 1 1", "128 128 2 1 2 1", "128 128 2 2 1 1"),
    *("64 192 2 2 1 1", "64 128 2 2 1 1", "64 160 2 2 1 1", "128 144 2 2 1 1", "64 256 1 1 1 1"),
)
"""Overrides: the tiles of wgmma that large products want."""

SMALL = _tiles(
    *("64 64 1 1 1 1", "64 128 1 1 1 1", "64 96 1 1 1 1", "128 64 2 1 1 1", "128 96 2 1 1 1"),
)
"""Overrides: tiles for products that do not fill the GPU."""

SCALED = _tiles(
    *("128 128 2 1 1 1", "128 128 2 1 2 1", "128 128 2 1 1 2", "128 112 2 1 1 1"),
    *("128 96 2 1 1 1", "64 128 2 2 1 1", "128 192 2 1 1 1", "128 192 2 1 2 1"),
    *("128 160 2 1 1 1", "256 96 2 1 1 1", "256 128 2 1 1 1", "256 128 2 1 1 2"),
)
"""Overrides: tiles whose slices are added while the next ones are multiplied (64 rows and at most
128 columns a consumer), and such that wait; in one block of scales or two, with two's selects."""

SCALED_FEW = _tiles(
    *("64 32 1 1 1 1", "64 64 1 1 1 1", "64 96 1 1 1 1", "64 128 1 1 1 1", "64 192 1 1 1 1"),
    *("64 64 2 2 1 1", "64 128 2 2 1 1", "128 64 2 1 1 1", "128 128 2 1 1 1"),
)
"""The same for products of few rows."""

BY_BLOCK = "dtype=e4m3 layout=nt scale_a=1x128 scale_b=128x128"
"""Operands with scales by block."""

DEEPSEEK = (
    "m=4096 n=4096 k=7168", "m=4096 n=4096 k=4096", "m=4096 n=24576 k=1536",
    "m=4096 n=2112 k=7168", "m=4096 n=7168 k=2048", "m=4096 n=7168 k=16384",
    "m=4096 n=32768 k=512",
)  # fmt: skip
"""Products of DeepSeek V3's layers, and a cube."""

DEEPSEEK_FEW = (
    "m=128 n=4096 k=7168", "m=64 n=7168 k=2048", "m=128 n=7168 k=16384", "m=64 n=24576 k=1536",
)  # fmt: skip
"""Those of a few tokens."""

STORING = [
    *(
        f"{tile} stages={stages}"
        for stages in (2, 4)
        for tile in WIDE[:1] + WIDE[3:6] + WIDE[14:20]
    ),
    *_tiles(
        "64 64 1 1 1 1", "64 128 1 1 1 1", "128 96 2 2 1 1", "128 64 2 2 1 1", "128 64 2 1 1 1"
    ),
    *(f"family=mma_sync tile_m={m} tile_n={n}" for m in (64, 128) for n in (64, 128)),
    *(f"family=mma_sync min_blocks={blocks}" for blocks in (2, 3, 4)),
    *(f"family=wgmma raster_group={group}" for group in (1, 4, 16)),
]
"""Overrides: what may matter where the time goes into writing D."""

LARGE = (
    "m=4096 n=4096 k=4096", "m=4096 n=4096 k=7168", "m=2048 n=28672 k=4096",
    "m=2048 n=4096 k=14336", "m=4096 n=24576 k=1536", "m=4096 n=7168 k=2048",
    "m=6144 n=3072 k=768",
)  # fmt: skip
"""Products of models that fill the GPU."""


STEPS = (
    "",
    "bias:fp16",
    "bias:fp16,relu",
    "bias:fp16,gelu_tanh",
    "bias:fp16,gelu",
    "bias:fp16,gelu_tanh,quantize:int8:scale=20.0",
)
"""Epilogues from none to dear: their differences are what each step costs a plan."""

STEP_PLANS = [
    f"family=wgmma tile_m={m} tile_n={n} consumers=2 tiles_at_once={turns}"
    f" cluster_m={cluster_m} cluster_n={cluster_n}"
    for m, n, turns, cluster_m, cluster_n in (
        (64, 256, 2, 2, 1),
        (64, 256, 2, 1, 1),
        (128, 128, 2, 2, 1),
        (128, 128, 2, 1, 1),
        (128, 160, 2, 1, 1),
        (128, 192, 2, 1, 1),
        (128, 128, 1, 1, 1),
        (128, 192, 1, 1, 1),
        (128, 256, 1, 1, 1),
        (128, 256, 1, 2, 1),
        (256, 128, 1, 1, 1),
        (256, 128, 1, 1, 2),
    )
]
"""Plans whose epilogue the other consumer's slices hide, and plans that show it once a tile."""


GROUPS = (1, 2, 4, 8, 16, 32)
"""Tile rows that neighbouring blocks walk before the next columns."""

TURNS, TOGETHER = _tiles("128 192 2 2 1 1", "128 256 2 1 1 1")
WRITING = [
    ("m=8192 n=8192 k=1024", TURNS),
    ("m=8192 n=8192 k=1024 epilogue=bias:fp16,gelu_tanh", TURNS),
    ("m=8192 n=8192 k=1024 epilogue=bias:fp16,gelu_tanh,quantize:int8:scale=20.0", TURNS),
    ("m=4096 n=2560 k=320", *_tiles("128 160 2 2 1 1")),
    ("m=4096 n=4096 k=4096", TOGETHER),
    ("m=4096 n=4096 k=4096", *_tiles("128 128 2 2 1 1")),
    ("m=4096 n=32768 k=512", TURNS),
    ("m=4096 n=24576 k=1536", *_tiles("128 176 2 2 1 1")),
    ("m=6144 n=3072 k=768", TURNS),
    ("m=2048 n=2048 k=128 batch=32", TURNS),
    ("m=2048 n=2048 k=128 batch=32", TOGETHER),
    ("m=4928 n=320 k=768", *_tiles("128 128 2 1 1 1")),
]
"""Problems whose D is large beside A and B, and some where it is not, each with its tile."""


def _stepped(sizes: str) -> list[tuple[str, list[str]]]:
    """A shape under each epilogue, each in all plans."""
    problem = f"dtype=fp16 layout=nt {sizes}"
    return [(f"{problem} epilogue={steps}" if steps else problem, STEP_PLANS) for steps in STEPS]


SIMT = [
    f"tile_m={m} tile_n={n} tile_k={k} warps_m={warps_m} warps_n={warps_n} min_blocks={blocks}"
    f" stages={stages}"
    for m, n, k, warps_m, warps_n, blocks, stages in (
        (128, 256, 16, 2, 4, 1, 3),
        (256, 128, 16, 4, 2, 1, 4),
        (128, 128, 16, 2, 2, 2, 4),
        (128, 128, 16, 2, 2, 2, 3),
        (128, 128, 8, 2, 2, 2, 4),
        (64, 256, 16, 1, 4, 2, 3),
        (256, 128, 8, 4, 2, 1, 4),
        (128, 128, 16, 2, 4, 2, 3),
    )
]
"""Overrides of the CUDA-core family: one block with all registers, or two that wait apart."""


ENDS: dict[str, tuple[str, ...]] = {
    "m=1024 n=640 k=640": ("64 96 1 1 1 1", "64 80 2 2 1 1", "128 80 2 1 1 1"),
    "m=4096 n=320 k=320": ("64 160 1 1 1 1", "64 160 2 2 1 1", "128 80 2 1 1 1", "128 96 2 1 1 1"),
    "m=4096 n=320 k=1280": ("128 80 2 1 1 1", "128 80 1 1 1 1", "64 160 1 1 1 1"),
    "m=784 n=512 k=2048": ("64 64 2 2 1 1", "64 64 1 1 1 1"),
    "m=1024 n=1024 k=1024": ("64 128 2 2 1 1", "128 64 2 1 1 1"),
    "m=1024 n=3072 k=768": ("128 192 2 1 1 1", "64 192 2 2 1 1", "128 96 2 2 1 1"),
    "m=3136 n=1024 k=256": ("64 128 2 2 1 1", "64 256 2 2 1 1"),
    "m=12544 n=512 k=128": ("64 128 2 2 1 1", "128 128 2 2 1 1"),
    "m=50176 n=64 k=256": ("64 64 1 1 1 1", "64 64 2 2 1 1", "128 64 2 2 1 1"),
    "m=50176 n=256 k=64": ("64 128 2 2 1 1", "128 64 2 2 1 1", "64 256 2 2 1 1"),
    "m=4096 n=4096 k=320": ("128 128 2 2 1 1", "128 160 2 2 1 1"),
    "m=64 n=28672 k=4096": ("64 128 2 2 1 1", "64 128 1 1 1 1", "64 112 1 1 1 1", "64 224 1 1 1 1"),
    "m=2048 n=28672 k=4096": ("128 160 2 2 1 1", "128 120 2 2 1 1", "128 176 2 2 1 1"),
    "m=6144 n=768 k=3072": ("64 192 2 2 1 1", "128 96 2 2 1 1", "128 160 2 1 1 1"),
    "m=4096 n=2112 k=7168": ("128 176 2 2 1 1", "128 176 2 1 1 1"),
    "m=2048 n=2048 k=2048": ("128 128 2 2 1 1", "128 256 2 1 1 1", "128 128 2 1 1 1"),
    "m=4096 n=4096 k=4096": ("128 128 2 2 1 1", "128 256 2 1 1 1"),
}
"""Problems, nt, on which a tile's ends or its turns decide, and tiles that are near."""

LAYOUTS = [
    *_tiles("128 128 2 2 1 1", "128 128 2 2 2 1", "128 128 2 2 1 2", "128 192 2 2 1 1"),
    *_tiles("128 256 2 1 1 1", "128 256 2 1 2 1", "64 256 2 2 1 1", "64 192 2 2 1 1"),
]
"""Overrides: tiles that every layout admits."""

LIMITED = [
    *(f"raster_group={group}" for group in (1, 2, 4, 8, 32, 48)),
    *LAYOUTS,
]
"""Overrides: orders of the tree's tile, and other tiles."""

SETS: dict[str, list[tuple[str, list[str]]]] = {
    "layouts": [
        *(
            (f"m=6144 n=2304 k=768 dtype=bf16 layout={letters}", LIMITED)
            for letters in ("nt", "nn", "tn", "tt")
        ),
        *(
            (f"m=2048 n=2048 k=2048 dtype=bf16 layout={letters}", LIMITED)
            for letters in ("nt", "tt")
        ),
    ],
    "ends": [
        *((f"{problem} layout=nt dtype=bf16", _tiles(*tiles)) for problem, tiles in ENDS.items()),
        ("m=4096 n=7168 k=2048 layout=nt dtype=bf16", _tiles("128 160 2 2 1 1")),
        *(
            (
                f"m=4096 n=7168 k=2048 layout={layout} dtype=bf16",
                _tiles("128 128 2 2 1 1", "128 128 2 2 1 2", "128 256 2 1 1 1"),
            )
            for layout in ("nn", "tn")
        ),
    ],
    "split_k": [
        ("m=64 n=64 k=16384 layout=nt dtype=bf16", _parts(16, 32, 64, 128)),
        ("m=512 n=512 k=16384 layout=nt dtype=bf16", _parts(2, 4, 8, 16)),
        ("m=128 n=128 k=65536 layout=nt dtype=bf16", _parts(16, 32, 66, 128)),
        ("m=784 n=512 k=2048 layout=nt dtype=bf16", _parts(2, 3, 4)),
        ("m=256 n=1280 k=1280 layout=nt dtype=bf16", _parts(2, 3)),
        ("m=64 n=1280 k=1280 layout=nt dtype=bf16", _parts(2, 4, 6)),
        ("m=32 n=4096 k=4096 layout=nt dtype=bf16", _parts(2, 4)),
        ("m=64 n=4096 k=4096 layout=nt dtype=bf16", _parts(2, 4)),
        ("m=128 n=4096 k=4096 layout=nt dtype=bf16", _parts(2, 4)),
        ("m=32 n=6144 k=4096 layout=nt dtype=bf16", _parts(2, 3)),
        ("m=64 n=4096 k=14336 layout=nt dtype=bf16", _parts(2, 4)),
        ("m=128 n=4096 k=14336 layout=nt dtype=bf16", _parts(2, 4)),
        ("m=128 n=7168 k=16384 layout=nt dtype=bf16", _parts(2, 3)),
    ],
    "abreast": [
        ("m=16 n=16 k=16 batch=10000 dtype=bf16", TINY),
        ("m=32 n=32 k=32 batch=10000 dtype=bf16", TINY),
        ("m=64 n=64 k=64 batch=10000 dtype=bf16", TINY),
        ("m=8 n=8 k=32 batch=65537 dtype=bf16", TINY),
        ("m=16 n=16 k=64 batch=100000 dtype=bf16", TINY),
    ],
    "cluster_k": [
        ("m=64 n=64 k=16384 layout=nt dtype=bf16", _gathered(4, 8, apart=(16, 32))),
        ("m=512 n=512 k=16384 layout=nt dtype=bf16", _gathered(2, 4, 8)),
        ("m=128 n=128 k=65536 layout=nt dtype=bf16", _gathered(4, 8, apart=(16, 32))),
        ("m=784 n=512 k=2048 layout=nt dtype=bf16", _gathered(2, 3)),
        ("m=256 n=1280 k=1280 layout=nt dtype=bf16", _gathered(2, 3)),
        ("m=64 n=1280 k=1280 layout=nt dtype=bf16", _gathered(2, 3, 4)),
        ("m=32 n=4096 k=4096 layout=nt dtype=bf16", _gathered(2)),
        ("m=64 n=4096 k=4096 layout=nt dtype=bf16", _gathered(2, 4)),
        ("m=64 n=4096 k=7168 layout=nt dtype=bf16", _gathered(2, 4)),
        ("m=128 n=4096 k=4096 layout=nt dtype=bf16", _gathered(2, 4)),
        ("m=128 n=4096 k=14336 layout=nt dtype=bf16", _gathered(2, 4)),
    ],
    "shared": [
        ("m=64 n=4096 k=7168 layout=nt dtype=bf16", _shared(2)),
        ("m=64 n=4096 k=14336 layout=nt dtype=bf16", _shared(2)),
        ("m=64 n=4096 k=4096 layout=nt dtype=bf16", _shared(2)),
        ("m=32 n=28672 k=4096 layout=nt dtype=bf16", _shared(2)),
        ("m=128 n=128 k=65536 layout=nt dtype=bf16", _shared(16, 32, 66)),
        ("m=512 n=512 k=16384 layout=nt dtype=bf16", _shared(4, 8)),
        ("m=128 n=4096 k=4096 layout=nt dtype=bf16", _shared(2)),
        ("m=784 n=512 k=2048 layout=nt dtype=bf16", _shared(2)),
    ],
    "wide": [
        (
            f"m={m} n=28672 k=4096 layout=nt dtype=bf16",
            [
                f"family=wgmma split_k=1 tile_m=64 tile_n={tile} cluster_n={cluster}"
                for tile in (56, 72, 112, 128, 224, 256)
                for cluster in (1, 2)
            ],
        )
        for m in (32, 64)
    ],
    "short_k": [
        ("m=4096 n=4096 k=40 batch=8 dtype=fp16 layout=nt", STORING),
        ("m=1024 n=1024 k=80 batch=16 dtype=fp16 layout=nt", STORING),
        ("m=2048 n=2048 k=128 batch=32 dtype=fp16 layout=nt", STORING),
        ("m=4096 n=80 k=40 batch=8 dtype=fp16 layout=nt", STORING),
        ("m=64 n=64 k=64 batch=10000 dtype=fp16", STORING),
        ("m=4096 n=40 k=4096 batch=8 dtype=fp16", STORING),
        ("m=4928 n=320 k=768 dtype=fp16 layout=nt", STORING),
        ("m=8192 n=8192 k=1024 dtype=fp16 layout=nt", STORING),
    ],
    "int8": [(f"{shape} dtype=int8 layout=nt", WIDE) for shape in LARGE],
    "fp8": [(f"{shape} dtype=e4m3 layout=nt", WIDE) for shape in LARGE],
    "promoted": [(f"{shape} dtype=e4m3 layout=nt", SCALED) for shape in LARGE[:4]],
    "block_scales": [(f"{shape} {BY_BLOCK}", SCALED) for shape in DEEPSEEK],
    "block_scales_few": [(f"{shape} {BY_BLOCK}", SCALED_FEW) for shape in DEEPSEEK_FEW],
    "fp32": [
        (f"m=4096 n=4096 k=4096 dtype=fp32 tensor_cores=off layout={letters}", SIMT)
        for letters in ("nn", "nt")
    ],
    "odd": [
        ("m=4097 n=4097 k=4097 dtype=fp16 layout=nt", ["repack=off", *WIDE]),
        ("m=4097 n=4097 k=4097 dtype=fp16", ["repack=off", *WIDE]),
        ("m=1023 n=1023 k=1023 dtype=fp16 layout=nt", ["repack=off", *WIDE, *SMALL]),
        ("m=1023 n=1023 k=1023 dtype=fp16", ["repack=off", *WIDE, *SMALL]),
        ("m=1024 n=50257 k=768 dtype=fp16", ["repack=off", *WIDE]),
        ("m=2048 n=4096 k=1024 dtype=fp16 layout=nt align_a=2", ["repack=off", *WIDE]),
    ],
    "raster": [
        (f"dtype=fp16 layout=nt {problem}", [f"{tile} raster_group={group}" for group in GROUPS])
        for problem, tile in WRITING
    ],
    "one_wave": [
        (f"dtype=fp16 layout=nt {problem}", [f"raster_group={group}" for group in GROUPS])
        for problem in (
            "m=4928 n=320 k=768",
            "m=1024 n=640 k=640",
            "m=784 n=512 k=2048",
            "m=4096 n=320 k=320",
            "m=4096 n=320 k=1280",
            "m=1024 n=1024 k=1024",
            "m=320 n=4096 k=1280",
            "m=512 n=6144 k=4096",
            "m=128 n=4096 k=4096",
        )
    ],
    "steps": [
        *_stepped("m=4096 n=4096 k=4096"),
        *_stepped("m=4096 n=2560 k=320"),
        *_stepped("m=8192 n=8192 k=1024"),
        *_stepped("m=512 n=6144 k=4096"),
    ],
    **DEPTH_SETS,
    **SHAPE_SETS,
    **INT8_SETS,
    **RING_SETS,
    **ROW_SETS,
    **SIMT_SETS,
}
"""By name: a problem, and overrides for it."""
