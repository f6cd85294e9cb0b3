"""Words that the answers of several families share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deepgemm_codegen.decide.machine import Machine
    from deepgemm_codegen.decide.prediction import Prediction

__all__ = ["counted", "waves_of_tiles"]


def counted(number: int, what: str) -> str:
    """``1 block``, ``2 blocks``."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def waves_of_tiles(prediction: Prediction, machine: Machine, blocks: int) -> str:
    """Why a tile, whose multiprocessors have so many resident blocks each."""
    slots = f"{machine.sms} SMs" + (f" x {blocks}" if blocks > 1 else "")
    tiles, waves = counted(prediction.tiles, "tile"), prediction.waves
    return f"{tiles} on {slots}: {waves:.2f} waves; bound by {prediction.bound}"
