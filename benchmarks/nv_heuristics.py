"""What nvMatmulHeuristics picks, in our plan space, beside the tree's picks and the best measured.

    pip install nvidia-matmul-heuristics
    python benchmarks/nv_heuristics.py --sweep benchmarks/results/wgmma_sweep_wide_h200.json

NVIDIA's library ranks CUTLASS kernels without a GPU. Its first kernel for a shape has a tile, a
cluster and a number of parts of k; here that stands for every plan of ours with that tile, however
its consumers share it, and of these the fastest that the sweep measured counts: in its favour,
since it does not say whether consumers share a tile or take turns. A cluster of more than two
blocks, which no plan of ours has, counts as one of two along its longer side, and where that was
not measured as none. Both picks are compared with the fastest plan of the shape, from one file.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from math import exp, log
from pathlib import Path
from typing import Any

PRECISION = {"fp16": "HSH", "bf16": "TST"}
"""A and B, sums, D, as the library spells them."""

KEPT: list[Any] = []
"""The library's handle: its end crashes, see `main`."""


def picks(shapes: list[tuple[int, int, int]], dtype: str) -> list[Any]:
    """The library's first kernel of each shape, A and B with k contiguous, on an H200 SXM."""
    import nvMatmulHeuristics as library  # noqa: N813

    ranking = library.NvMatmulHeuristicsInterface(
        library.NvMatmulHeuristicsTarget.CUTLASS3, PRECISION[dtype]
    )
    gpu = ranking.createHardwareDescriptor()
    ranking.setHardwarePredefinedGpu(gpu, library.NvMatmulHeuristicsNvidiaGpu.H200_SXM)
    layout = library.NvMatmulHeuristicsMatmulLayout.TN_ROW_MAJOR
    ranking.loadInternalDiscoverySet(layout, gpu)
    KEPT.append(ranking)
    return [ranking.get_with_mnk(*shape, layout, 1, gpu)[0]["kernel"] for shape in shapes]


def cluster_of(along_m: int, along_n: int) -> tuple[int, int]:
    """The cluster of ours that stands for the library's."""
    if along_m * along_n == 1:
        return 1, 1
    return (2, 1) if along_m >= along_n else (1, 2)


def fastest(plans: list[dict[str, Any]], tile: tuple[int, int], cluster: tuple[int, int]) -> Any:
    """The fastest measured plan of a tile and a cluster, else without one; None without any."""
    same = [p for p in plans if (p["tile_m"], p["tile_n"]) == tile]
    for wanted in (cluster, (1, 1)):
        found = [p for p in same if (p["cluster_m"], p["cluster_n"]) == wanted]
        if found:
            return min(found, key=lambda plan: plan["us"])
    return None


def main() -> None:
    """Prints a table, and the geometric mean and the least of both."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sweep", type=Path, required=True, help="JSON of wgmma_sweep.py")
    options = parser.parse_args()
    sweep = json.loads(options.sweep.read_text(encoding="utf-8"))
    shapes = [tuple(result["shape"]) for result in sweep["shapes"]]
    ours, theirs = [], []
    print("| shape | fastest us | the tree | | nvMatmulHeuristics | |")
    print("| --- | --: | --- | --: | --- | --: |")
    for result, kernel in zip(sweep["shapes"], picks(shapes, sweep["dtype"]), strict=True):
        plans = [plan for plan in result["plans"] if "us" in plan]
        best, tree = min(plan["us"] for plan in plans), result["plans"][0]
        tile = kernel.cta_tile_m, kernel.cta_tile_n
        plan = fastest(plans, tile, cluster_of(kernel.cluster_m, kernel.cluster_n))
        ours.append(best / tree["us"])
        cells = [f"{tree['tile_m']}x{tree['tile_n']}", f"{ours[-1]:.3f}"]
        said = f"{tile[0]}x{tile[1]}, cluster {kernel.cluster_m}x{kernel.cluster_n}"
        if kernel.split_k > 1:
            said += f", k in {kernel.split_k}"
        if plan is None or kernel.split_k > 1:
            cells += [said, "not measured"]
        else:
            theirs.append((best / plan["us"], ours[-1]))
            cells += [said, f"{theirs[-1][0]:.3f}"]
        print(f"| {'x'.join(map(str, result['shape']))} | {best:.2f} | {' | '.join(cells)} |")
    shown = [("the tree, all shapes", ours), ("the tree, where both were", [o for _, o in theirs]),
             ("nvMatmulHeuristics", [t for t, _ in theirs])]  # fmt: skip
    for name, ratios in shown:
        mean = exp(sum(map(log, ratios)) / len(ratios))
        print(
            f"\n{name}: {mean:.3f} in geometric mean of {len(ratios)}, {min(ratios):.3f} at worst"
        )
    sys.stdout.flush()
    os._exit(0)  # the library's own end crashes


if __name__ == "__main__":
    main()
