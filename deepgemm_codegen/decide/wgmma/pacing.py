"""Question: do the polynomials of an epilogue wait for each other?

Where consumers take turns, one finishes its tile while the other multiplies. Multiply-adds that are
issued every clock slow its wgmma: with the exact gelu at 8192x8192x1024 a loop of 12,650 clocks
took 14,730, though the epilogue hides behind it. Two polynomials at a time leave the loop 13,230,
and the epilogue takes 10,500 for 9,100; one at a time 12,630, but 13,100, which no longer hides.
Two were faster in every product tried, also where the epilogue is longer than the loop
(``benchmarks/notes.md``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["paced"]


def paced(spec: GemmSpec, store: str, vector: int, tiles_at_once: int) -> bool:
    """Whether they do, two at a time.

    Args:
        spec: the problem.
        store: how D leaves, see `Wgmma`.
        vector: elements that a thread finishes side by side.
        tiles_at_once: 2 where consumers take turns.
    """
    polynomials = any(step.definition.paces for step in spec.epilogue)
    return polynomials and tiles_at_once > 1 and vector > 1 and store in ("tma", "slab")
