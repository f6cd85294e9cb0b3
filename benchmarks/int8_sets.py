"""Sets of ``program_sweep.py``: int8 with int32 results, the products of its set for ``bench``.

Plans are lines as in ``shape_sets.py``.
"""

from __future__ import annotations

from shape_sets import plans

__all__ = ["INT8_SETS"]

_LARGE = plans(
    "128x256 2", "128x256 2 m2", "128x256 2 n2", "256x128 2", "256x128 2 n2", "256x192 2 n2",
    "128x192 2t", "128x192 2t m2", "128x176 2t", "128x160 2t", "128x128 2t", "128x128 2t n2",
    "64x256 2t",
)  # fmt: skip
"""Products whose math holds them, and with it power."""

_STORED = plans(
    "128x256 2", "256x192 2", "256x128 2", "256x128 2 n2", "128x192 2t", "128x176 2t", "128x160 2t",
    "128x128 2t", "128x128 2", "64x256 2t", "64x256 1", "64x128 2t", "128x256 2 g1", "128x256 2 g4",
    "128x192 2t g1", "128x192 2t g4", "128x192 2t g8",
)  # fmt: skip
"""Large products with a short k, which write as long as they multiply."""

_SMALL = plans(
    "128x160 2t", "128x128 2", "128x128 2t", "128x64 2", "128x64 2t", "64x160 2t", "64x128 2t",
    "64x128 1", "64x96 2t", "64x64 2t", "64x64 1", "128x96 2", "128x256 2", "256x128 2",
)  # fmt: skip
"""Products of a few microseconds, which D's writes hold."""

SHAPES: dict[str, list[str]] = {
    "m=8192 n=960 k=320": _SMALL,
    "m=4096 n=4096 k=7168": _LARGE,
    "m=4096 n=32768 k=512": _STORED,
    "m=2048 n=28672 k=4096": _LARGE,
    "m=2048 n=4096 k=14336": _LARGE,
    "m=4096 n=4096 k=4096": _LARGE,
    "m=3136 n=1024 k=256": _SMALL,
    "m=4096 n=24576 k=1536": _STORED,
    "m=4096 n=7168 k=2048": _LARGE,
    "m=4096 n=2112 k=7168": _LARGE,
    "m=50176 n=256 k=64": _SMALL,
    "m=512 n=6144 k=4096": plans(
        "128x192 2", "128x192 2t", "128x256 2", "128x96 2", "64x192 2t", "128x176 2t", "64x256 1",
        "128x192 2 m2", "128x208 2",
    ),
    "m=6144 n=768 k=3072": plans(
        "64x192 2t", "128x192 2", "128x192 2t", "128x96 2", "128x144 2", "128x256 2",
        "128x256 2 m2", "256x128 2", "128x160 2t", "128x128 2t", "64x256 2t",
    ),
    "m=4096 n=320 k=320": _SMALL,
    "m=50176 n=64 k=256": plans(
        "128x64 2", "128x64 2t", "64x64 2t", "64x64 1", "256x64 2", "128x64 2 s3", "64x64 2t s4",
    ),
    "m=12544 n=512 k=128": _SMALL,
    "m=4096 n=2560 k=320": _SMALL,
    "m=4096 n=320 k=1280": plans(
        "64x160 1", "64x160 2t", "128x80 2", "128x80 2t", "64x80 2t", "64x64 1", "128x160 2",
    ),
    "m=1024 n=640 k=640": plans("128x48 2", "64x96 1", "64x80 1", "128x64 2", "64x64 1", "64x48 1"),
}  # fmt: skip
"""By the ratio that is to be gained, most first."""

CAPPED = (
    *("m=4096 n=4096 k=7168", "m=4096 n=4096 k=4096", "m=2048 n=28672 k=4096"),
    *("m=2048 n=4096 k=14336", "m=4096 n=7168 k=2048", "m=4096 n=2112 k=7168"),
    "m=512 n=6144 k=4096",
)
"""Products at the board's power cap, and two near it."""

_CLUSTERED = plans(
    "128x128 2t n2", "128x128 2t m2", "128x256 2 n2", "256x128 2 n2", "128x192 2t n2",
    "128x160 2t n2", "128x176 2t n2",
)  # fmt: skip

_LONG = plans(
    "128x256 2", "128x256 2 n2", "128x256 2 m2", "256x128 2", "256x128 2 n2", "128x128 2t",
    "128x128 2t n2", "128x128 2t m2", "128x160 2t", "128x160 2t n2", "128x176 2t n2", "128x192 2t",
    "128x192 2t n2",
)  # fmt: skip
"""Products whose math holds them, by clusters and deeper rings too."""

