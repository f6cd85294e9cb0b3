"""``explain``: why the tree decides as it does, and where each value came from."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import click

from deepgemm_codegen.cli.flags import (
    Command,
    SectionedOption,
    files_argument,
    level_flags,
    spec_flags,
    take_console,
)
from deepgemm_codegen.cli.request import requests_for, take_flags
from deepgemm_codegen.cli.streams import print_data
from deepgemm_codegen.errors import CodegenError
from deepgemm_codegen.spec.overrides import OVERRIDE_WORDS, OVERRIDES
from deepgemm_codegen.spec.text import FIELDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deepgemm_codegen.cli.request import Request
    from deepgemm_codegen.plan import Program

__all__ = ["COMMAND"]

_FORMAT = "1.2"
_ALL = "all"


def _explain(*, files: tuple[str, ...], as_json: bool, origin: bool, **values: Any) -> int:
    console = take_console(values)
    flags = take_flags(values)
    everywhere = flags.get("arch") == _ALL
    if everywhere:
        if origin:
            raise click.UsageError("--origin is of one architecture; it excludes --arch=all")
        del flags["arch"]
    requests = requests_for(files, flags, os.environ, console)
    if everywhere:
        return _across(requests, as_json=as_json)

    explained: list[dict[str, Any] | str] = []
    code = 0
    noted: set[str] = set()
    for request in requests:
        try:
            note, found = _explained(request, as_json=as_json, origin=origin)
        except CodegenError as error:
            if not request.where:
                raise
            console.problem(f"error: {request.place_of(str(error))}: {error}")
            code = max(code, error.exit_code)
            continue
        if note and note not in noted:
            noted.add(note)
            console.note(note)
        explained.append(found)
    if as_json:
        print_data(json.dumps({"format": _FORMAT, "kernels": explained}, indent=2) + "\n")
    else:
        print_data("\n".join(map(str, explained)))
    return code


def _explained(
    request: Request, *, as_json: bool, origin: bool
) -> tuple[str, dict[str, Any] | str]:
    """A note on the architecture, and the explanation of one kernel: a record, or a text."""
    from deepgemm_codegen.arch import load_arch  # noqa: PLC0415  --help and errors need none of it
    from deepgemm_codegen.decide import decide  # noqa: PLC0415
    from deepgemm_codegen.decide.explain import explain, format_explanation  # noqa: PLC0415

    spec = request.spec
    arch = load_arch(spec.arch, spec.gpu, spec.sms)
    explanation = explain(spec, arch)
    origins = _origins(request, decide(spec, arch)) if origin else []
    if as_json:
        source = {"source": request.where} if request.where else {}
        record = {**source, **explanation.to_dict()}
        if origin:
            names = ("name", "value", "origin")
            record["origins"] = [dict(zip(names, row, strict=True)) for row in origins]
        return arch.note, record
    text = f"{request.where}\n" if request.where else ""
    text += format_explanation(explanation)
    if origin:
        text += "\norigins:\n" + "".join(f"  {n:<13} {v:<16} {o}\n" for n, v, o in origins)
    return arch.note, text


def _across(requests: Sequence[Request], *, as_json: bool) -> int:
    """Every spec over all architectures; specs that differ in their own alone are one."""
    from deepgemm_codegen.cli.across import across  # noqa: PLC0415  --help needs no tree

    found = {table.spec: table for table in (across(request.spec) for request in requests)}
    if as_json:
        kernels = [table.to_dict() for table in found.values()]
        print_data(json.dumps({"format": _FORMAT, "kernels": kernels}, indent=2) + "\n")
    else:
        print_data("\n".join(map(str, found.values())))
    return 0


def _origins(request: Request, program: Program) -> list[tuple[str, str, str]]:
    """(name, value, origin) of every field and of every decision that can be taken over."""
    rows = []
    for name in FIELDS:
        value = getattr(request.spec, "dtype_a" if name == "dtype" else name)
        if isinstance(value, tuple):
            value = ",".join(map(str, value))
        derived = "dtype" if name.startswith("dtype_") and name in _FOLLOW_DTYPE else ""
        origin = request.origins.get(name) or request.origins.get(derived)
        shown = "none" if value in (None, "") else str(value)
        rows.append((name, shown, origin or "default"))
    for name in OVERRIDES:
        value = _in_effect(program, name)
        if value is None:
            value = getattr(request.spec.overrides, name)
        shown = "unused" if value is None else str(value)
        rows.append((name, shown, request.origins.get(name, "the tree")))
    return rows


def _in_effect(program: Program, name: str) -> int | str | None:
    """What the program has where an override could have chosen; None where none could."""
    from deepgemm_codegen.decide.families import FAMILIES  # noqa: PLC0415  --help needs no tree
    from deepgemm_codegen.decide.rows.family import ROWS  # noqa: PLC0415
    from deepgemm_codegen.plan import Repack  # noqa: PLC0415

    plan = program.product
    chosen = plan.decisions[0].choice
    legal = next((each.legal for each in (*FAMILIES, ROWS) if each.name == chosen), {})
    if name not in legal and name not in OVERRIDE_WORDS:
        return None  # the family has no choice of it
    match name:
        case "family":
            return chosen
        case "split_k":
            return plan.k.split
        case "abreast":
            return plan.abreast
        case "repack":
            copies = any(isinstance(kernel.body, Repack) for kernel in program.kernels)
            return "on" if copies else "off"
    value: int | str | None = getattr(plan.body, name, getattr(plan.schedule, name, None))
    return value or None  # no blocks have whole rows


_FOLLOW_DTYPE = ("dtype_a", "dtype_b", "dtype_d")

COMMAND = Command(
    "explain",
    params=[
        files_argument(required=False),
        SectionedOption(
            ["--json", "as_json"],
            is_flag=True,
            help="the explanation as JSON on stdout",
            section="Output",
        ),
        SectionedOption(
            ["--origin"],
            is_flag=True,
            help="where each value came from: flag, environment, file, default or the tree",
            section="Output",
        ),
        *spec_flags(),
        *level_flags(),
    ],
    callback=_explain,
    help="Prints every decision of the tree with its reason, its best rival and what was ruled"
    " out: for the kernel that the flags describe, or for every kernel of FILES, over which flags"
    " and environment are laid. --arch=all sets all architectures side by side.",
    examples=(
        "deepgemm_codegen explain --m=4096 --n=4096 --k=4096 --layout=nt",
        "deepgemm_codegen explain --m=4096 --n=4096 --k=4096 --stages=8 --origin",
        "deepgemm_codegen explain --m=4096 --n=4096 --k=4096 --layout=nt --arch=all",
        "deepgemm_codegen explain configs/kernels/gpt2_small.yaml --json",
    ),
)
