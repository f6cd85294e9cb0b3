"""The command line, called in this process or as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest

from deepgemm_codegen.cli.entry import run

SMALL = ("--m=64", "--n=48", "--k=32")
"""A spec that compiles quickly."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a command line gave."""

    code: int
    out: str
    err: str


class Cli(Protocol):
    """Calls the command line."""

    def __call__(self, *words: str) -> Result: ...


@pytest.fixture(autouse=True)
def clean_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """No setting of the person who runs the tests, and a cache that the session shares."""
    for name in list(os.environ):
        if name.startswith(("DGEMM_", "DEEPGEMM_")):
            monkeypatch.delenv(name)
    cache = tmp_path_factory.getbasetemp() / "cache"
    monkeypatch.setenv("DGEMM_CACHE_DIR", str(cache))


@pytest.fixture
def cli(capfdbinary: pytest.CaptureFixture[bytes]) -> Cli:
    """The command line in this process."""

    def call(*words: str) -> Result:
        capfdbinary.readouterr()
        code = run(words)
        out, err = capfdbinary.readouterr()
        return Result(code, out.decode("utf-8", "replace"), err.decode())

    return call


def process(*words: str, env: dict[str, str] | None = None) -> Result:
    """The command line as a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "deepgemm_codegen", *words],
        capture_output=True,
        check=False,
        env={**os.environ, **(env or {})},
        cwd=Path(__file__).parents[2],
    )
    return Result(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode())


def shell(script: str, env: dict[str, str] | None = None) -> Result:
    """A shell script in which ``$CLI`` is the command line."""
    done = subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        check=False,
        env={**os.environ, "CLI": f"{sys.executable} -m deepgemm_codegen", **(env or {})},
        cwd=Path(__file__).parents[2],
    )
    return Result(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode())
