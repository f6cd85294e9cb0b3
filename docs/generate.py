"""Writes the parts of the documentation that follow from the code.

    python docs/generate.py

``reference.md``: every field of a spec, every epilogue step, every fact of an architecture;
``decision_tree.svg``: the questions of the tree, family by family, as it answers them for an
example. Tests keep both fresh.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from deepgemm_codegen.arch import known_targets, load_arch
from deepgemm_codegen.arch_facts import FACTS, Fact
from deepgemm_codegen.cli.flags import default_of, flag_of
from deepgemm_codegen.decide import decide
from deepgemm_codegen.decide.families import FAMILIES, obstacle_of
from deepgemm_codegen.epilogue import STEPS
from deepgemm_codegen.errors import InputError
from deepgemm_codegen.spec import GemmSpec
from deepgemm_codegen.spec.overrides import OVERRIDES
from deepgemm_codegen.specfile.fields import GROUPS, HELP, NAME, written

FOLDER = Path(__file__).resolve().parent
_NOTE = "<!-- written by docs/generate.py; change the code and run it again -->"


def main() -> None:
    """Writes the files."""
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


def pages() -> dict[str, str]:
    """The generated files by name."""
    return {"reference.md": reference(), "decision_tree.svg": picture()}


def reference() -> str:
    """The page of fields and steps."""
    lines = [
        "# Fields and steps",
        "",
        _NOTE,
        "",
        "The words that kernel files and flags share. `schema FIELD` prints a line of this page,",
        "[yaml.md](yaml.md) tells how a file is written, [cli.md](cli.md) where values come from.",
        "",
        "## Fields of a problem",
        "",
        "| field | flag | meaning | written as | default |",
        "| --- | --- | --- | --- | --- |",
        *(_field(name) for name in HELP if name not in OVERRIDES),
        "",
        "## Decisions to take over",
        "",
        "The tree works around what is given. Each can also be an environment variable, such as",
        "`DGEMM_TILE_M`.",
        "",
        "| field | flag | meaning | written as |",
        "| --- | --- | --- | --- |",
        *(_override(name) for name in OVERRIDES),
        "",
        "Written together in a kernel file: "
        + "; ".join(f"`{stem}` for {_code(names.values())}" for stem, names in GROUPS.items())
        + ".",
        "",
        "## Epilogue steps",
        "",
        "They run in the order given, on the sum in fp32; the result is rounded once, to the type",
        "of D. A step that reads something takes one more argument.",
        "",
        "| step | meaning | reads | options |",
        "| --- | --- | --- | --- |",
        *(_step(name) for name in STEPS),
        "",
        "## Facts of an architecture",
        "",
        "Keys of `configs/arch/sm_NN.yaml`; a mistake is told by file, line and key. What else",
        "a new architecture needs stands in [design.md](design.md#adding-things).",
        "",
        "| key | meaning | unit | written as |",
        "| --- | --- | --- | --- |",
        *_facts("", FACTS),
    ]
    return "\n".join(lines) + "\n"


def _code(words: object) -> str:
    return ", ".join(f"`{word}`" for word in words)  # type: ignore[attr-defined]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _field(name: str) -> str:
    flag = flag_of("label" if name == NAME else name)
    default = default_of(name)
    shown = f"`{default}`" if default else ""
    return f"| `{name}` | `{flag}` | {_cell(HELP[name])} | {_cell(written(name))} | {shown} |"


def _override(name: str) -> str:
    return f"| `{name}` | `{flag_of(name)}` | {_cell(HELP[name])} | {_cell(written(name))} |"


def _step(name: str) -> str:
    step = STEPS[name]
    reads = "; ".join(
        f"`{operand.name}`: " + " or ".join(_ACCESS[access] for access in operand.accesses)
        for operand in step.operands
    )
    options = "; ".join(f"`{option.name}`: {option.summary}" for option in step.options)
    return f"| `{name}` | {_cell(step.summary)} | {reads} | {_cell(options)} |"


def _facts(outer: str, facts: Mapping[str, Fact]) -> list[str]:
    """The rows of a table of facts, each followed by those of the table inside it."""
    rows = []
    for name, fact in facts.items():
        optional = "; may be left out" if fact.optional else ""
        rows.append(
            f"| `{outer}{name}` | {fact.meaning} | {fact.unit} | {fact.written}{optional} |"
        )
        rows += _facts(f"{outer}{name}{'[]' if fact.kind == 'list' else ''}.", fact.inner or {})
    return rows


_ACCESS = {
    "scalar": "a number",
    "row": "one value per row",
    "column": "one value per column",
    "full": "a matrix",
}


# -- the picture --


@dataclass(frozen=True, slots=True)
class Column:
    """One family: an example that it serves, and its answers.

    Attributes:
        name: as flags write it.
        example: the spec and its architecture.
        answers: (id, question, choice, reason) of each decision after the first.
        clause: what the family's place in the tree is.
    """

    name: str
    example: str
    answers: tuple[tuple[str, str, str], ...]
    clause: str


_EXAMPLES = (
    {"m": 4096, "n": 4096, "k": 4096, "layout": "nt"},
    {"m": 1, "n": 4096, "k": 4096, "layout": "nt"},
)
"""Products of which every family serves one at least."""


def columns() -> list[Column]:
    """The families in the order in which they are asked."""
    found = []
    for family in FAMILIES:
        column = _column(family.name)
        if column is not None:
            found.append(column)
    return found


def _column(name: str) -> Column | None:
    """A family with the first example, on the newest target, that it wins by its own."""
    for given in (False, True):
        for fields in _EXAMPLES:
            for target in ("sm_90a", *reversed(known_targets())):
                own = {**fields, "arch": target, **({"family": name} if given else {})}
                try:
                    program = decide(GemmSpec.from_fields(own), load_arch(target))
                except InputError:
                    continue
                family, *rest = program.decisions
                if family.choice != name:
                    continue
                sizes = " x ".join(str(fields[s]) for s in ("m", "n", "k"))
                answers = tuple((d.id, d.question, d.choice) for d in rest)
                return Column(name, f"{sizes} on {target}", answers, _clause(name))
    return None


def _clause(name: str) -> str:
    """On how many of the targets a family can be asked about the first example."""
    (family,) = (each for each in FAMILIES if each.name == name)
    able = [
        target
        for target in known_targets()
        if not obstacle_of(
            family, GemmSpec.from_fields({**_EXAMPLES[0], "arch": target}), load_arch(target)
        )
    ]
    if len(able) == len(known_targets()):
        return "every architecture"
    return ", ".join(able) if able else "where the problem allows it"


_WIDTH, _GAP, _ROW, _TOP = 300, 24, 46, 176
_STYLE = """\
  .box { fill: #f6f8fc; stroke: #4a5a8a; }
  .head { fill: #4a5a8a; stroke: #4a5a8a; }
  .line { stroke: #4a5a8a; fill: none; }
  text { font: 13px sans-serif; fill: #1c2333; }
  .on { fill: #ffffff; font-weight: bold; }
  .small { font-size: 11px; fill: #56607a; }
  .mono { font: 12px monospace; }
  @media (prefers-color-scheme: dark) {
    .box { fill: #20263a; stroke: #8fa0d8; } .line { stroke: #8fa0d8; }
    text { fill: #e6e9f2; } .small { fill: #a9b2c8; }
  }"""


def picture() -> str:
    """The tree as SVG: the question of the family, and below it each family's own."""
    families = columns()
    deepest = max(len(column.answers) for column in families)
    width = len(families) * (_WIDTH + _GAP) + _GAP
    height = _TOP + 72 + deepest * _ROW + 100
    middle = width // 2
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"'
            ' aria-labelledby="title">'
        ),
        (
            '<title id="title">The decision tree: a spec and an architecture lead to a family, its'
            " questions, and the cheapest candidate</title>"
        ),
        f"<style>\n{_STYLE}\n</style>",
        *_box(middle - 170, 16, 340, 40, "a spec, and the facts of an architecture", "head"),
        _arrow(middle, 56, middle, 84),
        *_box(middle - 170, 84, 340, 40, "[D01] family: which can serve?", "box"),
    ]
    bottom = _TOP + 72 + deepest * _ROW
    for index, column in enumerate(families):
        left = _GAP + index * (_WIDTH + _GAP)
        parts += _family(column, left, bottom)
        parts.append(_arrow(middle, 124, left + _WIDTH // 2, _TOP))
        parts.append(_arrow(left + _WIDTH // 2, bottom, middle, bottom + 30))
    words = "the cheapest of all candidates that no constraint rules out"
    parts += _box(middle - 240, bottom + 30, 480, 40, words, "head")
    return "\n".join([*parts, "</svg>"]) + "\n"


def _family(column: Column, left: int, bottom: int) -> list[str]:
    """A family's head, and a row a question with the answer of its example."""
    centre = left + _WIDTH // 2
    parts = [
        (
            f'<rect class="box" x="{left}" y="{_TOP}" width="{_WIDTH}" height="{bottom - _TOP}"'
            ' rx="6"/>'
        ),
        *_box(left, _TOP, _WIDTH, 30, column.name, "head"),
        _text(centre, _TOP + 47, column.clause, "small", "middle"),
        _text(centre, _TOP + 62, f"here {column.example}", "small", "middle"),
    ]
    for number, (name, question, choice) in enumerate(column.answers):
        y = _TOP + 90 + number * _ROW
        parts.append(_text(left + 14, y, f"[{name}] {question}"))
        parts.append(_text(left + 14, y + 17, choice, "mono"))
    return parts


def _box(x: int, y: int, width: int, height: int, words: str, kind: str) -> list[str]:
    inside = "on" if kind == "head" else ""
    return [
        f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="6"/>',
        _text(x + width // 2, y + height // 2 + 5, words, inside, "middle"),
    ]


def _text(x: int, y: int, words: str, kind: str = "", anchor: str = "start") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{x}" y="{y}" text-anchor="{anchor}">{escape(words)}</text>'


def _arrow(x: int, y: int, to_x: int, to_y: int) -> str:
    bend = (y + to_y) // 2
    return f'<path class="line" d="M {x} {y} C {x} {bend} {to_x} {bend} {to_x} {to_y}"/>'


if __name__ == "__main__":
    main()