_SHORT = plans(
    "256x128 2", "128x256 2", "128x192 2t", "128x160 2", "128x160 2t", "128x128 2", "128x128 2t",
    "128x112 2t", "128x96 2", "128x96 2t", "64x192 2t", "64x160 2t", "64x128 2t", "128x64 2",
    "128x64 2t",
)  # fmt: skip
"""Products that D's writes hold, or as much as math does."""

_FEW = plans(
    "128x80 2", "64x160 1", "64x80 1", "64x96 1", "128x64 2", "64x64 1", "64x64 2t", "128x128 2t",
    "64x128 2t", "64x128 1", "64x96 2t", "64x112 2t", "128x80 2t", "64x80 2t", "128x96 2",
)  # fmt: skip
"""Products of a wave of tiles or two."""

_WRITTEN = (
    "m=4096 n=24576 k=1536", "m=4096 n=32768 k=512", "m=6144 n=3072 k=768", "m=6144 n=2304 k=768",
    "m=50176 n=256 k=64", "m=8192 n=960 k=320", "m=4096 n=2560 k=320", "m=12544 n=512 k=128",
    "m=50176 n=64 k=256", "m=3136 n=1024 k=256", "m=1024 n=5120 k=640",
)  # fmt: skip
_TINY = (
    "m=1024 n=3072 k=768", "m=784 n=512 k=2048", "m=4096 n=320 k=1280", "m=4096 n=320 k=320",
    "m=1024 n=640 k=640",
)  # fmt: skip

AGAIN: dict[str, list[str]] = {
    **dict.fromkeys(CAPPED[:6], _LONG),
    "m=512 n=6144 k=4096": plans(
        "128x192 2", "128x192 2t", "128x192 2t n2", "128x96 2", "64x192 2t", "64x192 2t n2",
        "128x192 2 m2", "128x192 2 n2", "128x208 2",
    ),
    "m=6144 n=768 k=3072": plans(
        "64x192 2t", "64x192 2t n2", "128x160 2t", "128x160 2t n2", "128x96 2", "128x96 2 n2",
        "128x128 2t n2", "64x256 2t", "64x256 1", "64x192 1", "128x144 2t",
    ),
    **dict.fromkeys(_WRITTEN, _SHORT),
    **dict.fromkeys(_TINY, _FEW),
}  # fmt: skip
"""All of them, with sums that leave as they do now."""

