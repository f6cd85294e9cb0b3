"""The main command: one kernel to stdout or a file."""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING

import pytest

from deepgemm_codegen.spec.overrides import OVERRIDES
from deepgemm_codegen.spec.text import FIELDS
from tests.cli.conftest import SMALL, Cli, process

if TYPE_CHECKING:
    from pathlib import Path


def test_the_command_of_the_readme_prints_ptx(cli: Cli) -> None:
    result = cli("--m=1024", "--n=1024", "--k=1024", "--arch=sm_80", "--dtype=fp16")
    assert result.code == 0
    assert result.err == ""
    assert re.search(r"^\.target sm_80$", result.out, re.MULTILINE)
    assert "mma.sync.aligned.m16n8k16" in result.out


def test_a_value_may_follow_its_flag(cli: Cli) -> None:
    joined = cli(*SMALL, "--emit=cu")
    parted = cli("--m", "64", "--n", "48", "--k", "32", "--emit", "cu")
    assert joined == parted
    assert joined.code == 0


def test_the_names_of_yaml_work_as_flags(cli: Cli) -> None:
    assert cli(*SMALL, "--tile_m=64", "--emit=cu") == cli(*SMALL, "--tile-m=64", "--emit=cu")


def test_the_process_prints_the_same_bytes(cli: Cli) -> None:
    assert process(*SMALL, "--emit=cu") == cli(*SMALL, "--emit=cu")


def test_the_command_in_the_file_gives_the_file_again(cli: Cli) -> None:
    text = cli(*SMALL, "--epilogue=bias,relu", "--label=it's a layer", "--emit=cu").out
    match = re.search(r"^//   again   deepgemm_codegen (.*)$", text, re.MULTILINE)
    assert match is not None
    assert cli(*shlex.split(match[1])).out == text


@pytest.mark.parametrize(
    ("what", "marker"),
    [
        ("cu", "__global__"),
        ("ptx", ".visible .entry"),
        ("sass", "HMMA"),
        ("plan", '"format"'),
    ],
)
def test_every_text_kind(cli: Cli, what: str, marker: str) -> None:
    result = cli(*SMALL, f"--emit={what}")
    assert (result.code, result.err) == (0, "")
    assert marker in result.out
    assert result.out.endswith("\n")


def test_a_cubin_is_an_elf_file(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "gemm.cubin"
    assert cli(*SMALL, "--emit=cubin", "-o", str(path)).code == 0
    assert path.read_bytes()[:4] == b"\x7fELF"


def test_the_plan_is_json_with_launch_and_decisions(cli: Cli) -> None:
    result = cli("--m=dynamic:512", "--n=48", "--k=32", "--epilogue=bias", "--emit=plan")
    described = json.loads(result.out)
    assert described["format"] == "1.0"
    (kernel,) = described["kernels"]
    assert kernel["name"] in cli("--m=dynamic:512", "--n=48", "--k=32", "--epilogue=bias").out
    assert kernel["launch"]["grid"].startswith("ceildiv(m, ")
    assert [p["name"] for p in kernel["launch"]["parameters"]][:3] == ["a", "b", "d"]
    assert kernel["plan"]["spec"]["m"] == "dynamic:512"
    assert kernel["plan"]["body"]["tile_m"] % 16 == 0
    assert isinstance(kernel["decisions"], list)


def test_output_goes_to_a_file_whole(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "kernel.cu"
    path.write_text("old")
    result = cli(*SMALL, "--emit=cu", "-o", str(path))
    assert (result.code, result.out) == (0, "")
    assert path.read_text() == cli(*SMALL, "--emit=cu", "-o", "-").out
    assert [entry.name for entry in tmp_path.iterdir()] == ["kernel.cu"]


def test_resources_go_to_stderr(cli: Cli) -> None:
    plain, result = cli(*SMALL), cli(*SMALL, "--resources")
    assert result.code == 0
    assert result.out == plain.out
    assert re.fullmatch(
        r"resources: \d+ registers per thread, 0 bytes spilled, \d+ bytes of shared memory per"
        r" block of \d+ threads; \d+ blocks? per multiprocessor of A100 SXM 80 GB"
        r" \(\d+ of 64 warps, \d+ %\)\n",
        result.err,
    )


def test_a_note_of_the_architecture_goes_to_stderr_and_quiet_removes_it(cli: Cli) -> None:
    told, silent = (
        cli(*SMALL, "--arch=sm_121", "--emit=cu"),
        cli(*SMALL, "--arch=sm_121", "--emit=cu", "-q"),
    )
    assert told.out == silent.out
    assert told.err == ("note: sm_121 is served by the code of sm_120, its nearest family\n")
    assert silent.err == ""


@pytest.mark.parametrize(
    ("words", "note"),
    [
        (("--m=64", "--n=64", "--k=0"), ""),
        (("--m=64", "--n=64", "--op=epilogue", "--epilogue=gelu"), ""),
        (
            ("--m=64", "--n=64", "--k=64", "--split-k=3", "--tile-k=32"),
            "note: k = 64 is 2 slices: 1 of its 3 parts sum nothing\n",
        ),
    ],
)
def test_parts_of_k_that_sum_nothing_are_told(cli: Cli, words: tuple[str, ...], note: str) -> None:
    """A k that is not cut has none, if it be 0."""
    result = cli(*words, "--emit=cu")
    assert result.code == 0
    assert ("sum nothing" in result.err) == bool(note)
    assert note in result.err


def test_there_is_a_flag_for_every_field_and_override(cli: Cli) -> None:
    text = cli("--help").out
    for name in (*FIELDS, *OVERRIDES):
        assert re.search(rf"^  --{name.replace('_', '-')} ", text, re.MULTILINE), name
    assert "--tile-m is also DGEMM_TILE_M in the environment" in re.sub(r"\s+", " ", text)


def test_help_has_sections_and_examples_and_version_prints(cli: Cli) -> None:
    help_text = cli("-h")
    assert help_text == cli("--help")
    assert help_text.code == 0
    for heading in ("Output:", "Problem:", "Target:", "Examples:", "Commands"):
        assert f"\n{heading}" in help_text.out
    assert cli("--version").out == "deepgemm_codegen 0.1.0\n"


def test_the_same_bytes_whatever_the_hash_seed() -> None:
    first = process(*SMALL, "--emit=cu", env={"PYTHONHASHSEED": "0"})
    second = process(*SMALL, "--emit=cu", env={"PYTHONHASHSEED": "1"})
    assert first == second
