"""``benchmarks/norm_rows.py`` as far as it goes without a GPU: what it would time is built."""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from deepgemm_codegen.emulator import GlobalBuffer, Kernel, Launch, parse, run
from deepgemm_codegen.resources import data_folder
from deepgemm_codegen.toolchain import compile_ptx

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = data_folder("configs").parent / "benchmarks" / "norm_rows.py"


@pytest.fixture(name="script")
def _script(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("norm_rows", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "norm_rows", module)
    spec.loader.exec_module(module)
    return module


def test_a_table_without_times(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "norm.yaml"
    file.write_text(
        "defaults: {arch: sm_90a, dtype: bf16, op: epilogue}\n"
        "kernels:\n  - {m: 64, n: 768, epilogue: [residual, store, rms_norm]}\n"
    )
    monkeypatch.setattr(sys, "argv", ["norm_rows.py", str(file), "--dry-run"])
    assert script.main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[2].startswith("| m=64 n=768 dtype=bf16 epilogue=residual:bf16,store:bf16,rms_norm")
    monkeypatch.setattr(sys, "argv", ["norm_rows.py", str(file), "--dry-run", "--sweep"])
    assert script.main() == 0
    assert len(capsys.readouterr().out.splitlines()) > 4


def test_bytes_are_those_that_move(script: Any) -> None:
    from deepgemm_codegen.spec import GemmSpec  # noqa: PLC0415  the script's own import is late too

    text = "op=epilogue m=64 n=768 dtype=bf16 epilogue={} arch=sm_90"
    plain = GemmSpec.from_text(text.format("layer_norm"))
    assert script.moved_bytes(plain) == 64 * 768 * 4
    more = GemmSpec.from_text(text.format("residual,store:fp32,rms_norm,quantize:int8"))
    assert script.moved_bytes(more) == 64 * 768 * (2 + 2 + 4 + 1)


def test_every_copy_copies(script: Any) -> None:
    module = parse(compile_ptx(script.copy_source(), name="copy.cu", arch="sm_90").ptx)
    count = 700  # vectors, the last block's incomplete
    source = np.arange(count * 4, dtype=np.uint32)
    for threads, vectors, hint in script.COPIES[::5]:
        target = np.zeros_like(source)
        launch = Launch(
            grid=(-(-count // (threads * vectors)), 1, 1),
            block=(threads, 1, 1),
            shared_bytes=0,
            params=[
                GlobalBuffer("from", source, writable=False),
                GlobalBuffer("to", target, writable=True),
                count,
            ],
        )
        name = script.copy_name(threads, vectors, hint)
        report = run(Kernel(module, name, arithmetic="sm_90"), launch)
        assert not report.findings
        assert (target == source).all()
