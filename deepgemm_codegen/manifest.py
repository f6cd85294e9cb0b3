"""The manifest of a folder of kernels: what each file is, without a compiler.

``manifest.json`` holds a record a kernel: the spec it came from, the decisions, the source's
hash, and what a launch needs. It has no path and no time, and its bytes follow from the kernels
alone, so that two machines write the same.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING

from deepgemm_codegen import __version__
from deepgemm_codegen.errors import EnvironmentLackError, InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from deepgemm_codegen.plan import KernelPlan

__all__ = ["FORMAT", "MANIFEST", "listed_files", "manifest_text", "record"]

MANIFEST = "manifest.json"
"""Name of the file."""

FORMAT = "1.0"
"""Version of the format: an addition raises the minor, a removal or change the major."""

_OURS = '"generator": "deepgemm_codegen '


def record(plan: KernelPlan, source: str) -> str:
    """The JSON text of one kernel's record.

    ``launch.grid`` is an expression over the dynamic dimensions, such as
    ``ceildiv(m, 64) * 96``; ``block`` counts threads, ``shared_bytes`` dynamic shared memory.
    """
    fields = {
        "name": plan.name,
        "file": f"{plan.name}.cu",
        "spec": str(plan.spec),
        "target": plan.target,
        "source_sha256": hashlib.sha256(source.encode()).hexdigest(),
        "launch": {
            "grid": str(plan.blocks),
            "block": plan.body.threads,
            "shared_bytes": plan.body.shared_bytes,
        },
    }
    parameters = [
        {"name": p.name, "role": p.role, **({"dtype": p.dtype.name} if p.dtype else {})}
        for p in plan.parameters
    ]
    decisions = [
        {
            "id": decision.id,
            "question": decision.question,
            "choice": decision.choice,
            "reason": decision.reason,
            **({"rival": decision.rival} if decision.rival else {}),
        }
        for decision in plan.decisions
    ]
    lines = [f'      "{name}": {json.dumps(value)},' for name, value in fields.items()]
    lines += [
        f'      "parameters": {_listed(parameters)},',
        f'      "decisions": {_listed(decisions)}',
    ]
    return "\n".join(["    {", *lines, "    }"])


def _listed(items: list[dict[str, str]]) -> str:
    """A JSON list, an item a line, so that a diff shows which item changed."""
    if not items:
        return "[]"
    return "[\n" + ",\n".join(f"        {json.dumps(item)}" for item in items) + "\n      ]"


def manifest_text(records: Iterable[str]) -> str:
    """The whole manifest from the records, in their order."""
    head = f'{{\n  "format": "{FORMAT}",\n  {_OURS}{__version__}",\n  "kernels": [\n'
    return head + ",\n".join(records) + "\n  ]\n}\n"


def listed_files(folder: str) -> frozenset[str]:
    """The kernel files that a folder's manifest lists; none when it has no readable manifest.

    Raises:
        InputError: the folder has a ``manifest.json`` that is not ours, which would be
            overwritten; or the path is none of a folder.
        EnvironmentLackError: it may not be read.
    """
    path = os.path.join(folder, MANIFEST)  # noqa: PTH118  a str path, and pathlib costs cold time
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            text = file.read()
    except FileNotFoundError:
        return frozenset()
    except (NotADirectoryError, ValueError) as error:  # a file on the way, or a NUL
        raise InputError(f"'{folder}' can be no folder; choose another") from error
    except OSError as error:
        raise EnvironmentLackError(f"cannot read '{path}': {error.strerror}") from error
    if _OURS not in text and text.strip():
        raise InputError(f"'{path}' is not a manifest of this tool; choose another folder")
    try:
        kernels = json.loads(text)["kernels"]
        return frozenset(str(kernel["file"]) for kernel in kernels)
    except (ValueError, KeyError, TypeError, RecursionError):
        return frozenset()  # cut short, or full of merge marks: generating again repairs it
