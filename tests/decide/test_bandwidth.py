"""What the bandwidth family serves, how it answers, and what it refuses."""

from __future__ import annotations

import itertools
import json
import random
from math import log
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from deepgemm_codegen.arch import known_architectures, load_arch
from deepgemm_codegen.decide import BandwidthChoice, decide
from deepgemm_codegen.decide.bandwidth.constraints import MAX_WARPS, violations
from deepgemm_codegen.decide.bandwidth.family import BANDWIDTH
from deepgemm_codegen.decide.bandwidth.menu import menu_for
from deepgemm_codegen.decide.bandwidth.predict import predict
from deepgemm_codegen.decide.bandwidth.search import (
    as_good_as,
    preference,
    resident_blocks,
    search,
)
from deepgemm_codegen.decide.bandwidth.sides import Lanes, sides_of
from deepgemm_codegen.decide.bandwidth.task import Task, task_of
from deepgemm_codegen.decide.explain import explain, format_explanation
from deepgemm_codegen.decide.family import setting_of
from deepgemm_codegen.errors import InputError
from deepgemm_codegen.plan import Bandwidth, KernelPlan
from deepgemm_codegen.spec import GemmSpec


def spec_of(text: str) -> GemmSpec:
    return GemmSpec.from_text(text if "arch=" in text else f"{text} arch=sm_90 gpu=H200")


def plan_of(text: str) -> KernelPlan:
    spec = spec_of(text)
    return decide(spec, load_arch(spec.arch, spec.gpu)).product


def body_of(text: str) -> Bandwidth:
    body = plan_of(f"{text} family=bandwidth").body
    assert isinstance(body, Bandwidth)
    return body


def task_for(spec: GemmSpec) -> Task:
    task = task_of(setting_of(spec, load_arch(spec.arch, spec.gpu)))
    assert task is not None
    return task


def short_spec(rng: random.Random) -> GemmSpec:
    """A random spec that the family serves."""
    arch = load_arch(rng.choice(known_architectures()))
    sizes = (rng.randint(1, 16), rng.choice((1, 7, 8, 40, 1000, 1023, 4096, 14336, 50257)))
    m, n = sizes if rng.random() < 0.7 else sizes[::-1]
    fields: dict[str, object] = {"m": m, "n": n, "k": rng.choice((1, 63, 64, 768, 4095, 4096))}
    for name in ("m", "n", "k"):
        if rng.random() < 0.1:
            fields[name] = f"dynamic:{fields[name]}"
    fields["layout"] = rng.choice(("nn", "nt", "tn", "tt"))
    fields["layout_d"] = rng.choice(("n", "t"))
    fields["dtype"] = rng.choice([name for name in ("fp16", "bf16") if name in arch.dtypes])
    if rng.random() < 0.2:
        fields["batch"] = rng.choice((2, 192))
    if rng.random() < 0.2:
        fields["align_b"] = rng.choice((2, 4, 8))
    return GemmSpec.from_fields({**fields, "arch": arch.name, "family": "bandwidth"})


SERVED = {
    # m or n up to 16, by whichever is smaller; D^T where D is column-major.
    "m=16 n=4096 k=64": ("m", 16),
    "m=4096 n=16 k=64": ("n", 16),
    "m=4096 n=9 k=64": ("n", 16),
    "m=8 n=4096 k=64": ("m", 8),
    "m=8 n=4096 k=64 layout_d=t": ("n", 8),
    "m=8 n=8 k=64": ("m", 8),
    "m=dynamic:16 n=dynamic:4096 k=64": ("m", 16),
    # Up to 32 where asked for, or as measured.
    "m=17 n=4096 k=64": ("m", 32),
    "m=4096 n=32 k=64 ring=registers": ("n", 32),
    "m=20 n=4096 k=64 warps_k=4": ("m", 32),
    "m=32 n=4096 k=4096 layout=nt arch=sm_90a gpu=H200": ("m", 32),
    "m=dynamic:24 n=6144 k=4096 layout=nt arch=sm_90a gpu=H200": ("m", 32),
}


@pytest.mark.parametrize("text", SERVED)
def test_the_smaller_side_is_short(text: str) -> None:
    body = body_of(text)
    assert (body.short, body.short_tile) == SERVED[text]


