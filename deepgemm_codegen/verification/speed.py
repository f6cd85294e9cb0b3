"""A kernel's speed beside cuBLAS, for ``min_ratio_vs_cublas``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepgemm_codegen.errors import CodegenError, EnvironmentLackError

if TYPE_CHECKING:
    from deepgemm_codegen.verification.job import Job

__all__ = ["ratio_to_cublas"]


class NoRatioError(CodegenError):
    """The kernel could not be timed, or is wrong."""

    exit_code = 1


def ratio_to_cublas(job: Job, seed: int) -> float:
    """The part of cuBLAS's speed that a kernel has on this machine's GPU.

    Args:
        job: the kernel.
        seed: of the operands.

    Raises:
        EnvironmentLackError: there is no GPU, no cuBLAS, or a cuBLAS that has no such product.
        NoRatioError: the kernel could not be built for the GPU, or gave wrong values.
    """
    from deepgemm_codegen.batch.bench_entry import build_entry  # noqa: PLC0415  what timing needs
    from deepgemm_codegen.harness.bench import run_bench  # noqa: PLC0415
    from deepgemm_codegen.harness.bench_data import CUBLAS, Row  # noqa: PLC0415
    from deepgemm_codegen.harness.bench_gpu import find_bench_gpu  # noqa: PLC0415

    device = find_bench_gpu(seed)
    entry = build_entry((str(job.spec), job.where, device.machine.arch, False))
    if isinstance(entry, EnvironmentLackError):
        raise entry
    if isinstance(entry, Row):
        raise NoRatioError(entry.message)
    (row,) = run_bench([entry], device, against="cublas").rows
    if row.timing is None:
        raise NoRatioError(row.message)
    ratio = row.ratio(CUBLAS)
    if ratio is None:
        why = next((rival.note for rival in row.rivals if rival.name == CUBLAS), "")
        raise EnvironmentLackError(f"cuBLAS gave no time{f': {why}' if why else ''}")
    return ratio
