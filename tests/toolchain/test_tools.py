"""Tools and libraries: where they are looked for, and what is said when they are missing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import types
from pathlib import Path
from typing import Any, NoReturn

import pytest

from deepgemm_codegen.errors import EnvironmentLackError, ToolError
from deepgemm_codegen.toolchain import (
    assemble,
    build_cubin,
    compile_ptx,
    disassemble,
    find_tool,
    nvrtc,
    tool_version,
    tools,
)
from deepgemm_codegen.toolchain.targets import Target

from .kernels import SMALL, needs_nvdisasm, needs_nvrtc, needs_ptxas

INSTALL = (
    "pip install 'deepgemm_codegen[compile]' (or 'deepgemm_codegen[cuda12]' for a CUDA 12 driver)"
)


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with neither NVIDIA's wheels nor a toolkit in its usual place."""
    monkeypatch.setattr(tools, "_wheel_folders", list)
    monkeypatch.setattr(tools, "_STANDARD", Path("/none"))


def script(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize("name", ["ptxas", "nvdisasm"])
def test_n20_a_missing_tool_is_named_with_its_remedy(name: str) -> None:
    """N20: PATH without the tool: the message names it and what to install."""
    with pytest.raises(EnvironmentLackError) as caught:
        find_tool(name, {"PATH": "/nowhere", "CUDA_HOME": "/none"})
    assert str(caught.value) == (
        f"the tool {name} was not found in NVIDIA's wheels, CUDA_HOME, CUDA_PATH or PATH: {INSTALL}"
    )
    assert caught.value.exit_code == 3


@pytest.mark.usefixtures("bare")
def test_n20_the_callers_name_the_missing_tool() -> None:
    """N20: whoever needs the tool passes its message on."""
    with pytest.raises(EnvironmentLackError, match="the tool nvdisasm was not found"):
        disassemble(b"cubin", env={"PATH": ""})
    with pytest.raises(EnvironmentLackError, match="the tool ptxas was not found"):
        assemble("ptx", arch="sm_80", env={"PATH": ""})


@pytest.mark.usefixtures("bare")
def test_n20_a_failing_tools_output_is_shown(tmp_path: Path) -> None:
    """N20: the message shows all that the tool printed."""
    script(tmp_path, "nvdisasm", "echo on stdout; echo on stderr >&2; exit 3")
    with pytest.raises(ToolError) as caught:
        disassemble(b"cubin", env={"PATH": str(tmp_path)})
    assert str(caught.value) == (
        "nvdisasm --print-code kernel.cubin failed with exit status 3\non stderr\non stdout\n"
    )


@pytest.mark.usefixtures("bare")
def test_n20_a_silent_failure_says_so(tmp_path: Path) -> None:
    script(tmp_path, "nvdisasm", "exit 1")
    with pytest.raises(ToolError, match=r"exit status 1\n\(it printed nothing\)$"):
        disassemble(b"cubin", env={"PATH": str(tmp_path)})


@pytest.mark.usefixtures("bare")
def test_a_tool_that_cannot_start_is_named(tmp_path: Path) -> None:
    path = tmp_path / "nvdisasm"
    path.write_bytes(b"\x7fELF junk")
    path.chmod(0o755)
    with pytest.raises(EnvironmentLackError) as caught:
        disassemble(b"cubin", env={"PATH": str(tmp_path)})
    assert str(caught.value) == (
        f"the tool {path} could not be started (Exec format error): {INSTALL}"
    )


def test_the_order_is_wheels_homes_path_standard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = ["wheel", "home/bin", "path-home/bin", "path", "standard"]
    paths = [script(tmp_path / place, "ptxas", "exit 0") for place in places]
    monkeypatch.setattr(tools, "_wheel_folders", lambda: [tmp_path / "wheel"])
    monkeypatch.setattr(tools, "_STANDARD", tmp_path / "standard")
    env = {
        "PATH": str(tmp_path / "path"),
        "CUDA_HOME": str(tmp_path / "home"),
        "CUDA_PATH": str(tmp_path / "path-home"),
    }
    for path in paths:
        assert find_tool("ptxas", env) == path
        path.unlink()
    with pytest.raises(EnvironmentLackError):
        find_tool("ptxas", env)


def test_the_wheels_of_cuda_12_and_13_are_looked_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CUDA 13 has one bin folder, CUDA 12 one a wheel; the newer comes first."""
    for wheel in ("cuda_nvcc", "cu13"):
        script(tmp_path / "nvidia" / wheel / "bin", "ptxas", "exit 0")
    (tmp_path / "nvidia" / "__init__.py").touch()  # CUDA 12's wheels bring one
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "nvidia", raising=False)
    folders = [folder for folder in tools._wheel_folders() if tmp_path in folder.parents]
    assert [str(folder.relative_to(tmp_path)) for folder in folders] == [
        "nvidia/cu13/bin",
        "nvidia/cuda_nvcc/bin",
        "nvidia/cuda_nvdisasm/bin",
        "nvidia/cuda_cuobjdump/bin",
    ]


@pytest.mark.usefixtures("bare")
def test_an_empty_environment_variable_is_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CUDA_HOME= would otherwise mean ./bin."""
    script(tmp_path / "bin", "ptxas", "exit 0")
    script(tmp_path, "ptxas", "exit 0")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(EnvironmentLackError):
        find_tool("ptxas", {"CUDA_HOME": "", "PATH": os.pathsep})


@needs_ptxas
def test_a_tool_states_its_version() -> None:
    assert tool_version(find_tool("ptxas")).count(".") == 2


@pytest.mark.usefixtures("bare")
def test_a_tool_without_a_version_is_unknown(tmp_path: Path) -> None:
    assert tool_version(script(tmp_path, "ptxas", "echo hello")) == "unknown"


@needs_nvrtc
@needs_nvdisasm
def test_sass_names_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    cubin = build_cubin(SMALL, name="k", arch="sm_80", cached=False).cubin
    sass = disassemble(cubin)
    assert ".text.small" in sass
    assert "EXIT" in sass
    assert str(tmp_path) not in sass
    assert list(tmp_path.iterdir()) == []


@needs_nvdisasm
@pytest.mark.parametrize("cubin", [b"", b"hi", b"\x7fELF" + b"\0" * 60])
def test_what_is_no_cubin_is_refused(cubin: bytes) -> None:
    with pytest.raises(ToolError, match=r"nvdisasm --print-code kernel\.cubin failed"):
        disassemble(cubin)


def test_missing_bindings_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(EnvironmentLackError) as caught:
        compile_ptx(SMALL, name="k", arch="sm_80")
    assert str(caught.value).startswith("the Python package cuda-bindings is missing (")
    assert str(caught.value).endswith(f"): {INSTALL}")
    assert caught.value.exit_code == 3


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> NoReturn:
        raise RuntimeError("Failure finding libnvrtc.so: No such file\nmuch more")

    monkeypatch.setattr(nvrtc, "_bindings", lambda: types.SimpleNamespace(nvrtcVersion=missing))
    with pytest.raises(EnvironmentLackError) as caught:
        compile_ptx(SMALL, name="k", arch="sm_80")
    assert str(caught.value) == (
        "the library libnvrtc (NVRTC) was not found in NVIDIA's wheels, CUDA_HOME or the system "
        f"(Failure finding libnvrtc.so: No such file): {INSTALL}"
    )


class FakeNvrtc:
    """NVRTC with no fault but the one asked for; it keeps the options that it was given."""

    def __init__(self, failing: str, release: tuple[int, int] = (12, 8)) -> None:
        self.failing = failing
        self.release = release
        self.options: list[bytes] = []
        self.nvrtcResult = types.SimpleNamespace(NVRTC_SUCCESS="ok")

    def __getattr__(self, call: str) -> Any:
        status = "broken" if call == self.failing else "ok"
        results = {
            "nvrtcVersion": self.release,
            "nvrtcGetSupportedArchs": ([75, 80],),
            "nvrtcCreateProgram": ("program",),
            "nvrtcGetProgramLogSize": (0,),
            "nvrtcGetPTXSize": (5,),
            "nvrtcGetCUBINSize": (0,),
        }

        def answer(*given: Any) -> tuple[Any, ...]:
            if call == "nvrtcCompileProgram":
                self.options = given[2]
            return (status, *results.get(call, ()))

        return answer


@pytest.mark.parametrize(
    "call",
    [
        "nvrtcVersion",
        "nvrtcGetSupportedArchs",
        "nvrtcCreateProgram",
        "nvrtcGetProgramLogSize",
        "nvrtcGetPTXSize",
        "nvrtcGetPTX",
        "nvrtcGetCUBINSize",
    ],
)
def test_each_call_that_fails_is_named(monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    monkeypatch.setattr(nvrtc, "_bindings", lambda: FakeNvrtc(call))
    with pytest.raises(ToolError) as caught:
        nvrtc.compile_program("text", "/k.cu", Target.parse("sm_80"), [])
    assert str(caught.value) == f"{call} failed with broken"


@pytest.mark.parametrize(
    ("release", "wanted"),
    [
        ((12, 8), [b"-lineinfo"]),
        ((12, 9), [b"-lineinfo", b"--no-cache"]),
        ((13, 0), [b"-lineinfo", b"--no-cache"]),
    ],
)
def test_a_compiler_that_keeps_results_is_told_not_to(
    monkeypatch: pytest.MonkeyPatch, release: tuple[int, int], wanted: list[bytes]
) -> None:
    """What it kept comes without ptxas' log; older ones know no such option."""
    fake = FakeNvrtc("", release)
    monkeypatch.setattr(nvrtc, "_bindings", lambda: fake)
    nvrtc.compile_program("text", "/k.cu", Target.parse("sm_80"), ["-lineinfo"])
    assert fake.options == wanted


def test_n19_an_old_compiler_lists_what_it_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    """N19: up front, with its version in the message."""
    monkeypatch.setattr(nvrtc, "_bindings", lambda: FakeNvrtc(""))
    with pytest.raises(EnvironmentLackError) as caught:
        nvrtc.compile_program("text", "/k.cu", Target.parse("sm_90a"), [])
    assert str(caught.value) == (
        "NVRTC 12.8 does not know sm_90a; it knows sm_75, sm_80. Install a newer one: " + INSTALL
    )


def test_the_fingerprint_holds_no_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """N22: where the compiler is installed is no part of its name."""
    monkeypatch.setattr(nvrtc, "_bindings", lambda: FakeNvrtc(""))
    assert re.fullmatch(r"nvrtc 12\.8 \d+", nvrtc.fingerprint())


@needs_nvrtc
def test_the_fingerprint_tells_builds_apart() -> None:
    kind, release, size = nvrtc.fingerprint().split()
    assert kind == "nvrtc"
    assert release == "{}.{}".format(*nvrtc.version())
    assert int(size) > 1_000_000 or sys.platform != "linux"


def test_importing_the_room_loads_no_compiler() -> None:
    """A command that compiles nothing pays for none of it."""
    program = (
        "import sys, deepgemm_codegen.toolchain\n"
        "heavy = {'cuda', 'filelock', 'platformdirs', 'numpy', 'hashlib', 'subprocess'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(Path(tools.__file__).parents[2])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"