OBSTACLES = {
    "m=17 n=4096 k=64": "m = 17 and n = 4096 are both above 16",
    "m=32 n=4096 k=4096 arch=sm_90a gpu=H200": "m = 32 and n = 4096 are both above 16",
    "m=32 n=4096 k=4096 layout=nt arch=sm_80": "m = 32 and n = 4096 are both above 16",
    "m=32 n=1024 k=4096 layout=nt arch=sm_90": "m = 32 and n = 1024 are both above 16",
    "m=32 n=4096 k=4096 layout=nt batch=2 arch=sm_90": "m = 32 and n = 4096 are both above 16",
    "m=33 n=4096 k=4096 layout=nt arch=sm_90": "m = 33 and n = 4096 are both above 32",
    "m=1 n=4096 k=64 dtype=int8": "A is int8, of which it has no kernel yet",
    "m=1 n=4096 k=64 dtype=fp32": "A is fp32, of which it has no kernel yet",
}


@pytest.mark.parametrize("text", OBSTACLES)
def test_an_obstacle_says_what_is_in_the_way(text: str) -> None:
    spec = spec_of(text)
    assert BANDWIDTH.obstacle(spec, load_arch(spec.arch)) == OBSTACLES[text]


def along_k(vector: int, limit: str) -> Lanes:
    return Lanes(k_major=True, vector=vector, limit=limit)


def across_k(vector: int, limit: str) -> Lanes:
    return Lanes(k_major=False, vector=vector, limit=limit)


CHECKED = "if the leading dimension allows it, else 2 bytes"

