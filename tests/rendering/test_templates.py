"""The templates as text: what they may use, and that the golden plans print every line."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING, Any

import jinja2
import jinja2.meta
import pytest

from deepgemm_codegen.errors import InternalError
from deepgemm_codegen.render import TEMPLATE, environment, names_of, render_program
from deepgemm_codegen.render import rendering as render
from deepgemm_codegen.render.template_engine import Engine
from deepgemm_codegen.resources import data_folder

from .plans import GOLDEN

if TYPE_CHECKING:
    from pathlib import Path

TEMPLATES = sorted(
    path for path in data_folder("templates").rglob("*.j2") if path.parent.name != "dispatch"
)
"""The kernels' templates; the selector's has tests beside its tables."""
IDS = [path.relative_to(data_folder("templates")).as_posix() for path in TEMPLATES]

FILE = {"program", "file", "kernels"}
"""What the file's own parts may take from outside."""

INCLUDED = FILE | {"plan", "text", "o", "width", "steps", "slot", "counted", "within"}
INCLUDED |= {"four", "guard"}
"""What a template may take: that, a kernel's plan and text, a copy's operand, a width, steps, a
ring's slot, whether a part's slices are counted, a place in the tile, how many neighbours a lane
gets, a condition before what is written."""


@pytest.mark.parametrize("path", TEMPLATES, ids=IDS)
def test_a_template_takes_only_the_plan(path: Path) -> None:
    tree = environment().parse(path.read_text(encoding="utf-8"))
    undeclared = jinja2.meta.find_undeclared_variables(tree)
    assert undeclared <= INCLUDED
    assert ("o" in undeclared) == (path.parent.name == "copies")


@pytest.mark.parametrize("path", TEMPLATES, ids=IDS)
def test_asm_operands_stand_apart_from_braces(path: Path) -> None:
    """``{%0`` opens a Jinja tag and ``{{0}}`` prints 0; both would be silent in an asm string."""
    source = path.read_text(encoding="utf-8")
    assert not re.search(r"\{%\d", source)
    assert not re.search(r"\{\{\s*\d", source)
    assert "{%-" not in source or path.suffixes == [".j2"] or "macro" in source


class MarkingLoader(jinja2.BaseLoader):
    """Appends to every printed template line a mark that says where it came from."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get_source(self, environment: jinja2.Environment, template: str) -> tuple[str, str, Any]:
        lines = (self.folder / template).read_text(encoding="utf-8").split("\n")
        in_comment = False
        for number, line in enumerate(lines):
            opened = in_comment or "{#" in line
            in_comment = opened and "#}" not in line
            if line.strip() and not opened and not line.lstrip().startswith("{%"):
                lines[number] = f"{line}/*@{template}:{number + 1}*/"
        return "\n".join(lines), str(self.folder / template), lambda: True


def test_the_golden_plans_print_every_template_line() -> None:
    base = environment()
    marking = base.overlay(loader=MarkingLoader(data_folder("templates")))
    printed: set[str] = set()
    for program in GOLDEN.values():
        marked = marking.get_template(TEMPLATE).render(**names_of(program))
        assert re.sub(r"/\*@[^*]*\*/", "", marked).rstrip("\n") + "\n" == render_program(program)
        printed |= set(re.findall(r"/\*@([^*]*)\*/", marked))
    expected = set()
    for name in IDS:
        source = MarkingLoader(data_folder("templates")).get_source(base, name)[0]
        expected |= set(re.findall(r"/\*@([^*]*)\*/", source))
    assert len(expected) > 200
    assert expected - printed == set(), "no plan of tests/rendering/plans.py prints these lines"


def test_y06_a_missing_field_stops_the_rendering() -> None:
    """Y06: a template that names what the plan lacks raises; nothing is printed as empty text."""
    template = environment().from_string("TILE_K = {{ plan.body.tile_q }},")
    with pytest.raises(AttributeError, match="tile_q"):
        template.render(plan=GOLDEN["aligned_nt"].product)
    with pytest.raises(jinja2.UndefinedError, match="paln"):
        environment().from_string("{{ paln }}").render(plan=1)


def test_a_fault_in_a_template_names_its_line(tmp_path: Path, monkeypatch: Any) -> None:
    """The innermost template's, included as it is in others."""
    folder = shutil.copytree(data_folder("templates"), tmp_path / "templates")
    part = folder / "parts/problem.cu.j2"
    text = part.read_text(encoding="utf-8")
    part.write_text(text + "{{ program.prodct }}\n", encoding="utf-8")
    line = text.count("\n") + 1
    monkeypatch.setattr(render, "environment", lambda: Engine(jinja2.FileSystemLoader(folder)))
    with pytest.raises(InternalError, match=rf"template parts/problem.cu.j2:{line}: .*prodct"):
        render_program(GOLDEN["aligned_nt"])
    part.write_text(text + "{{ program }}\n", encoding="utf-8")
    with pytest.raises(InternalError, match="neither text nor an integer"):
        render_program(GOLDEN["aligned_nt"])


@pytest.mark.parametrize("value", [True, None, 1e-05])
def test_only_text_and_integers_are_printed(value: object) -> None:
    template = environment().from_string("{{ plan }}")
    with pytest.raises(InternalError, match="neither text nor an integer"):
        template.render(plan=value)
