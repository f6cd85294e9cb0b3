"""``build``, ``show`` and ``diff``: what they print of a generated folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.toolchain.kernels import needs_nvrtc

if TYPE_CHECKING:
    from tests.cli.conftest import Cli

TEXT = """kernels:
  - {name: one, m: 64, n: 64, k: 64, epilogue: [bias]}
  - {name: one_more, m: dynamic:512, n: 64, k: 32, arch: sm_90}
  - {name: two, m: 64, n: 64, k: 64, layout: nt, arch: sm_90a, family: wgmma}
"""


@pytest.fixture
def folder(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernels.yaml").write_text(TEXT)
    assert cli("generate", "kernels.yaml", "-o", "generated").code == 0
    return tmp_path / "generated"


def name_of(folder: Path, label: str) -> str:
    (path,) = folder.glob(f"{label}_sm_*.cu")
    return path.stem


@needs_nvrtc
def test_build(cli: Cli, folder: Path) -> None:
    result = cli("build", "generated", "-o", "out")
    assert (result.code, result.err) == (0, "")
    head, *rows, empty, counts = result.out.splitlines()
    assert head.split() == ["kernel", "target", "registers", "spilled", "shared", "blocks"]
    assert [row.split()[1] for row in rows] == ["sm_90", "sm_80", "sm_90a"]
    assert empty == ""
    assert counts.startswith("3 built by NVRTC ")
    assert len(list(Path("out").glob("*.cubin"))) == 3
    assert cli("build", "generated", "-o", "out", "-q").out == ""
    report = json.loads(cli("build", "generated", "-o", "out", "--json", "--jobs=2").out)
    assert (report["format"], report["exit_code"], len(report["kernels"])) == ("1.0", 0, 3)
    check = cli("build", "generated", "-o", "out", "--check")
    assert (check.code, check.out) == (0, f"{counts}\n")
    Path("out/build.json").unlink()
    check = cli("build", "generated", "-o", "out", "--check")
    assert check.code == 1
    assert check.out.splitlines()[-1].startswith("3 built, 4 changed by NVRTC ")


@needs_nvrtc
def test_build_names_what_fails(cli: Cli, folder: Path) -> None:
    path = folder / f"{name_of(folder, 'one')}.cu"
    path.write_text("// edited\n")
    result = cli("build", "generated", "--no-cubins")
    assert result.code == 2
    assert result.err == (
        f"error: {path.stem}: 'generated/{path.name}' is not what the manifest tells of; generate"
        " again\n"
    )
    assert result.out.splitlines()[-1].startswith("2 built, 1 failed by ")
    failed = json.loads(cli("build", "generated", "--no-cubins", "--json").out)["kernels"]
    assert [kernel["name"] for kernel in failed if "error" in kernel] == [path.stem]


def test_show(cli: Cli, folder: Path) -> None:
    name = name_of(folder, "one")
    result = cli("show", "one_sm_80")
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[0] == name
    assert lines[1].startswith("  spec       m=64 n=64 k=64 dtype=fp16 epilogue=bias:fp16 ")
    assert lines[2] == f"  file       {name}.cu, as listed"
    assert lines[4] == "  arguments  a (fp16*), b (fp16*), d (fp16*), bias0 (fp16*), alpha"
    assert lines[7].startswith("  plan       body mma_sync, tile_m ")
    assert "[D03] tile: " in result.out
    assert result.out == cli("show", f"generated/{name}.cu").out
    assert result.out == cli("show", name, "--in", str(folder)).out
    record = json.loads(cli("show", name, "--json").out)["kernels"][0]
    assert (record["name"], record["source"], record["build"]) == (name, "as listed", None)


@needs_nvrtc
def test_show_tells_what_a_build_found(cli: Cli, folder: Path) -> None:
    cli("build", "generated", "--no-cubins", "-q")
    text = cli("show", "two").out
    assert "\n  built      " in text
    assert " registers per thread, 0 bytes spilled, " in text
    record = json.loads(cli("show", "two", "--json").out)["kernels"][0]
    assert record["build"]["resources"][0]["registers"] > 0
    # A build of another source says nothing of this one.
    Path("kernels.yaml").write_text(TEXT.replace("layout: nt", "layout: nt, stages: 3"))
    cli("generate", "kernels.yaml", "-o", "generated", "--clean", "-q")
    assert "\n  built      " not in cli("show", "two").out


def test_show_a_source_that_is_not_as_listed(cli: Cli, folder: Path) -> None:
    path = folder / f"{name_of(folder, 'one')}.cu"
    path.write_text("// edited\n")
    result = cli("show", "one_sm_80")
    assert f"{path.name}, changed" in result.out
    assert result.err == f"warning: {path.name} is not what the manifest tells of\n"
    path.unlink()
    assert f"{path.name}, missing" in cli("show", "one_sm_80").out


def test_show_a_spec(cli: Cli, tmp_path: Path) -> None:
    result = cli("show", "m=64 n=64 k=64")
    assert "not written" in result.out.splitlines()[2]
    assert cli("show", "m=0 n=64 k=64").err == "error: m = 0: too small; the smallest is 1\n"


def test_show_a_spec_that_the_folder_has(cli: Cli, folder: Path) -> None:
    listed = json.loads(cli("show", "two", "--json").out)["kernels"][0]
    shown = cli("show", listed["spec"], "--in", "generated", "--json")
    assert json.loads(shown.out)["kernels"][0] == listed
    assert "as listed" in cli("show", listed["spec"], "--in", "generated").out.splitlines()[2]


def test_several_kernels_of_a_spec(cli: Cli) -> None:
    spec = "m=64 n=64 k=2048 split_k=4"
    text = cli("show", spec).out
    assert "\n  workspace  65536 bytes\n" in text
    assert [line.split("_")[-1] for line in text.splitlines() if "  kernel  " in line] == [
        "product",
        "reduce",
    ]
    lines = [
        line.split() for line in cli("diff", "m=64 n=64 k=2048 split_k=1", spec).out.splitlines()
    ]
    assert ["split_k", "1", "4"] in lines
    assert ["body", "reduce", "-", "reduce"] in lines
    assert ["workspace", "-", "65536"] in lines


def test_names_that_mean_nothing_or_too_much(cli: Cli, folder: Path) -> None:
    result = cli("show", "one")
    names = sorted(path.stem for path in folder.glob("one*.cu"))
    assert result.code == 2
    assert result.err == (
        f"error: 'one' is the beginning of 2 kernels: {', '.join(names)}; give more of the name\n"
    )
    assert cli("show", names[0][:-3] + "xyz").err == (
        f"error: 'generated' has no kernel whose name begins '{names[0][:-3]}xyz' (did you mean"
        f" '{names[0]}'?)\n"
    )
    assert cli("show", "zzz").err.startswith(
        "error: 'generated' has no kernel whose name begins 'zzz'; it has one_"
    )
    assert cli("show", "x", "--in", "nowhere").err == (
        "error: 'nowhere/manifest.json' is missing; name a folder that deepgemm_codegen generate"
        " has written\n"
    )


def test_diff(cli: Cli, folder: Path) -> None:
    result = cli("diff", "one_sm_80", "two")
    assert (result.code, result.err) == (1, "")
    lines = [line.split() for line in result.out.splitlines()]
    assert lines[0] == ["A", name_of(folder, "one")]
    assert ["arch", "sm_80", "sm_90a"] in lines
    assert ["layout", "-", "nt"] in lines
    assert ["family", "mma_sync", "wgmma"] in lines
    assert any(line[:5] == ["why", "family", "wgmma", "in", "B:"] for line in lines)
    assert ["body", "mma_sync", "wgmma"] in lines
    assert ["n", "64", "64"] not in lines
    assert ["n", "64", "64"] in [
        line.split() for line in cli("diff", "one_sm_80", "two", "-v").out.splitlines()
    ]
    given = json.loads(cli("diff", "one_sm_80", "two", "--json").out)
    points = {(p["part"], p["name"]): p for p in given["kernels"][0]["points"]}
    assert points["spec", "arch"] == {
        "part": "spec", "name": "arch", "a": "sm_80", "b": "sm_90a", "same": False,
    }  # fmt: skip
    assert points["decisions", "family"]["why_a"] == "sm_80 multiplies through mma.sync"


def test_diff_of_the_same(cli: Cli, folder: Path) -> None:
    result = cli("diff", "two", f"generated/{name_of(folder, 'two')}.cu")
    assert result.code == 0
    assert result.out.splitlines()[-1].startswith("the same in all ")


def test_diff_of_specs(cli: Cli) -> None:
    result = cli("diff", "m=64 n=64 k=64", "m=64 n=64 k=64 stages=2")
    assert result.code == 1
    assert ["stages", "-", "2"] in [line.split() for line in result.out.splitlines()]


@needs_nvrtc
def test_diff_of_what_builds_found(cli: Cli, folder: Path) -> None:
    cli("build", "generated", "--no-cubins", "-q")
    out = cli("diff", "one_sm_80", "two").out
    assert "\nbuild " in out
    assert "registers" in out
