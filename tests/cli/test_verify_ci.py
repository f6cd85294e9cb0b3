"""What ``verify`` does for a continuous integration: files, samples, time, reports, annotations."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
import yaml

from deepgemm_codegen.cli.verify import seconds_of
from deepgemm_codegen.errors import InputError
from tests.cli.conftest import SMALL, Cli

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
QUICK = ("--on=emulator", "--effort=0.01", "--checks=exact,require")
KERNELS = """\
defaults: {require: {no_spills: true}}
kernels:
  - {name: good, m: 8, n: 8, k: 8}
  - {name: greedy, m: 16, n: 8, k: 8, require: {max_registers: 16}}
  - {name: last, m: 24, n: 8, k: 8}
"""


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two kernel files, from which the command is given."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.yaml").write_text(KERNELS)
    (tmp_path / "b.yaml").write_text("kernels: [{name: other, m: 8, n: 16, k: 8}]\n")
    return tmp_path


@pytest.mark.usefixtures("kernels")
def test_a_folder_a_summary_and_a_failure_that_stops_nothing(cli: Cli) -> None:
    result = cli("verify", ".", *QUICK)
    assert result.code == 1
    lines = result.out.splitlines()
    assert [line.split()[:2] for line in lines if not line.startswith(" ")] == [
        ["PASS", lines[0].split()[1]],
        ["FAIL", lines[1].split()[1]],
        ["PASS", lines[3].split()[1]],
        ["PASS", lines[4].split()[1]],
    ]
    assert lines[1].split()[1].startswith("greedy_sm_80_")
    assert lines[2].startswith("  max_registers: 16: not met: ")
    assert result.err == "3 passed, 1 failed\n"


@pytest.mark.full
@pytest.mark.usefixtures("kernels")
def test_two_processes_say_the_same(cli: Cli) -> None:
    alone, shared = cli("verify", ".", *QUICK), cli("verify", ".", *QUICK, "--jobs=2")
    assert (shared.code, shared.out, shared.err) == (alone.code, alone.out, alone.err)


def test_reports_are_written_beside_the_lines(cli: Cli, kernels: Path) -> None:
    result = cli("verify", "a.yaml", *QUICK, "--junit=out.xml", "--json-file=out.json")
    assert (result.code, result.out.count("PASS  ")) == (1, 2)
    root = ET.parse(kernels / "out.xml").getroot()
    assert (root.attrib["tests"], root.attrib["failures"]) == ("3", "1")
    case = root.find(".//testcase[failure]")
    assert case is not None
    assert (case.attrib["file"], case.attrib["line"]) == ("a.yaml", "4")
    document = json.loads((kernels / "out.json").read_text())
    assert document == json.loads(cli("verify", "a.yaml", *QUICK, "--json").out)
    assert [kernel["status"] for kernel in document["kernels"]] == ["passed", "failed", "passed"]
    assert document["kernels"][1]["demands"][1]["text"] == "max_registers: 16"
    # No time stands in the JSON: the same run gives the same bytes.
    assert "seconds" not in (kernels / "out.json").read_text()


@pytest.mark.usefixtures("kernels")
def test_annotations(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    plain = cli("verify", "a.yaml", *QUICK)
    assert "::error" not in plain.err
    asked = cli("verify", "a.yaml", *QUICK, "--annotations=github")
    assert asked.err.startswith("::error file=a.yaml,line=4,col=5::FAIL  greedy_sm_80_")
    assert "%0Amax_registers: 16: not met: " in asked.err
    assert asked.out == plain.out
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert cli("verify", "a.yaml", *QUICK, "--json").err == asked.err.partition("\n")[0] + "\n"
    assert cli("verify", "a.yaml", *QUICK, "--annotations=none").err == plain.err


def test_problems_of_a_file_are_annotated(cli: Cli, kernels: Path) -> None:
    (kernels / "c.yaml").write_text("kernels: [{m: 8, n: 8, k: 8, require: {speed: 9}}]\n")
    result = cli("verify", "c.yaml", "--annotations=github")
    assert (result.code, result.out) == (2, "")
    first, second, *_ = result.err.splitlines()
    assert first.startswith("::error file=c.yaml,line=1,col=40::unknown key 'speed' in 'require'")
    assert second.startswith("error: c.yaml:1:40: unknown key 'speed' in 'require'")


@pytest.mark.usefixtures("kernels")
def test_a_sample(cli: Cli) -> None:
    first = cli("verify", ".", *QUICK, "--sample=2", "--seed=5")
    assert first.err.startswith("note: 2 of 4 kernels, drawn by seed 5\n")
    assert len([line for line in first.out.splitlines() if line[:4] in ("PASS", "FAIL")]) == 2
    assert cli("verify", ".", *QUICK, "--sample=2", "--seed=5").out == first.out
    assert "drawn by" not in cli("verify", ".", *QUICK, "--sample=9").err


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("jobs", ["--jobs=1", "--jobs=2"])
def test_no_time(cli: Cli, jobs: str) -> None:
    result = cli("verify", ".", *QUICK, "--budget=0s", "--junit=out.xml", jobs)
    assert (result.code, result.out) == (4, "")
    assert result.err.count("not judged: a.yaml:") + result.err.count("not judged: ./a.yaml:") == 3
    assert result.err.endswith(
        "the budget of 0 seconds is used up; 4 of 4 kernels were not judged\n4 not judged\n"
    )
    assert ET.parse("out.xml").getroot().attrib["skipped"] == "4"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("5m", 300), ("1h", 3600), ("1h30m", 5400), ("2m3s", 123), ("0", 0)],
)
def test_times(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "5", "-5s", "5 m", "1.5m", "5d", "3m2h", "\u0665s"])
def test_no_times(text: str) -> None:
    if text == "5":
        assert seconds_of(text) == 5
        return
    with pytest.raises(InputError, match="give such as 90s, 5m or 1h30m"):
        seconds_of(text)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--checks=race",), "--checks: no check is called 'race' (did you mean 'races'?)"),
        (("--checks=,",), "--checks is empty; give some of exact, random, hostile, races"),
        (
            ("--budget=soon",),
            "invalid value for '--budget': a time of 'soon'; give such as 90s, 5m or 1h30m",
        ),
        (("--sample=0",), "invalid value for '--sample': 0: give a whole number of 1 or more"),
        (("--junit=no/such/folder/x.xml",), "cannot write 'no/such/folder/x.xml': its folder does"),
        (("--json-file=.",), "cannot write '.': it is a folder; name a file inside it"),
        (
            ("--junit=x", "--json-file=./x"),
            "--junit and --json-file both name 'x'; give each its own file",
        ),
    ],
)
def test_bad_input(cli: Cli, words: tuple[str, ...], message: str) -> None:
    result = cli("verify", *SMALL, "--on=emulator", "--effort=0.01", *words)
    assert result.code in (2, 3)
    assert message in result.err


def test_the_report(cli: Cli) -> None:
    result = cli("verify", *SMALL, *QUICK, "--report")
    assert result.code == 0
    lines = result.out.splitlines()
    assert "  shared memory, 2 of 24 blocks, on the emulator: no bank conflict" in lines
    assert any(line.split()[:2] == ["line", "access"] for line in lines)
    (kernel,) = json.loads(cli("verify", *SMALL, *QUICK, "--report", "--json").out)["kernels"]
    assert all(row["excess"] == 0 for row in kernel["memory"]["shared"])
    assert {row["access"] for row in kernel["memory"]["global"]} == {"cp.async 16", "st.global 8"}


# -- pytest --deepgemm --


NAMED: tuple[str, ...] = (
    ()
    if any(point.name == "deepgemm" for point in entry_points(group="pytest11"))
    else ("-p", "deepgemm_codegen.pytest_plugin")
)
"""Names the plugin where the package is not installed, so that pytest does not find it itself."""


def run_pytest(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", *NAMED, "-p", "no:cacheprovider", *words],
        capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


PLUGIN = ("--deepgemm-on=emulator", "--deepgemm-effort=0.01", "--deepgemm-checks=exact,require")


def test_pytest_has_an_item_a_kernel(kernels: Path) -> None:
    (kernels / "test_beside.py").write_text("def test_beside():\n    pass\n")
    done = run_pytest("--deepgemm", ".", *PLUGIN, "-v", "--junitxml=out.xml")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "a.yaml::good_sm_80_" in done.stdout
    assert "b.yaml::other_sm_80_" in done.stdout
    assert "a.yaml:4:\nFAIL  greedy_sm_80_" in done.stdout
    assert "max_registers: 16: not met: " in done.stdout
    assert "Traceback" not in done.stdout
    # The folder's own tests are collected too, as for any path.
    assert "1 failed, 4 passed" in done.stdout
    case = ET.parse(kernels / "out.xml").getroot().find(".//property")
    assert case is not None
    assert case.attrib == {"name": "judged_on", "value": "emulator"}


def test_pytest_collects_nothing_else_of_its_own_accord(kernels: Path) -> None:
    (kernels / "test_beside.py").write_text("def test_beside():\n    pass\n")
    done = run_pytest("--deepgemm", "a.yaml", "--collect-only", "-q")
    assert "test_beside" not in done.stdout
    assert "3 tests collected" in done.stdout


@pytest.mark.full
def test_pytest_collects_other_paths_beside(kernels: Path) -> None:
    (kernels / "test_beside.py").write_text("def test_beside():\n    pass\n")
    both = run_pytest("--deepgemm", "a.yaml", "test_beside.py", "--collect-only", "-q")
    assert "4 tests collected" in both.stdout
    without = run_pytest("--collect-only", "-q")
    assert "1 test collected" in without.stdout


@pytest.mark.full
def test_pytest_names_every_problem_of_a_file(kernels: Path) -> None:
    (kernels / "a.yaml").write_text("kernels: [{m: 0, n: 8, k: 8, tile_q: 3}]\n")
    done = run_pytest("--deepgemm", "a.yaml")
    assert done.returncode == 2
    assert "a.yaml:1:15: m = 0: too small" in done.stdout
    assert "a.yaml:1:30: unknown key 'tile_q'" in done.stdout


def test_pytest_refuses_unknown_kinds() -> None:
    done = run_pytest("--deepgemm", "a.yaml", "--deepgemm-checks=all,x")
    assert done.returncode == 4
    assert "--deepgemm-checks: no check is called 'x'" in done.stdout + done.stderr
    done = run_pytest("--deepgemm", "a.yaml", "--deepgemm-effort=nan")
    assert done.returncode == 4
    assert "effort = nan: give a number from 0.01 to 1000.0" in done.stdout + done.stderr


def test_the_plugin_costs_nothing_when_it_is_not_used() -> None:
    program = (
        "import sys; before = set(sys.modules); import pytest; rest = set(sys.modules);"
        "import deepgemm_codegen.pytest_plugin as plugin; print(sorted(set(sys.modules) - rest))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "['deepgemm_codegen', 'deepgemm_codegen.pytest_plugin']"


def test_pytest_finds_the_plugin() -> None:
    import tomllib  # noqa: PLC0415

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"deepgemm": "deepgemm_codegen.pytest_plugin"}


# -- the GitHub Action --


@pytest.fixture
def act(kernels: Path) -> Callable[..., tuple[int, list[str], str]]:
    """The action's step with a command in place of ours that tells its words."""
    command = kernels / "bin" / "deepgemm_codegen"
    command.parent.mkdir()
    command.write_text('#!/usr/bin/env bash\nprintf "%s\\n" "$@" > words\nexit "${CODE:-0}"\n')
    command.chmod(0o755)

    def run(**inputs: str) -> tuple[int, list[str], str]:
        names = {f"DEEPGEMM_{name.upper()}": value for name, value in inputs.items()}
        output = kernels / "output"
        done = subprocess.run(
            ["bash", str(ROOT / ".ci" / "action-verify")],
            check=False, cwd=kernels,
            env={"PATH": f"{command.parent}:{os.environ['PATH']}", "GITHUB_OUTPUT": str(output),
                 "CODE": names.pop("DEEPGEMM_CODE", "0"), **names},
        )  # fmt: skip
        return done.returncode, (kernels / "words").read_text().splitlines(), output.read_text()

    return run


