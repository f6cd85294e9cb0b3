"""What a wheel holds: the templates and facts that the package reads at run time."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.full
def test_the_wheel_holds_every_template_and_fact(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", tmp_path, ROOT],
        check=True,
    )
    (wheel,) = tmp_path.glob("deepgemm_codegen-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    for folder in ("templates", "configs"):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file():
                assert f"deepgemm_codegen/_data/{path.relative_to(ROOT)}" in names
    for path in (ROOT / "deepgemm_codegen").rglob("*.py"):
        assert str(path.relative_to(ROOT)) in names
    assert not any(name.startswith(("tests/", "benchmarks/")) for name in names)
