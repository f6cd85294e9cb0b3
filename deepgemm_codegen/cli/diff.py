"""``diff``: two plans, decision by decision."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from deepgemm_codegen.cli.completing import complete_kernel
from deepgemm_codegen.cli.flags import Command, SectionedOption, level_flags, take_console
from deepgemm_codegen.cli.show import folder_option
from deepgemm_codegen.cli.streams import print_data
from deepgemm_codegen.cli.tables import aligned
from deepgemm_codegen.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deepgemm_codegen.batch.lookup import Difference, Found

__all__ = ["COMMAND"]

_FORMAT = "1.0"


def _diff(*, a: str, b: str, folder: str, as_json: bool, **values: Any) -> int:
    from deepgemm_codegen.batch.lookup import compare, find  # noqa: PLC0415

    console = take_console(values)
    left, right = find(a, folder), find(b, folder)
    if len(left) != len(right):
        raise InputError(
            f"A takes {len(left)} kernels and B {len(right)}, so there are no pairs to compare"
        )
    pairs = [(one, other, compare(one, other)) for one, other in zip(left, right, strict=True)]
    if as_json:
        print_data(_as_json(pairs))
    else:
        texts = [_text(*pair, everything=console.level > 0) for pair in pairs]
        print_data("\n".join(texts))
    return int(any(not each.same for _, _, differences in pairs for each in differences))


def _text(a: Found, b: Found, differences: Sequence[Difference], *, everything: bool) -> str:
    """What differs, part by part; what is the same in a line, or in full."""
    lines = [f"A  {a.name}\nB  {b.name}\n"]
    for part in dict.fromkeys(each.part for each in differences):
        own = [each for each in differences if each.part == part]
        shown = [each for each in own if everything or not each.same]
        if shown:
            rows = [[part, "A", "B"], *([d.name, d.a or "-", d.b or "-"] for d in shown)]
            lines.append("\n" + aligned(rows))
        for each in shown:
            if each.why_a != each.why_b:
                lines.append(f"  why {each.name} {each.a or '-'} in A: {each.why_a or '-'}\n")
                lines.append(f"  why {each.name} {each.b or '-'} in B: {each.why_b or '-'}\n")
    same = sum(each.same for each in differences)
    if same == len(differences):
        lines.append(f"\nthe same in all {same} points\n")
    elif not everything:
        lines.append(f"\nthe same in {same} of {len(differences)} points; -v shows them\n")
    return "".join(lines)


def _as_json(pairs: Sequence[tuple[Found, Found, Sequence[Difference]]]) -> str:
    kernels = []
    for a, b, differences in pairs:
        points = []
        for each in differences:
            point = {"part": each.part, "name": each.name, "a": each.a, "b": each.b}
            if each.why_a or each.why_b:
                point |= {"why_a": each.why_a, "why_b": each.why_b}
            points.append({**point, "same": each.same})
        kernels.append({"a": a.name, "b": b.name, "points": points})
    return json.dumps({"format": _FORMAT, "kernels": kernels}, indent=2) + "\n"


COMMAND = Command(
    "diff",
    params=[
        click.Argument(["a"], metavar="A", shell_complete=complete_kernel),
        click.Argument(["b"], metavar="B", shell_complete=complete_kernel),
        folder_option(),
        SectionedOption(
            ["--json", "as_json"], is_flag=True, help="all points as JSON on stdout",
            section="Output",
        ),
        *level_flags(),
    ],
    callback=_diff,
    help="Compares two kernels: spec, each decision with both reasons, plan, launch, and what a"
    " build has found. A and B are names, paths or specs, as show takes them. Exit code 0 when"
    " nothing differs, 1 when something does.",
    examples=(
        "deepgemm_codegen diff gpt2_fc_sm_80 gpt2_fc_sm_90",
        "deepgemm_codegen diff generated/a_0123abcd.cu old/a_0123abcd.cu",
        "deepgemm_codegen diff 'm=512 n=512 k=512' 'm=512 n=512 k=512 arch=sm_90a layout=nt'",
    ),
)  # fmt: skip
