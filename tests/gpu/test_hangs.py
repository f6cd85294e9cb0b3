"""A kernel that never ends is a failure in good time, and its process ends too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu

CODE = """
from deepgemm_codegen.decide import WgmmaChoice
from deepgemm_codegen.checks import Settings
from deepgemm_codegen.harness import format_verdict, launching, verify
from deepgemm_codegen.toolchain import build_cubin
from tests.harness.support import plan_of, source_of
from tests.harness.test_mutants import MUTANTS

launching.LONGEST = 5.0
text = "m=4416 n=2096 k=128 layout=nt ldd=2099 arch=sm_90a"
plan = plan_of(text, WgmmaChoice(64, 96, 2, 2, 4, 1, 1, 8))
source = source_of(plan)
if MUTATE:
    source = MUTANTS["the turn handed over by one thread"].apply(source)
built = build_cubin(source, name=plan.name, arch="sm_90a")
short = Settings(effort=0.1)
verdict = verify(plan, cubin=built.cubin, built_for="sm_90a", on="gpu", settings=short)
print("\\n".join(format_verdict(verdict)))
raise SystemExit(not verdict.passed)
"""


@pytest.mark.parametrize("mutate", [False, True])
def test_consumers_that_miss_their_turn_hang_and_are_named(arch: str, mutate: bool) -> None:
    """Many tiles a block and nothing to multiply (alpha 0): late warps miss a phase."""
    if arch != "sm_90":
        pytest.skip("wgmma is sm_90a's")
    code = CODE.replace("MUTATE", str(mutate))
    ended = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert ended.returncode == int(mutate), ended.stdout + ended.stderr
    assert ("did not end in 5 s" in ended.stdout) == mutate, ended.stdout
