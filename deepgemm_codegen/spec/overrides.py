"""Choices that the user makes in the tree's place: flags, YAML keys and environment alike."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from deepgemm_codegen.errors import InputError, nearest
from deepgemm_codegen.numbers import MAX_DIMENSION, check_range, whole_number

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["OFF", "OVERRIDES", "OVERRIDE_WORDS", "Overrides", "override_value"]


@dataclass(frozen=True, slots=True)
class Overrides:
    """Choices the user makes in the tree's place; None leaves a choice to the tree.

    An override filters the candidates before anything else is decided, so that ``stages=8``
    moves the tile to one that fits eight stages. The field names are the plan's own; `family`,
    `tensor_cores`, `ring` and `repack` are words, the others are numbers.
    """

    family: str | None = None
    tensor_cores: str | None = None
    tile_m: int | None = None
    tile_n: int | None = None
    tile_k: int | None = None
    warps_m: int | None = None
    warps_n: int | None = None
    warps_k: int | None = None
    stages: int | None = None
    min_blocks: int | None = None
    raster_group: int | None = None
    consumers: int | None = None
    tiles_at_once: int | None = None
    cluster_m: int | None = None
    cluster_n: int | None = None
    cluster_k: int | None = None
    cluster_rows: int | None = None
    split_k: int | None = None
    split_k_from: int | None = None
    abreast: int | None = None
    ring: str | None = None
    repack: str | None = None

    @classmethod
    def of(cls, values: Mapping[str, str | int]) -> Overrides:
        """Overrides from what people write.

        Raises:
            InputError: as `override_value`.
        """
        chosen: dict[str, Any] = {key: override_value(key, text) for key, text in values.items()}
        return cls(**chosen)

    def items(self) -> list[tuple[str, int | str]]:
        """The overrides that are set, in field order."""
        pairs = zip(OVERRIDES, _values_of(self), strict=True)
        return [(name, value) for name, value in pairs if value is not None]

    def numbers(self) -> dict[str, int]:
        """Those of them that are numbers of a kernel, by name.

        A threshold rules no kernel out, and neither does what is turned off.
        """
        return {
            name: value
            for name, value in self.items()
            if isinstance(value, int) and name != "split_k_from" and not (name in OFF and not value)
        }


OVERRIDES: dict[str, str] = {
    "family": "kernel family: mma_sync, wgmma (sm_90a), bandwidth (m or n up to 32), or simt (CUDA"
    " cores)",
    "tensor_cores": "off multiplies fp32, fp16 and bf16 on the CUDA cores, in fp32",
    "tile_m": "rows of the block tile",
    "tile_n": "columns of the block tile",
    "tile_k": "elements of k in one pipeline stage",
    "warps_m": "warps of a block along m",
    "warps_n": "warps of a block along n",
    "warps_k": "warps of a block along k, each with a part of every slice (bandwidth)",
    "stages": "pipeline stages in shared memory (prefetch depth + 1)",
    "min_blocks": "resident blocks per multiprocessor that registers must leave room for",
    "raster_group": "rows of tiles that consecutive blocks walk down before the next column",
    "consumers": "warpgroups that multiply, beside the one that copies (wgmma)",
    "tiles_at_once": "tiles that the consumers work on: 1 cooperative, 2 ping-pong (wgmma)",
    "cluster_m": "blocks of a cluster along m, which share tiles of B: 1 or 2 (wgmma)",
    "cluster_n": "blocks of a cluster along n, which share tiles of A: 1 or 2 (wgmma)",
    "cluster_k": "blocks of a cluster along k, whose parts meet in shared memory (wgmma)",
    "cluster_rows": "blocks of a cluster that have whole rows of D between them, for a norm, which"
    " then needs no second kernel; 0: never (wgmma)",
    "split_k": "parts that k is cut into; a second kernel or a cluster adds their sums",
    "split_k_from": "least k that the tree may cut into parts; 0: never",
    "abreast": "tiles that a block computes side by side, each with its own warps (tiny products)",
    "ring": "where slices under way are kept: registers, or shared memory (bandwidth)",
    "repack": "on copies A and B into a better layout first, where the family wants one; off never",
}
"""Help text of every override, in the order flags and docs show them."""

_values_of = attrgetter(*OVERRIDES)

OFF = ("cluster_rows", "split_k_from")
"""Overrides that 0 turns off."""

OVERRIDE_WORDS: dict[str, tuple[str, ...]] = {
    "family": ("mma_sync", "wgmma", "bandwidth", "simt"),
    "tensor_cores": ("on", "off"),
    "ring": ("registers", "shared"),
    "repack": ("on", "off"),
}
"""The words that an override takes, where it takes no number."""


def override_value(name: str, text: str | int, shown: str = "") -> int | str:
    """The value of an override, checked.

    Args:
        name: a key of `OVERRIDES`.
        text: what was given.
        shown: the name that an error gives it, if another.

    Raises:
        InputError: no whole number, out of range, or none of the override's words.
    """
    shown = shown or name
    words = OVERRIDE_WORDS.get(name)
    if words is None:
        number = whole_number(text, shown)
        check_range(number, shown, 0 if name in OFF else 1, MAX_DIMENSION)
        return number
    word = str(text).strip()
    if word not in words:
        raise InputError(
            f"{shown} = {text}: unknown; give {', '.join(words[:-1])} or {words[-1]}"
            f"{nearest(word, list(words))}"
        )
    return word
