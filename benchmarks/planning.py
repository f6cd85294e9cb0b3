"""How long a decision takes: distinct specs, nothing remembered between them, tables warm.

    python benchmarks/planning.py [--specs 500] [--seed 1] [--arch sm_90a]

Prints the median and the 95th percentile of each stage in microseconds, and how many candidates
were costed of how many the menu offers.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from deepgemm_codegen.arch import known_architectures, load_arch
from deepgemm_codegen.decide import decide
from deepgemm_codegen.decide.families import consider
from deepgemm_codegen.decide.family import setting_of
from deepgemm_codegen.decide.mma_sync.menu import menu_for
from deepgemm_codegen.render import render_program
from deepgemm_codegen.spec import GemmSpec

if TYPE_CHECKING:
    from collections.abc import Callable

SIZES = (64, 77, 128, 256, 320, 512, 640, 768, 1024, 1280, 2048, 2560, 3072, 4096, 5120, 6144,
         7168, 8192, 14336, 28672)  # fmt: skip
"""Sizes of real models; m is often a token count and so anything."""


def targets_of(arch: str) -> list[str]:
    """One target, or all of them; sm_90a stands beside sm_90."""
    return [arch] if arch else [*known_architectures(), "sm_90a"]


def specs(count: int, seed: int, targets: list[str]) -> list[GemmSpec]:
    """Distinct specs with model-like sizes, over all architectures and layouts."""
    rng = random.Random(seed)
    found: dict[str, GemmSpec] = {}
    while len(found) < count:
        m = rng.choice((rng.randint(1, 64), rng.randint(1, 8192), rng.choice(SIZES)))
        spec = GemmSpec.from_fields(
            {
                "m": m,
                "n": rng.choice(SIZES),
                "k": rng.choice(SIZES),
                "layout": rng.choice(("nt", "nn", "tn", "tt")),
                "arch": rng.choice(targets),
            }
        )
        found[str(spec)] = spec
    return list(found.values())


def timed(stage: Callable[[], Any]) -> tuple[float, Any]:
    """(microseconds, result) of one call."""
    begin = time.perf_counter()
    result = stage()
    return (time.perf_counter() - begin) * 1e6, result


def menu_size(menu: Any) -> int:
    """Combinations that a menu offers before any constraint."""
    size = 1
    for values in menu:
        size *= len(values)
    return size


def main() -> None:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--specs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--arch", default="", help="this target only")
    options = parser.parse_args()
    targets = targets_of(options.arch)
    for name in targets:  # warm the tables and the templates
        spec = GemmSpec.from_fields({"m": 64, "n": 64, "k": 64, "layout": "nt", "arch": name})
        render_program(decide(spec, load_arch(name)))
        spec = GemmSpec.from_fields({**spec.to_fields(), "m": 2048, "n": 2048, "k": 2048})
        render_program(decide(spec, load_arch(name)))
    samples: dict[str, list[float]] = {}
    costed, offered, families = [], [], []
    for spec in specs(options.specs, options.seed, targets):
        arch = load_arch(spec.arch)
        took: dict[str, float] = {}
        took["setting"], setting = timed(lambda s=spec, a=arch: setting_of(s, a))
        took["search"], considered = timed(lambda s=setting: consider(s))
        winner, family = considered.winner, considered.family
        if winner is None or family is None:
            raise SystemExit(f"nothing serves {spec}")
        reason = considered.reason(setting)
        took["answers"], decisions = timed(lambda w=winner, r=reason: w.decisions(r))
        took["assemble"], program = timed(
            lambda s=spec, a=arch, c=winner.choice, d=decisions: c.program(s, a, d)
        )
        took["render"], _ = timed(lambda p=program: render_program(p))
        took["decide"], again = timed(lambda s=spec, a=arch: decide(s, a))
        if again != program:
            raise SystemExit(f"the stages and decide() disagree on {spec}")
        took["decide + render"] = took["decide"] + took["render"]
        for stage, microseconds in took.items():
            samples.setdefault(stage, []).append(microseconds)
        costed.append(winner.costed)
        offered.append(menu_size(menu_for(setting.problem, spec.overrides)))
        families.append(family.name)
    print(f"{options.specs} distinct specs, seed {options.seed}")
    print(f"{'stage':16} {'median us':>10} {'p95 us':>10}")
    for stage, values in samples.items():
        p95 = statistics.quantiles(values, n=20)[-1]
        print(f"{stage:16} {statistics.median(values):10.1f} {p95:10.1f}")
    print(
        f"families: {families.count('wgmma')} of {len(families)} wgmma; candidates: median"
        f" {statistics.median(costed):.0f} costed of"
        f" {statistics.median(offered):,.0f} on the menu"
    )


if __name__ == "__main__":
    main()
