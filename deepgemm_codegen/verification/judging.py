"""A program and its source to a verdict, for ``--verify`` and ``verify``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from deepgemm_codegen.checks import Settings
    from deepgemm_codegen.harness import Verdict
    from deepgemm_codegen.harness.verify import Progress
    from deepgemm_codegen.plan import Program
    from deepgemm_codegen.toolchain import BuiltCubin

__all__ = ["Judge", "verdict_of"]

Judge = Literal["auto", "gpu", "emulator"]


def verdict_of(
    program: Program,
    build: Callable[[str], BuiltCubin],
    *,
    on: Judge = "auto",
    settings: Settings | None = None,
    progress: Progress | None = None,
) -> Verdict:
    """Judges a program where ``on`` says.

    Args:
        program: its kernels.
        build: makes its cubin and PTX for an architecture; called again it must be cheap.
        on: ``auto`` is the GPU where there is one that runs the kernel, else the emulator.
        settings: how; None for `Settings()`.
        progress: told of every launch that is done.

    Raises:
        EnvironmentLackError: there is no such judge here.
    """
    from dataclasses import replace  # noqa: PLC0415

    from deepgemm_codegen.harness import verify  # noqa: PLC0415  imports numpy

    target = program.target if on == "emulator" else _target_here(program)
    verdict = verify(
        program,
        ptx=lambda: build(program.target).ptx,
        cubin=None if on == "emulator" else lambda: build(target).cubin,
        built_for=target,
        on=on,
        settings=settings,
        progress=progress,
    )
    if target == program.target:
        return verdict
    note = f"built for {target} from the same source: a cubin of {program.target} does not run here"
    return replace(verdict, notes=(*verdict.notes, note))


def _target_here(program: Program) -> str:
    """What to compile a program for so that the GPU of this machine runs it."""
    from deepgemm_codegen.errors import EnvironmentLackError  # noqa: PLC0415
    from deepgemm_codegen.harness import gpu_arch  # noqa: PLC0415
    from deepgemm_codegen.toolchain import target_for  # noqa: PLC0415

    try:
        return target_for(program.target, gpu_arch())
    except EnvironmentLackError:
        return program.target  # there is no GPU, and `verify` says so