NEAR: dict[str, list[str]] = {
    "m=4096 n=4096 k=7168": plans(
        "64x256 2t",
        "128x112 2t",
        "64x208 2t",
        "64x208 2t n2",
        "64x192 2t",
        "64x160 2t n2",
        "128x80 2t",
        "64x256 2t m2",
    ),
    "m=4096 n=4096 k=4096": plans(
        "64x256 2t",
        "128x112 2t",
        "64x208 2t",
        "128x80 2t",
        "128x112 2t m2",
        "64x208 2t n2",
        "64x240 2t",
    ),
    "m=2048 n=28672 k=4096": plans(
        "64x176 2t n2",
        "64x240 2t n2",
        "64x208 2t n2",
        "64x224 2t n2",
        "64x160 2t n2",
        "64x240 2t",
        "64x256 2t",
        "128x144 2t n2",
    ),
    "m=2048 n=4096 k=14336": plans(
        "64x256 2t",
        "64x256 2t n2",
        "64x208 2t",
        "64x208 2t n2",
        "64x128 2t n2",
        "64x256 2t m2",
        "64x176 2t",
        "128x176 2t",
    ),
    "m=4096 n=7168 k=2048": plans(
        "128x112 2t", "128x176 2t m2", "128x112 2t n2", "64x240 2t n2", "128x160 2t m2", "64x208 2t"
    ),
    "m=4096 n=2112 k=7168": plans(
        "64x176 2t n2",
        "64x176 2t",
        "64x176 2t m2",
        "64x224 2t",
        "128x176 2t m2",
        "64x224 2t n2",
        "128x112 2t",
        "128x176 2 n2",
        "128x176 2 m2",
        "128x176 2",
        "128x144 2t",
    ),
    "m=512 n=6144 k=4096": plans(
        "128x96 2t",
        "64x192 2t m2",
        "128x96 2t n2",
        "64x128 2t m2",
        "128x192 1",
        "256x96 2",
        "128x192 1 n2",
    ),
    "m=6144 n=768 k=3072": plans(
        "128x96 2t",
        "64x192 2t m2",
        "128x96 2t n2",
        "128x96 2t m2",
        "64x208 2t",
        "128x160 2t m2",
        "64x208 2t n2",
    ),
    "m=4096 n=24576 k=1536": plans(
        "128x176 2t n2",
        "128x176 2t",
        "128x144 2t n2",
        "128x160 2t n2",
        "128x144 2t",
        "128x176 2t m2",
    ),
    "m=4096 n=32768 k=512": plans("64x256 2t", "128x192 2", "128x192 2 n2", "128x192 2 m2"),
    "m=6144 n=3072 k=768": plans(
        "64x208 2t", "128x96 2t n2", "128x96 2t m2", "128x144 2t", "128x112 2t n2", "64x240 2t"
    ),
    "m=6144 n=2304 k=768": plans(
        "128x80 2t", "128x96 2t n2", "128x96 2t m2", "128x112 2t n2", "128x112 2t m2", "128x144 2t"
    ),
    "m=50176 n=256 k=64": plans(
        "128x256 2 m2", "256x128 2 n2", "256x128 2 m2", "128x128 1", "64x256 1", "256x64 2"
    ),
    "m=8192 n=960 k=320": plans(
        "64x240 1",
        "64x192 1",
        "64x160 1",
        "128x80 2",
        "64x240 1 m2",
        "64x240 1 n2",
        "128x160 1",
        "64x256 1",
    ),
    "m=4096 n=2560 k=320": plans("64x256 2t", "128x80 2t", "128x144 2t", "64x224 2t"),
    "m=12544 n=512 k=128": plans(
        "64x128 1",
        "64x96 1",
        "64x112 1",
        "64x144 1",
        "64x256 1",
        "64x176 1",
        "128x64 1",
        "64x160 1",
    ),
    "m=50176 n=64 k=256": plans(
        "128x64 2", "128x64 1", "128x80 2", "64x64 1", "256x32 2", "128x80 1", "128x32 2", "64x80 1"
    ),
    "m=3136 n=1024 k=256": plans(
        "64x128 1",
        "64x144 1",
        "64x208 1",
        "128x112 2",
        "64x224 1",
        "64x128 1 n2",
        "64x160 1",
        "128x80 2",
        "64x80 2t",
        "64x64 2t",
    ),
    "m=1024 n=5120 k=640": plans(
        "64x160 1",
        "128x80 2",
        "128x112 2",
        "64x128 1",
        "64x224 1",
        "64x160 1 m2",
        "64x160 1 n2",
        "128x160 1",
        "128x160 2 n2",
        "128x160 2 m2",
    ),
    "m=1024 n=3072 k=768": plans(
        "64x192 1",
        "128x96 1",
        "128x96 2t",
        "64x192 2t",
        "128x96 2 n2",
        "64x192 1 m2",
        "128x96 2 m2",
        "128x192 2",
    ),
    "m=784 n=512 k=2048": plans(
        "64x64 1 n2", "64x64 1 m2", "128x32 2", "64x64 2t n2", "64x64 2t m2"
    ),
    "m=4096 n=320 k=1280": plans(
        "128x80 1",
        "64x160 2t",
        "64x160 1 m2",
        "64x160 1 n2",
        "64x176 1",
        "128x80 2 n2",
        "64x176 2t",
    ),
    "m=4096 n=320 k=320": plans("128x80 1", "64x176 1", "64x192 1", "64x160 2t"),
    "m=1024 n=640 k=640": plans("128x48 2", "64x80 1 m2", "64x112 1", "64x80 1 n2"),
}
"""Those that the model put first or near it when it had been fitted to `AGAIN` alone."""

INT8_SETS: dict[str, list[tuple[str, list[str]]]] = {
    "int8_shapes": [(f"{shape} dtype=int8 layout=nt", lines) for shape, lines in SHAPES.items()],
    "int8_again": [(f"{shape} dtype=int8 layout=nt", lines) for shape, lines in AGAIN.items()],
    "int8_near": [(f"{shape} dtype=int8 layout=nt", lines) for shape, lines in NEAR.items()],
    "int8_capped": [(f"{shape} dtype=int8 layout=nt", _CLUSTERED) for shape in CAPPED],
}
"""By name, as `program_sets.SETS` has them."""
