"""The instruction families; each module registers its semantics when imported."""

from __future__ import annotations

import importlib

__all__ = ["load"]

_FAMILIES = (
    "address",
    "approximate",
    "atomic",
    "barrier",
    "bits",
    "bulk",
    "bulklinear",
    "cluster",
    "control",
    "convert",
    "copyarrive",
    "copyasync",
    "dependent",
    "extended",
    "floating",
    "half",
    "hints",
    "integer",
    "loadstore",
    "matrix",
    "mbarrier",
    "move",
    "order",
    "predicate",
    "stmatrix",
    "storeasync",
    "warp",
    "wgmma",
)


def load() -> None:
    """Import every family."""
    for family in _FAMILIES:
        importlib.import_module(f"{__name__}.{family}")
