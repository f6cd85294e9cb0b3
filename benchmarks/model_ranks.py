"""How well the cost models rank what was measured: every program of the committed sweeps, again.

    python benchmarks/model_ranks.py [--match short_k] [--worse 1.03]

Each measured program is asked of the present tree by its numbers, so that the models of today
predict it. Of each sweep a line says how much longer the program that they put first takes than the
fastest, in geometric mean and at worst; then come the problems where that is more than ``--worse``.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from math import exp, log
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.decide.families import consider
from deepgemm_codegen.decide.family import setting_of
from deepgemm_codegen.errors import CodegenError
from deepgemm_codegen.spec import GemmSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

RESULTS = Path(__file__).resolve().parent / "results"

TENSOR = re.compile(
    r"(?P<repack>.*repacked, )?(?P<tile_m>\d+)x(?P<tile_n>\d+)x(?P<tile_k>\d+)"
    r", (?:warps (?P<warps_m>\d+)x(?P<warps_n>\d+)|(?P<consumers>\d) consumers?(?P<turn> in turn)?)"
    r", (?P<stages>\d+) stages(?:, (?P<min_blocks>\d+) blocks?)?"
    r"(?:, clusters (?P<cluster_m>\d)x(?P<cluster_n>\d))?, group (?P<raster_group>\d+)"
    r"(?:, (?P<abreast>\d+) abreast)?"
    r"(?:, k in (?P<split_k>\d+) parts(?P<together> of a cluster)?)?(?:, k by elements)?"
)
"""The words of a choice of mma.sync, wgmma or the CUDA cores, as their `words` write them. How k
turns round is not to be asked for: it follows from the stages where it is not the cheaper way."""

COMMON = "arch=sm_90a gpu=H200"


class Measured(NamedTuple):
    """A program that was measured: the overrides that single it out, and its microseconds."""

    overrides: str
    us: float


def from_words(words: str, *, cuda_cores: bool = False) -> str | None:
    """The overrides of a choice by its words; None for one of another family."""
    match = TENSOR.fullmatch(words)
    if match is None:
        return None
    found = {name: value for name, value in match.groupdict().items() if value is not None}
    turn, together = found.pop("turn", None), found.pop("together", None)
    if cuda_cores:
        return " ".join(f"{name}={value}" for name, value in {"family": "simt", **found}.items())
    family = "wgmma" if "consumers" in found else "mma_sync"
    found = {"family": family, "split_k": "1", **found}
    if "repack" in found:
        found["repack"] = "on"
    if family == "wgmma":
        own = {"tiles_at_once": "2" if turn else "1", "cluster_m": "1", "cluster_n": "1"}
        found = {**own, **found, "cluster_k": found["split_k"] if together else "1"}
    return " ".join(f"{name}={value}" for name, value in found.items())


def from_plan(plan: dict[str, Any]) -> str:
    """The overrides of a plan that a sweep of one family wrote field by field."""
    family = "wgmma" if "consumers" in plan else "mma_sync"
    own = ("tile_m", "tile_n", "stages", "raster_group")
    if family == "wgmma":
        own += ("consumers", "tiles_at_once", "cluster_m", "cluster_n")
    else:
        own += ("tile_k", "warps_m", "warps_n", "min_blocks")
    words = [f"family={family} split_k={plan.get('split_k', 1)}"]
    words += [f"cluster_k={plan.get('cluster_k', 1)}"] if family == "wgmma" else []
    return " ".join([*words, *(f"{name}={plan[name]}" for name in own)])


def problems(path: Path) -> Iterator[tuple[str, list[Measured]]]:
    """Every problem of a sweep with what was measured of it."""
    document = json.loads(path.read_text(encoding="utf-8"))
    for shape in document.get("shapes", ()):
        if "problem" in shape:
            text = f"{shape['problem']} {document['common']}"
            cores = "tensor_cores=off" in text
            told = (
                (from_words(one["choice"], cuda_cores=cores), one)
                for one in shape["programs"]
                if "us" in one
            )
        else:
            m, n, k = shape["shape"][:3]
            dtype = document.get("dtype", "fp16")
            text = f"m={m} n={n} k={k} layout=nt dtype={dtype} {COMMON}"
            told = ((from_plan(one), one) for one in shape["plans"] if "us" in one)
        yield text, [Measured(words, one["us"]) for words, one in told if words is not None]


def predicted_us(text: str) -> tuple[float, str] | None:
    """What the models say of a program, and its words; None where it is not legal any more."""
    spec = GemmSpec.from_text(text)
    arch = load_arch(spec.arch, spec.gpu)
    try:
        winner = consider(setting_of(spec, arch)).winner
    except CodegenError:
        return None
    return None if winner is None else (winner.clocks / arch.gpu.clock_mhz, winner.choice.words)


def main() -> None:
    """Prints a line a sweep, then the problems ranked worst."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--match", default="")
    parser.add_argument("--worse", type=float, default=1.03)
    options = parser.parse_args()
    worst = []
    for path in sorted(RESULTS.glob("*sweep*.json")):
        if options.match not in path.name:
            continue
        ratios, programs = [], 0
        for text, measured in problems(path):
            told = [(predicted_us(f"{text} {one.overrides}"), one.us) for one in measured]
            ranked = sorted((*found, us) for found, us in told if found is not None)
            if not ranked:
                continue
            programs += len(ranked)
            fastest = min(ranked, key=lambda one: one[2])
            ratios.append(ranked[0][2] / fastest[2])
            worst.append((ratios[-1], text, ranked[0], fastest))
        if ratios:
            mean = exp(sum(map(log, ratios)) / len(ratios))
            print(
                f"{path.stem:32} {programs:4} programs of {len(ratios):2} problems:"
                f" {mean:.4f}, at worst {max(ratios):.3f}"
            )
    for ratio, text, first, fastest in sorted(worst, reverse=True):
        if ratio < options.worse:
            break
        print(f"{ratio:.3f}  {text}")
        for name, (us, words, taken) in (("first", first), ("fastest", fastest)):
            print(f"       {name:7} {taken:8.2f} us, predicted {us:8.2f}: {words}")


if __name__ == "__main__":
    main()
