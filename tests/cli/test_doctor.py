"""``doctor`` and ``cache``: what is there, what is missing, also when all is missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from deepgemm_codegen import doctor
from tests.cli.conftest import SMALL, Cli, Result

ROOT = Path(__file__).parents[2]

_WITHOUT = """
import sys
from importlib.machinery import PathFinder
find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *rest: None if name in {missing!r} else find(name, *rest)
sys.argv[1:] = {words!r}
from deepgemm_codegen.__main__ import main
raise SystemExit(main())
"""


def without(missing: set[str], *words: str, path: str = "/nowhere") -> Result:
    """The command line on a machine where some packages are not installed."""
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT.format(missing=missing, words=list(words))],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={"PATH": path, "HOME": "/nowhere"},
    )
    return Result(done.returncode, done.stdout, done.stderr)


def test_here(cli: Cli) -> None:
    result = cli("doctor")
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[0] == "deepgemm_codegen 0.1.0"
    assert [line[:5].strip() for line in lines[1:-1]].count("lack") == 0
    assert lines[-1].startswith("verdict: writes CUDA C++, PTX and cubins")


def test_json_and_settings(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DGEMM_TILE_M", "64")
    assert "set   tile_m       DGEMM_TILE_M=64" in cli("doctor").out
    report = json.loads(cli("doctor", "--json").out)
    assert report["format"] == "1.0"
    assert report["environment"] == {"tile_m": "DGEMM_TILE_M=64"}
    assert {finding["what"] for finding in report["findings"]} >= {"nvrtc", "gpu", "cupy", "cache"}
    assert report["exit_code"] == 0


def test_without_a_compiler() -> None:
    result = without({"cuda", "nvidia"}, "doctor")
    assert (result.code, result.err) == (3, "")
    assert "\nlack  nvrtc        the Python package cuda-bindings is missing" in result.out
    assert result.out.splitlines()[-1].startswith(
        "verdict: writes CUDA C++ (--emit=cu) but no PTX; mend that with: pip install "
    )
    refused = without({"cuda", "nvidia"}, *SMALL)
    assert (refused.code, refused.out) == (3, "")
    assert refused.err.startswith("error: the Python package cuda-bindings is missing")
    assert without({"cuda", "nvidia"}, *SMALL, "--emit=cu").code == 0


def test_with_nothing_installed() -> None:
    missing = {"cuda", "nvidia", "cupy", "numpy", "ml_dtypes", "jinja2", "yaml", "platformdirs"}
    result = without(missing | {"filelock"}, "doctor")
    assert (result.code, result.err) == (3, "")
    assert "lack  jinja2       not installed: pip install Jinja2" in result.out
    assert result.out.splitlines()[-1] == (
        "verdict: cannot generate kernels; mend the lines marked lack"
    )
    refused = without(missing, *SMALL, "--emit=cu")
    assert (refused.code, refused.out) == (3, "")
    assert refused.err == (
        "error: the Python package yaml is missing; install deepgemm_codegen with its"
        " dependencies\n"
    )


def test_without_click() -> None:
    result = without({"click"}, "doctor")
    assert (result.code, result.err) == (3, "")
    assert "lack  click        not installed: pip install click\n" in result.out
    assert result.out.splitlines()[-1] == (
        "verdict: cannot generate kernels; mend the lines marked lack"
    )
    refused = without({"click"}, *SMALL)
    assert (refused.code, refused.out) == (3, "")
    assert refused.err == (
        "error: the Python package click is missing; install deepgemm_codegen with its"
        " dependencies\n"
    )


def test_on_an_empty_machine_every_line_says_what_to_do() -> None:
    """Nothing but the interpreter: each line that is not ``ok`` names a remedy."""
    missing = {"cuda", "nvidia", "cupy", "rich", *doctor._NEEDED}
    result = without(missing, "doctor")
    assert (result.code, result.err) == (3, "")
    lines = result.out.splitlines()[:-1]
    assert [line.split()[1] for line in lines] == [what for what, _ in doctor._CHECKS]
    remedies = ("pip install ", "set DGEMM_CACHE_DIR", "install NVIDIA's driver")
    for line in lines:
        state, what, text = line.split(maxsplit=2)
        if state != "ok":
            assert any(remedy in text for remedy in remedies), line
        else:
            assert what in ("python", "templates", "gpu", "ptxas", "nvdisasm"), line


def test_an_architecture(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_gpu_arch", lambda: "")
    result = cli("doctor", "--arch=sm_90a")
    assert result.code == 0
    line = next(line for line in result.out.splitlines() if " sm_90a " in line)
    assert line.startswith("none  sm_90a       NVRTC compiles for sm_90a; no GPU to run it on: ")
    monkeypatch.setattr(doctor, "_gpu_arch", lambda: "sm_90")
    assert "ok    sm_90a       NVRTC compiles for sm_90a, and sm_90 runs it\n" in (
        cli("doctor", "--arch=sm_90a").out
    )
    assert "ok    sm_80        NVRTC compiles for sm_80, and sm_90 runs it\n" in (
        cli("doctor", "--arch=sm_80").out
    )
    monkeypatch.setattr(doctor, "_gpu_arch", lambda: "sm_100")
    assert (
        "none  sm_90a       NVRTC compiles for sm_90a; built for sm_90a, but the device is sm_100: "
        in cli("doctor", "--arch=sm_90a").out
    )
    unknown = cli("doctor", "--arch=sm_999")
    assert (unknown.code, unknown.out) == (2, "")
    assert unknown.err.startswith("error: arch = sm_999: no facts for sm_999; known: sm_75, ")


def test_a_broken_check_is_a_line(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> doctor.Finding:
        raise ValueError("odd\nlibrary")

    monkeypatch.setattr(doctor, "_CHECKS", (*doctor._CHECKS, ("cupy", broken)))
    result = cli("doctor")
    assert result.code == 0
    assert (
        "none  cupy         broken (ValueError: odd library): pip install --force-reinstall cupy"
        in result.out
    )


def test_the_cache(cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DGEMM_CACHE_DIR", str(tmp_path / "cache"))
    assert "kernels    0, 0 KiB" in cli("cache", "info").out
    assert cli(*SMALL).code == 0
    text = cli("cache", "info").out
    assert f"folder     {tmp_path / 'cache'}" in text
    assert "kernels    1, " in text
    assert ".cu sm_80 ptx" in text
    report = json.loads(cli("cache", "info", "--json").out)
    assert (report["format"], len(report["kernels"])) == ("1.0", 1)
    cleared = json.loads(cli("cache", "clear", "--json").out)
    assert cleared["kernels"] == 1
    assert cli("cache", "clear", "-q").err == ""
    assert "kernels    0, 0 KiB" in cli("cache", "info").out


def test_a_cache_without_a_home(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deepgemm_codegen.toolchain.cache.cache_folder", lambda *_: None)
    result = cli("cache", "info")
    assert result.code == 0
    assert result.out.startswith("no folder: ")


@pytest.mark.parametrize("place", ["file", "file/below", "loop", "locked"])
def test_a_cache_that_cannot_be_written_is_told(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str
) -> None:
    """Commands do without it, so that nothing else would tell why each compile is anew."""
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "locked").mkdir(mode=0o500)
    if place == "locked" and os.access(tmp_path / "locked", os.W_OK):
        pytest.skip("this user may write everywhere")
    folder = tmp_path / place
    monkeypatch.setenv("DGEMM_CACHE_DIR", str(folder))
    assert f"folder     {folder}, which cannot be written: nothing is kept\n" in (
        cli("cache", "info").out
    )
    assert f"{folder} cannot be written; set DGEMM_CACHE_DIR to keep kernels" in cli("doctor").out
