"""The oldest PTX ISA version that a text needs, so that older drivers accept it too.

A compiler stamps the newest ``.version`` it knows, and a driver refuses PTX newer than itself
whatever the text uses. The version can be lowered to the oldest one that has the target and
every instruction, by the tables in ``ptx_isa``. A text with anything that they do not list keeps
the version that the compiler stamped.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from deepgemm_codegen.errors import InternalError
from deepgemm_codegen.toolchain.ptx_isa import (
    DIRECTIVES,
    FORMS,
    OPERANDS,
    SPECIAL_REGISTERS,
    TARGETS,
    Version,
)

__all__ = ["PtxRequirement", "lower_ptx_version", "ptx_requirement"]


def _compiled(table: tuple[tuple[Version, str], ...]) -> list[tuple[Version, re.Pattern[str]]]:
    return [(version, re.compile(pattern)) for version, pattern in table]


_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_STRING = re.compile(r'"[^"\n]*"')
_HEADER = re.compile(r"^[ \t]*\.version[ \t]+(\d+)\.(\d+)[ \t\r]*$", re.MULTILINE)
_TARGET = re.compile(r"^[ \t]*\.target[ \t]+(\w+)[ \t\r]*$", re.MULTILINE)
_LINE_DIRECTIVE = re.compile(
    r"^[ \t]*\.(?:version|target|address_size|file|loc)\b[^\n]*", re.MULTILINE
)
_INLINED = re.compile(r"^[ \t]*\.loc\b[^\n]*\b(?:function_name|inlined_at)\b", re.MULTILINE)
_SECTION = re.compile(r"\.section\s+[\w.]+\s*\{[^}]*\}")
_LABEL = re.compile(r"(?:[\w$]+:(?!:)\s*)+")
_PREDICATE = re.compile(r"@!?%?[\w$]+\s+")
_OPCODE = re.compile(r"[a-z][\w.:]*")
_WORD = re.compile(r"\.([A-Za-z_]\w*)")
# Registers as NVRTC names them are cheap to leave out; any other name is looked up.
_PERCENT = re.compile(r"%(?!(?:r|rd|rs|f|fd|p|h|hh|q|b)\d)([A-Za-z_]\w*)")
_DECLARED = re.compile(r"\.reg\s+[\w.\s]*?((?:%?[\w$]+(?:<\d+>)?\s*,?\s*)+)(?=;)")


@dataclass(frozen=True, slots=True)
class PtxRequirement:
    """The oldest PTX ISA version a text needs, and the part of the text that needs it."""

    version: Version
    because: str

    def __str__(self) -> str:
        return f"PTX ISA {self.version[0]}.{self.version[1]} ({self.because})"


def ptx_requirement(ptx: str) -> PtxRequirement:
    """The oldest version that has the target and all instructions of ``ptx``.

    Never newer than the text's own ``.version``, and equal to it when anything in the text is
    unknown here; versions are compared as pairs of integers, so that 7.10 would follow 7.9.
    """
    text = _STRING.sub('""', _COMMENT.sub(" ", ptx))
    header, target = _HEADER.search(text), _TARGET.search(text)
    if header is None or target is None:
        raise InternalError("this is no PTX that a compiler wrote: no .version or .target line")
    stamped = (int(header[1]), int(header[2]))
    needs = [(TARGETS.get(target[1]), f"target {target[1]}")]
    if _INLINED.search(text):
        needs.append(((7, 2), ".loc inlined_at"))
    text, sections = _SECTION.subn(" ", text)
    if sections:
        needs.append(((7, 2), ".section"))
    text = _LINE_DIRECTIVE.sub(" ", text)
    needs += _special_registers(text)
    statements = {" ".join(statement.split()) for statement in _statements(text)}
    needs += _instructions(statements)
    for version, because in needs:
        if version is None:
            return PtxRequirement(stamped, f"unknown here: {because}")
    version, because = max(
        ((version, because) for version, because in needs if version is not None),
        key=lambda need: need[0],
    )
    return PtxRequirement(min(version, stamped), because)


def lower_ptx_version(ptx: str) -> str:
    """``ptx`` with its ``.version`` lowered as far as ``ptx_requirement`` allows."""
    major, minor = ptx_requirement(ptx).version
    return _HEADER.sub(f".version {major}.{minor}", ptx, count=1)


def _statements(text: str) -> list[str]:
    """Splits PTX at ``;`` and at the braces of blocks, leaving those of operands alone."""
    found: list[str] = []
    current, depth = "", 0
    for piece in re.split(r"([;{}])", text):
        if piece == "{" and (depth or _opens_operand(current)):
            depth += 1
        elif piece == "}" and depth:
            depth -= 1
        elif piece in {";", "{", "}"}:
            found.append(current)
            current = ""
        else:
            current += piece
    return found


def _opens_operand(before: str) -> bool:
    head = _PREDICATE.sub("", _LABEL.sub("", before.strip(), count=1), count=1).strip()
    return bool(head) and ".entry" not in head and ".func" not in head


Needs = list[tuple[Version | None, str]]


def _special_registers(text: str) -> Needs:
    names = set(_PERCENT.findall(text))
    declared = " ".join(_DECLARED.findall(text))
    known = _compiled(SPECIAL_REGISTERS)
    return [
        (_first(known, name), f"%{name}")
        for name in sorted(names)
        if not re.search(rf"%{re.escape(name.rstrip('0123456789'))}(?:<|\d*\b)", declared)
    ]


def _instructions(statements: set[str]) -> Needs:
    forms, directives = _compiled(FORMS), _compiled(DIRECTIVES)
    operands = _compiled(OPERANDS)
    needs: dict[str, Version | None] = {}
    for statement in sorted(statements):
        body = _PREDICATE.sub("", _LABEL.sub("", statement, count=1), count=1).strip()
        if not body:
            continue
        if body.startswith("."):
            for word in _WORD.findall(body.partition("=")[0]):
                needs[f".{word}"] = _first(directives, word)
            continue
        opcode = _OPCODE.match(body)
        name = opcode[0] if opcode else body[:40]
        if name not in needs:
            needs[name] = _first(forms, name)
        for version, pattern in operands:
            if pattern.match(body):
                needs[body] = version
    return [(version, because) for because, version in needs.items()]


def _first(table: list[tuple[Version, re.Pattern[str]]], text: str) -> Version | None:
    return next((version for version, pattern in table if pattern.fullmatch(text)), None)
