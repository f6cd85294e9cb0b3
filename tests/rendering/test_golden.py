"""The generated files, byte for byte, and what must hold for each of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from deepgemm_codegen.render import render_program

from .plans import GOLDEN

FOLDER = Path(__file__).resolve().parent.parent / "golden"


@pytest.mark.parametrize("name", GOLDEN)
def test_golden(name: str, update_golden: bool) -> None:
    path = FOLDER / f"{name}.cu"
    source = render_program(GOLDEN[name])
    if update_golden:
        path.write_text(source, encoding="utf-8")
    assert source == path.read_text(encoding="utf-8"), (
        f"{path.name} differs; look at the difference, then run pytest with --update-golden"
    )


def test_no_golden_file_is_left_over() -> None:
    assert {path.stem for path in FOLDER.glob("*.cu")} == set(GOLDEN)


@pytest.mark.parametrize("name", GOLDEN)
def test_every_constant_and_function_is_used(name: str) -> None:
    source = re.sub(r"//.*", "", render_program(GOLDEN[name]))
    constants = re.findall(r"^    ([A-Z][A-Z_0-9]*) = ", source, re.MULTILINE)
    functions = re.findall(r"__forceinline__ \S+ (\w+)\(", source)
    assert len(constants) > (20 if GOLDEN[name].spec.multiplies else 6)
    assert len(functions) > 1
    for word in constants + functions:
        assert len(re.findall(rf"\b{word}\b", source)) > 1, f"{word} is never used"


@pytest.mark.parametrize("name", GOLDEN)
def test_lines_are_short_and_flat(name: str) -> None:
    plan = GOLDEN[name]
    for number, line in enumerate(render_program(plan).splitlines(), 1):
        if line.startswith("//   ") or plan.name in line:
            continue  # the spec and the kernel's name are as long as they are
        assert len(line) <= 100, f"line {number}: {line}"
        assert line == line.rstrip(), f"line {number} ends in spaces"
        assert "\t" not in line


@pytest.mark.parametrize("name", GOLDEN)
def test_only_the_branch_taken_is_printed(name: str) -> None:
    """No preprocessor test but the launcher's guard, no constexpr branch, no blank run."""
    source = render_program(GOLDEN[name])
    found = re.findall(r"^#(?!pragma)\S+.*", source, re.MULTILINE)
    headers = [line for line in found if line.startswith("#include")]
    assert found == ["#ifndef __CUDACC_RTC__", *headers, "#endif"]
    assert headers[-1] == "#include <cuda_runtime.h>"
    assert "if constexpr" not in source
    assert "\n\n\n" not in source
    assert "{\n\n" not in source
