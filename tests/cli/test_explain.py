"""``explain``: text, JSON, and the origin of each value."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from deepgemm_codegen.arch import known_targets
from deepgemm_codegen.spec.overrides import OVERRIDES
from deepgemm_codegen.spec.text import FIELDS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Cli

SPEC = ("--m=1024", "--n=1024", "--k=1024")


def test_every_decision_has_its_reason(cli: Cli) -> None:
    result = cli("explain", *SPEC)
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("m=1024 n=1024 k=1024 dtype=fp16 arch=sm_80\n")
    questions = re.findall(r"^\[(D\d\d)\] ", result.out, re.MULTILINE)
    assert questions == sorted(questions)
    assert len(questions) >= 8
    assert result.out.count("      why    ") == len(questions)


def test_the_decisions_are_those_of_the_plan(cli: Cli) -> None:
    explained = json.loads(cli("explain", *SPEC, "--json").out)
    assert explained["format"] == "1.2"
    planned = json.loads(cli(*SPEC, "--emit=plan").out)
    choices = [
        [(d["id"], d["choice"]) for d in record["kernels"][0]["decisions"]]
        for record in (explained, planned)
    ]
    assert choices[0] == choices[1]


def test_origins(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "kernels.yaml"
    source.write_text("kernels:\n  - {m: 512, n: 512, k: 512, tile_m: 64}\n")
    monkeypatch.setenv("DGEMM_PREFETCH_DEPTH", "2")
    result = cli("explain", str(source), "--tile-n=64", "--origin", "--json")
    assert result.code == 0
    (kernel,) = json.loads(result.out)["kernels"]
    rows = {row["name"]: (row["value"], row["origin"]) for row in kernel["origins"]}
    assert list(rows) == [*FIELDS, *OVERRIDES]
    assert rows["m"] == ("512", f"{source}:2")
    assert rows["tile_m"] == ("64", f"{source}:2")
    assert rows["tile_n"] == ("64", "flag --tile-n")
    assert rows["stages"] == ("3", "environment DGEMM_PREFETCH_DEPTH")
    assert rows["layout"] == ("nn", "default")
    assert rows["tile_k"][1] == "the tree"
    text = cli("explain", str(source), "--origin").out
    assert re.search(r"^  stages +3 +environment DGEMM_PREFETCH_DEPTH$", text, re.MULTILINE)


@pytest.mark.parametrize(
    "spec",
    [
        "m=64 n=64 k=64",
        "m=64 n=64 k=16384 layout=nt",
        "m=96 n=80 k=1000 dtype=int8",
        "m=2 n=4096 k=4096 layout=nt",
        "m=100 n=200 k=300 dtype=fp32",
        "m=512 n=512 k=512 layout=nt arch=sm_90a",
        "m=64 n=512 k=16384 layout=nt arch=sm_90a",
        "m=300 n=500 k=201 dtype=e4m3 arch=sm_90a",
        "op=epilogue m=64 n=4096 epilogue=rms_norm",
    ],
)
def test_what_is_told_to_be_in_effect_gives_the_same_kernel(spec: str, cli: Cli) -> None:
    """Each value is one that a flag takes, and together they leave the tree nothing else."""
    words = [f"--{word}" for word in spec.split()]
    (kernel,) = json.loads(cli("explain", *words, "--origin", "--json").out)["kernels"]
    told = {row["name"]: row["value"] for row in kernel["origins"] if row["name"] in OVERRIDES}
    given = [f"--{n.replace('_', '-')}={v}" for n, v in told.items() if v not in ("unused", "rows")]
    plain, forced = (cli(*words, *more, "--emit=cu") for more in ([], given))
    assert (plain.code, forced.code) == (0, 0)

    def code(text: str) -> list[str]:
        text = re.sub(r"sm_\w+_[0-9a-f]{8}", "NAME", text)
        return [line for line in text.splitlines() if not line.startswith("//")]

    assert code(forced.out) == code(plain.out)


def test_what_is_in_effect_is_told(cli: Cli) -> None:
    """Also of what the program has and no body: parts of k, copies, tiles abreast."""
    words = ("--m=4096", "--n=4096", "--k=4096", "--split-k=2", "--repack=off", "--split-k-from=9")
    (kernel,) = json.loads(cli("explain", *words, "--origin", "--json").out)["kernels"]
    rows = {row["name"]: (row["value"], row["origin"]) for row in kernel["origins"]}
    assert rows["split_k"] == ("2", "flag --split-k")
    assert rows["split_k_from"] == ("9", "flag --split-k-from")
    assert rows["repack"] == ("off", "flag --repack")
    assert rows["abreast"] == ("1", "the tree")
    odd = ("--m=4096", "--n=4096", "--k=4095", "--layout=nt", "--arch=sm_90a")
    (kernel,) = json.loads(cli("explain", *odd, "--origin", "--json").out)["kernels"]
    assert {"name": "repack", "value": "on", "origin": "the tree"} in kernel["origins"]


def test_what_was_given_is_told_from_what_the_tree_chose(cli: Cli) -> None:
    words = (*SPEC, "--arch=sm_90", "--tile-m=128", "--tile-k=64", "--stages=3", "--split-k=1")
    lines = cli("explain", *words).out.splitlines()
    told = {lines[i - 1]: line for i, line in enumerate(lines) if line.startswith("      given  ")}
    assert {re.sub(r"^\[D\d\d\] |: .*", "", line): told[line] for line in told} == {
        "tile": "      given  tile_m=128, tile_k=64",
        "stages": "      given  stages=3",
    }
    assert "given, with no decision of its own: split_k=1" in lines
    (kernel,) = json.loads(cli("explain", *words, "--json").out)["kernels"]
    given = {d["question"]: d["given"] for d in kernel["decisions"]}
    assert given.pop("tile") == {"tile_m": 128, "tile_k": 64}
    assert given.pop("stages") == {"stages": 3}
    assert not any(given.values())
    assert kernel["given_besides"] == {"split_k": 1}
    assert "given" not in cli("explain", *SPEC).out


@pytest.mark.parametrize(
    ("words", "start"),
    [
        (("--tile-m=48", "--warps-m=2"), "error: warps_m = 2 with tile_m = 48: "),
        (("--stages=99",), "error: stages = 99: "),
        (("--tile-m=1000000",), "error: tile_m = 1000000: "),
        (("--arch=sm_75", "--dtype=bf16"), "error: dtype = bf16: sm_75 multiplies no bf16, only "),
    ],
)
def test_what_nothing_serves_is_refused(cli: Cli, words: tuple[str, ...], start: str) -> None:
    for command in (("explain", *SPEC), (*SPEC, "--emit=cu")):
        result = cli(*command, *words)
        assert (result.code, result.out) == (2, "")
        assert result.err.startswith(start)
        assert result.err.count("\n") == 1


def test_all_architectures_side_by_side(cli: Cli) -> None:
    words = ("--m=4096", "--n=4096", "--k=512", "--layout=nt", "--arch=all")
    result = cli("explain", *words)
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[0] == "m=4096 n=4096 k=512 dtype=fp16 layout=nt"
    assert lines[2].split()[:6] == ["arch", "GPU", "predicted", "bound", "by", "family"]
    assert max(map(len, lines[2:12])) <= 110
    assert [line.split()[0] for line in lines[3:12]] == known_targets()
    assert "TMA, 128-byte swizzle" in result.out
    (kernel,) = json.loads(cli("explain", *words, "--json").out)["kernels"]
    for target in kernel["targets"]:
        one = cli("explain", *words[:-1], f"--arch={target['arch']}", "--json").out
        alone = json.loads(one)["kernels"][0]
        assert {**target, "spec": alone["spec"]} == {"arch": target["arch"], **alone}


def test_architectures_that_have_no_kernel_say_why(cli: Cli) -> None:
    result = cli("explain", *SPEC, "--dtype=bf16", "--arch=all")
    assert result.code == 0
    *_, head, reason = result.out.splitlines()
    assert head == "no kernel on:"
    assert reason.startswith("  sm_75: dtype = bf16: sm_75 multiplies no bf16, only fp16")
    nowhere = cli("explain", *SPEC, "--stages=99", "--arch=all")
    assert nowhere.code == 0
    assert nowhere.out.splitlines()[2] == "no kernel on:"


def test_a_file_over_all_architectures_asks_each_product_once(cli: Cli, tmp_path: Path) -> None:
    source = tmp_path / "kernels.yaml"
    source.write_text("kernels: [{m: 64, n: 64, k: 64, sweep: {arch: [sm_80, sm_90]}}]\n")
    kernels = json.loads(cli("explain", str(source), "--arch=all", "--json").out)["kernels"]
    assert [kernel["spec"] for kernel in kernels] == ["m=64 n=64 k=64 dtype=fp16"]
    refused = cli("explain", str(source), "--arch=all", "--origin")
    assert refused.code == 2
    assert refused.err.startswith("error: --origin is of one architecture; it excludes --arch=all")


def test_a_kernel_that_is_refused_does_not_stop_the_others(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "three.yaml"
    path.write_text(
        "kernels:\n"
        "  - {m: 64, n: 64, k: 64, arch: sm_90}\n"
        "  - {m: 64, n: 64, k: 64, arch: sm_90, tile_k: 64, tile_m: 256, tile_n: 256}\n"
        "  - {m: 64, n: 64, k: 128, arch: sm_90}\n"
    )
    result = cli("explain", str(path))
    assert result.code == 2
    assert result.out.count("[D01] family: mma_sync") == 2
    lines = result.err.splitlines()
    assert sum(line.startswith("note: ") for line in lines) == 1  # once for all of sm_90
    (error,) = (line for line in lines if line.startswith("error: "))
    assert error.startswith(f"error: {path}:3:73: tile_n = 256 with tile_m = 256: ")
    assert len(json.loads(cli("explain", str(path), "--json").out)["kernels"]) == 2


def test_a_missing_file(cli: Cli) -> None:
    result = cli("explain", "nowhere.yaml")
    assert (result.code, result.out) == (2, "")
    assert result.err == "error: nowhere.yaml: cannot be read: No such file or directory\n"
