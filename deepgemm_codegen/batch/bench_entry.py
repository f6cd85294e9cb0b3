"""A kernel built for a benchmark, and the plain product beside it, in a process of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from deepgemm_codegen.batch.workers import make
from deepgemm_codegen.errors import CodegenError, EnvironmentLackError
from deepgemm_codegen.harness.bench import failed_row
from deepgemm_codegen.harness.bench_data import Entry
from deepgemm_codegen.harness.bench_plain import plain_spec
from deepgemm_codegen.spec import GemmSpec
from deepgemm_codegen.spec.naming import kernel_name
from deepgemm_codegen.toolchain import build_cubin, target_for

if TYPE_CHECKING:
    from deepgemm_codegen.harness.bench_data import Row

__all__ = ["build_entry"]


def build_entry(task: tuple[str, str, str, bool]) -> Entry | Row | EnvironmentLackError:
    """One kernel with its cubin, or the row that tells why there is none.

    Args:
        task: the spec as text, where it is asked for, the architecture of the GPU, and whether
            the plain product is to be timed beside it.
    """
    text, where, here, beside = task
    spec = GemmSpec.from_text(text)
    try:
        entry = _built(spec, where, here)
    except EnvironmentLackError as error:
        return error
    except CodegenError as error:
        return failed_row(spec, kernel_name(spec), where, error)
    return replace(entry, plain=_plain(spec, here)) if beside else entry


def _plain(spec: GemmSpec, here: str) -> Entry | str:
    """See `Entry.plain`."""
    try:
        plain = plain_spec(spec)
        return "" if plain is None else _built(plain, "", here)
    except CodegenError as error:
        return str(error)


def _built(spec: GemmSpec, where: str, here: str) -> Entry:
    program, source = make(spec)
    target = target_for(program.target, here)
    built = build_cubin(source, name=program.name, arch=target)
    usage = built.resources
    return Entry(
        program=program,
        cubin=built.cubin,
        built_for=built.arch,
        where=where,
        registers=usage[program.product.name].registers,
        spilled=sum(usage[kernel.name].spill_store_bytes for kernel in program.kernels),
    )
