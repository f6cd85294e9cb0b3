"""``verify`` and ``--verify``: verdicts, exit codes, and nothing written when a kernel is wrong."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NoReturn

import pytest

from deepgemm_codegen.errors import ToolError
from deepgemm_codegen.harness import CheckResult, Difference, Verdict
from deepgemm_codegen.verification import judging
from tests.cli.conftest import SMALL, Cli

if TYPE_CHECKING:
    from pathlib import Path

WRONG = Verdict("gemm", "emulator", (CheckResult("exact", passed=False, problem="m 64"),), 1, 1)


@pytest.fixture
def wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kernel is judged wrong."""
    monkeypatch.setattr(judging, "verdict_of", lambda *_, **__: WRONG)


def test_a_right_kernel(cli: Cli) -> None:
    result = cli("verify", *SMALL, "--on=emulator")
    assert result.code == 0
    assert result.out.startswith("PASS  gemm_fp16_nn_64x48x32_sm_80_")
    assert "  emulator" in result.out
    assert "exact bit-equal" in result.out


def test_json_of_a_right_kernel_and_the_seed(cli: Cli) -> None:
    result = cli("verify", *SMALL, "--on=emulator", "--json", "--seed=7")
    report = json.loads(result.out)
    assert (report["format"], report["seed"], report["exit_code"]) == ("1.1", 7, 0)
    (kernel,) = report["kernels"]
    assert kernel["passed"] is True
    assert kernel["where"].startswith("emulator")
    assert {check["name"] for check in kernel["checks"]} >= {"exact", "random"}


@pytest.mark.usefixtures("wrong")
def test_a_wrong_kernel(cli: Cli) -> None:
    result = cli("verify", *SMALL)
    assert result.code == 1
    assert result.out.startswith("FAIL  gemm  emulator")


def test_json_of_a_wrong_kernel_is_json(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = float("nan")
    difference = Difference("tile (0, 0)", 0, 1, 2, nothing, 1.0, -float("inf"), 2.0)
    check = CheckResult("exact", passed=False, problem="m 64", difference=difference)
    verdict = Verdict("gemm", "emulator", (check,), 1, 1)
    monkeypatch.setattr(judging, "verdict_of", lambda *_, **__: verdict)
    result = cli("verify", *SMALL, "--json")
    assert result.code == 1

    def refuse(word: str) -> NoReturn:
        raise AssertionError(word)

    (kernel,) = json.loads(result.out, parse_constant=refuse)["kernels"]
    assert (kernel["source"], kernel["where"], kernel["passed"]) == ("", "emulator", False)
    assert kernel["checks"][0]["difference"]["got"] == "nan"
    assert kernel["checks"][0]["difference"]["low"] == "-inf"


def test_every_kernel_of_a_file(cli: Cli, tmp_path: Path) -> None:
    source = tmp_path / "kernels.yaml"
    source.write_text("kernels:\n  - {m: 64, n: 48, k: 32}\n  - {m: 8, n: 8, k: 0, dtype: bf16}\n")
    result = cli("verify", str(source), "--on=emulator")
    assert result.code == 0
    assert result.out.count("PASS  ") == 2
    assert result.err == "2 passed\n"


def test_a_kernel_that_cannot_be_built_spares_the_others(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "kernels.yaml"
    source.write_text("kernels:\n  - {m: 64, n: 48, k: 32}\n  - {m: 8, n: 8, k: 8}\n")

    def verdict_of(plan: object, *_: object, **__: object) -> Verdict:
        if "64x48x32" in str(plan):
            raise ToolError("NVRTC rejected it")
        return Verdict("gemm", "emulator", (CheckResult("exact", passed=True, problem=""),), 1, 1)

    monkeypatch.setattr(judging, "verdict_of", verdict_of)
    result = cli("verify", str(source))
    assert result.code == 70
    assert result.out.startswith("PASS  gemm")
    assert result.err == f"error: {source}:2: NVRTC rejected it\n1 passed, 1 could not be judged\n"


def test_no_gpu(cli: Cli) -> None:
    pytest.importorskip("deepgemm_codegen.harness.gpu")
    result = cli("verify", *SMALL, "--on=gpu")
    if result.code == 0:
        pytest.skip("there is a GPU")
    assert (result.code, result.out) == (3, "")
    assert result.err.startswith("error: ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--seed=-1",),
            "invalid value for '--seed': -1: give a whole number from 0 to",
        ),
        (("--effort=0",), "invalid value for '--effort': 0: give a number from 0.01 to 1000.0"),
        (("--effort=nan",), "invalid value for '--effort': nan: give a number from 0.01 to 1000.0"),
        (("--seed=1_0",), "invalid value for '--seed': 1_0: give a whole number from 0 to"),
        (("--seed=x",), "invalid value for '--seed': x: give a whole number from 0 to 4294967295"),
        (("--on=cpu",), "invalid value for '--on': 'cpu' is not one of 'auto', 'gpu', 'emulator'"),
        (("--m=0",), "m = 0: too small; the smallest is 1"),
    ],
)
def test_bad_input(cli: Cli, words: tuple[str, ...], message: str) -> None:
    result = cli("verify", *SMALL, *words)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"error: {message}")


def test_emit_with_verify_prints_the_verdict_on_stderr(cli: Cli) -> None:
    plain, result = cli(*SMALL), cli(*SMALL, "--verify")
    assert result.code == 0
    assert result.out == plain.out
    assert result.err.startswith("PASS  gemm_fp16_nn_64x48x32_sm_80_")


@pytest.mark.usefixtures("wrong")
def test_emit_with_verify_writes_no_wrong_kernel(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "kernel.ptx"
    out.write_text("old")
    for words in ((), ("-o", str(out))):
        result = cli(*SMALL, "--verify", *words)
        assert (result.code, result.out) == (1, "")
        assert result.err.startswith("FAIL  gemm  emulator")
        assert result.err.endswith("is wrong; nothing is written\n")
    assert out.read_text() == "old"
