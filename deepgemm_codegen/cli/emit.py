"""One spec to one artifact: the way of a kernel from decision to stdout."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.cli.streams import deliver
from deepgemm_codegen.decide import decide
from deepgemm_codegen.errors import InternalError
from deepgemm_codegen.parallel import one_thread_each

if TYPE_CHECKING:
    from deepgemm_codegen.arch import Arch
    from deepgemm_codegen.cli.streams import Console
    from deepgemm_codegen.plan import KernelPlan, Program
    from deepgemm_codegen.spec import GemmSpec
    from deepgemm_codegen.toolchain import BuiltCubin

__all__ = ["emit", "resource_line"]


def emit(
    spec: GemmSpec,
    *,
    what: str,
    output: str,
    verify: bool,
    resources: bool,
    console: Console,
) -> int:
    """Writes one artifact of a spec's program; returns the exit code.

    Args:
        spec: what to generate.
        what: ``ptx``, ``cu``, ``cubin``, ``sass`` or ``plan``.
        output: a path; ``-`` is stdout.
        verify: whether the kernel is built and judged first.
        resources: whether registers and occupancy are printed.
        console: where notes go.
    """
    arch = load_arch(spec.arch, spec.gpu, spec.sms)
    if arch.note:
        console.note(arch.note)
    program = decide(spec, arch)
    if program.decisions:
        chosen = "; ".join(f"{d.question} {d.choice}" for d in program.decisions)
        console.detail(f"decisions: {chosen}")
    if len(program.kernels) > 1:
        roles = ", ".join(kernel.body.role for kernel in program.kernels)
        console.note(
            f"{len(program.kernels)} kernels, one after the other: {roles}; they share a workspace"
            f" of {program.workspace.bytes} bytes"
        )
    k = program.product.k
    if k.empty_parts:
        console.note(
            f"k = {k.size} is {k.tiles} slice{'s' * (k.tiles != 1)}: {k.empty_parts} of its"
            f" {k.split} parts sum nothing"
        )

    from deepgemm_codegen.render import render_program  # noqa: PLC0415  a refusal needs none

    source = render_program(program)
    built: BuiltCubin | None = None
    if verify or resources or what in ("cubin", "sass"):
        built = _built(program, source, program.target)
        if built.log:
            console.detail(built.log.rstrip())
        if resources:
            for kernel in program.kernels:
                prefix = f"{kernel.body.role} " if len(program.kernels) > 1 else ""
                console.problem(f"{prefix}{resource_line(kernel, arch, built)}")
    if verify and built is not None and not _passes(program, source, console):
        console.problem(f"error: {program.name} is wrong; nothing is written")
        return 1
    deliver(_artifact(what, source, program, built), output)
    return 0


def _built(program: Program, source: str, target: str) -> BuiltCubin:
    """The cubin of a target; the compile cache makes a second call cheap."""
    from deepgemm_codegen.toolchain import build_cubin  # noqa: PLC0415

    return build_cubin(source, name=program.name, arch=target)


def _passes(program: Program, source: str, console: Console) -> bool:
    """Judges the program and prints the verdict on stderr."""
    one_thread_each()
    from deepgemm_codegen.cli.progress import LaunchProgress  # noqa: PLC0415
    from deepgemm_codegen.harness import format_verdict  # noqa: PLC0415  imports numpy
    from deepgemm_codegen.verification.judging import verdict_of  # noqa: PLC0415

    progress = LaunchProgress(console)
    verdict = verdict_of(program, lambda target: _built(program, source, target), progress=progress)
    progress.done()
    if console.level < 0:
        verdict = replace(verdict, notes=())
    console.problem("\n".join(format_verdict(verdict)))
    return verdict.passed


def _artifact(what: str, source: str, program: Program, built: BuiltCubin | None) -> str | bytes:
    """The text or bytes that ``--emit`` names."""
    if what == "cu":
        return source
    if what == "plan":
        from deepgemm_codegen.cli.plan_json import program_json  # noqa: PLC0415

        return program_json(program)
    if what == "ptx" and built is None:
        from deepgemm_codegen.toolchain import compile_ptx  # noqa: PLC0415

        return compile_ptx(source, name=program.name, arch=program.target).ptx
    if built is None:
        raise InternalError(f"nothing was built for --emit={what}")
    if what == "sass":
        from deepgemm_codegen.toolchain import disassemble  # noqa: PLC0415

        return disassemble(built.cubin)
    return built.ptx if what == "ptx" else built.cubin


def resource_line(plan: KernelPlan, arch: Arch, built: BuiltCubin) -> str:
    """Registers, spills, shared memory and occupancy in one line."""
    from deepgemm_codegen.toolchain import occupancy  # noqa: PLC0415

    usage = built.resources[plan.name]
    threads, dynamic = plan.threads, plan.shared_bytes
    blocks = occupancy(
        usage,
        threads,
        registers_per_sm=arch.registers_per_sm,
        threads_per_sm=arch.threads_per_sm,
        shared_per_sm=arch.shared_per_sm,
        blocks_per_sm=arch.blocks_per_sm,
        dynamic_shared=dynamic,
        reserved_shared=arch.shared_reserved,
    )
    warps, most = blocks * threads // 32, arch.threads_per_sm // 32
    spilled = usage.spill_store_bytes + usage.spill_load_bytes
    return (
        f"resources: {usage.registers} registers per thread, {spilled} bytes spilled,"
        f" {usage.shared_bytes + dynamic} bytes of shared memory per block of {threads} threads;"
        f" {blocks} block{'' if blocks == 1 else 's'} per multiprocessor of {arch.gpu.name}"
        f" ({warps} of {most} warps, {100 * warps // most} %)"
    )
