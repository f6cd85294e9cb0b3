"""No shared-memory access of a generated kernel meets a bank twice: the swizzle's claim."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.decide import decide
from deepgemm_codegen.emulator import Kernel, parse
from deepgemm_codegen.emulator.joins import joins_of
from deepgemm_codegen.harness.memory_costs import cost_lines, memory_costs
from deepgemm_codegen.render import render_program
from deepgemm_codegen.resources import data_folder
from deepgemm_codegen.specfile import read
from deepgemm_codegen.toolchain import build_cubin, compile_ptx
from deepgemm_codegen.toolchain.tools import disassemble
from tests.harness.support import compiled, plan_of, source_of
from tests.rendering.plans import GOLDEN

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.program import Program as PtxProgram
    from deepgemm_codegen.plan import Program
    from deepgemm_codegen.specfile import SpecEntry

CONFIGS = data_folder("configs")
FILES = [path for folder in ("kernels", "bench") for path in (CONFIGS / folder).glob("*.yaml")]
SHIPPED = list({entry.spec: entry for path in sorted(FILES) for entry in read(path)}.values())
"""Every kernel of ``configs/kernels`` and ``configs/bench``, once."""

SAMPLED = [entry for entry in SHIPPED if entry.spec.k.size <= 1024][5::24]
"""The shipped kernels of the sampled run; the full run has all."""


def demand_no_conflict(plan: Program, ptx: str, effort: float) -> None:
    costs = memory_costs(plan, ptx, effort=effort)
    assert costs.in_global
    assert [line for line in costs.shared if line.excess] == [], cost_lines(costs, "")[0]


SLOW = ("wgmma_ragged_tn", "wgmma_scaled_nt")
"""Those that take longest, for the full run."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.full] * (i % 2 or name in SLOW))
        for i, name in enumerate(sorted(GOLDEN))
    ],
)
def test_no_bank_is_met_twice(name: str) -> None:
    plan = GOLDEN[name]
    demand_no_conflict(plan, compiled(source_of(plan), plan.target), 0.01)


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(entry, marks=[] if entry in SAMPLED else [pytest.mark.full])
        for entry in SHIPPED
    ],
    ids=lambda entry: f"{entry.where.rpartition('/')[2]}-{entry.spec.arch}",
)
def test_no_shipped_kernel_meets_a_bank_twice(entry: SpecEntry) -> None:
    spec = entry.spec
    program = decide(spec, load_arch(spec.arch, spec.gpu, spec.sms))
    source = render_program(program)
    built = compile_ptx(source, name=program.name, arch=program.target, cached=False)
    demand_no_conflict(program, built.ptx, 0.01)


def test_a_broken_swizzle_is_counted() -> None:
    plan = plan_of("m=64 n=64 k=64 layout=nt")
    source = source_of(plan)
    broken = source.replace("within ^ (within >> 3 & (SWIZZLE - 16))", "within")
    assert broken != source
    ptx = compile_ptx(broken, name="k", arch="sm_80", line_info=True, cached=False).ptx
    costs = memory_costs(plan, ptx)
    # Eight rows 64 bytes apart lie in two places of 16 bytes: four wavefronts each.
    loads = [line for line in costs.shared if line.access.startswith("ldmatrix")]
    assert {line.degree for line in loads} == {4}
    assert costs.excess == sum(line.wavefronts * 3 // 4 for line in costs.shared if line.excess)
    told = cost_lines(costs, broken)
    assert told[0].endswith(f"{costs.excess:,} wavefronts too many")
    assert any("ldmatrix.x4" in line and "ldmatrix_x4(left" in line for line in told)


SASS = re.compile(r"\b(LD|ST)S(?:\.U)?(?:\.(128|64|U16|S16|16|U8|S8))?\s")
OTHERWISE: dict[str, dict[tuple[str, int], int]] = {
    # ptxas unrolls a loop that the front end left, and what it then has more of.
    "abreast_bandwidth_nn": {("ld", 4): 6},
    "repack_turned_tt": {("st", 1): 6},
    "repack_turned_wgmma_tn": {("st", 1): 6},
    # The front end takes vectors apart; four of their addresses ptxas knows to be aligned to 8
    # bytes only, and puts together two and two.
    "geglu_nn": {("ld", 16): -4, ("ld", 8): 8},
    # What a thread stores side by side ptxas does not know to be aligned, and keeps apart.
    "turned_nn": {("st", 16): -6, ("st", 8): -2, ("st", 4): 28},
    "turned_wgmma_nt": {("st", 16): -3, ("st", 8): -1, ("st", 4): 14},
    "turned_rows_tn": {("st", 16): -3, ("st", 8): -1, ("st", 4): 14},
}
"""Where the machine code has more, or fewer, of some accesses than the emulator counts."""
WIDTHS = {"128": 16, "64": 8, None: 4, "U16": 2, "S16": 2, "16": 2, "U8": 1, "S8": 1}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in {"aligned_nt", "steps_tn"} else [pytest.mark.full])
        for name in GOLDEN
    ],
)
def test_accesses_are_as_wide_as_in_the_machine_code(name: str) -> None:
    plan = GOLDEN[name]
    built = build_cubin(source_of(plan), name=plan.name, arch=plan.target, cached=False)
    found = Counter(
        (match[1].lower(), WIDTHS[match[2]])
        for line in disassemble(built.cubin).splitlines()
        if "@!PT" not in line and (match := SASS.search(line))  # never executed
    )
    wanted: Counter[tuple[str, int]] = Counter()
    for kernel in plan.kernels:
        wanted += _widths(Kernel(parse(built.ptx), kernel.name).program)
    wanted.update(OTHERWISE.get(name, {}))
    assert wanted == found


def _widths(program: PtxProgram) -> Counter[tuple[str, int]]:
    """Accesses to shared memory by verb and bytes."""
    joins = joins_of(program)
    joined = {site for join in joins for site in join.sites}
    wanted: Counter[tuple[str, int]] = Counter()
    for join in joins:
        opcode = program.instructions[join.sites[0]].opcode
        if "shared" in opcode:
            wanted[opcode[0], join.width] += 1
    for site, ins in enumerate(program.instructions):
        if ins.opcode[0] in ("ld", "st") and "shared" in ins.opcode and site not in joined:
            count = next((int(w[1]) for w in ins.opcode if w in ("v2", "v4")), 1)
            wanted[ins.opcode[0], count * int(ins.opcode[-1][1:]) // 8] += 1
    return wanted
