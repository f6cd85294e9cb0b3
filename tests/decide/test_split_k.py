"""Into how many parts k is cut: the tree's answer, the threshold, and numbers that are given."""

from __future__ import annotations

import json
import random
import re
from math import exp, log
from pathlib import Path
from statistics import fmean

import pytest

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.decide import MmaSyncChoice, decide
from deepgemm_codegen.decide.explain import explain
from deepgemm_codegen.decide.families import consider
from deepgemm_codegen.decide.family import setting_of
from deepgemm_codegen.decide.mma_sync.family import MMA_SYNC
from deepgemm_codegen.decide.split_k import (
    SPLIT_K_FROM,
    WHOLE,
    WORTH,
    cut,
    cuts_to_try,
    reduce_body,
    reduce_clocks,
)
from deepgemm_codegen.decide.wgmma.family import WGMMA
from deepgemm_codegen.errors import InputError
from deepgemm_codegen.plan import KernelPlan, Reduce, Wgmma
from deepgemm_codegen.spec import GemmSpec

from .specs import random_spec

LONG = ["m=64 n=64 k=16384", "m=512 n=512 k=16384", "m=128 n=128 k=65536", "m=16 n=16 k=65536"]


SM_90A = load_arch("sm_90a")

SWEEP = Path(__file__).parents[2] / "benchmarks" / "results" / "program_sweep_split_k_h200.json"

WORDS = {
    "tile_m": r"^(\d+)x",
    "tile_n": r"^\d+x(\d+)x",
    "tile_k": r"^\d+x\d+x(\d+),",
    "warps_m": r"warps (\d+)x",
    "warps_n": r"warps \d+x(\d+)",
    "consumers": r"(\d) consumers?",
    "stages": r"(\d+) stages",
    "min_blocks": r"(\d) blocks?",
    "cluster_m": r"clusters (\d)x",
    "cluster_n": r"clusters \dx(\d)",
    "raster_group": r"group (\d+)",
    "split_k": r"k in (\d+) parts",
    "cluster_k": r"k in (\d+) parts of a cluster",
}
"""Where a choice's words hold its numbers, by the override that asks for each."""


def overrides_of(words: str) -> str:
    """The overrides that leave nothing but the choice told in `words`."""
    found = {name: re.search(pattern, words) for name, pattern in WORDS.items()}
    given = {name: match[1] for name, match in found.items() if match}
    given.setdefault("split_k", "1")
    if "consumers" in given:
        given |= {"tiles_at_once": "2" if "in turn" in words else "1"}
        given = {"cluster_m": "1", "cluster_n": "1", "cluster_k": "1"} | given
    return " ".join(f"{name}={value}" for name, value in given.items())


def product_of(text: str) -> KernelPlan:
    spec = GemmSpec.from_text(text)
    return decide(spec, load_arch(spec.arch, spec.gpu)).product


@pytest.mark.parametrize("shape", LONG)
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_90a"])
def test_a_long_k_is_cut(shape: str, arch: str) -> None:
    spec = GemmSpec.from_text(f"{shape} layout=nt arch={arch}")
    program = decide(spec, load_arch(arch))
    product = program.product
    parts = product.k.split
    assert parts > 1
    assert program.decisions[-1].question == "split k"
    if isinstance(product.body, Wgmma) and product.body.cluster_k > 1:
        assert program.kernels == (product,)
        assert program.workspace.regions == ()
        assert program.decisions[-1].choice == f"{parts} parts of a cluster"
        return
    assert [kernel.body.role for kernel in program.kernels] == ["product", "reduce"]
    assert program.decisions[-1].choice == f"{parts} parts"


@pytest.mark.parametrize(
    "shape",
    ["m=4096 n=4096 k=4096", "m=8192 n=8192 k=512", "m=64 n=64 k=256", "m=1024 n=2048 k=64"],
)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_filled_multiprocessors_or_a_short_k_need_no_cut(shape: str, arch: str) -> None:
    assert product_of(f"{shape} layout=nt arch={arch}").k.split == 1


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_the_threshold_is_ours_to_move(arch: str) -> None:
    text = f"m=64 n=64 k=16384 layout=nt arch={arch}"
    assert product_of(f"{text} split_k_from=0").k.split == 1
    assert product_of(f"{text} split_k_from=16385").k.split == 1
    assert product_of(f"{text} split_k_from=16384").k.split > 1
    setting = setting_of(GemmSpec.from_text("m=64 n=64 k=300 split_k_from=300"), load_arch("sm_80"))
    assert len(cuts_to_try(setting.problem, setting.machine, setting.spec.overrides)) > 1
    setting = setting_of(GemmSpec.from_text(f"m=64 n=64 k={SPLIT_K_FROM - 1}"), load_arch("sm_80"))
    assert cuts_to_try(setting.problem, setting.machine, setting.spec.overrides) == (WHOLE,)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("parts", [1, 2, 7, 256])
def test_a_number_that_is_given_beats_the_tree_and_the_threshold(parts: int, arch: str) -> None:
    text = f"m=512 n=512 k=16384 layout=nt arch={arch} split_k={parts} split_k_from=0"
    assert product_of(text).k.split == parts


