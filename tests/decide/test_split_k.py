"""Into how many parts k is cut: the tree's answer, the threshold, and numbers that are given."""

from __future__ import annotations

import random

import pytest

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.decide import MmaSyncChoice, decide
from deepgemm_codegen.decide.explain import explain
from deepgemm_codegen.decide.family import setting_of
from deepgemm_codegen.decide.mma_sync.family import MMA_SYNC
from deepgemm_codegen.decide.split_k import (
    SPLIT_K_FROM,
    cut,
    parts_to_try,
    reduce_body,
    reduce_clocks,
)
from deepgemm_codegen.decide.wgmma.family import WGMMA
from deepgemm_codegen.errors import InputError
from deepgemm_codegen.plan import KernelPlan, Reduce
from deepgemm_codegen.spec import GemmSpec

from .specs import random_spec

LONG = ["m=64 n=64 k=16384", "m=512 n=512 k=16384", "m=128 n=128 k=65536", "m=16 n=16 k=8192"]


def product_of(text: str) -> KernelPlan:
    spec = GemmSpec.from_text(text)
    return decide(spec, load_arch(spec.arch, spec.gpu)).product


@pytest.mark.parametrize("shape", LONG)
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_90a"])
def test_a_long_k_is_cut(shape: str, arch: str) -> None:
    spec = GemmSpec.from_text(f"{shape} layout=nt arch={arch}")
    program = decide(spec, load_arch(arch))
    parts = program.product.k.split
    assert parts > 1
    assert [kernel.body.role for kernel in program.kernels] == ["product", "reduce"]
    assert program.decisions[-1].question == "split k"
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
    assert len(parts_to_try(setting.problem, setting.machine, setting.spec.overrides)) > 1
    setting = setting_of(GemmSpec.from_text(f"m=64 n=64 k={SPLIT_K_FROM - 1}"), load_arch("sm_80"))
    assert parts_to_try(setting.problem, setting.machine, setting.spec.overrides) == (1,)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("parts", [1, 2, 7, 256])
def test_a_number_that_is_given_beats_the_tree_and_the_threshold(parts: int, arch: str) -> None:
    text = f"m=512 n=512 k=16384 layout=nt arch={arch} split_k={parts} split_k_from=0"
    assert product_of(text).k.split == parts


@pytest.mark.parametrize("family", [MMA_SYNC, WGMMA])
def test_the_cost_of_all_kernels_is_what_is_compared(family: object) -> None:
    spec = GemmSpec.from_text("m=512 n=512 k=16384 layout=nt arch=sm_90a split_k=8")
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
