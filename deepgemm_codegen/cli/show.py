"""``show``: all that a generated folder knows of one kernel."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from deepgemm_codegen.cli.completing import complete_kernel
from deepgemm_codegen.cli.flags import PATH, Command, SectionedOption, level_flags, take_console
from deepgemm_codegen.cli.streams import print_data

if TYPE_CHECKING:
    from collections.abc import Mapping

    from deepgemm_codegen.batch.lookup import Found

__all__ = ["COMMAND", "folder_option"]

_FORMAT = "1.0"


def folder_option() -> click.Parameter:
    """Where names are looked up."""
    return SectionedOption(
        ["--in", "folder"],
        default="generated",
        type=PATH,
        is_eager=True,  # completion of a name looks here
        metavar="FOLDER",
        help="the folder in which names are looked up  [default: generated]",
        section="Input",
    )


def _show(*, name: str, folder: str, as_json: bool, **values: Any) -> int:
    from deepgemm_codegen.batch.lookup import find  # noqa: PLC0415  --help needs none of it

    console = take_console(values)
    kernels = find(name, folder)
    if as_json:
        records = [
            {"source": found.source, "build": found.build or None, **found.record}
            for found in kernels
        ]
        print_data(json.dumps({"format": _FORMAT, "kernels": records}, indent=2) + "\n")
        return 0
    print_data("\n".join(_text(found) for found in kernels))
    for found in kernels:
        if found.source == "changed":
            console.problem(f"warning: {found.record['file']} is not what the manifest tells of")
    return 0


def _text(found: Found) -> str:
    from deepgemm_codegen.batch.manifest import launches_of  # noqa: PLC0415

    record = found.record
    arguments = ", ".join(
        f"{p['name']} ({p['dtype']}*)" if "dtype" in p else p["name"] for p in record["parameters"]
    )
    rows = [
        ("spec", record["spec"]),
        ("file", f"{record['file']}, {found.source}"),
        ("target", record["target"]),
        ("arguments", arguments),
    ]
    if "workspace" in record:
        rows.append(("workspace", f"{record['workspace']['bytes']} bytes"))
    built = {used["kernel"]: used for used in found.build.get("resources", ())}
    launches = launches_of(record)
    for launch in launches:
        if len(launches) > 1:
            rows.append(("kernel", launch["kernel"]))
        rows += _kernel_rows(launch)
        if launch["kernel"] in built:
            rows.append(("built", _built(built[launch["kernel"]], found.build["compiler"])))
    lines = [record["name"], *(f"  {name:<10} {value}" for name, value in rows), ""]
    for decision in record["decisions"]:
        lines.append(f"[{decision['id']}] {decision['question']}: {decision['choice']}")
        lines.append(f"      why    {decision['reason']}")
    return "\n".join(lines) + "\n"


def _kernel_rows(launch: Mapping[str, Any]) -> list[tuple[str, str]]:
    plan = ", ".join(f"{name} {value}" for name, value in launch.get("plan", {}).items())
    return [
        ("grid", f"{launch['grid']} blocks of {launch['block']} threads"),
        ("shared", f"{launch['shared_bytes']} bytes per block"),
        ("plan", plan),
    ]


def _built(used: Mapping[str, Any], compiler: str) -> str:
    spilled, blocks = used["spill_store_bytes"] + used["spill_load_bytes"], used["blocks_per_sm"]
    return (
        f"{used['registers']} registers per thread, {spilled} bytes spilled,"
        f" {blocks} block{'' if blocks == 1 else 's'} per multiprocessor, by {compiler}"
    )


COMMAND = Command(
    "show",
    params=[
        click.Argument(["name"], metavar="NAME", shell_complete=complete_kernel),
        folder_option(),
        SectionedOption(
            ["--json", "as_json"], is_flag=True, help="the record as JSON on stdout",
            section="Output",
        ),
        *level_flags(),
    ],
    callback=_show,
    help="Prints what a generated folder knows of one kernel: spec, launch, plan, every decision"
    " with its reason, and what a build has found. NAME is a kernel's name or its beginning, the"
    " path of its .cu file, or the line of a spec.",
    examples=(
        "deepgemm_codegen show gpt2_fc_sm_80",
        "deepgemm_codegen show generated/gpt2_fc_sm_80_e601b1a5.cu --json",
        "deepgemm_codegen show 'm=4096 n=4096 k=4096 layout=nt arch=sm_90a'",
    ),
)  # fmt: skip
