"""`explain`: choices, rivals and rejections agree with the decision."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace

import pytest

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.decide import decide
from deepgemm_codegen.decide.explain import ANSWERED, explain, format_explanation
from deepgemm_codegen.errors import InputError
from deepgemm_codegen.spec import GemmSpec
from deepgemm_codegen.spec.overrides import OVERRIDES
from tests.decide.specs import random_spec


def spec_of(text: str) -> GemmSpec:
    return GemmSpec.from_text(text)


def test_it_explains_the_plan_that_is_generated() -> None:
    rng = random.Random(30)
    for _ in range(8):
        spec = random_spec(rng)
        arch = load_arch(spec.arch)
        explained = explain(spec, arch).decisions
        planned = decide(spec, arch).decisions
        assert [(d.id, d.question, d.choice, d.reason) for d in explained] == [
            (d.id, d.question, d.choice, d.reason) for d in planned
        ]


@pytest.mark.parametrize(
    "text",
    [
        "m=512 n=512 k=520 lda=521 dtype=int8 zero_point_a=per_tensor",
        (
            "m=64 n=512 k=4096 ldb=515 dtype=int8 zero_point_b=3 split_k=4 repack=on"
            " layout_d=t dtype_d=fp16 epilogue=rms_norm"
        ),
        "m=64 n=512 k=4096 ldb=515 repack=on layout_d=t epilogue=rms_norm,quantize:int8:dynamic",
        (
            "m=512 n=64 k=64 batch=3 dtype=uint8 zero_point_b=per_channel"
            " epilogue=bias,quantize:int8:dynamic"
        ),
        "m=512 n=64 op=epilogue batch=3 layout_d=t epilogue=bias,quantize:int8:dynamic",
    ],
)
def test_kernels_around_a_product_answer_under_ids_of_their_own(text: str) -> None:
    arch = load_arch("sm_80")
    explained = explain(spec_of(text), arch).decisions
    assert tuple(replace(d, rival="") for d in explained) == decide(spec_of(text), arch).decisions
    ids = [decision.id for decision in explained]
    assert len(set(ids)) == len(ids)


def test_rivals_and_rejections_of_a_large_product() -> None:
    explanation = explain(spec_of("m=4096 n=4096 k=4096 layout=nt arch=sm_90"), load_arch("sm_90"))
    rivals = {decision.question: decision.rival for decision in explanation.decisions}
    assert rivals["family"] == ""
    assert rivals["tile"].endswith("x the time")
    assert "2 blocks" in rivals["occupancy"]
    cuts = {rejection.constraint: rejection for rejection in explanation.rejections}
    shared = cuts["shared_block"]
    assert shared.choice == "128x256x64, warps 2x4, 5 stages"
    assert (shared.got, shared.limit, shared.excess) == (245760, 232448, "13312 too many")
    assert cuts["accumulators"].limit == 128
    assert all(rejection.count > 0 for rejection in explanation.rejections)


def test_a_rival_that_is_predicted_to_be_faster_is_said_to_be_equal() -> None:
    spec = spec_of("m=4 n=4096 k=4096 layout=nt arch=sm_80")
    rivals = {d.question: d.rival for d in explain(spec, load_arch("sm_80")).decisions}
    equal = r".*: 0\.9\d\d x the time, too close to call"
    assert re.fullmatch(equal, rivals["stages"])
    assert rivals["tile"].endswith(" x the time")


def test_it_is_plain_json() -> None:
    explanation = explain(spec_of("m=77 n=40 k=33 arch=sm_75"), load_arch("sm_75"))
    assert json.loads(json.dumps(explanation.to_dict()))["decisions"][0]["question"] == "family"


def test_an_override_is_no_rivalry() -> None:
    spec = spec_of("m=512 n=512 k=512 stages=4 arch=sm_80")
    explanation = explain(spec, load_arch("sm_80"))
    rivals = {decision.question: decision.rival for decision in explanation.decisions}
    assert rivals["stages"] == "none: given as stages"


def test_the_text_names_every_question_and_constraint() -> None:
    explanation = explain(spec_of("m=1000 n=1000 k=1000 arch=sm_86"), load_arch("sm_86"))
    text = format_explanation(explanation)
    for decision in explanation.decisions:
        assert f"[{decision.id}] {decision.question}: {decision.choice}" in text
    for rejection in explanation.rejections:
        assert f"  {rejection.constraint}: {rejection.count} branch" in text
        assert rejection.excess in text
    assert "predicted: " in text
    assert max(map(len, text.splitlines())) <= 120


def test_it_refuses_as_decide_does() -> None:
    spec = spec_of("m=64 n=64 k=64 stages=4 arch=sm_75")
    with pytest.raises(InputError, match="the nearest legal stages is 2"):
        explain(spec, load_arch("sm_75"))


def test_every_override_has_a_question_or_is_named_without() -> None:
    """No override gets lost, whichever family answers."""
    assert set(ANSWERED) == set(OVERRIDES)
    named: set[str] = set()
    for text in (
        "m=512 n=512 k=512 arch=sm_80 family=mma_sync tensor_cores=on repack=off split_k_from=0",
        "m=512 n=512 k=4096 arch=sm_90a consumers=2 tiles_at_once=1 cluster_m=1 cluster_k=1",
        "m=16 n=4096 k=4096 layout=nt arch=sm_90 ring=shared warps_k=4",
        "m=32 n=32 k=32 batch=256 arch=sm_80 abreast=2",
        "m=512 n=512 k=4096 arch=sm_80 split_k=4 stages=3 min_blocks=1 raster_group=2",
        "op=epilogue m=512 n=512 epilogue=rms_norm warps_m=4 warps_n=1",
    ):
        spec = spec_of(text)
        explanation = explain(spec, load_arch(spec.arch))
        assert [(each.name, each.value) for each in explanation.given] == spec.overrides.items()
        ids = {decision.id for decision in explanation.decisions}
        assert {each.decision for each in explanation.given} <= {*ids, ""}
        told = format_explanation(explanation)
        assert all(f"{name}={value}" in told for name, value in spec.overrides.items())
        named |= {each.question for each in explanation.decisions}
    assert {"split k", "tiles abreast", "row", "block"} <= named
