"""The kernels committed in ``generated/`` are those that the tree and the templates make today."""

from __future__ import annotations

from pathlib import Path

from deepgemm_codegen.batch import generate
from deepgemm_codegen.specfile import read

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCE = ROOT / "configs" / "kernels" / "gpt2_small.yaml"


def test_the_committed_kernels_are_fresh() -> None:
    report = generate(read(str(SOURCE)), ROOT / "generated", check=True)
    assert report.exit_code == 0, (
        f"{report}\nrun: deepgemm_codegen generate configs/kernels/gpt2_small.yaml -o generated"
    )
