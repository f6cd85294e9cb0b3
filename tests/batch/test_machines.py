"""Two machines write the same bytes: other paths, locale, time zone, hash seed, environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

import deepgemm_codegen

from .conftest import files

ROOT = Path(deepgemm_codegen.__file__).parents[1]
SOURCE = """\
sweeps: {archs: {arch: [sm_80, sm_90a]}}
defaults: {sweep: archs}
kernels:
  - {name: grün, m: 64, n: 64, k: 64, epilogue: [bias, relu]}
  - {m: dynamic, n: 96, k: 40, dtype_c: fp32, layout: nt, sweep: {dtype: [fp16, bf16]}}
  - {m: 4096, n: 4096, k: 512, layout: tn}
"""


def generated(
    folder: Path, python: str, path: Path, env: dict[str, str], *flags: str
) -> dict[str, bytes]:
    """What the command writes in a folder of its own, with an environment of its own."""
    folder.mkdir(parents=True)
    (folder / "kernels.yaml").write_text(SOURCE, encoding="utf-8")
    words = [python, "-m", "deepgemm_codegen", "generate", "kernels.yaml", "-o", "out", *flags]
    own = {"PYTHONPATH": str(path), "PATH": os.environ["PATH"], **env}
    subprocess.run(words, cwd=folder, env=own, check=True, stdout=subprocess.DEVNULL)
    return files(folder / "out")


MACHINES = [
    {"LC_ALL": "C", "TZ": "UTC", "PYTHONHASHSEED": "0"},
    {
        "LC_ALL": "tr_TR.UTF-8",
        "TZ": "Asia/Kathmandu",
        "PYTHONHASHSEED": "12345",
        "HOME": "/nowhere",
    },
]


def test_two_machines_write_the_same_bytes(tmp_path: Path) -> None:
    """The second has its own copy of the sources at another path, and writes by two processes."""
    copy = tmp_path / "other path" / "é"
    copy.mkdir(parents=True)
    for name in ("deepgemm_codegen", "templates", "configs"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, copy / name, ignore=ignored)
    first = generated(tmp_path / "a", sys.executable, ROOT, MACHINES[0])
    second = generated(tmp_path / "b" / "c", sys.executable, copy, MACHINES[1], "--jobs=2")
    assert len(first) == 8 + 3
    assert first == second


@pytest.mark.full
def test_two_fresh_environments_write_the_same_bytes(tmp_path: Path) -> None:
    """The package installed as a wheel into environments at two paths."""
    found = []
    for number, env in enumerate(MACHINES):
        home = tmp_path / f"venv {number}"
        venv.create(home, with_pip=True)
        python = str(home / "bin" / "python")
        subprocess.run(
            [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(ROOT)],
            check=True,
        )
        found.append(generated(tmp_path / str(number), python, Path(), env))
    assert len(found[0]) == 8 + 3
    assert found[0] == found[1]
