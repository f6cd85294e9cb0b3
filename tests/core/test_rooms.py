"""Data moves left to right: no room of the package imports one to its right, nor in a circle."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "deepgemm_codegen"

ROOMS = (
    *("errors", "numbers", "resources", "files", "parallel", "dtypes", "arch_facts", "arch"),
    *("epilogue", "spec", "checks", "specfile", "schemas", "plan", "decide", "render"),
    *("toolchain", "emulator", "harness", "batch", "verification", "doctor", "pytest_plugin"),
    *("cli", "__main__"),
)
"""From left to right; docs/design.md says what each holds."""

EMULATOR_MAY = {"dtypes", "arch", "errors"}
"""It knows PTX and nothing of GEMM."""

MOST_LINES = 440
"""About 400 is the rule; what has grown beyond this wants to be two modules."""

MODULES = sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


NAMES = {name_of(path) for path in MODULES}


def imported(node: ast.AST) -> list[str]:
    """The modules of the package that a statement imports."""
    if not isinstance(node, ast.ImportFrom) or node.module is None:
        return []
    if not node.module.startswith("deepgemm_codegen."):
        return []
    module = node.module.removeprefix("deepgemm_codegen.")
    inner = [f"{module}.{alias.name}" for alias in node.names]
    return [name for name in inner if name in NAMES] or [module]


def test_every_room_has_its_place() -> None:
    found = {name_of(path).partition(".")[0] for path in MODULES} - {""}
    assert found == set(ROOMS)
    design = (PACKAGE.parent / "docs" / "design.md").read_text(encoding="utf-8")
    assert [room for room in ROOMS if f"`{room}" not in design and f"/{room}" not in design] == []


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_nothing_is_imported_from_the_right(path: Path) -> None:
    room = name_of(path).partition(".")[0]
    if not room:
        return
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= MOST_LINES
    rooms = {m.partition(".")[0] for node in ast.walk(ast.parse(text)) for m in imported(node)}
    right = {other for other in rooms if ROOMS.index(other) > ROOMS.index(room)}
    assert not right, "also where only a type checker looks"
    if room == "emulator":
        assert rooms - {room} <= EMULATOR_MAY


def test_no_modules_import_each_other() -> None:
    """At import, not for types and not within functions."""
    needs = {
        name_of(path): {
            other
            for node in ast.parse(path.read_text(encoding="utf-8")).body
            for other in imported(node)
        }
        for path in MODULES
    }
    while free := [name for name, others in needs.items() if not others & set(needs)]:
        for name in free:
            del needs[name]
    assert not needs, "these wait for each other"
