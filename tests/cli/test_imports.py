"""Commands that need little import little."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.cli.conftest import SMALL

_HEAVY = (
    "numpy",
    "ml_dtypes",
    "cupy",
    "rich",
    "cuda",
    "deepgemm_codegen.emulator",
    "deepgemm_codegen.harness",
    "asyncio",
    "multiprocessing",
    "filelock",
    "subprocess",
)
_ENGINE = ("jinja2", "yaml", "deepgemm_codegen.decide", "deepgemm_codegen.toolchain")

_PROGRAM = """
import sys
from deepgemm_codegen.__main__ import main
sys.argv[1:] = {words!r}
code = main()
found = sorted(name for name in {banned!r} if name in sys.modules)
print("FOUND", *found, file=sys.stderr)
raise SystemExit(code)
"""


@pytest.mark.parametrize(
    ("words", "banned"),
    [
        (["--help"], (*_HEAVY, *_ENGINE)),
        (["--version"], (*_HEAVY, *_ENGINE)),
        (["generate", "--help"], (*_HEAVY, *_ENGINE)),
        (["doctor", "--help"], (*_HEAVY, *_ENGINE)),
        (["verify", "--help"], (*_HEAVY, *_ENGINE)),
        (["verify", "--m=0", "--n=1", "--k=1"], (*_HEAVY, *_ENGINE)),
        (["--m=0", "--n=1", "--k=1"], (*_HEAVY, *_ENGINE)),
        ([*SMALL, "--emit=cu"], (*_HEAVY, "deepgemm_codegen.toolchain")),
        ([*SMALL, "--emit=plan"], (*_HEAVY, "deepgemm_codegen.toolchain")),
        (SMALL, ("numpy", "cupy", "rich", "deepgemm_codegen.emulator")),
    ],
    ids=lambda value: " ".join(value[:3]),
)
def test_nothing_is_imported_that_is_not_needed(words: list[str], banned: tuple[str, ...]) -> None:
    program = _PROGRAM.format(words=list(words), banned=banned)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stderr.splitlines()[-1] == "FOUND"


_WATCHED = """
import os, sys
from deepgemm_codegen.__main__ import main

class Watch:
    def find_spec(self, name, *_):
        if name == "numpy":
            print("THREADS", os.environ.get("OPENBLAS_NUM_THREADS"), file=sys.stderr)
            os._exit(0)

sys.meta_path.insert(0, Watch())
sys.argv[1:] = {words!r}
main()
"""


@pytest.mark.parametrize("given", [None, "3"])
@pytest.mark.parametrize("words", [["verify", *SMALL], [*SMALL, "--verify"]])
def test_judging_leaves_numpy_one_thread_unless_told_otherwise(
    words: list[str], given: str | None
) -> None:
    env = {name: value for name, value in os.environ.items() if "NUM_THREADS" not in name}
    if given is not None:
        env["OPENBLAS_NUM_THREADS"] = given
    command = [sys.executable, "-c", _WATCHED.format(words=list(words))]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.stderr.splitlines()[-1:] == [f"THREADS {given or 1}"]
