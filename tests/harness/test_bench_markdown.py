"""The committed tables, made of a benchmark's JSON."""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepgemm_codegen.harness.bench_table import as_json
from tests.harness.bench_support import report, with_own_plain

if TYPE_CHECKING:
    import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
bench_markdown: Any = importlib.import_module("bench_markdown")


def table(
    text: str, path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    """The document of a report whose specs name their types and steps."""
    document = json.loads(text)
    for kernel in document["kernels"]:
        steps = " epilogue=bias:fp16,gelu" if "own plain" in kernel["against"] else ""
        kernel["spec"] += f" dtype=fp16{steps}"
    file = path / "some.json"
    file.write_text(json.dumps(document), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["bench_markdown.py", str(file), "bench x.yaml", "580.1"])
    bench_markdown.main()
    return capsys.readouterr().out


def test_our_own_plain_product_has_a_column_and_a_mean_and_the_least_of_an_epilogue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = table(as_json(with_own_plain()), tmp_path, monkeypatch, capsys)
    lines = told.splitlines()
    assert (
        "- own plain: our own kernel without the steps, timed in turn with the kernel on the\n"
        "  same operands; 0.960 says that the steps take 4 % of the kernel's time\n"
    ) in told
    head = next(i for i, line in enumerate(lines) if line.startswith("| problem"))
    assert lines[head].endswith("| cuBLASLt us | ratio | own plain us | ratio |")
    assert lines[head + 2].endswith("| 181.80 | 1.010 | 174.60 | 0.970 |")
    assert lines[head + 5].endswith("|  |  |")
    assert told.endswith(
        "\n| epilogue | kernels | own plain | least | |\n| --- | --: | --: | --: | --- |\n"
        "| bias:fp16,gelu | 3 | **0.992** | 0.950 |  |\n"
    )


def test_without_steps_nothing_is_said_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "plain" not in table(as_json(report()), tmp_path, monkeypatch, capsys)


def test_where_no_library_has_a_time_its_means_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = report()
    cube, *_ = whole.rows
    rows = (replace(cube, rivals=()), whole.rows[2])
    told = table(as_json(replace(whole, rows=rows)), tmp_path, monkeypatch, capsys)
    assert "\n| aligned, fp16 | 1 |  |  |  |\n| all | 1 |  |  |  |\n" in told
