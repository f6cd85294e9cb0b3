"""The examples on a GPU: cupy, a C program, and an operator of PyTorch."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from shutil import which

import pytest

import deepgemm_codegen
from deepgemm_codegen.batch import generate
from deepgemm_codegen.batch.building import build
from deepgemm_codegen.specfile import SpecEntry, read

ROOT = Path(deepgemm_codegen.__file__).parents[1]
EXAMPLES = ROOT / "examples"

pytestmark = pytest.mark.gpu

needs_nvcc = pytest.mark.skipif(which("nvcc") is None, reason="nvcc is not installed")


def kernels(folder: Path, arch: str) -> Path:
    """The kernels of ``linear.yaml`` for an architecture."""
    asked = {entry.spec.arch: entry for entry in read(EXAMPLES / "linear.yaml")}
    if arch not in asked:
        pytest.skip(f"linear.yaml asks for nothing on {arch}")
    found: list[SpecEntry] = [e for e in read(EXAMPLES / "linear.yaml") if e.spec.arch == arch]
    assert generate(found, folder).exit_code == 0
    return folder


def run(*words: str | Path) -> str:
    done = subprocess.run(words, check=False, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(params=["", "a"])
def library(request: pytest.FixtureRequest, arch: str, tmp_path: Path) -> Path:
    """``libengine.so``, through mma.sync, and on Hopper through wgmma too."""
    if request.param and arch != "sm_90":
        pytest.skip("only Hopper has a target of its own")
    target = f"{arch}{request.param}"
    folder = kernels(tmp_path / "kernels", target)
    made = tmp_path / "libengine.so"
    code = f"-gencode=arch=compute_{target[3:]},code={target}"
    run("nvcc", code, "--shared", "-Xcompiler", "-fPIC", f"-I{EXAMPLES}", f"-I{folder}",
        EXAMPLES / "engine.c", *sorted(folder.glob("*.cu")), "-o", made)  # fmt: skip
    return made


def test_cupy(arch: str, tmp_path: Path) -> None:
    folder = kernels(tmp_path / "kernels", arch)
    assert build(folder).exit_code == 0
    out = run(sys.executable, EXAMPLES / "cupy_linear.py", folder)
    assert out.count("the largest error is") == 3


@needs_nvcc
def test_the_c_program(library: Path, tmp_path: Path) -> None:
    program = tmp_path / "engine_demo"
    run("nvcc", f"-I{EXAMPLES}", EXAMPLES / "main.c", library, "-o", program,
        "-Xlinker", f"-rpath={library.parent}")  # fmt: skip
    assert run(program) == "m = 1: ok\nm = 64: ok\nm = 100: ok\n"


@needs_nvcc
@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
def test_the_operator_of_pytorch(library: Path) -> None:
    out = run(sys.executable, EXAMPLES / "torch_linear.py", library)
    names = [line.partition(":")[0] for line in out.splitlines()]
    assert names == [
        "m = 1", "m = 64", "m = 777", "m = 4096", "three dimensions", "another stream",
        "compiled", "captured", "captured",
    ]  # fmt: skip
