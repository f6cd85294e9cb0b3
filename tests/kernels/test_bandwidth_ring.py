"""Rings in shared memory, of the bandwidth family: kernels on the emulator, and what keeps one out.

A warp reads only what its own lanes copied, so that no barrier of the block stands between; the
emulator's race checks see where that is not so, or where a slot is filled too soon.
"""

from __future__ import annotations

import pytest

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.decide import BandwidthChoice, decide
from deepgemm_codegen.decide.bandwidth.constraints import violations
from deepgemm_codegen.decide.bandwidth.task import Task, task_of
from deepgemm_codegen.decide.explain import explain, format_explanation
from deepgemm_codegen.decide.family import setting_of
from deepgemm_codegen.errors import InputError
from deepgemm_codegen.plan import Bandwidth
from deepgemm_codegen.render import render_kernel
from deepgemm_codegen.spec import GemmSpec
from tests.kernels.test_tails_matrix import judge, judge_plan

pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC is not installed")

CHOICES = {
    # (fragments, warps along the long side, warps along k, stages, blocks)
    "m=16 n=136 k=512 arch=sm_90": (4, 1, 4, 3, 1),
    "m=5 n=200 k=1024 arch=sm_90 batch=2 dtype=bf16": (2, 1, 2, 4, 1),
    "m=120 n=7 k=256 arch=sm_80 layout_d=t epilogue=bias:row": (1, 1, 1, 2, 1),
    "m=8 n=96 k=768 arch=sm_90 launch=dependent dtype=bf16": (6, 1, 4, 3, 1),
    "m=1 n=64 k=128 arch=sm_90 dtype_c=fp16": (8, 1, 1, 4, 1),
    "m=13 n=dynamic:200 k=512 arch=sm_86": (3, 2, 2, 2, 1),
    "m=dynamic:16 n=72 k=640 arch=sm_120": (1, 1, 2, 5, 1),
}


def task_for(text: str) -> Task:
    spec = GemmSpec.from_text(text)
    task = task_of(setting_of(spec, load_arch(spec.arch, spec.gpu)))
    assert task is not None
    return task


@pytest.mark.parametrize("text", CHOICES)
def test_a_kernel_with_a_ring_in_shared_memory(text: str) -> None:
    text = f"{text} layout=nt"
    spec = GemmSpec.from_text(text)
    choice = BandwidthChoice(*CHOICES[text.removesuffix(" layout=nt")], ring="shared")
    assert list(violations(task_for(text), choice)) == []
    plan = choice.program(spec, load_arch(spec.arch)).product
    source = render_kernel(plan)
    assert "cp.async.cg" in source
    assert "ld.global" not in source.partition("// ---- kernel")[0] or spec.dtype_c is not None
    judge_plan(plan)


def test_the_override_takes_it_through_the_tree() -> None:
    judge("m=16 n=160 k=512 layout=nt arch=sm_90 ring=shared")


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("cp_async_wait<STAGES - 2>();", "cp_async_wait<STAGES - 1>();"),
        ("__syncwarp();", ""),
        ("+ thread / 32 * RING_BYTES;", ";"),
        ("lane / 4 % 2 * 4)", "lane / 4 % 4)"),
        ("multiply(read);", "multiply(write);"),
        ("__syncthreads();  // the slabs", "// the slabs"),
    ],
)
def test_a_broken_ring_is_found(right: str, wrong: str) -> None:
    spec = GemmSpec.from_text("m=8 n=64 k=1024 layout=nt arch=sm_90")
    plan = BandwidthChoice(2, 1, 2, 3, 1, ring="shared").program(spec, load_arch("sm_90")).product
    source = render_kernel(plan)
    assert right in source
    with pytest.raises(AssertionError):
        judge_plan(plan, source.replace(right, wrong))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("m=8 n=64 k=256 arch=sm_90", "k is not contiguous in both operands"),
        ("m=8 n=64 k=dynamic:256 layout=nt arch=sm_90", "k is known only at run time"),
        ("m=8 n=64 k=256 layout=nt arch=sm_75", "sm_75 copies nothing to shared memory by itself"),
        ("m=8 n=64 k=252 layout=nt arch=sm_90", "a lane loads no 16 bytes at a time: "),
    ],
)
def test_what_keeps_a_ring_out_is_said(text: str, reason: str) -> None:
    with pytest.raises(InputError) as caught:
        decide(spec := GemmSpec.from_text(f"{text} ring=shared"), load_arch(spec.arch))
    assert str(caught.value).startswith(f"ring = shared: {reason}")
    plan = decide(GemmSpec.from_text(f"{text} family=bandwidth"), load_arch(spec.arch)).product
    assert isinstance(plan.body, Bandwidth)
    assert plan.body.ring == "registers"


def test_a_partial_slice_of_k_is_refused_with_the_reason() -> None:
    spec = GemmSpec.from_text("m=8 n=64 k=200 layout=nt arch=sm_90 ring=shared")
    with pytest.raises(InputError) as caught:
        decide(spec, load_arch("sm_90"))
    assert str(caught.value) == (
        "ring = shared: 72 elements of k are no whole slice of a ring in shared memory;"
        " leave ring out"
    )


def test_other_families_have_no_ring_to_choose() -> None:
    spec = GemmSpec.from_text("m=64 n=64 k=256 layout=nt arch=sm_90 ring=shared")
    with pytest.raises(InputError) as caught:
        decide(spec, load_arch("sm_90"))
    assert "ring = shared" in str(caught.value)


def test_it_explains_the_ring() -> None:
    spec = GemmSpec.from_text("m=16 n=4096 k=4096 layout=nt arch=sm_90 gpu=H200 ring=shared")
    text = format_explanation(explain(spec, load_arch("sm_90", "H200")))
    assert "[D05] copy of A: cp.async, 16 bytes" in text
    assert "bytes of operands in shared memory; k is " in text