@pytest.mark.parametrize("family", [MMA_SYNC, WGMMA])
def test_the_cost_of_all_kernels_is_what_is_compared(family: object) -> None:
    text = "m=512 n=512 k=16384 layout=nt arch=sm_90a split_k=8"
    spec = GemmSpec.from_text(f"{text} cluster_k=1" if family is WGMMA else text)
    setting = setting_of(spec, load_arch("sm_90a"))
    answer = family.best(setting)  # type: ignore[attr-defined]
    assert answer.clocks == answer.prediction().clocks
    later = reduce_clocks(setting.problem, setting.machine, 8)
    assert answer.clocks > answer.others >= later > 0
    assert answer.choice.split_k == 8


def test_a_cut_is_cheaper_than_the_whole_as_predicted() -> None:
    rng = random.Random(5)
    cuts = 0
    for _ in range(60):
        spec = random_spec(rng)
        arch = load_arch(spec.arch)
        setting = setting_of(spec, arch)
        found = MMA_SYNC.best(setting)
        assert found is not None
        choice = found.choice
        if not isinstance(choice, MmaSyncChoice) or spec.overrides.split_k or choice.split_k == 1:
            continue
        cuts += 1
        whole = GemmSpec.from_text(f"{spec} split_k_from=0")
        other = MMA_SYNC.best(setting_of(whole, arch))
        assert other is not None
        assert found.clocks < other.clocks
    assert cuts > 3


def test_the_product_of_a_cut_problem_keeps_its_bytes() -> None:
    setting = setting_of(GemmSpec.from_text("m=100 n=70 k=1000 batch=3"), load_arch("sm_80"))
    problem = cut(setting.problem, 8)
    assert (problem.k, problem.batch, problem.d_bytes, problem.c_bytes) == (125, 24, 4, 0)
    assert problem.vector == 4
    assert cut(setting.problem, 1) == setting.problem


@pytest.mark.parametrize("text", ["m=64 n=64 k=64", "m=1 n=1 k=64", "m=4096 n=1001 k=64 batch=2"])
@pytest.mark.parametrize("parts", [2, 16, 256])
def test_the_second_kernel_is_one_block_size_with_threads_for_all(text: str, parts: int) -> None:
    setting = setting_of(GemmSpec.from_text(text), load_arch("sm_80"))
    body = reduce_body(setting.problem, setting.machine, parts, 64)
    assert isinstance(body, Reduce)
    assert body.threads == 256
    assert body.groups <= parts
    assert body.tile_n // body.vector <= 32
    assert body.shared_bytes <= 48 * 1024


def test_refusals_name_the_nearest_number() -> None:
    for text, message in (
        ("split_k=257", "split_k = 257: too large; the nearest legal is 256"),
        ("split_k=0", "split_k = 0: too small; the smallest is 1"),
        (
            "arch=sm_90a split_k=2 tiles_at_once=2 layout=nt",
            (
                "split_k = 2 with tiles_at_once = 2: 2 parts of k for consumers that take tiles in"
                " turn; the limit is 1; the nearest legal split_k is 1"
            ),
        ),
    ):
        with pytest.raises(InputError) as caught:
            product_of(f"m=64 n=64 k=4096 {text}")
        assert str(caught.value).startswith(message)


def test_parts_in_a_cluster_are_asked_for_by_either_number() -> None:
    text = "m=512 n=512 k=16384 layout=nt arch=sm_90a"
    for given, parts, cluster_k in (
        ("cluster_k=4", 4, 4),
        ("cluster_k=4 split_k=4", 4, 4),
        ("split_k=4 cluster_k=1", 4, 1),
        ("split_k=4", 4, 1),  # 32 clusters of four are more than the tree counts on
        ("split_k=9", 9, 1),
        ("cluster_k=1 split_k_from=0", 1, 1),
        ("cluster_k=8 split_k_from=0", 8, 8),
    ):
        plan = product_of(f"{text} family=wgmma {given}")
        assert isinstance(plan.body, Wgmma)
        assert (plan.k.split, plan.body.cluster_k) == (parts, cluster_k), given
        blocks = plan.blocks.evaluate({"m": 512, "n": 512, "sms": 132})
        if cluster_k > 1:
            assert blocks == plan.m.tiles * plan.n.tiles * cluster_k


