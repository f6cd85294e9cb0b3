"""Mutants of small kernels before the judge: named ones must die, and of what they die."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.decide import MmaSyncChoice, WgmmaChoice
from deepgemm_codegen.emulator import parse
from deepgemm_codegen.spec import GemmSpec
from tests.mutation.judging import Judge
from tests.mutation.kernels import Specimen
from tests.mutation.score import Attempt, attempts, ptx_of

if TYPE_CHECKING:
    from deepgemm_codegen.plan import Program


def program(text: str, choice: MmaSyncChoice | WgmmaChoice) -> Program:
    spec = GemmSpec.from_text(text)
    return choice.program(spec, load_arch(spec.arch))


PROGRAMS = {
    "ampere": program(
        "m=70 n=72 k=200 layout=nt arch=sm_80", MmaSyncChoice(64, 64, 32, 2, 2, 3, 2, 8)
    ),
    "hopper": program(
        "m=200 n=136 k=328 layout=nt arch=sm_90a", WgmmaChoice(128, 128, 2, 1, 2, 1, 1, 8)
    ),
    # Parts of k that meet in a cluster: of six and five slices in a ring of three slots, of four
    # in a ring of four, which never turns, and before a norm, where tiles are judged by rows.
    "parts": program(
        "m=100 n=72 k=680 layout=nt arch=sm_90a",
        WgmmaChoice(64, 64, 1, 1, 3, 1, 1, 8, 2, cluster_k=2),
    ),
    "parts once": program(
        "m=100 n=72 k=500 layout=nt arch=sm_90a lda=504 ldb=504",
        WgmmaChoice(64, 64, 1, 1, 4, 1, 1, 8, 2, cluster_k=2),
    ),
    "rows": program(
        "m=130 n=136 k=256 layout=nt arch=sm_90a epilogue=layer_norm",
        WgmmaChoice(64, 64, 1, 1, 4, 1, 1, 8),
    ),
}


@cache
def judged(name: str) -> tuple[Judge, list[Attempt]]:
    specimen = Specimen.of(PROGRAMS[name], "here")
    module = parse(ptx_of(specimen.program, specimen.source))
    return Judge(specimen.program, module), list(attempts(specimen, module))


# Kernel, operator, a part of what it did (empty for the first), and what it may die of.
CLASSICS = [
    ("ampere", "barrier dropped", "bar.sync", {"race"}),
    ("ampere", "barrier moved", "before cp.async.wait_group", {"race", "in-flight-read"}),
    ("ampere", "barrier dropped", "bar.warp.sync", {"race"}),
    ("ampere", "wait dropped", "", {"in-flight-read"}),
    ("ampere", "wait loosened", "", {"in-flight-read"}),
    ("ampere", "wait moved", "behind bar.sync", {"race"}),
    ("ampere", "commit dropped", "", {"in-flight-read"}),
    ("ampere", "stage off by one", "+", {"in-flight-read", "in-flight-write", "race"}),
    ("ampere", "filling dropped", "", {"out-of-bounds-read", "exact values"}),
    ("ampere", "swizzle on one side", "within", {"exact values", "race"}),
    ("hopper", "wait dropped", "try_wait", {"in-flight-read", "in-flight-write", "race"}),
    ("hopper", "wait disobeyed", "", {"in-flight-read", "in-flight-write", "race"}),
    ("hopper", "wait moved", "behind mbarrier.arrive.expect_tx", {"race"}),
    ("hopper", "wait loosened", "wgmma.wait_group", {"in-flight-write"}),
    ("hopper", "wait loosened", "bulk.wait_group.read", {"in-flight-write"}),
    ("hopper", "fence dropped", "fence.proxy.async", {"missing-fence"}),
    ("hopper", "fence dropped", "wgmma.fence", {"missing-fence"}),
    ("hopper", "order weakened", "fence.proxy.async", {"missing-fence"}),
    ("hopper", "order weakened", "mbarrier.arrive.relaxed", {"race", "in-flight-write"}),
    ("hopper", "commit dropped", "bulk", {"in-flight-write", "exit-in-flight"}),
    ("hopper", "arrival dropped", "", {"deadlock"}),
    ("hopper", "arrival doubled", "", {"over-arrival", "deadlock"}),
    ("hopper", "count off", "expect_tx", {"deadlock", "in-flight-read"}),
    # The first wait is the producer's: it fills slots that are still read.
    ("hopper", "parity flipped", "the other parity", {"deadlock", "in-flight-read", "race"}),
    ("hopper", "registers off", "dropped", {"deadlock"}),
    ("hopper", "descriptor stride", "", {"exact values", "in-flight-read"}),
    ("hopper", "swizzle on one side", "", {"exact values"}),
    ("hopper", "box size", "", {"deadlock", "exact values"}),
    ("hopper", "map swizzle", "", {"exact values"}),
    ("parts", "parity flipped", "the other parity", {"deadlock", "in-flight-read"}),
    ("parts", "stage wrapped wrong", "", {"deadlock", "in-flight-write"}),
    ("parts", "arrival dropped", "mbarrier.arrive.shared", {"deadlock"}),
    ("parts once", "wait dropped", "try_wait", {"timeout", "in-flight-read"}),
    ("parts once", "wait dropped", "wgmma.wait_group", {"accumulator-in-flight"}),
    ("parts once", "parity flipped", "", {"deadlock", "in-flight-read"}),
    ("rows", "stage wrapped wrong", "", {"deadlock", "in-flight-write"}),
]


@pytest.mark.parametrize(
    ("kernel", "operator", "part", "causes"),
    [pytest.param(*one, marks=[pytest.mark.full] * (i % 2)) for i, one in enumerate(CLASSICS)],
)
def test_a_classic_mutant_dies(kernel: str, operator: str, part: str, causes: set[str]) -> None:
    judge, found = judged(kernel)
    mutant = next(a for a in found if a.operator == operator and part in a.what)
    assert judge.cause_of_death(mutant.module, mutant.host) in causes, mutant.what


@pytest.mark.parametrize("kernel", PROGRAMS)
def test_the_unbroken_kernel_lives(kernel: str) -> None:
    judge, _ = judged(kernel)
    program = PROGRAMS[kernel]
    specimen = Specimen.of(program, "here")
    assert judge.cause_of_death(parse(ptx_of(program, specimen.source))) == ""


def test_a_host_that_says_the_same_changes_nothing() -> None:
    judge, found = judged("hopper")
    assert judge.cause_of_death(found[0].module, PROGRAMS["hopper"]) != ""
    specimen = Specimen.of(PROGRAMS["hopper"], "here")
    module = parse(ptx_of(specimen.program, specimen.source))
    assert judge.cause_of_death(module, specimen.program) == ""
