"""The manifest of a folder of kernels: what each file is, without a compiler.

``manifest.json`` holds a record a kernel: the spec it came from, the plan, the decisions with
their reasons, the source's hash, and what a launch needs. It has no path and no time, and its
bytes follow from the kernels alone, so that two machines write the same. Files of ours that are
still in the folder although nobody asks for them any more are listed apart, so that they can be
removed later. `deepgemm_codegen.schemas` has the format as JSON Schema.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from deepgemm_codegen import __version__
from deepgemm_codegen.batch.shapes import has_shape, is_text
from deepgemm_codegen.errors import InputError
from deepgemm_codegen.files import refusal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from deepgemm_codegen.plan import KernelPlan, Program

__all__ = [
    "FORMAT",
    "MANIFEST",
    "Manifest",
    "launches_of",
    "manifest_text",
    "plan_facts",
    "read_manifest",
    "record",
]

MANIFEST = "manifest.json"
"""Name of the file."""

FORMAT = "1.3"
"""Version of the format: an addition raises the minor, a removal or change the major."""

_OURS = '"generator": "deepgemm_codegen '


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest that was read.

    Attributes:
        kernels: its records, as JSON has them.
        left: SHA-256 by name of files that are there although no record tells of them.
    """

    kernels: tuple[Mapping[str, Any], ...] = ()
    left: Mapping[str, str] = field(default_factory=dict)

    @property
    def made(self) -> dict[str, str]:
        """SHA-256 by name of every file that the tool has written, none outside the folder."""
        records = {str(each["file"]): str(each["source_sha256"]) for each in self.kernels}
        every = {**self.left, **records}
        return {file: digest for file, digest in every.items() if file == os.path.basename(file)}  # noqa: PTH119


