"""Programs that nvcc compiled and that are no matrix products, against numpy."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any

import numpy as np
import pytest

from deepgemm_codegen.emulator import GlobalBuffer, Kernel, Launch, Report, parse, run
from tests.emulator.programs import FOLDER, PROGRAMS, Program, ptx
from tests.emulator.programs.build import build

Array = np.ndarray[Any, np.dtype[Any]]

_NAMES = sorted({p.name for p in PROGRAMS})


def emulate(program: Program, text: str = "") -> tuple[list[Array], Report]:
    """The arrays that a launch wrote, and the report."""
    parameters: list[Any] = []
    arrays: list[Any] = []
    for i, value in enumerate(program.arguments):
        if not isinstance(value, np.ndarray):
            arrays.append(None)
            parameters.append(value)
            continue
        arrays.append(value.copy())
        buffer = GlobalBuffer(f"argument{i}", arrays[i].view(np.uint8).reshape(-1), writable=True)
        parameters.append(buffer.at(program.offset) if i == 0 else buffer)
    kernel = Kernel(parse(text or ptx(program.name)), program.name)
    report = run(kernel, Launch(program.grid, program.block, program.shared, parameters))
    return [arrays[i] for i in program.outputs], report


def differences(program: Program, got: list[Array], want: list[Array]) -> int:
    """Elements that differ by more than the program allows."""
    count = 0
    for a, b in zip(got, want, strict=True):
        if not program.relative:
            size = a.dtype.itemsize
            pair = [np.ascontiguousarray(x).view(np.uint8).reshape(-1, size) for x in (a, b)]
            count += int((pair[0] != pair[1]).any(axis=1).sum())
        else:
            near = np.abs(a - b) <= program.relative * np.abs(b)
            count += int((~near).sum())
    return count


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: f"{p.name}: {p.label}")
def test_the_result_is_numpy_s(program: Program) -> None:
    got, report = emulate(program)
    assert report.findings == (), str(report)
    want = program.want(*program.arguments)
    assert [a.shape for a in got] == [b.shape for b in want]
    assert differences(program, got, want) == 0


def test_every_source_has_its_ptx_and_its_cases() -> None:
    sources = sorted(path.stem for path in FOLDER.glob("*.cu"))
    assert sources == sorted(path.stem for path in FOLDER.glob("*.ptx")) == _NAMES
    assert len(sources) >= 5


@pytest.mark.parametrize("name", _NAMES)
def test_the_ptx_names_no_folder(name: str) -> None:
    for line in ptx(name).splitlines():
        if line.lstrip().startswith(".file"):
            assert line.count("/") == 1, line


@pytest.mark.full
@pytest.mark.parametrize("name", _NAMES)
def test_the_ptx_is_nvcc_s(name: str) -> None:
    if shutil.which("nvcc") is None:
        pytest.skip("needs nvcc")
    version = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=True)
    if "V13.0.88" not in version.stdout:
        pytest.skip("needs nvcc 13.0.88")
    assert build(FOLDER / f"{name}.cu") == ptx(name)


@pytest.mark.parametrize(
    ("name", "index", "found"),
    [
        # Barrier by barrier: which kinds its absence gives, in the last case of the program.
        ("reduction", 0, {"race", "uninitialised-read"}), ("reduction", 1, {"race"}),
        ("histogram", 0, {"race", "uninitialised-read"}), ("histogram", 1, {"race"}),
        ("transpose", 0, {"race", "uninitialised-read"}),
        ("sort", 0, {"race"}), ("sort", 1, {"race"}),
    ],
)  # fmt: skip
def test_a_missing_barrier_is_found(name: str, index: int, found: set[str]) -> None:
    program = [p for p in PROGRAMS if p.name == name][-1]
    parts = ptx(name).split("bar.sync \t0;")
    assert len(parts) > index + 1
    text = (
        "bar.sync \t0;".join(parts[: index + 1])
        + "bar.sync \t0;".join(["", *parts[index + 1 :]])[12:]
    )
    _, report = emulate(program, text)
    kinds = {f.kind for f in report.findings}
    assert "race" in kinds
    assert kinds <= found, str(report)


@pytest.mark.parametrize("index", [0, 1])
def test_a_missing_fence_round_the_counter_is_found(index: int) -> None:
    program = [p for p in PROGRAMS if p.name == "lastblock"][-1]
    parts = ptx("lastblock").split("membar.gl;")
    assert len(parts) == 3
    text = "membar.gl;".join(parts[: index + 1]) + "membar.gl;".join(parts[index + 1 :])
    got, report = emulate(program, text)
    assert differences(program, got, program.want(*program.arguments)) == 0  # the numbers are right
    assert {f.kind for f in report.findings} == {"race"}
    assert "another block wrote with no order between" in report.findings[0].message
