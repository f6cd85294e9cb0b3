"""A roofline: TFLOP/s over FLOP a byte, with the ceilings that bound them. PNG by matplotlib."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from deepgemm_codegen.errors import EnvironmentLackError
from deepgemm_codegen.harness.bench_data import LIBRARIES

if TYPE_CHECKING:
    from deepgemm_codegen.harness.bench_data import Report

__all__ = ["Roofline", "Series", "draw", "require_matplotlib", "roofline"]

KERNELS = "deepgemm_codegen"
"""The legend's name of our own points."""


@dataclass(frozen=True, slots=True)
class Series:
    """Points of one colour: (FLOP a byte, TFLOP/s)."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Roofline:
    """What is drawn.

    Attributes:
        title: the GPU and what the ceilings are.
        roofs: one a matrix instruction, as the corners of a line.
        series: the kernels, then each rival.
    """

    title: str
    roofs: tuple[Series, ...]
    series: tuple[Series, ...]


def roofline(report: Report) -> Roofline:
    """The figures of a report as a roofline; a row without a timing or FLOP has no point."""
    rows = [row for row in report.rows if row.timing is not None and row.work.flop]
    sides = [
        Series(
            KERNELS, tuple((r.work.intensity, r.timing.tflops(r.work)) for r in rows if r.timing)
        )
    ]
    for name in report.rivals:
        if name not in LIBRARIES:  # a part of a kernel, or what multiplies nothing
            continue
        points = tuple(
            (row.work.intensity, rival.timing.tflops(row.work))
            for row in rows
            for rival in row.rivals
            if rival.name == name and rival.timing is not None
        )
        if points:
            sides.append(Series(name, points))
    xs = [x for side in sides for x, _ in side.points] or [1.0]
    left = min(xs) / 2
    ceilings = report.ceilings
    roofs = []
    for unit, rate in ceilings.tflops.items():
        ridge = rate * 1000 / ceilings.gbs
        right = max(*xs, ridge) * 2
        low = min(left, ridge / 2)
        corners = ((low, low * ceilings.gbs / 1000), (ridge, rate), (right, rate))
        word = "" if unit in ceilings.measured else ", data sheet"
        roofs.append(Series(f"{unit} {rate:.0f} TFLOP/s{word}", corners))
    word = "" if "memory" in ceilings.measured else " (data sheet)"
    title = f"{report.machine.gpu}, {ceilings.gbs:.0f} GB/s{word}"
    return Roofline(title, tuple(roofs), tuple(sides))


def require_matplotlib() -> None:
    """Nothing where matplotlib is installed.

    Raises:
        EnvironmentLackError: it is not; better said before a long measurement than after.
    """
    if find_spec("matplotlib") is None:
        raise EnvironmentLackError("--plot needs matplotlib: pip install 'deepgemm_codegen[plot]'")


def draw(figure: Roofline) -> bytes:
    """The PNG.

    Raises:
        EnvironmentLackError: matplotlib is missing.
    """
    require_matplotlib()
    from io import BytesIO  # noqa: PLC0415  with matplotlib

    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415  a second
    from matplotlib.figure import Figure  # noqa: PLC0415  the same

    canvas = Figure(figsize=(9.0, 6.0), dpi=120, layout="constrained")
    FigureCanvasAgg(canvas)
    axes = canvas.add_subplot()
    axes.set_xscale("log")
    axes.set_yscale("log")
    for style, roof in zip(("-", "--", "-.", ":"), figure.roofs, strict=False):
        axes.plot(*zip(*roof.points, strict=True), style, color="black", label=roof.name)
    for marker, side in zip("o+x", figure.series, strict=False):
        if side.points:
            axes.plot(*zip(*side.points, strict=True), marker, label=side.name, alpha=0.8)
    axes.set_xlabel("arithmetic intensity, FLOP a byte (each operand once)")
    axes.set_ylabel("TFLOP/s")
    axes.set_title(figure.title)
    axes.grid(visible=True, which="both", alpha=0.2)
    axes.legend(loc="lower right")
    target = BytesIO()
    canvas.savefig(target, format="png")
    return target.getvalue()
