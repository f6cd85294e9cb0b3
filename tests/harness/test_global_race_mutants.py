"""Generated kernels whose blocks or threads meet in global memory must be found out.

The numbers of most come out right, because the emulator runs one block after the other.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.decide import MmaSyncChoice, WgmmaChoice
from deepgemm_codegen.harness.cases import inputs_for
from deepgemm_codegen.harness.emulate import EmulatorDevice
from deepgemm_codegen.harness.problem import bind
from deepgemm_codegen.spec import GemmSpec
from deepgemm_codegen.toolchain import compile_ptx
from tests.harness.support import plan_of, source_of

if TYPE_CHECKING:
    from deepgemm_codegen.plan import KernelPlan

TAILS = "m=150 n=128 k=64 dtype_c=fp16 layout=nt"
TILE_ROW = r"(const int m0 = )(.*);"
WGMMA_ROW = r"( m0 = )(\(group .*);"

MUTANTS = {
    # The last tile row moved up so that it ends with D: a common way to treat tails.
    "tiles overlap": ("mma", TILE_ROW, r"\1min(static_cast<int>(\2), M - TILE_M);", "write", True),
    "tiles overlap, wgmma": ("wgmma", WGMMA_ROW, r"\1min(\2, M - TILE_M);", "write", True),
    # One block computes both: its own stores, which it has not waited for, overlap.
    "tiles overlap, TMA": ("tma", WGMMA_ROW, r"\1min(static_cast<int>(\2), M - TILE_M);",
                           "write", False),
    "one tile for two blocks": ("mma", r"tile = blockIdx.x;", "tile = blockIdx.x & ~1;",
                                "write", False),
    "consumers store over each other": ("tma", r"m0 \+= consumer \* CONSUMER_M;", "",
                                        "write", False),
    # D in C's place: the sums of one block become the addends of another.
    "c of another tile": ("mma", r"c \+ \(row \* LDC", "c + ((row + 64) % M * LDC", "write", True),
}  # fmt: skip


def _plan(kind: str) -> KernelPlan:
    if kind == "mma":
        return plan_of(TAILS, MmaSyncChoice(64, 64, 32, 2, 2, 2, 2, 8))
    fields = {"m": 150, "n": 128 if kind == "tma" else 309, "k": 64, "layout": "nt"}
    spec = GemmSpec.from_fields({**fields, "arch": "sm_90a", "epilogue": ""})
    numbers = (128, 64, 2, 1, 2, 1, 1, 8) if kind == "tma" else (64, 48, 1, 1, 2, 1, 1, 4)
    return WgmmaChoice(*numbers).program(spec, load_arch("sm_90a")).kernels[0]


def _faults(plan: KernelPlan, source: str) -> tuple[str, ...]:
    problem = bind(plan, alpha=1.0, beta=0.5 if plan.output.c_dtype else 0.0)
    inputs = inputs_for(problem, "exact", "integers", 1)
    in_place = plan.output.c_dtype is not None
    built = compile_ptx(source, name=plan.name, arch=plan.target, line_info=True, cached=False)
    return EmulatorDevice(plan, built.ptx).launch(problem, inputs, None, in_place=in_place).faults


@pytest.mark.parametrize("kind", ["mma", "wgmma", "tma"])
def test_the_unbroken_kernels_are_clean(kind: str) -> None:
    plan = _plan(kind)
    assert _faults(plan, source_of(plan)) == ()


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_found(name: str) -> None:
    kind, pattern, replacement, verb, between_blocks = MUTANTS[name]
    plan = _plan(kind)
    source, count = re.subn(pattern, replacement, source_of(plan))
    assert count, f"nothing in the kernel matches {pattern!r}"
    told = "\n".join(_faults(plan, source))
    assert f"race: {verb} " in told, told
    assert "of buffer 'd', which another" in told
    assert "another block" in told or not between_blocks
    # Both sides, each with its PTX line, CUDA line, thread and block.
    side = r"PTX line \d+: .* \(.*\.cu:\d+.*\)\n    by thread \d+ \(warp \d+\) of block \("
    assert len(re.findall(side, told)) >= 2, told
