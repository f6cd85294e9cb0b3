"""A cold start pays for reading kernels and for nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import deepgemm_codegen

HEAVY = ("numpy", "ml_dtypes", "jinja2", "click", "rich", "difflib", "json", "shlex", "asyncio")


def test_reading_a_right_file_imports_nothing_heavy(tmp_path: Path) -> None:
    path = tmp_path / "k.yaml"
    path.write_text(
        "defaults: {sweep: {arch: [sm_80, sm_90]}}\nkernels: [{m: 8, n: 8, k: 8}]\n",
        encoding="utf-8",
    )
    code = (
        "import sys; from deepgemm_codegen import specfile;"
        f"assert len(specfile.read({str(path)!r})) == 2;"
        f"print(sorted(set(sys.modules) & set({HEAVY!r})),"
        " 'deepgemm_codegen.specfile.jsonschema' in sys.modules)"
    )
    root = Path(deepgemm_codegen.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[] False"
