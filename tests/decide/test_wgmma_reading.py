"""How many slots wgmma's ring has, and what the model says of fewer."""

from __future__ import annotations

import json
import random
from math import exp, log
from pathlib import Path
from statistics import fmean

import pytest

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.decide.families import consider
from deepgemm_codegen.decide.family import setting_of
from deepgemm_codegen.decide.machine import machine_of
from deepgemm_codegen.decide.problem import problem_of
from deepgemm_codegen.decide.wgmma.choice import WgmmaChoice
from deepgemm_codegen.decide.wgmma.predict import kernel_clocks
from deepgemm_codegen.decide.wgmma.reading import spared_by_fewer
from deepgemm_codegen.decide.wgmma.task import task_of
from deepgemm_codegen.decide.wgmma.tile import tile_table
from deepgemm_codegen.spec import GemmSpec
from tests.decide.specs import hopper_spec

ARCH = load_arch("sm_90a", "H200")
SWEEP = Path(__file__).parents[2] / "benchmarks/results/program_sweep_depths_h200.json"


def spec_of(text: str) -> GemmSpec:
    return GemmSpec.from_text(f"{text} arch=sm_90a gpu=H200")


@pytest.mark.parametrize(
    ("text", "stages", "limit"),
    [
        # B streams past once: 9 slots would fit the first, 8 and 13 the others.
        ("m=64 n=7168 k=16384 dtype=e4m3 layout=nt scale_a=1x128 scale_b=128x128", (5, 7), 9),
        ("m=1024 n=64 k=1024 batch=12 dtype=fp16", (6, 7), 8),
        ("m=384 n=64 k=384 batch=192 dtype=fp16", (5, 7), 13),
        # The L2 and math are the limit: all that fit.
        ("m=128 n=7168 k=16384 layout=nt dtype=bf16", (9, 9), 9),
        ("m=4096 n=4096 k=4096 layout=nt dtype=fp16", (4, 4), 4),
    ],
)
def test_the_ring_is_as_deep_as_device_memory_has_use_for(
    text: str, stages: tuple[int, int], limit: int
) -> None:
    """Measured best: 5 slots of 9, 6 of 8, 6 of 13; then 9 and 4, the deepest."""
    least, most = stages
    winner = consider(setting_of(spec_of(text), ARCH)).winner
    assert winner is not None
    found = {d.question: d for d in winner.decisions("")}["stages"]
    assert least <= int(found.choice) <= most <= limit
    wanted = "one more would not fit" if most == limit else "no more would be cheaper"
    assert found.reason.endswith(wanted)


def test_of_rings_that_were_measured_the_model_takes_a_fast_one() -> None:
    """Each tile of the sweep alone: its rings against each other."""
    ratios = []
    for shape in json.loads(SWEEP.read_text())["shapes"]:
        rings: dict[str, list[tuple[float, int, float]]] = {}
        for program in shape["programs"]:
            tile, given, stages = program["overrides"].partition(" stages=")
            if not given:
                continue
            count, _, rest = stages.partition(" ")
            answer = consider(
                setting_of(spec_of(f"{shape['problem']} {program['overrides']}"), ARCH)
            )
            assert answer.winner is not None
            found = answer.winner.clocks, -int(count), program["us"]
            rings.setdefault(f"{tile} {rest}", []).append(found)
        ratios += [min(ring)[2] / min(us for _, _, us in ring) for ring in rings.values()]
    assert len(ratios) == 58
    assert max(ratios) < 1.06
    assert exp(fmean(map(log, ratios))) < 1.01


def test_fewer_slots_spare_no_more_than_the_search_counts_on() -> None:
    rng = random.Random(62)
    for _ in range(300):
        spec = hopper_spec(rng)
        problem = problem_of(spec, ARCH)
        task = task_of(spec, problem, machine_of(ARCH, spec.dtype_a.name))
        if task.slices == 0:
            continue
        tiles = tile_table(task.machine, task.kind, task.result)
        tile = rng.choice(rng.choice([row for row in tiles.values() if row]))
        once = task.once * rng.choice((1.0, 1.0, 2.5))
        deepest = rng.randint(2, 16)
        count = -(-problem.m // tile.tile_m) * -(-problem.n // tile.tile_n) * task.units
        memory = once / (-(-count // task.machine.sms) * task.slices)
        floor = kernel_clocks(task, tile, 1, 1, deepest, once)
        floor *= spared_by_fewer(task, tile, deepest, memory)
        for stages in range(2, deepest):
            assert kernel_clocks(task, tile, 1, 1, stages, once) >= floor * (1 - 1e-9), spec


@pytest.mark.parametrize(
    ("text", "stages", "group"),
    [
        ("m=4096 n=4096 k=40 batch=8 layout=nt", 2, 1),  # D is all there is
        ("m=4096 n=4096 k=64 batch=8 layout=nt", 2, 1),
        ("m=4096 n=4096 k=128 batch=8 layout=nt", 6, 8),  # two slices: they wait for each other
    ],
)
def test_where_the_writing_of_d_is_all_there_is_few_slices_wait_and_rows_lie_together(
    text: str, stages: int, group: int
) -> None:
    winner = consider(setting_of(spec_of(text), ARCH)).winner
    assert winner is not None
    assert isinstance(winner.choice, WgmmaChoice)
    assert (winner.choice.stages, winner.choice.raster_group) == (stages, group)
