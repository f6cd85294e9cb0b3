"""A plan and its source to a verdict, for ``--verify`` and ``verify``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from deepgemm_codegen.harness import Verdict
    from deepgemm_codegen.plan import KernelPlan
    from deepgemm_codegen.toolchain import BuiltCubin

__all__ = ["Judge", "verdict_of"]

Judge = Literal["auto", "gpu", "emulator"]


def verdict_of(
    plan: KernelPlan,
    build: Callable[[], BuiltCubin],
    *,
    on: Judge = "auto",
    seed: int = 0,
    effort: float = 1.0,
) -> Verdict:
    """Judges a kernel where ``on`` says.

    Args:
        plan: the kernel.
        build: makes its cubin and PTX; called again it must be cheap.
        on: ``auto`` is the GPU where there is one that runs the kernel, else the emulator.
        seed: of the inputs.
        effort: factor on the number of blocks that the emulator runs.

    Raises:
        EnvironmentLackError: there is no such judge here.
    """
    from deepgemm_codegen.harness import verify  # noqa: PLC0415  imports numpy

    return verify(
        plan,
        ptx=lambda: build().ptx,
        cubin=None if on == "emulator" else lambda: build().cubin,
        built_for=plan.target,
        on=on,
        seed=seed,
        effort=effort,
    )