LANES = {
    # (long, short): k contiguous or not, elements of a load, what limits it.
    "m=1 n=4096 k=4096 layout=nt": (along_k(8, ""), along_k(8, "")),
    "m=2 n=4096 k=4092 layout=nt": (
        along_k(4, "leading dimension of 4092 elements"),
        along_k(4, "leading dimension of 4092 elements"),
    ),
    "m=2 n=4096 k=4096 layout=nt ldb=4097": (
        along_k(1, "leading dimension of 4097 elements"),
        along_k(2, "as many of k as the other operand"),
    ),
    # One row has no stride to mind.
    "m=1 n=4096 k=4095 layout=nt ldb=4096": (along_k(8, ""), along_k(8, "")),
    "m=2 n=4096 k=4096": (across_k(8, ""), along_k(8, "")),
    "m=2 n=4092 k=4096 ldb=4096": (
        across_k(4, "row length of 4092 elements"), along_k(8, "")
    ),
    "m=2 n=dynamic:4096 k=4096 ldb=4096": (
        across_k(1, "row length of dynamic:4096 elements"), along_k(8, "")
    ),
    "m=2 n=4096 k=dynamic:4096 layout=nt": (
        along_k(8, CHECKED)._replace(checked=True),
        along_k(8, CHECKED)._replace(checked=True),
    ),
    "m=4 n=4096 k=4096 layout=tt": (along_k(8, ""), across_k(1, "k is not contiguous")),
    # One column, dense: k is contiguous, whatever the layout says.
    "m=1 n=4096 k=4096 layout=tt": (along_k(8, ""), along_k(8, "")),
    "m=4096 n=1 k=4096 layout=nn": (along_k(8, ""), along_k(8, "")),
    "m=1 n=4096 k=4096 layout=tt batch=2": (
        along_k(8, ""), across_k(1, "k is not contiguous")
    ),
    "m=1 n=4096 k=4096 layout=nt align_b=4": (
        along_k(2, "base alignment of 4 bytes"),
        along_k(2, "as many of k as the other operand"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", LANES)
def test_the_widest_load_that_every_row_start_allows(text: str) -> None:
    sides = sides_of(spec_of(text))
    assert sides is not None
    assert (sides.long_lanes, sides.short_lanes) == LANES[text]


def test_vectors_across_the_fragments_where_k_is_not_contiguous() -> None:
    for fragments, vector in ((2, 2), (4, 4), (8, 8)):
        body = BandwidthChoice(fragments, 1, 4, 2, 1)
        spec = spec_of("m=2 n=4096 k=4096")
        plan = body.program(spec, load_arch("sm_90")).product
        assert isinstance(plan.body, Bandwidth)
        assert plan.body.long_operand.vector == plan.body.group == vector


def test_whole_sectors_pass_the_l1_by() -> None:
    streams = {
        "m=1 n=4096 k=4096 layout=nt": True,
        "m=1 n=4096 k=1000 layout=nt": False,  # 2000 bytes a row: rows begin inside sectors
        "m=1 n=4096 k=4096 layout=nt align_b=8": True,  # four lanes' eight bytes are a sector
        "m=1 n=4096 k=4096 layout=nt align_b=4": False,
        "m=1 n=4096 k=4096": True,
        "m=1 n=4100 k=4096": False,
    }
    for text, wanted in streams.items():
        body = body_of(text)
        assert body.long_operand.streams == wanted, text
        assert not body.short_operand.streams


@pytest.mark.parametrize("count", [25, pytest.param(400, marks=pytest.mark.full)])
def test_the_search_finds_what_is_as_good_as_the_cheapest_legal_choice(count: int) -> None:
    rng = random.Random(70)
    for _ in range(count):
        task = task_for(short_spec(rng))
        menu = menu_for(task, {})
        found = search(task, menu)
        assert found is not None
        assert list(violations(task, found.choice)) == []
        assert predict(task, found.choice).clocks == found.clocks
        costs = {}
        for (fragments, warps_long), warps_k, stages in itertools.product(
            menu.tile, menu.warps_k, menu.stages
        ):
            numbers = fragments, warps_long, warps_k, stages
            enough = next((s for s in menu.stages if s >= task.slices(warps_k)), stages)
            if warps_long * warps_k > MAX_WARPS or stages > enough:
                continue
            blocks = resident_blocks(task, menu, *numbers)
            choice = BandwidthChoice(*numbers, blocks)
            if blocks and not any(violations(task, choice)):
                costs[choice] = predict(task, choice).clocks
        limit = as_good_as(task, min(costs.values()))
        even = [choice for choice, clocks in costs.items() if clocks <= limit]
        assert found.choice in even
        if any(task.slices(choice.warps_k) < 2 for choice in even):
            continue
        most = max(min(choice.warps_k, 8) for choice in even)
        deepest = max(min(c.stages, 4) for c in even if min(c.warps_k, 8) == most)
        assert (min(found.choice.warps_k, 8), min(found.choice.stages, 4)) == (most, deepest)


SWEEP = Path(__file__).parents[2] / "benchmarks" / "results" / "bandwidth_sweep_h200.json"


def test_the_model_ranks_what_was_measured() -> None:
    """Of the measured kernels of a problem, the first by the model is among the fastest."""
    ratios = []
    for entry in json.loads(SWEEP.read_text())["problems"]:
        spec = GemmSpec.from_fields(
            {name: entry[name] for name in ("m", "n", "k", "layout", "dtype")}
            | {"arch": "sm_90", "gpu": "H200"}
        )
        task = task_for(spec)
        measured = {}
        for plan in entry["plans"]:
            # As the tree would: one warp along the long side, the streaming load of the template.
            if "us" in plan and plan["warps_long"] == 1 and not plan["hint"] and not plan["spills"]:
                threads = 32 * plan["warps_k"]
                registers = -(-plan["registers"] // 8) * 8 * threads
                blocks = min(65536 // registers, 2048 // threads, 32)
                numbers = (plan["fragments"], 1, plan["warps_k"], plan["stages"], blocks)
                measured[BandwidthChoice(*numbers)] = plan["us"]
        costs = {choice: predict(task, choice).clocks for choice in measured}
        limit = as_good_as(task, min(costs.values()))
        ranked = (
            (preference(task, clocks, (0, 0, choice.warps_k, choice.stages, 0)), choice)
            for choice, clocks in costs.items()
            if clocks <= limit
        )
        _, first = min(ranked, key=lambda each: each[0])
        ratios.append(min(measured.values()) / measured[first])
    assert len(ratios) == 24
    assert min(ratios) > 0.94
    assert fmean(map(log, ratios)) > log(0.985)


RINGS = SWEEP.with_name("bandwidth_sweep_rings_h200.json")


def measured_rings(entry: dict[str, Any]) -> tuple[GemmSpec, dict[BandwidthChoice, float]]:
    """A problem of `RINGS`, and the microseconds of its plans, but for those of another text."""
    fields = {name: entry[name] for name in ("m", "n", "k", "layout", "dtype")}
    names = BandwidthChoice.__slots__
    plans = (plan for plan in entry["plans"] if "us" in plan and not plan["hint"])
    own = (plan for plan in plans if plan["family"] == "bandwidth")
    found = {BandwidthChoice(**{name: plan[name] for name in names}): plan["us"] for plan in own}
    return GemmSpec.from_fields({**fields, "arch": "sm_90", "gpu": "H200"}), found


def test_the_model_ranks_the_rings_in_shared_memory_that_were_measured() -> None:
    ratios = []
    for entry in json.loads(RINGS.read_text())["problems"]:
        spec, found = measured_rings(entry)
        task = task_for(spec)
        offered = menu_for(task, {}, "shared").warps_k
        rings = {c: us for c, us in found.items() if c.ring == "shared" and c.warps_k in offered}
        first = min(rings, key=lambda choice: predict(task, choice).clocks)
        ratios.append(min(rings.values()) / rings[first])
    assert len(ratios) == 18
    assert min(ratios) > 0.96
    assert fmean(map(log, ratios)) > log(0.985)


def test_the_tree_takes_the_ring_that_was_faster() -> None:
    ratios, taken = [], 0
    for entry in json.loads(RINGS.read_text())["problems"]:
        spec, found = measured_rings(entry)
        answer = BANDWIDTH.best(setting_of(spec, load_arch(spec.arch, spec.gpu)))
        assert answer is not None
        choice = answer.choice
        assert isinstance(choice, BandwidthChoice)
        taken += choice.ring == "shared"
        if choice in found:
            ratios.append(min(found.values()) / found[choice])
    assert taken >= 15
    assert len(ratios) >= 10
    assert min(ratios) > 0.97


def test_one_row_of_4096_takes_the_plan_that_was_measured_best() -> None:
    entry = json.loads(SWEEP.read_text())["problems"][0]
    assert [entry[name] for name in "mnk"] == [1, 4096, 4096]
    best = min((plan for plan in entry["plans"] if not plan["hint"]), key=lambda plan: plan["us"])
    spec = GemmSpec.from_text("m=1 n=4096 k=4096 layout=nt dtype=bf16 arch=sm_90a gpu=H200")
    found = BANDWIDTH.best(setting_of(spec, load_arch("sm_90a", "H200")))
    assert found is not None
    assert isinstance(found.choice, BandwidthChoice)
    for name in ("fragments", "warps_long", "warps_k", "stages", "min_blocks"):
        assert getattr(found.choice, name) == best[name]
    assert entry["cublas_us"] / best["us"] > 1.3


def test_as_many_blocks_as_registers_allow_and_tiles_need() -> None:
    task = task_for(spec_of("m=1 n=14336 k=4096 layout=nt"))
    menu = menu_for(task, {})
    assert resident_blocks(task, menu, 1, 1, 4, 2) == 8  # 61 registers: 32 warps
    assert resident_blocks(task, menu, 1, 4, 4, 2) == 2
    assert resident_blocks(task, menu, 4, 4, 4, 2) == 1  # 112 tiles
    assert resident_blocks(task, menu, 4, 4, 4, 4) == 0  # 204 registers: 8 warps
    assert resident_blocks(task, menu._replace(min_blocks=(3,)), 1, 1, 4, 2) == 3
    assert resident_blocks(task, menu._replace(min_blocks=(9,)), 1, 1, 4, 2) == 0


def test_every_choice_makes_a_plan_with_short_reasons() -> None:
    rng = random.Random(71)
    for _ in range(60):
        spec = short_spec(rng)
        plan = decide(spec, load_arch(spec.arch)).product
        body = plan.body
        assert isinstance(body, Bandwidth)
        questions = [decision.question for decision in plan.decisions]
        assert questions == [
            "family", "mma shape", "tile", "warps", "copy of A", "copy of B", "stages",
            "occupancy", "store",
        ]  # fmt: skip
        assert [decision.id for decision in plan.decisions] == [
            f"D{number:02}" for number in (1, 2, 3, 4, 5, 6, 8, 9, 11)
        ]
        for decision in plan.decisions:
            assert 0 < len(decision.reason) <= 90, decision
            assert len(decision.choice) <= 40, decision
        assert body.tile_m * body.tile_n == body.short_tile * body.long_tile
        for operand in body.operands:
            assert operand.vector_bytes <= getattr(spec, f"align_{operand.source}")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tile_m", 16),
        ("tile_n", 8),
        ("tile_n", 64),
        ("tile_n", 24),
        ("warps_m", 1),
        ("warps_n", 4),
        ("warps_n", 3),
        ("warps_k", 1),
        ("warps_k", 16),
        ("warps_k", 5),
        ("stages", 1),
        ("stages", 5),
        ("min_blocks", 1),
        ("min_blocks", 3),
    ],
)
def test_an_override_is_kept(name: str, value: int) -> None:
    body = body_of(f"m=16 n=4096 k=4096 layout=nt {name}={value}")
    own = {"warps_m": 1, "warps_n": body.warps_long}
    assert own.get(name, getattr(body, name, None)) == value


GIVEN = "m=16 n=4096 k=4096 layout=nt"

REFUSALS = {
    "family=bandwidth tile_m=8": (
        "tile_m = 8: the short side m is one warp's, in a tile of 16; the nearest legal tile_m is"
        " 16, or leave tile_m out"
    ),
    "family=bandwidth warps_m=2": (
        "warps_m = 2 with family = bandwidth: the short side m is one warp's, in a tile of 16; "
        "the nearest legal warps_m is 1, or leave warps_m out"
    ),
    "warps_k=16 warps_n=2": (
        "warps_k = 16 with warps_n = 2: 32 warps a block; the limit is 16; the nearest legal "
        "warps_k is 8, or leave warps_k out"
    ),
    "family=bandwidth tile_n=64 warps_n=1 stages=8 ring=registers": (
        "stages = 8 with tile_n = 64, ring = registers: about 704 registers a thread; the cap is "
        "255; the nearest legal stages is 2, or leave stages out"
    ),
    "tile_n=64 warps_k=16 stages=8 ring=shared": (
        "stages = 8 with warps_k = 16: about 221 registers a thread; the cap is 128; the nearest "
        "legal warps_k is 2, or leave warps_k out"
    ),
    "warps_k=17": (
        "warps_k = 17: too large; the nearest legal is 16, or leave warps_k out"
    ),
    "warps_k=2 raster_group=4": (
        "raster_group = 4 with warps_k = 2: no kernel family has both; leave raster_group out"
    ),
    "m=4096 family=bandwidth": (
        "family = bandwidth: m = 4096 and n = 4096 are both above 32; the nearest legal family is"
        " mma_sync, or leave family out"
    ),
    "m=4096 warps_k=4": (
        "warps_k = 4: only bandwidth has it, but m = 4096 and n = 4096 are both above 32;"
        " leave warps_k out"
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", REFUSALS)
def test_a_refusal_names_limit_and_remedy(text: str) -> None:
    fields = {word.split("=")[0]: word for word in f"{GIVEN} {text}".split()}
    with pytest.raises(InputError) as caught:
        plan_of(" ".join(fields.values()))
    assert str(caught.value) == REFUSALS[text]


def test_it_explains_itself_beside_the_others() -> None:
    spec = spec_of("m=1 n=4096 k=4096 layout=nt dtype=bf16 arch=sm_90a gpu=H200 family=bandwidth")
    explanation = explain(spec, load_arch("sm_90a", "H200"))
    rivals = {decision.question: decision.rival for decision in explanation.decisions}
    assert rivals["family"] == "none: as given; none: as given"
    for question in ("tile", "warps", "stages"):
        assert " x the time" in rivals[question], question
    text = format_explanation(explanation)
    assert "33.6 MB from and to device memory" in text
    assert {"registers"} <= {rejection.constraint for rejection in explanation.rejections}
    assert max(map(len, text.splitlines())) <= 120
