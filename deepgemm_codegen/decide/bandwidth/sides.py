"""Question: which side of D is short, and how wide are the loads of each operand?"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Literal, NamedTuple

from deepgemm_codegen.decide.operands import widest_vector
from deepgemm_codegen.plan.bandwidth import MN_RUN, LaneOperand
from deepgemm_codegen.spec.dimension import Dim

if TYPE_CHECKING:
    from deepgemm_codegen.plan.tiles import Extent
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["MOST_SHORT", "ONE_SHORT", "Lanes", "Sides", "place_lanes", "sides_of"]

ONE_SHORT, MOST_SHORT = 16, 32
"""Rows or columns of D's short side that one ``mma.sync`` holds, and that two do, side by side."""


class Lanes(NamedTuple):
    """How one operand's elements get into lanes.

    Attributes:
        k_major: whether k is contiguous.
        vector: elements of one load.
        limit: what kept it from being wider; empty at 16 bytes.
        checked: whether the leading dimension, known only at run time, has to allow the vector.
    """

    k_major: bool
    vector: int
    limit: str
    checked: bool = False


class Sides(NamedTuple):
    """D's two sides and the operands along them.

    Attributes:
        short: the plan's extent that is short: ``m`` or ``n``.
        tile: rows of one instruction that it takes, 8 or 16, or of two, 32.
        long_lanes, short_lanes: how the operands along the two sides travel, at their widest.
    """

    short: Literal["m", "n"]
    tile: int
    long_lanes: Lanes
    short_lanes: Lanes

    def long_lanes_of(self, fragments: int) -> Lanes:
        """The long operand's lanes for so many fragments a warp.

        Where m or n is contiguous a lane's vector holds one element of each of several fragments.
        """
        lanes = self.long_lanes
        return lanes if lanes.k_major else lanes._replace(vector=gcd(lanes.vector, fragments))


def sides_of(spec: GemmSpec) -> Sides | None:
    """The sides of a spec's D in the plan's roles; None when neither is short.

    Where columns are paired, both halves of B's count.
    """
    rows, columns = spec.m, spec.b_columns
    if spec.layout_d == "t":
        rows, columns = columns, rows
    short: Literal["m", "n"] = "m" if rows.size <= columns.size else "n"
    size = min(rows.size, columns.size)
    if size > MOST_SHORT:
        return None
    left, right = ("b", "a") if spec.layout_d == "t" else ("a", "b")
    along_short, along_long = (left, right) if short == "m" else (right, left)
    long_lanes = _lanes(spec, along_long)
    short_lanes = _lanes(spec, along_short)
    if not short_lanes.k_major:
        short_lanes = Lanes(k_major=False, vector=1, limit="k is not contiguous")
    run = max(long_lanes.vector, 2) if long_lanes.k_major else MN_RUN
    if short_lanes.vector > run:
        short_lanes = short_lanes._replace(vector=run, limit="as many of k as the other operand")
    tile = next(rows for rows in (8, 16, 32) if size <= rows)
    return Sides(short, tile, long_lanes, short_lanes)


def _lanes(spec: GemmSpec, source: str) -> Lanes:
    """How the caller's operand travels, whichever side it lies along."""
    dtype = getattr(spec, f"dtype_{source}")
    rows, columns = spec.stored(source)
    leading: int = getattr(spec, f"ld{source}")
    k_major = spec.k_major(source)
    if not k_major and leading == 1 and spec.batch == 1:
        # One row or column, dense: k is contiguous, whatever the layout calls it.
        k_major, rows = True, Dim(1)
    align = getattr(spec, f"align_{source}")
    checked = leading == 0 and (rows.dynamic or rows.size > 1 or spec.batch > 1)
    # What the base allows where it is checked; the kernel asks whether rows do.
    minded = not checked and (rows.dynamic or rows.size > 1)
    width, limit = widest_vector(dtype, align, leading, spec.distance(source), strided=minded)
    if not k_major:  # a vector that crossed the row's end might leave the matrix
        half = columns.size // (spec.halves if source == "b" else 1)
        whole = gcd(width, dtype.bytes if columns.dynamic else half * dtype.bytes)
        if whole < width:
            width, limit = whole, f"row length of {columns} elements"
    vector = width // dtype.bytes
    if checked and vector > 1:
        return Lanes(k_major, vector, "if the leading dimension allows it, else 2 bytes", checked)
    return Lanes(k_major, vector, limit)


def place_lanes(
    spec: GemmSpec,
    side: Literal["long", "short"],
    role: Literal["a", "b"],
    source: Literal["a", "b"],
    lanes: Lanes,
    extent_mn: Extent,
    extent_k: Extent,
) -> LaneOperand:
    """The operand in a plan.

    Args:
        spec: the caller's spec.
        side: of D, that it lies along.
        role: which operand of the plan it becomes.
        source: which operand of the caller's it is.
        lanes: how it travels.
        extent_mn: the plan's m (role a) or n (role b).
        extent_k: the plan's k.
    """
    rows, columns = (extent_mn, extent_k) if lanes.k_major else (extent_k, extent_mn)
    return LaneOperand(
        name=role,
        source=source,
        dtype=getattr(spec, f"dtype_{source}"),
        major="k" if lanes.k_major else "mn",
        leading=getattr(spec, f"ld{source}") or None,
        rows=rows,
        columns=columns,
        side=side,
        vector=lanes.vector,
        checked=lanes.checked,
    )
