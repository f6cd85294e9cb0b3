"""What a shell offers, and the script that makes it ask."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.shell_completion import ShellComplete

from deepgemm_codegen.arch import known_targets
from deepgemm_codegen.cli.app import PROGRAM, build_app
from deepgemm_codegen.dtypes import DTYPES
from deepgemm_codegen.epilogue import STEPS
from tests.cli.conftest import process

if TYPE_CHECKING:
    from tests.cli.conftest import Cli


def offered(line: str) -> list[str]:
    """What a shell is offered for a line whose last word is begun."""
    _, *words, begun = line.split(" ")
    complete = ShellComplete(build_app(), {}, PROGRAM, "")
    return [item.value for item in complete.get_completions(words, begun)]


COMMANDS = build_app().list_commands(None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("deepgemm_codegen ex", ["explain"]),
        ("deepgemm_codegen ", COMMANDS),
        ("deepgemm_codegen --arch sm_9", [t for t in known_targets() if t.startswith("sm_9")]),
        ("deepgemm_codegen verify --dtype ", list(DTYPES)),
        ("deepgemm_codegen --layout n", ["nn", "nt"]),
        ("deepgemm_codegen --epilogue bias,rel", ["bias,relu", "bias,relu6"]),
        ("deepgemm_codegen --epilogue ", list(STEPS)),
        ("deepgemm_codegen --m d", ["dynamic", "dynamic:"]),
        ("deepgemm_codegen --lda ", []),
        ("deepgemm_codegen --gpu H2", ["H200"]),
        ("deepgemm_codegen cache ", ["info", "clear"]),
        ("deepgemm_codegen schema man", ["manifest"]),
        ("deepgemm_codegen generate conf", ["conf"]),  # the shell itself looks for files
        ("deepgemm_codegen show gpt2_fc_sm_80", ["gpt2_fc_sm_80_e601b1a5"]),
        ("deepgemm_codegen show --in nowhere gpt2", []),
    ],
)
def test_words(line: str, wanted: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])  # where kernels are generated
    assert offered(line) == wanted


def test_the_shells_question_is_answered() -> None:
    question = {"COMP_WORDS": "deepgemm_codegen generate conf", "COMP_CWORD": "2"}
    result = process(env={"_DEEPGEMM_CODEGEN_COMPLETE": "bash_complete", **question})
    assert (result.code, result.out, result.err) == (0, "file,conf\n", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_each_shell(shell: str, cli: Cli) -> None:
    result = cli("completion", shell)
    assert (result.code, result.err) == (0, "")
    assert f"_DEEPGEMM_CODEGEN_COMPLETE={shell}_complete" in result.out


def test_another_shell(cli: Cli) -> None:
    result = cli("completion", "csh")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("error: invalid value for 'bash|zsh|fish': 'csh' is not one of ")


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_by_the_script(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "script").write_text(cli("completion", "bash").out)
    command = tmp_path / "deepgemm_codegen"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m deepgemm_codegen "$@"\n')
    command.chmod(0o755)
    program = (
        "source ./script; COMP_WORDS=(deepgemm_codegen --arch sm_90); COMP_CWORD=2\n"
        "_deepgemm_codegen_completion deepgemm_codegen; printf '%s\\n' \"${COMPREPLY[@]}\"\n"
    )
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", program], cwd=tmp_path, env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["sm_90", "sm_90a"]
