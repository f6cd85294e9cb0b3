"""A cache of each test's own, and ptxas as a judge."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from deepgemm_codegen.toolchain import find_tool

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """An environment whose cache is this test's own."""
    return {"DGEMM_CACHE_DIR": str(tmp_path / "cache"), "PATH": os.environ.get("PATH", "")}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or fills the user's cache."""
    monkeypatch.setenv("DGEMM_CACHE_DIR", str(tmp_path / "default-cache"))
    monkeypatch.delenv("DGEMM_COMPILATION_TIMEOUT_MS", raising=False)


@pytest.fixture(scope="session")
def ptxas() -> Callable[[str, str], str]:
    """Assembles (target, PTX); gives what ptxas complains of, nothing when it is content."""
    tool = find_tool("ptxas")

    def run(target: str, ptx: str) -> str:
        done = subprocess.run(
            [tool, f"-arch={target}", "-o", os.devnull, "-"],
            input=ptx,
            capture_output=True,
            text=True,
            check=False,
        )
        return "" if done.returncode == 0 else done.stdout + done.stderr

    return run
