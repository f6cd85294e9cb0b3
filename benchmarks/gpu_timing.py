"""How every timing in this folder is taken: graphs, rotated inputs, interleaved sides, medians.

One side is a function that launches once on the current torch stream for a given input set. A
round captures `LAUNCHES` launches of one side, over input sets of at least `ROTATE_BYTES`, in a
CUDA graph; the sides' graphs are replayed in turn, and the median of `REPLAYS` is reported.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LAUNCHES = 20
"""Launches a graph holds at least."""

REPLAYS = 7
"""Replays a side; the median counts."""

ROTATE_BYTES = 256 * 2**20
"""Input sets together take at least this, several times the L2 cache."""

WARM_SECONDS = 0.3
"""Each side runs this long before anything is timed."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Microseconds a launch: median, least and most over the replays."""

    median_us: float
    least_us: float
    most_us: float


def sets_for(bytes_per_set: int) -> int:
    """Input sets needed so that together they exceed `ROTATE_BYTES`."""
    return max(1, -(-ROTATE_BYTES // max(bytes_per_set, 1)))


def interleaved(
    sides: Sequence[Callable[[int], None]], sets: int, warm_seconds: float = WARM_SECONDS
) -> list[Timing]:
    """Times all sides in one run; ``side(i)`` launches once on input set i."""
    launches = max(LAUNCHES, sets)
    graphs = []
    for side in sides:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for index in range(sets):
                side(index)
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for index in range(launches):
                side(index % sets)
        graphs.append(graph)
        end = time.perf_counter() + warm_seconds
        while time.perf_counter() < end:
            graph.replay()
            torch.cuda.synchronize()
    samples: list[list[float]] = [[] for _ in sides]
    for _ in range(REPLAYS):
        for graph, taken in zip(graphs, samples, strict=True):
            begin, end_event = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            graph.replay()
            end_event.record()
            torch.cuda.synchronize()
            taken.append(begin.elapsed_time(end_event) * 1000 / launches)
    return [Timing(statistics.median(s), min(s), max(s)) for s in samples]
