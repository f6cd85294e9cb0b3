"""``doctor`` and ``cache``: what is there, what is missing, also when all is missing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from deepgemm_codegen.cli import doctor
from tests.cli.conftest import SMALL, Cli, Result

if TYPE_CHECKING:
    import pytest

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
    assert "set   tile_m     DGEMM_TILE_M=64" in cli("doctor").out
    report = json.loads(cli("doctor", "--json").out)
    assert report["format"] == "1.0"
    assert report["environment"] == {"tile_m": "DGEMM_TILE_M=64"}
    assert {finding["what"] for finding in report["findings"]} >= {"nvrtc", "gpu", "cupy", "cache"}
    assert report["exit_code"] == 0


def test_without_a_compiler() -> None:
    result = without({"cuda", "nvidia"}, "doctor")
    assert (result.code, result.err) == (3, "")
    assert "\nlack  nvrtc      the Python package cuda-bindings is missing" in result.out
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
    assert "lack  jinja2     not installed: pip install Jinja2" in result.out
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
    assert (result.code, result.out) == (3, "")
    assert result.err == (
        "error: the Python package click is missing; install deepgemm_codegen with its"
        " dependencies\n"
    )


def test_a_broken_check_is_a_line(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> doctor.Finding:
        raise ValueError("odd\nlibrary")

    monkeypatch.setattr(doctor, "_CHECKS", (*doctor._CHECKS, ("cupy", broken)))
    result = cli("doctor")
    assert result.code == 0
    assert "none  cupy       broken (ValueError: odd library); install it again" in result.out


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
