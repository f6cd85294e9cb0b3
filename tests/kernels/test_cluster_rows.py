"""Whole rows of D in the registers of a cluster: norms behind a product without a second kernel."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.decide import WgmmaChoice, decide
from deepgemm_codegen.decide.explain import explain
from deepgemm_codegen.decide.families import consider
from deepgemm_codegen.decide.family import setting_of
from deepgemm_codegen.errors import InputError
from deepgemm_codegen.plan import Decision, Wgmma
from deepgemm_codegen.plan.schedules import clusters_at_once
from deepgemm_codegen.render import render_program
from deepgemm_codegen.spec import GemmSpec
from tests.harness.support import assert_right, assert_wrong, program_of

MEASURED = {2: 66, 3: 39, 4: 30, 5: 22, 6: 17, 7: 15, 8: 15}
"""Clusters of so many blocks that an H200 held: `program_sweep_whole_rows_h200.json`."""

FOUR = WgmmaChoice(128, 128, 2, 1, 4, 1, 1, 1, cluster_rows=4)
LOW = replace(FOUR, tile_m=64, consumers=1)
NARROW = replace(FOUR, tile_n=64, cluster_rows=3, stages=3)
HIGH = replace(FOUR, tile_m=256)
TURNS = replace(FOUR, tile_m=64, tiles_at_once=2)
FIVE = replace(TURNS, tile_n=160, cluster_rows=5)
BYTES = replace(FOUR, tile_k=128, stages=3)


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("m=256 n=512 k=256 epilogue=bias,residual,store,layer_norm", FOUR),
        ("m=300 n=504 k=200 epilogue=gelu,rms_norm dtype_c=fp16", LOW),
        ("m=200 n=192 k=392 epilogue=rms_norm,quantize:int8:scale=per_token", NARROW),
        ("m=150 n=189 k=136 epilogue=layer_norm,relu", NARROW),  # an element at a time
        ("m=dynamic:300 n=128 k=512 batch=3 epilogue=bias,layer_norm",
         replace(FOUR, cluster_rows=1)),
        ("m=70 n=200 k=72 dtype_d=fp32 epilogue=layer_norm",
         replace(LOW, tile_n=208, cluster_rows=1)),
        ("m=700 n=512 k=136 epilogue=bias,residual,store,layer_norm,gelu", TURNS),
        ("m=dynamic:500 n=750 k=200 epilogue=scale:row,rms_norm dtype_c=fp16", FIVE),
        ("m=330 n=96 k=72 batch=3 epilogue=residual,layer_norm",
         replace(TURNS, tile_n=96, cluster_rows=1)),
        ("m=600 n=384 k=72 epilogue=rms_norm", replace(HIGH, cluster_rows=3)),
        ("m=264 n=512 k=136 layout=tn epilogue=bias,layer_norm", FOUR),
        ("m=128 n=2048 k=128 epilogue=rms_norm", replace(LOW, tile_n=256, cluster_rows=8)),
        ("m=150 n=512 k=400 dtype=int8 dtype_d=fp16 epilogue=scale:row,bias,layer_norm", BYTES),
        ("m=150 n=512 k=400 dtype=e4m3 dtype_d=bf16 epilogue=bias,layer_norm", BYTES),
        ("m=150 n=384 k=1024 dtype=e4m3 scale_a=1x128 scale_b=128x128 epilogue=rms_norm",
         replace(BYTES, cluster_rows=3)),
        ("m=150 n=384 k=400 dtype=int8 zero_point_a=per_token dtype_d=fp16 epilogue=rms_norm",
         replace(BYTES, cluster_rows=3)),
    ],
    ids=["steps", "low", "three", "odd", "batch", "alone", "turns", "five", "turns alone", "high",
         "shared tn", "eight", "int8", "promoted", "by block", "zero points"],
)  # fmt: skip
def test_they_are_right(text: str, choice: WgmmaChoice) -> None:
    layout = "" if "layout" in text else " layout=nt"
    line = f"{text}{layout} arch=sm_90a"
    program = program_of(line, choice)
    roles = [kernel.body.role for kernel in program.kernels]
    assert "rows" not in roles
    assert not any(region.name == "partials" for region in program.workspace.regions)
    assert_right(line, choice, effort=0.2)


@pytest.mark.parametrize(
    ("place", "instead", "seen"),
    [
        ("cluster_sync();  // nothing may be told", "__syncthreads();  //", "order after its init"),
        ("mbarrier_wait(barrier, meeting / 2 % 2);", "", "in-flight-read"),
        ("mbarrier_arrive_at(barrier, lane);", ";", "deadlock"),
        ("meeting % 2 * CONSUMERS * 4 + consumer", "consumer", "order after the end of its last"),
        ("meeting % 2 * (TOLD_BYTES / 4)", "0", "race"),
        ("barrier, meeting / 2 % 2", "barrier, meeting % 2", "deadlock"),
        ("CLUSTER * (CONSUMER_M / 4) * 4", "(CLUSTER - 1) * CONSUMER_M", "in-flight-read"),
        ("block, sum[i]);", "block ^ 1, sum[i]);", "bad-rank"),
    ],
    ids=["start", "wait", "arrival", "one barrier", "one place", "parity", "bytes", "rank"],
)
def test_a_meeting_that_is_not_one_is_told(place: str, instead: str, seen: str) -> None:
    line = "m=400 n=512 k=136 epilogue=layer_norm layout=nt arch=sm_90a"
    program = program_of(line, replace(TURNS, tile_n=176, cluster_rows=3))
    source = render_program(program)
    assert source.count(place) == 1
    assert_wrong(program, source.replace(place, instead), seen=seen, effort=0.3)


def test_a_cluster_that_shares_a_waits_for_barriers_that_are_there() -> None:
    program = program_of("m=256 n=512 k=136 epilogue=rms_norm layout=nt arch=sm_90a", FOUR)
    source = render_program(program)
    place = "cluster_sync();  // no copy may land in a block whose barriers are not there yet"
    assert source.count(place) == 1
    left_out = source.replace(place, "__syncthreads();")
    assert_wrong(program, left_out, seen="order after its init", effort=0.3)


def _whole_rows(text: str) -> Decision:
    """The question of whole rows, as `explain` has it."""
    spec = GemmSpec.from_text(f"{text} dtype=bf16 layout=nt arch=sm_90a gpu=H200")
    steps = explain(spec, load_arch("sm_90a", "H200")).decisions
    (found,) = (decision for decision in steps if decision.question == "whole rows")
    return found


def test_the_other_form_is_named() -> None:
    small = "m=16384 n=512 k=512 epilogue=bias,residual,store,layer_norm"
    found = _whole_rows(small)
    assert "2 blocks of a cluster hold all 512 columns of their rows" in found.reason
    assert re.fullmatch(r"a second kernel, \d+x\d+x64, .*: 1\.\d{3} x the time", found.rival)
    found = _whole_rows("m=8192 n=768 k=3072 epilogue=bias,residual,store,layer_norm")
    assert re.fullmatch(r"a cluster, .* rows by \d blocks, .*: 1\.\d{3} x the time", found.rival)
    assert _whole_rows("m=4096 n=4096 k=512 epilogue=rms_norm").rival == "none is legal"
    assert _whole_rows(f"{small} cluster_rows=4").rival == "none: given as cluster_rows"
    alone = _whole_rows("m=4096 n=256 k=512 epilogue=rms_norm cluster_rows=1")
    assert alone.reason.startswith("a block holds all 256 columns of its rows")


def test_rivals_are_of_its_own_kind() -> None:
    spec = GemmSpec.from_text("m=16384 n=512 k=512 layout=nt epilogue=rms_norm arch=sm_90a")
    steps = {d.question: d for d in explain(spec, load_arch("sm_90a")).decisions}
    for question in ("tile", "warps", "stages"):
        assert re.search(r"rows by \d block.* x the time", steps[question].rival), question
    assert steps["raster"].rival == ""


@pytest.mark.parametrize("sizes", ["n=1023", "n=1022", "n=1024 ldd=1025", "n=1024 align_d=4"])
def test_single_elements_are_not_stored_unasked(sizes: str) -> None:
    text = f"m=16384 {sizes} k=512 dtype=bf16 layout=nt epilogue=layer_norm arch=sm_90a"
    program = decide(GemmSpec.from_text(text), load_arch("sm_90a"))
    assert [kernel.body.role for kernel in program.kernels] == ["product", "rows"]
    program = decide(GemmSpec.from_text(f"{text} cluster_rows=4"), load_arch("sm_90a"))
    assert [kernel.body.role for kernel in program.kernels] == ["product"]


def test_none_at_all_is_no_choice_of_a_family() -> None:
    text = "m=300 n=300 k=64 epilogue=rms_norm arch=sm_90 cluster_rows=0"
    without = decide(GemmSpec.from_text(text.rpartition(" ")[0]), load_arch("sm_90"))
    program = decide(GemmSpec.from_text(text), load_arch("sm_90"))
    assert [k.body for k in program.kernels] == [k.body for k in without.kernels]


@pytest.mark.parametrize(
    ("blocks", "held"), [(2, 66), (3, 37), (4, 30), (5, 22), (6, 15), (7, 15), (8, 15)]
)
def test_no_more_clusters_are_counted_on_than_a_gpu_held(blocks: int, held: int) -> None:
    counted = clusters_at_once(blocks)
    assert counted.evaluate({"sms": 132}) == held
    assert counted.evaluate({"sms": 132}) <= MEASURED[blocks]
    assert counted.evaluate({"sms": 16}) * blocks <= 16
    assert counted.evaluate({"sms": 8}) >= 1


@pytest.mark.parametrize("blocks", range(1, 9))
@pytest.mark.parametrize("n", [256, 700, 768, 1024, 2048])
def test_the_tree_has_a_plan_wherever_rows_fit(n: int, blocks: int) -> None:
    spec = GemmSpec.from_text(
        f"m=1000 n={n} k=512 layout=nt epilogue=rms_norm arch=sm_90a cluster_rows={blocks}"
    )
    arch = load_arch(spec.arch)
    tiles = [tile for tile in range(16, 257, 16) if tile * blocks >= n > tile * (blocks - 1)]
    if not tiles:
        too_long = "columns at most" if n > blocks * 256 else f"the {n} columns of a row"
        with pytest.raises(InputError, match=too_long):
            decide(spec, arch)
        return
    (kernel,) = decide(spec, arch).kernels
    body = kernel.body
    assert isinstance(body, Wgmma)
    assert body.holds_rows
    assert body.cluster == blocks
    assert body.tile_n in tiles
    assert body.shared_bytes <= arch.shared_per_block
    stages = next(d for d in kernel.decisions if d.question == "stages")
    assert stages.reason.startswith(f"{body.shared_bytes} of ")
    (rows,) = (d for d in kernel.decisions if d.question == "whole rows")
    assert "needs no second kernel" in rows.reason


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("m=16384 n=512 k=512 epilogue=bias,residual,store,layer_norm", 2),
        ("m=8192 n=768 k=768 epilogue=bias,residual,store,layer_norm", 3),
        ("m=32768 n=256 k=256 epilogue=bias,layer_norm", 1),
        ("m=8192 n=768 k=3072 epilogue=bias,residual,store,layer_norm", 0),
        ("m=64 n=768 k=768 epilogue=bias,residual,store,layer_norm", 0),
        ("m=4096 n=4096 k=4096 epilogue=residual,store,rms_norm", 0),
    ],
)
def test_the_tree_takes_what_was_fastest(text: str, blocks: int) -> None:
    """Measured on an H200: ``benchmarks/results/program_sweep_whole_rows_h200.json``."""
    line = f"{text} dtype=bf16 layout=nt arch=sm_90a gpu=H200"
    program = decide(GemmSpec.from_text(line), load_arch("sm_90a", "H200"))
    body = program.product.body
    assert isinstance(body, Wgmma)
    assert body.cluster * body.holds_rows == blocks
    (rows,) = (d for d in program.decisions if d.question == "whole rows")
    assert rows.choice.startswith("the product" if blocks else "a second kernel")
    off = decide(GemmSpec.from_text(f"{line} cluster_rows=0"), load_arch("sm_90a", "H200"))
    assert not (isinstance(off.product.body, Wgmma) and off.product.body.holds_rows)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("n=768 cluster_rows=2", "so many blocks have 512 columns at most, and a row has 768"),
        ("n=dynamic:768 cluster_rows=4", "how long a row is only the launch tells"),
        ("n=768 cluster_rows=4 split_k=2", "split_k = 2 is given, too"),
        ("n=768 cluster_rows=4 cluster_n=2", "cluster_n = 2 is given, too"),
        ("n=768 cluster_rows=4 raster_group=2", "raster_group = 2 is given, too"),
        ("n=768 cluster_rows=4 tile_k=128", "tile_k = 128 is given, too"),
        ("n=768 cluster_rows=9", "cluster_rows = 9: too large; the nearest legal is 8"),
        ("n=768 cluster_rows=4 tile_n=64", "the 768 columns of a row; the nearest legal tile_n is"),
        ("n=768 cluster_rows=4 stages=14", "the nearest legal stages is 7"),
        ("n=768 cluster_rows=4 sms=3", "the nearest legal cluster_rows is 3"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(text: str, said: str) -> None:
    spec = f"m=1000 k=512 layout=nt epilogue=rms_norm arch=sm_90a {text}"
    asked = GemmSpec.from_text(spec)
    with pytest.raises(InputError, match=re.escape(said)):
        decide(asked, load_arch("sm_90a", sms=asked.sms))


def test_nothing_asks_for_rows() -> None:
    spec = GemmSpec.from_text("m=64 n=64 k=64 layout=nt arch=sm_90a cluster_rows=1")
    with pytest.raises(InputError, match="no step asks for whole rows"):
        decide(spec, load_arch(spec.arch))


def test_copies_before_it_count() -> None:
    """What is told of the time has all kernels in it."""
    times = []
    for stride in ("", " lda=513"):
        text = f"m=1000 n=512 k=512 layout=nt epilogue=rms_norm arch=sm_90a cluster_rows=2{stride}"
        spec = GemmSpec.from_text(text)
        winner = consider(setting_of(spec, load_arch(spec.arch))).winner
        assert winner is not None
        assert winner.prediction().clocks == winner.clocks
        times.append(winner.clocks)
    assert times[1] > times[0]
