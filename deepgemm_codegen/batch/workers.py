"""Specs to sources, here or in other processes, few of them held at a time."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from deepgemm_codegen.batch.manifest import record
from deepgemm_codegen.errors import CodegenError, InternalError
from deepgemm_codegen.parallel import cores, in_processes

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from deepgemm_codegen.plan import Program
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["Made", "Source", "make", "make_all", "processes_for"]

_CHUNK = 16
"""Specs that a process takes at once: a message between processes costs as much as a kernel."""

_SHARE = 300
"""Kernels that make a further process worth its start, about half a second."""

_MOST_PROCESSES = 8


class Source(NamedTuple):
    """One program: its name, the architecture it is compiled for, its source and its record.

    ``workspace`` tells whether its launcher takes one.
    """

    name: str
    target: str
    workspace: bool
    text: str
    record: str


class Made(NamedTuple):
    """The source of one spec, or an error message and its exit code."""

    source: Source | None
    message: str = ""
    exit_code: int = 0


def make(spec: GemmSpec) -> tuple[Program, str]:
    """The program of one spec with its source, which holds all its kernels."""
    from deepgemm_codegen.arch import load_arch  # noqa: PLC0415  a batch needs them, importing
    from deepgemm_codegen.decide import decide  # noqa: PLC0415  it does not
    from deepgemm_codegen.render import render_program  # noqa: PLC0415

    program = decide(spec, load_arch(spec.arch, spec.gpu, spec.sms))
    return program, render_program(program)


def _made(spec: GemmSpec) -> Made:
    """What `make` gives, or why it failed: a failure concerns one kernel, not the batch."""
    try:
        program, text = make(spec)
        workspace = bool(program.workspace.regions)
        return Made(Source(program.name, program.target, workspace, text, record(program, text)))
    except CodegenError as error:
        return Made(None, str(error) or type(error).__name__, error.exit_code)
    except Exception as error:  # noqa: BLE001  a fault of ours in one kernel spares the others
        message = f"internal error: {type(error).__name__}: {error}"
        return Made(None, message, InternalError.exit_code)


def _made_of_each(specs: Sequence[GemmSpec]) -> list[Made]:
    return [_made(spec) for spec in specs]


def processes_for(count: int) -> int:
    """How many processes serve a batch best here."""
    return max(1, min(cores(), count // _SHARE, _MOST_PROCESSES))


def make_all(specs: Sequence[GemmSpec], jobs: int) -> Generator[Made, None, None]:
    """The sources of every spec, in order, by ``jobs`` processes.

    Raises:
        EnvironmentLackError: a process died.
    """
    if jobs <= 1:
        yield from map(_made, specs)
        return
    chunks = [specs[at : at + _CHUNK] for at in range(0, len(specs), _CHUNK)]
    with closing(in_processes(_made_of_each, chunks, jobs)) as results:
        for result in results:
            yield from result
