"""Every architecture's kernel, as the tree chooses it, through a matrix of tails and layouts.

Each cell goes the whole way: spec, tree, template, NVRTC, emulator with that architecture's
arithmetic, exact and random and hostile inputs. The sampled run draws cells by a fixed seed; the
full run takes them all.
"""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING

import pytest

from deepgemm_codegen.arch import known_architectures, load_arch
from deepgemm_codegen.checks import Settings
from deepgemm_codegen.decide import decide
from deepgemm_codegen.harness import format_verdict, verify
from deepgemm_codegen.render import render_kernel
from deepgemm_codegen.spec import GemmSpec
from deepgemm_codegen.toolchain import compile_ptx

if TYPE_CHECKING:
    from deepgemm_codegen.plan import KernelPlan

pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC is not installed")

SIZES = (
    # m, n, k: aligned, a tail in each dimension alone, in all, odd everywhere, and the smallest.
    (128, 128, 128),
    (136, 128, 128),
    (128, 136, 128),
    (128, 128, 136),
    (200, 120, 72),
    (101, 75, 107),
    (1, 1, 1),
    (17, 9, 0),
)

LAYOUTS = ("nn", "nt", "tn", "tt")

EXTRAS = (
    "",
    "dtype_d=fp32 epilogue=bias,relu",
    "dtype_c=fp16 layout_d=t epilogue=bias:row",
)

CELLS = [
    f"m={m} n={n} k={k} layout={layout} arch={arch}{' ' if extra else ''}{extra}"
    for arch, (m, n, k), layout, extra in itertools.product(
        known_architectures(), SIZES, LAYOUTS, EXTRAS
    )
]

SAMPLE = random.Random(20261129).sample(CELLS, 48)


def judge(text: str) -> None:
    """Fails with the verdict's own words."""
    spec = GemmSpec.from_text(text)
    judge_plan(decide(spec, load_arch(spec.arch)).kernels[0])


def judge_plan(plan: KernelPlan, source: str = "") -> None:
    """The same of a plan, of its own text or another."""
    source = source or render_kernel(plan)
    ptx = compile_ptx(source, name=plan.name, arch=plan.target, line_info=True).ptx
    verdict = verify(plan, ptx=ptx, on="emulator", settings=Settings(effort=0.25))
    assert verdict.passed, "\n".join(format_verdict(verdict))


def test_the_sample_meets_every_architecture_and_layout() -> None:
    fields = [dict(word.split("=", 1) for word in cell.split()) for cell in SAMPLE]
    assert {cell["arch"] for cell in fields} == set(known_architectures())
    assert {cell["layout"] for cell in fields} == set(LAYOUTS)


@pytest.mark.parametrize("cell", SAMPLE)
def test_a_sampled_cell(cell: str) -> None:
    judge(cell)


@pytest.mark.full
@pytest.mark.parametrize("cell", [cell for cell in CELLS if cell not in SAMPLE])
def test_every_other_cell(cell: str) -> None:
    judge(cell)
