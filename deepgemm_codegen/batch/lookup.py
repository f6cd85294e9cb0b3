"""Finding a kernel again: by name in a generated folder, or by the line of its spec."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal

from deepgemm_codegen.batch.manifest import launches_of, read_manifest, record
from deepgemm_codegen.errors import InputError, nearest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Difference", "Found", "SourceState", "compare", "find"]

_SHOWN = 5

SourceState = Literal["as listed", "changed", "missing", "not written"]
"""Whether a source still is what the manifest tells of; a spec's line has none."""


@dataclass(frozen=True, slots=True)
class Found:
    """A kernel's record, and what was made of it.

    Attributes:
        record: as in ``manifest.json``.
        source: how its file is.
        build: its record in ``build.json``, with the compiler's name; empty when there is none,
            or one of another source.
    """

    record: Mapping[str, Any]
    source: SourceState
    build: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The entry symbol."""
        return str(self.record["name"])


def find(what: str, folder: str) -> list[Found]:
    """The kernels that a word means, in launch order; nearly always one.

    Args:
        what: a spec's line (``m=64 n=64 k=64 ...``), of any kernel; the path of a generated ``.cu``
            file; or a kernel's name in ``folder``, or as much of its beginning as is unmistakable.
        folder: where names are looked up, and what was made of a spec.

    Raises:
        InputError: nothing of that name, or several; a folder without a manifest; a bad spec.
    """
    if "=" in what:
        return [_of_spec(what, folder)]
    base, name = os.path.split(what)
    if base or name.endswith(".cu"):
        folder = base or "."
    name = name.removesuffix(".cu")
    manifest = read_manifest(folder, needed=True)
    records = {str(each["name"]): each for each in manifest.kernels}
    matches = [name] if name in records else [each for each in records if each.startswith(name)]
    if not matches:
        known = ", ".join([*list(records)[:_SHOWN], *(["..."] if len(records) > _SHOWN else [])])
        remedy = nearest(name, list(records)) or f"; it has {known}"
        raise InputError(f"'{folder}' has no kernel whose name begins '{name}'{remedy}")
    if len(matches) > 1:
        more = f" and {len(matches) - _SHOWN} more" if len(matches) > _SHOWN else ""
        raise InputError(
            f"'{name}' is the beginning of {len(matches)} kernels: {', '.join(matches[:_SHOWN])}"
            f"{more}; give more of the name"
        )
    return [_found(folder, records[matches[0]])]


def _of_spec(line: str, folder: str) -> Found:
    """The kernel of a spec, as the folder has it, or as it would be written."""
    from deepgemm_codegen.batch.workers import make  # noqa: PLC0415  a name needs no tree
    from deepgemm_codegen.spec import GemmSpec  # noqa: PLC0415

    fresh = json.loads(record(*make(GemmSpec.from_text(line))))
    for listed in read_manifest(folder).kernels:
        if listed["name"] == fresh["name"]:
            return _found(folder, listed)
    return Found(fresh, "not written", {})


def _found(folder: str, listed: Mapping[str, Any]) -> Found:
    from deepgemm_codegen.batch.building import read_build  # noqa: PLC0415  imports the compilers

    given = read_build(folder)
    own: Mapping[str, Any] = next(
        (each for each in given["kernels"] if each["name"] == listed["name"]), {}
    )
    if own.get("source_sha256") != listed["source_sha256"]:
        own = {}
    build = {"compiler": given["compiler"], **own} if own else {}
    return Found(listed, _state(os.path.join(folder, listed["file"]), listed), build)  # noqa: PTH118


def _state(path: str, listed: Mapping[str, Any]) -> SourceState:
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            same = sha256(file.read()).hexdigest() == listed["source_sha256"]
    except OSError:
        return "missing"
    return "as listed" if same else "changed"


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that two kernels have in common or not.

    Attributes:
        part: ``spec``, ``decisions``, ``plan``, ``launch`` or ``build``.
        name: the field or question.
        a, b: its values; empty where one lacks it.
        why_a, why_b: a decision's reasons, else empty.
    """

    part: str
    name: str
    a: str
    b: str
    why_a: str = ""
    why_b: str = ""

    @property
    def same(self) -> bool:
        """Whether both have the same value."""
        return self.a == self.b


def compare(a: Found, b: Found) -> list[Difference]:
    """Two kernels, field by field and decision by decision, in the order of the first."""
    found: list[Difference] = []
    specs = [dict(pair.partition("=")[::2] for pair in _words(each)) for each in (a, b)]
    found += _paired("spec", specs[0], specs[1])
    choices = [{d["question"]: d for d in each.record["decisions"]} for each in (a, b)]
    for question in dict.fromkeys([*choices[0], *choices[1]]):
        one, other = choices[0].get(question, {}), choices[1].get(question, {})
        answers = one.get("choice", ""), other.get("choice", "")
        found.append(
            Difference(
                "decisions", question, *answers, one.get("reason", ""), other.get("reason", "")
            )
        )
    for part, numbers in (("plan", _plans), ("launch", _launches), ("build", _resources)):
        found += _paired(part, numbers(a), numbers(b))
    return found


def _each(
    found: Found, values: Sequence[Mapping[str, Any]], shown: Sequence[str]
) -> dict[str, Any]:
    """What is told of each kernel in one mapping; names of several end in the kernel's own."""
    flat: dict[str, Any] = {}
    for value in values:
        suffix = str(value["kernel"]).removeprefix(found.name).replace("_", " ")
        flat |= {f"{name}{suffix}": value[name] for name in shown or value if name != "kernel"}
    return flat


def _plans(found: Found) -> dict[str, Any]:
    launches = launches_of(found.record)
    plans = [{"kernel": launch["kernel"], **launch.get("plan", {})} for launch in launches]
    return _each(found, plans, ())


def _launches(found: Found) -> dict[str, Any]:
    flat = _each(found, launches_of(found.record), ("grid", "block", "shared_bytes"))
    workspace = found.record.get("workspace")
    return {**flat, **({"workspace": workspace["bytes"]} if workspace else {})}


def _resources(found: Found) -> dict[str, Any]:
    return _each(found, found.build.get("resources", ()), ())


def _words(found: Found) -> list[str]:
    import shlex  # noqa: PLC0415

    return shlex.split(str(found.record["spec"]))


def _paired(part: str, a: Mapping[str, Any], b: Mapping[str, Any]) -> Sequence[Difference]:
    return [
        Difference(part, name, str(a.get(name, "")), str(b.get(name, "")))
        for name in dict.fromkeys([*a, *b])
    ]
