"""Cases of kind build_cache that need several processes, or another machine's folders."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import deepgemm_codegen
from deepgemm_codegen.batch import make
from deepgemm_codegen.spec import GemmSpec
from deepgemm_codegen.toolchain import build_cubin, find_tool, nvrtc, tools
from tests.toolchain.kernels import needs_nvrtc

if TYPE_CHECKING:
    from deepgemm_codegen.toolchain.targets import Target

ROOT = Path(deepgemm_codegen.__file__).parents[1]


def kernel(**fields: object) -> tuple[str, str, str]:
    """(name, target, source) of a small kernel."""
    spec = GemmSpec.from_fields({"m": 64, "n": 64, "k": 64, **fields})
    program, source = make(spec)
    return program.name, program.target, source


@needs_nvrtc
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_n03_headers_on_the_include_path_are_not_looked_at(
    dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """N03: a folder with other versions of the 16-bit headers stands first."""
    for header in ("cuda_fp16.h", "cuda_bf16.h", "cuda_bf16.hpp", "vector_types.h"):
        (tmp_path / header).write_text("#error this is another version\n")
    for variable in ("CPATH", "CPLUS_INCLUDE_PATH", "NVRTC_PREPEND_FLAGS", "CUDA_PATH"):
        monkeypatch.setenv(variable, str(tmp_path))
    monkeypatch.setenv("NVRTC_PREPEND_FLAGS", f"-I{tmp_path}")
    name, target, source = kernel(dtype=dtype)
    assert "#include" not in source.partition("#ifndef __CUDACC_RTC__")[0]
    assert name in build_cubin(source, name=name, arch=target, cached=False).resources


@pytest.mark.parametrize("variable", ["CUDA_HOME", "CUDA_PATH"])
def test_n04_a_toolkit_in_a_place_of_its_own(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """N04: nothing in /usr/local/cuda, no wheel, nothing on PATH: the variable is enough."""
    monkeypatch.setattr(tools, "_wheel_folders", list)
    monkeypatch.setattr(tools, "_STANDARD", Path("/none"))
    tool = tmp_path / "opt" / "cuda" / "bin" / "nvdisasm"
    tool.parent.mkdir(parents=True)
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    found = find_tool("nvdisasm", {variable: str(tmp_path / "opt" / "cuda"), "PATH": "/nowhere"})
    assert found == tool


@needs_nvrtc
def test_n08_no_header_cache_is_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """N08: NVRTC's precompiled headers are never asked for, whatever the environment says."""
    asked: list[str] = []
    real = nvrtc.compile_program

    def listening(source: str, name: str, target: Target, options: list[str]) -> object:
        asked.extend(options)
        return real(source, name, target, options)

    monkeypatch.setattr(nvrtc, "compile_program", listening)
    monkeypatch.chdir(tmp_path)
    name, target, source = kernel()
    build_cubin(source, name=name, arch=target, cached=False)
    assert asked
    assert [option for option in asked if "pch" in option.lower()] == []
    assert list(tmp_path.iterdir()) == []


WORKER = """\
import hashlib, json, sys, time
from pathlib import Path
from deepgemm_codegen.toolchain import build_cubin, nvrtc

log, sources, start = Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text()), sys.argv[3]
real = nvrtc.compile_program

def counting(source, name, target, options):
    with log.open("a") as file:  # one short write: lines of several processes do not mix
        file.write(f"{name}\\n")
    return real(source, name, target, options)

nvrtc.compile_program = counting
nvrtc.version()
print("ready", flush=True)
while not Path(start).exists():
    time.sleep(0.005)
digests = []
for name, target, source in sources:
    built = build_cubin(source, name=name, arch=target)
    digests.append(hashlib.sha256(built.cubin).hexdigest())
print(*digests)
"""


@needs_nvrtc
def test_n06_n08_sixteen_processes_build_each_kernel_once(tmp_path: Path) -> None:
    """N06, N08: one empty cache, all at the same moment; every one of them succeeds."""
    sources = [kernel(n=8 * number) for number in (1, 2, 3)]
    log, start = tmp_path / "log", tmp_path / "start"
    (tmp_path / "sources.json").write_text(json.dumps(sources))
    (tmp_path / "worker.py").write_text(WORKER)
    env = {**os.environ, "PYTHONPATH": str(ROOT), "DGEMM_CACHE_DIR": str(tmp_path / "cache")}
    words = [sys.executable, "-W", "error", "worker.py", "log", "sources.json", "start"]
    running = [
        subprocess.Popen(words, cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True)
        for _ in range(16)
    ]
    for process in running:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    start.touch()
    results = {process.communicate(timeout=120)[0] for process in running}
    assert [process.returncode for process in running] == [0] * 16
    assert sorted(log.read_text().splitlines()) == sorted(f"/{name}.cu" for name, _, _ in sources)
    wanted = [
        hashlib.sha256(build_cubin(text, name=name, arch=arch, cached=False).cubin).hexdigest()
        for name, arch, text in sources
    ]
    assert results == {" ".join(wanted) + "\n"}
    assert len(list((tmp_path / "cache").glob("*.entry"))) == len(sources)
