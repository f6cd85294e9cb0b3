"""What is required of a kernel beside right values: registers, spills, bank conflicts, speed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepgemm_codegen.checks import Requirement
from deepgemm_codegen.errors import CodegenError, EnvironmentLackError
from deepgemm_codegen.harness.verdict import Demand

if TYPE_CHECKING:
    from deepgemm_codegen.harness.memory_costs import MemoryCosts
    from deepgemm_codegen.plan import Program
    from deepgemm_codegen.toolchain import BuiltCubin
    from deepgemm_codegen.verification.job import Job, Options

__all__ = ["counted", "demands_of"]

CONFLICTS = Requirement("bank_conflicts", 0)
SPILLS = Requirement("no_spills", 1)


def counted(require: tuple[Requirement, ...], checks: frozenset[str]) -> bool:
    """Whether some of it needs the memory accesses counted."""
    return any(each.name == "bank_conflicts" for each in _wanted(require, checks))


def _wanted(require: tuple[Requirement, ...], checks: frozenset[str]) -> tuple[Requirement, ...]:
    """What the file requires and what checks require of every kernel, each once."""
    found = dict.fromkeys(require if "require" in checks else ())
    for check, requirement in (("conflicts", CONFLICTS), ("spills", SPILLS)):
        if check in checks:
            found.setdefault(requirement)
    return tuple(each for each in found if each.name != "no_spills" or each.limit)


def demands_of(
    job: Job, program: Program, built: BuiltCubin, costs: MemoryCosts | None, options: Options
) -> tuple[Demand, ...]:
    """Judges every requirement of a kernel.

    Args:
        job: the kernel and what is required of it.
        program: its plan.
        built: for the plan's target.
        costs: of its memory accesses, where `counted` says that they are needed.
        options: which requirements count.
    """
    found = []
    for requirement in _wanted(job.require, options.checks):
        if requirement.name == "max_registers":
            found.append(_registers(requirement, program, built))
        elif requirement.name == "no_spills":
            found.append(_spills(requirement, program, built))
        elif requirement.name == "bank_conflicts" and costs is not None:
            found.append(_conflicts(requirement, costs))
        elif requirement.name == "min_ratio_vs_cublas":
            found.append(_ratio(requirement, job, options))
    return tuple(found)


def _registers(requirement: Requirement, program: Program, built: BuiltCubin) -> Demand:
    most = max(built.resources[kernel.name].registers for kernel in program.kernels)
    return Demand(str(requirement), most <= requirement.limit, f"{most} registers per thread")


def _spills(requirement: Requirement, program: Program, built: BuiltCubin) -> Demand:
    usage = [built.resources[kernel.name] for kernel in program.kernels]
    stored, loaded = (
        sum(getattr(each, name) for each in usage)
        for name in ("spill_store_bytes", "spill_load_bytes")
    )
    found = f"{stored} bytes of registers stored to memory and {loaded} loaded, a thread"
    return Demand(str(requirement), not stored and not loaded, found)


def _conflicts(requirement: Requirement, costs: MemoryCosts) -> Demand:
    found = f"{costs.excess:,} wavefronts too many in {costs.blocks} of {costs.grid} blocks"
    lines = sorted({line.line for line in costs.shared if line.excess})
    if lines:
        found += f", at line{'s' * (len(lines) > 1)} {', '.join(map(str, lines))} of the source"
    return Demand(str(requirement), costs.excess <= requirement.limit, found)


def _ratio(requirement: Requirement, job: Job, options: Options) -> Demand:
    from deepgemm_codegen.verification.speed import ratio_to_cublas  # noqa: PLC0415  needs a GPU

    text = str(requirement)
    if options.on == "emulator":
        return Demand(text, None, "the emulator knows no time; judge it on a GPU")
    try:
        ratio = ratio_to_cublas(job, options.seed)
    except EnvironmentLackError as error:
        return Demand(text, None, str(error))
    except CodegenError as error:
        return Demand(text, passed=False, found=str(error))
    return Demand(text, ratio >= requirement.limit, f"{ratio:.3f} of cuBLAS's speed")