def test_a_batch_meets_in_clusters_where_it_is_asked_to() -> None:
    text = "m=64 n=512 k=4096 batch=3 layout=nt arch=sm_90a"
    alone = product_of(text.replace(" batch=3", "")).body
    assert isinstance(alone, Wgmma)
    assert alone.cluster_k > 1
    body = product_of(text).body
    assert not isinstance(body, Wgmma) or body.cluster_k == 1
    spec = GemmSpec.from_text(f"{text} cluster_k=4")
    plan = product_of(str(spec))
    assert isinstance(plan.body, Wgmma)
    assert plan.body.cluster_k == 4
    tiles = 3 * plan.m.tiles * plan.n.tiles
    assert plan.blocks.evaluate({"sms": 132}) == 4 * tiles
    assert explain(spec, SM_90A).prediction.waves == tiles / 30  # that fit, of four blocks


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("epilogue=swiglu", "swiglu pairs sums that are whole"),
        ("epilogue=rms_norm", "rms_norm wants whole rows"),
    ],
)
def test_what_no_cluster_adds_up(text: str, why: str) -> None:
    spec = f"m=64 n=64 k=16384 layout=nt arch=sm_90a {text}"
    for body in (kernel.body for kernel in decide(GemmSpec.from_text(spec), SM_90A).kernels):
        assert not isinstance(body, Wgmma) or body.cluster_k == 1
    with pytest.raises(InputError, match="cluster_k = 4") as caught:
        product_of(f"{spec} cluster_k=4")
    told = f"cluster_k = 4: only wgmma has it, but {why}; leave cluster_k out"
    assert str(caught.value) == told


def test_explain_tells_the_number_and_what_it_costs() -> None:
    spec = GemmSpec.from_text("m=64 n=64 k=16384 layout=nt arch=sm_80")
    explanation = explain(spec, load_arch("sm_80"))
    last = explanation.decisions[-1]
    assert last.question == "split k"
    assert last.reason.startswith("a second kernel adds them, in ")


def test_whole_numbers_are_cut_too() -> None:
    assert product_of("m=64 n=64 k=16384 dtype=int8 layout=nt split_k=8").k.split == 8


def test_the_threshold_rules_no_family_out() -> None:
    """A family that never cuts k is asked whatever the threshold."""
    for text in ("m=1 n=512 k=4096 layout=nt family=bandwidth", "m=64 n=64 k=64 family=simt"):
        found = product_of(f"{text} split_k_from=64")
        assert type(found.body) is type(product_of(text).body)


def test_the_model_ranks_the_cuts_that_were_measured() -> None:
    """Of the measured programs of a shape, the first by the model is among the fastest.

    Told is each ratio of the fastest one's time to that one's.
    """
    arch = load_arch("sm_90a", "H200")
    ratios = {}
    document = json.loads(SWEEP.read_text())
    for shape in document["shapes"]:
        predicted, measured = {}, {}
        for program in shape["programs"]:
            if "us" not in program:
                continue
            words = program["choice"]
            text = f"{shape['problem']} {document['common']} {overrides_of(words)}"
            answer = consider(setting_of(GemmSpec.from_text(text), arch)).winner
            assert answer is not None
            assert answer.choice.words == words
            cut = "parts" in words
            predicted[words] = answer.clocks / (WORTH if cut else 1.0)
            measured[words] = program["us"]
        first = min(predicted, key=predicted.__getitem__)
        ratios[shape["problem"]] = min(measured.values()) / measured[first]
    assert len(ratios) == 13
    assert min(ratios.values()) > 0.965, ratios
    assert fmean(map(log, ratios.values())) > log(0.995), ratios


def test_the_tree_takes_what_was_measured_among_the_fastest() -> None:
    """Where the tree's own pick is among the measured, it is no slower than the best by much.

    Parts were measured before they could meet in a cluster, with the raster groups of then, and
    with slices of one row of k.
    """

    def told(words: str) -> str:
        words = re.sub(r"(\d+x\d+)x\d+, (\d consumers?[^,]*), \d+ stages", r"\1, \2", words)
        return re.sub(r", group \d+", "", words)

    arch = load_arch("sm_90a", "H200")
    ratios = []
    document = json.loads(SWEEP.read_text())
    for shape in document["shapes"]:
        spec = GemmSpec.from_text(f"{shape['problem']} {document['common']} cluster_k=1 tile_k=64")
        winner = consider(setting_of(spec, arch)).winner
        assert winner is not None
        measured = {told(p["choice"]): p["us"] for p in shape["programs"] if "us" in p}
        if (words := told(winner.choice.words)) in measured:
            ratios.append(min(measured.values()) / measured[words])
    assert len(ratios) >= 10
    assert min(ratios) > 0.965
    assert exp(fmean(map(log, ratios))) > 0.995


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("k=64 arch=sm_80 split_k=100 tile_k=16", "; k is 4 slices: 96 of them sum nothing"),
        ("k=64 arch=sm_80 split_k=4 tile_k=16", ""),
        ("k=64 arch=sm_90a cluster_k=2", "; k is 1 slice: 1 of them sum nothing"),
        ("k=0 arch=sm_80 split_k=3", "; k is 0 slices: 3 of them sum nothing"),
        ("k=dynamic:64 arch=sm_80 split_k=9", ""),
        (
            "k=64000 arch=sm_80 split_k=4 split_k_from=0",
            "; split_k_from decides nothing where the parts are given",
        ),
        ("k=64000 arch=sm_80 split_k_from=100", ""),
    ],
)
def test_parts_that_sum_nothing_and_a_threshold_without_a_say_are_told(
    text: str, told: str
) -> None:
    spec = GemmSpec.from_text(f"m=64 n=64 layout=nt {text}")
    reason = explain(spec, load_arch(spec.arch)).decisions[-1].reason
    assert reason.endswith(told)
    assert (";" in reason) == bool(told)
