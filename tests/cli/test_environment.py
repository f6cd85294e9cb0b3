"""Where a value comes from: flag, then environment, then kernel file, then default."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from deepgemm_codegen.numbers import MAX_DIMENSION
from deepgemm_codegen.spec.overrides import OVERRIDE_WORDS, OVERRIDES
from tests.cli.conftest import SMALL, Cli

if TYPE_CHECKING:
    from pathlib import Path

DEEP = ("--m=256", "--n=256", "--k=1024")
"""Enough slices of k for any number of stages."""


def body(cli: Cli, *words: str) -> dict[str, Any]:
    described = json.loads(cli(*words, "--emit=plan").out)
    found: dict[str, Any] = described["kernels"][0]["plan"]["body"]
    return found


def test_the_environment_sets_an_override_and_says_so(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DGEMM_TILE_M", "32")
    result = cli(*SMALL, "--emit=cu")
    assert result.code == 0
    assert result.err == "note: tile_m = 32 from the environment (DGEMM_TILE_M=32)\n"
    monkeypatch.delenv("DGEMM_TILE_M")
    assert result.out == cli(*SMALL, "--tile-m=32", "--emit=cu").out


@pytest.mark.parametrize("name", OVERRIDES)
def test_every_override_is_a_variable(cli: Cli, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(f"DGEMM_{name.upper()}", "zero")
    result = cli(*SMALL, "--emit=cu")
    assert (result.code, result.out) == (2, "")
    wanted = "not a whole number; give a whole number"
    if name in OVERRIDE_WORDS:
        *first, last = OVERRIDE_WORDS[name]
        wanted = f"unknown; give {', '.join(first)} or {last}"
    assert result.err == f"error: DGEMM_{name.upper()} = zero: {wanted}\n"


def test_the_prefetch_depth_is_one_less_than_the_stages(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DGEMM_PREFETCH_DEPTH", "2")
    result = cli(*SMALL, "--emit=cu")
    assert result.err == "note: stages = 3 from the environment (DGEMM_PREFETCH_DEPTH=2)\n"
    assert body(cli, *DEEP)["stages"] == 3
    monkeypatch.setenv("DGEMM_STAGES", "3")
    assert cli(*SMALL, "--emit=cu").code == 0
    monkeypatch.setenv("DGEMM_STAGES", "4")
    result = cli(*SMALL, "--emit=cu")
    assert result.code == 2
    assert result.err == (
        "error: DGEMM_STAGES=4 and DGEMM_PREFETCH_DEPTH=2 disagree; the prefetch depth is one less"
        " than the stages: unset one of them\n"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("-1", "DGEMM_PREFETCH_DEPTH = -1: too small; the smallest is 0"),
        (
            "2147483647",
            f"DGEMM_PREFETCH_DEPTH = 2147483647: too large; the largest is {MAX_DIMENSION - 1}",
        ),
        ("2.5", "DGEMM_PREFETCH_DEPTH = 2.5: not a whole number; give a whole number"),
    ],
)
def test_a_bad_prefetch_depth(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    monkeypatch.setenv("DGEMM_PREFETCH_DEPTH", text)
    result = cli(*SMALL)
    assert (result.code, result.out, result.err) == (2, "", f"error: {message}\n")


def test_the_threshold_of_split_k_has_a_name_of_its_own(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = ["--m=64", "--n=64", "--k=16384", "--emit=plan"]
    assert len(json.loads(cli(*flags).out)["kernels"]) == 2
    monkeypatch.setenv("DGEMM_DYNAMIC_SPLIT_K", "0")
    result = cli(*flags)
    assert result.err == "note: split_k_from = 0 from the environment (DGEMM_DYNAMIC_SPLIT_K=0)\n"
    assert len(json.loads(result.out)["kernels"]) == 1
    monkeypatch.setenv("DGEMM_SPLIT_K_FROM", "4096")
    result = cli(*flags)
    assert result.code == 2
    assert result.err == (
        "error: DGEMM_SPLIT_K_FROM=4096 and DGEMM_DYNAMIC_SPLIT_K=0 disagree: unset one of them\n"
    )


def test_a_flag_beats_the_environment_in_silence(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DGEMM_STAGES", "4")
    result = cli(*SMALL, "--stages=2", "--emit=cu")
    assert (result.code, result.err) == (0, "")
    assert body(cli, *DEEP, "--stages=2")["stages"] == 2


def test_an_empty_variable_sets_nothing(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DGEMM_STAGES", " ")
    assert cli(*SMALL, "--emit=cu").err == ""


def test_a_misspelt_variable_is_named(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DGEMM_TILEM", "64")
    result = cli(*SMALL, "--emit=cu", "-q")
    assert result.code == 0
    assert result.err == "warning: DGEMM_TILEM sets nothing (did you mean 'DGEMM_TILE_M'?)\n"


def test_the_environment_beats_a_file_and_a_flag_beats_both(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source = tmp_path / "kernels.yaml"
    source.write_text(
        "kernels:\n  - {m: 64, n: 64, k: 1024, stages: 2}\n  - {m: 64, n: 64, k: 2048}\n"
    )
    out = tmp_path / "out"
    monkeypatch.setenv("DGEMM_STAGES", "3")
    result = cli("generate", str(source), "-o", str(out))
    assert result.code == 0
    assert result.err == (
        f"note: stages = 3 from the environment (DGEMM_STAGES=3), in place of 2 from {source}:2\n"
    )
    texts = [path.read_text() for path in out.glob("*.cu")]
    assert len(texts) == 2
    assert all(re.search(r"\bSTAGES = 3\b", text) for text in texts)
    assert cli("generate", str(source), "-o", str(out), "--stages=4", "--clean").err == ""
    texts = [path.read_text() for path in out.glob("*.cu")]
    assert len(texts) == 2
    assert all(re.search(r"\bSTAGES = 4\b", text) for text in texts)