def launches_of(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """A record's kernels in launch order: each one's name, launch and plan."""
    several = record.get("launches")
    if several:
        return list(several)
    return [{"kernel": record["name"], **record["launch"], "plan": record.get("plan", {})}]


_LAUNCH = {"grid": str, "block": int, "shared_bytes": int}
_RECORD = {
    **dict.fromkeys(("name", "file", "spec", "target", "source_sha256"), str),
    "launch?": _LAUNCH,
    "plan?": dict,
    "launches?": [{"kernel": str, **_LAUNCH, "plan?": dict}],
    "workspace?": {"bytes": str},
    "parameters": [{"name": str, "dtype?": str}],
    "decisions": [dict.fromkeys(("id", "question", "choice", "reason"), str)],
}
_FILE = {"kernels": [_RECORD], "left?": [{"file": str, "source_sha256": str}]}
"""What the tool reads again; see `shapes.has_shape`."""


def _found(record: Mapping[str, Any]) -> bool:
    """Whether a record of the right shape tells of a launch, and of a file inside the folder."""
    name = record["name"]
    launched = "launch" in record or bool(record.get("launches"))
    return (
        launched
        and re.fullmatch("[A-Za-z0-9_]+", name) is not None
        and record["file"] == f"{name}.cu"
    )


def plan_facts(plan: KernelPlan) -> dict[str, Any]:
    """The numbers and words of a plan's body and schedule, under the names that code uses."""
    body, schedule = plan.body, plan.schedule
    return {
        "body": _snake(type(body).__name__),
        **_plain(body),
        "schedule": _snake(type(schedule).__name__),
        **_plain(schedule),
    }


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def _plain(value: Any) -> dict[str, int | str]:
    """The fields of a dataclass that are numbers or words."""
    found = ((f.name, getattr(value, f.name)) for f in fields(value))
    return {name: each for name, each in found if type(each) in (int, str)}


def record(program: Program, source: str) -> str:
    """The JSON text of one program's record.

    ``launch.grid`` is an expression over the dynamic dimensions, such as
    ``ceildiv(m, 64) * 96``; ``block`` counts threads, ``shared_bytes`` dynamic shared memory.
    ``parameters`` are the caller's, which the launcher takes; where the kernel itself takes tensor
    maps in the place of some, ``kernel_parameters`` lists its own, and ``tensor_maps`` describes
    the maps that the host makes of the caller's pointers. A program of several kernels has
    ``launches`` instead, each with its kernel's name, plan and parameters, and its ``workspace``:
    bytes that the caller provides, and the regions that kernels take pointers to.
    """
    head: dict[str, Any] = {
        "name": program.name,
        "file": f"{program.name}.cu",
        "spec": str(program.spec),
        "target": program.target,
        "source_sha256": hashlib.sha256(source.encode()).hexdigest(),
    }
    lists: dict[str, list[dict[str, Any]]] = {}
    if len(program.kernels) == 1:
        kernel = program.product
        head["launch"] = _launch(kernel)
        head["plan"] = plan_facts(kernel)
        lists["parameters"] = _parameters(program)
        if kernel.tensor_maps:
            lists["kernel_parameters"] = _own_parameters(kernel)
            lists["tensor_maps"] = _tensor_maps(kernel)
    else:
        head["workspace"] = program.workspace.to_dict()
        lists["parameters"] = _parameters(program)
        lists["launches"] = [
            {
                "kernel": kernel.name,
                **_launch(kernel),
                "plan": plan_facts(kernel),
                "kernel_parameters": _own_parameters(kernel),
                "tensor_maps": _tensor_maps(kernel),
            }
            for kernel in program.kernels
        ]
    lists["decisions"] = [
        {
            "id": decision.id,
            "question": decision.question,
            "choice": decision.choice,
            "reason": decision.reason,
            **({"rival": decision.rival} if decision.rival else {}),
        }
        for decision in program.decisions
    ]
    lines = [f'      "{name}": {json.dumps(value)}' for name, value in head.items()]
    lines += [f'      "{name}": {_listed(items)}' for name, items in lists.items()]
    return "    {\n" + ",\n".join(lines) + "\n    }"


def _launch(kernel: KernelPlan) -> dict[str, Any]:
    return {
        "grid": str(kernel.blocks),
        "block": kernel.threads,
        "shared_bytes": kernel.shared_bytes,
    }


def _parameters(program: Program) -> list[dict[str, Any]]:
    return [
        {
            "name": p.symbol,
            "role": p.role,
            **({"dtype": p.dtype.name} if p.dtype else {}),
            **({"array": True} if p.array else {}),
        }
        for p in program.parameters
    ]


def _own_parameters(kernel: KernelPlan) -> list[dict[str, Any]]:
    return [{"name": p.symbol, "role": p.role} for p in kernel.kernel_parameters]


def _tensor_maps(plan: KernelPlan) -> list[dict[str, Any]]:
    return [
        {
            "name": each.name,
            "pointer": each.pointer,
            "dtype": each.dtype.name,
            "inner": str(each.inner),
            "outer": str(each.outer),
            "stride": str(each.stride),
            "box": [each.box_inner, each.box_outer],
            **(
                {"batch": each.batch, "batch_stride": str(each.batch_stride)}
                if each.batch > 1
                else {}
            ),
            **({"panels": each.panels} if each.panels else {}),
        }
        for each in plan.tensor_maps
    ]


def _listed(items: list[dict[str, Any]]) -> str:
    """A JSON list, an item a line, so that a diff shows which item changed."""
    if not items:
        return "[]"
    return "[\n" + ",\n".join(f"        {json.dumps(item)}" for item in items) + "\n      ]"


def manifest_text(records: Iterable[str], left: Mapping[str, str] | None = None) -> str:
    """The whole manifest from the records, in their order, and from the files that are left."""
    head = f'{{\n  "format": "{FORMAT}",\n  {_OURS}{__version__}",\n  "kernels": [\n'
    rest = ""
    if left:
        items = (
            f'    {{"file": {json.dumps(f)}, "source_sha256": "{s}"}}' for f, s in left.items()
        )
        rest = ',\n  "left": [\n' + ",\n".join(items) + "\n  ]"
    return head + ",\n".join(records) + f"\n  ]{rest}\n}}\n"


def read_manifest(folder: str, *, needed: bool = False) -> Manifest:
    """The manifest of a folder; an empty one when it has none, or one that cannot be read.

    Args:
        folder: its path.
        needed: whether a folder without a readable manifest is an error.

    Raises:
        InputError: the folder has a ``manifest.json`` that is not ours, which would be
            overwritten; the path is none of a folder; or a needed manifest is missing or damaged.
        EnvironmentLackError: it may not be read.
    """
    path = os.path.join(folder, MANIFEST)  # noqa: PTH118  a str path, and pathlib costs cold time
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            text = file.read()
    except FileNotFoundError as error:
        if needed:
            raise InputError(
                f"'{path}' is missing; name a folder that deepgemm_codegen generate has written"
            ) from error
        return Manifest()
    except (NotADirectoryError, ValueError) as error:  # a file on the way, or a NUL
        raise InputError(f"'{folder}' can be no folder; choose another") from error
    except OSError as error:
        raise refusal(path, error, "read") from error
    if _OURS not in text and (needed or text.strip()):
        raise InputError(f"'{path}' is not a manifest of this tool; choose another folder")
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        given = None
    if has_shape(given, _FILE) and is_text(given, text) and all(map(_found, given["kernels"])):
        left = {each["file"]: each["source_sha256"] for each in given.get("left", ())}
        return Manifest(tuple(given["kernels"]), left)
    if needed:
        raise InputError(f"'{path}' is damaged; generate the kernels again")
    return Manifest()  # cut short, or full of merge marks: generating again repairs it
