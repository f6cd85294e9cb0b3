"""Instruction forms on the emulator, against what a GPU made of them where that is recorded."""

from __future__ import annotations

import json
import subprocess
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deepgemm_codegen.errors import EnvironmentLackError
from deepgemm_codegen.toolchain import find_tool
from tests.emulator.forms import FORMS, differences, emulate

Array = np.ndarray[Any, np.dtype[Any]]

FOLDER = Path(__file__).parent / "recorded"


@cache
def _recordings() -> dict[str, tuple[dict[str, Any], dict[str, Array]]]:
    """By architecture: facts and outputs."""
    found = {}
    for path in sorted(FOLDER.glob("*.npz")):
        with np.load(path) as held:
            outputs = {name: held[name] for name in held.files if name != "__meta__"}
            found[path.stem] = (json.loads(str(held["__meta__"])), outputs)
    return found


@pytest.mark.parametrize("name", list(FORMS))
def test_a_form(name: str) -> None:
    form = FORMS[name]
    emulated, kernel = emulate(form)
    recordings = {arch: found for arch, found in _recordings().items() if name in found[1]}
    if not recordings:
        pytest.skip("not recorded yet: run benchmarks/record_instructions.py on a GPU")
    for arch, (meta, outputs) in recordings.items():
        assert meta["inputs"][name] == zlib.crc32(form.input_bytes().tobytes()), (
            f"the inputs of {arch}'s recording were others: record it anew"
        )
        wrong = differences(form, kernel, emulated, outputs[name])
        assert not wrong.any(), f"{int(wrong.sum())} of {wrong.size} elements differ from {arch}"


def test_every_form_is_recorded() -> None:
    recordings = _recordings()
    if not recordings:
        pytest.skip("nothing recorded yet: run benchmarks/record_instructions.py on a GPU")
    for arch, (_, outputs) in recordings.items():
        assert {*outputs} <= {*FORMS}, arch  # what was recorded is replayed
    size = sum(path.stat().st_size for path in FOLDER.glob("*.npz"))
    assert size < 1 << 20
    absent = {arch: len(FORMS) - len(outputs) for arch, (_, outputs) in recordings.items()}
    if any(absent.values()):
        pytest.skip(f"not recorded yet, of {len(FORMS)} forms: {absent}")


def test_the_forms_are_many_and_small() -> None:
    assert sum(form.output_bytes() for form in FORMS.values()) < 3 << 19
    assert len(FORMS) > 500


def test_a_difference_is_seen() -> None:
    exact, approximate = FORMS["add.rn.f32"], FORMS["ex2.approx.f32"]
    for form, step, wrong in ((exact, 1, True), (approximate, 1, False), (approximate, 32, True)):
        emulated, kernel = emulate(form)
        other = emulated.view(np.uint32).copy()
        at = int(np.flatnonzero((other & 0x7F800000) == 0x3F800000)[0])  # a number near 1
        other[at] ^= step
        assert differences(form, kernel, emulated, other.view(np.uint8)).any() == wrong
        assert not differences(form, kernel, emulated, emulated).any()


@pytest.mark.full
@pytest.mark.parametrize("name", list(FORMS))
def test_the_assembler_takes_a_form(name: str, tmp_path: Path) -> None:
    try:
        ptxas = find_tool("ptxas")
    except EnvironmentLackError as error:
        pytest.skip(str(error))
    source = tmp_path / "form.ptx"
    source.write_text(FORMS[name].ptx())
    command = [str(ptxas), "-arch=sm_90a", str(source), "-o", str(tmp_path / "out")]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    assert "warning" not in made.stderr, made.stderr
