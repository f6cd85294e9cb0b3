"""The mutants of one program and what became of each; records of that, and the score of many."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepgemm_codegen.emulator import parse
from deepgemm_codegen.toolchain import compile_ptx
from tests.mutation.edits import Listing
from tests.mutation.judging import Judge
from tests.mutation.operators import mutants_of
from tests.mutation.plan_operators import plan_mutants_of
from tests.mutation.sass import machine_code

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from deepgemm_codegen.emulator.nodes import Module
    from deepgemm_codegen.plan import Program
    from tests.mutation.kernels import Specimen

__all__ = ["Attempt", "Fate", "Record", "attempts", "code_digest", "examine"]

_BESIDE = frozenset({"explanations.py", "kernels.py", "report.py"})
"""Modules that choose kernels, or look at records: they decide no fate, nor do tests and what
times kernels."""


@dataclass(frozen=True)
class Attempt:
    """A mutant to be judged.

    Attributes:
        operator: the operator's name.
        what: what was done, in words.
        line, row: in the PTX and in the CUDA text; 0 where there is none.
        module: the PTX.
        host: what the host takes the kernel for; None for what it is.
    """

    operator: str
    what: str
    line: int
    row: int
    module: Module
    host: Program | None = None


@dataclass(frozen=True)
class Fate:
    """What became of a mutant that no check killed.

    Attributes:
        operator, what, line, row: see `Attempt`.
        text: the line of the CUDA text.
        same_code: whether ptxas makes the kernel's own machine code of it.
    """

    operator: str
    what: str
    line: int
    row: int
    text: str
    same_code: bool


@dataclass
class Record:
    """One program's mutants.

    Attributes:
        family, name, spec, file: see `Specimen`.
        seconds: of processor time.
        killed: mutants by operator, then by the check that killed them.
        left: the others.
    """

    family: str
    name: str
    spec: str
    file: str
    seconds: float = 0.0
    killed: dict[str, dict[str, int]] = field(default_factory=dict)
    left: list[Fate] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """A JSON object; `of_json` reads it."""
        return asdict(self)

    @classmethod
    def of_json(cls, fields: dict[str, Any]) -> Record:
        """The record of a JSON object."""
        return cls(**{**fields, "left": [Fate(**fate) for fate in fields["left"]]})

    @property
    def survivors(self) -> list[Fate]:
        """The mutants that count, and live."""
        return [fate for fate in self.left if not fate.same_code]

    @property
    def deaths(self) -> int:
        """Mutants that a check killed."""
        return sum(sum(causes.values()) for causes in self.killed.values())


def attempts(specimen: Specimen, module: Module) -> Iterator[Attempt]:
    """Every mutant of a program: of the PTX of its kernels, then of its plan."""
    for kernel in specimen.program.kernels:
        for mutant in mutants_of(Listing(module, kernel.name)):
            yield Attempt(mutant.operator, mutant.what, mutant.line, mutant.row, mutant.module)
    for other in plan_mutants_of(specimen.program, specimen.source):
        changed = module
        if other.source != specimen.source:
            changed = parse(ptx_of(specimen.program, other.source))
        host = None if other.program is specimen.program else other.program
        yield Attempt(other.operator, other.what, 0, other.row, changed, host)


def ptx_of(program: Program, source: str) -> str:
    """The PTX of a program's text, with the lines that it comes from."""
    return compile_ptx(source, name=program.name, arch=program.target, line_info=True).ptx


def examine(specimen: Specimen, tell: Callable[[str], None] = lambda _: None) -> Record:
    """Judges every mutant of a program.

    Args:
        specimen: the program.
        tell: gets a line for each survivor, and one at the end.
    """
    begun = time.process_time()
    program = specimen.program
    lines = ["", *specimen.source.splitlines()]
    module = parse(ptx_of(program, specimen.source))
    judge = Judge(program, module)
    record = Record(specimen.family, program.name, specimen.spec, specimen.file)
    killed: dict[str, Counter[str]] = {}
    code = ""
    for attempt in attempts(specimen, module):
        cause = judge.cause_of_death(attempt.module, attempt.host)
        same = False
        if not cause and attempt.host is None:
            code = code or machine_code(module, program.target)
            other = machine_code(attempt.module, program.target)
            same = other == code
            cause = "ptxas" if other.startswith("refused") else ""
        if cause:
            killed.setdefault(attempt.operator, Counter())[cause] += 1
            continue
        text = lines[attempt.row].strip()
        fate = Fate(attempt.operator, attempt.what, attempt.line, attempt.row, text, same)
        record.left.append(fate)
        tell(f"{program.name}: {'no mutant' if same else 'LIVES'}: {fate.operator}: {fate.what}")
    record.killed = {operator: dict(causes) for operator, causes in killed.items()}
    record.seconds = round(time.process_time() - begun, 1)
    tell(f"{program.name}: {record.deaths} killed, {len(record.survivors)} live")
    return record


def _decides(name: str) -> bool:
    return name not in _BESIDE and not name.startswith(("test_", "bench"))


def code_digest(source: str) -> str:
    """Of the code that decides the fate of a kernel's mutants: a record by other code is stale.

    Args:
        source: the kernel's CUDA text.
    """
    root = Path(__file__).parents[2]
    folders = ("deepgemm_codegen/emulator", "deepgemm_codegen/harness", "tests/mutation")
    found = [file for folder in folders for file in sorted((root / folder).rglob("*.py"))]
    files = [file for file in found if _decides(file.name)]
    texts = [source.encode(), *(file.read_bytes() for file in files)]
    return hashlib.sha256(b"\0".join(texts)).hexdigest()[:16]