def test_the_action_passes_its_inputs(act: Callable[..., tuple[int, list[str], str]]) -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    step = next(step for step in action["runs"]["steps"] if step.get("id") == "verify")
    inputs = {
        name.removeprefix("DEEPGEMM_").lower(): (
            value.removeprefix("${{ inputs.").removesuffix(" }}")
        )
        for name, value in step["env"].items()
    }
    assert {*inputs.values(), "python", "extra"} == set(action["inputs"])
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    (used,) = [step for step in workflow["jobs"]["kernels"]["steps"] if step.get("uses") == "./"]
    assert set(used["with"]) <= set(action["inputs"])
    values = {name: action["inputs"][given]["default"] for name, given in inputs.items()}
    values["paths"] = "a.yaml\nmy folder\n; rm -rf $HOME\n"
    values["budget"] = "5m"
    code, words, output = act(**values)
    assert (code, output) == (0, "exit-code=0\n")
    assert words == [
        "verify", "--annotations=github", "--on=auto", "--seed=0", "--budget=5m", "--jobs=2",
        "--junit=deepgemm-verify.xml", "--json-file=deepgemm-verify.json", "--",
        "a.yaml", "my folder", "; rm -rf $HOME",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "unjudged", "ends"),
    [("0", "fail", 0), ("1", "allow", 1), ("4", "fail", 4), ("4", "allow", 0), ("3", "allow", 3)],
)
def test_the_action_ends_as_verify_does(
    act: Callable[..., tuple[int, list[str], str]], code: str, unjudged: str, ends: int
) -> None:
    found, _, output = act(code=code, unjudged=unjudged, paths="a.yaml")
    assert (found, output) == (ends, f"exit-code={code}\n")


@pytest.mark.usefixtures("kernels")
def test_the_actions_flags_exist(cli: Cli) -> None:
    help_text = cli("verify", "--help").out
    script = (ROOT / ".ci" / "action-verify").read_text()
    flags = [line.split()[1] for line in script.splitlines() if line.startswith("add ")]
    assert len(flags) == 8
    assert [flag for flag in flags if f"--{flag} " not in help_text] == []
    # The words that the script puts before the paths are ones that the command takes.
    assert cli("verify", "--annotations=github", *QUICK, "--", "b.yaml").code == 0
