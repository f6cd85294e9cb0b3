"""``generate``: files, checks, reports and exit codes; the batch itself has tests of its own."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from deepgemm_codegen.spec import GemmSpec
from deepgemm_codegen.specfile import read
from tests.cli.conftest import Cli, shell

TEXT = """kernels:
  - {name: one, m: 64, n: 64, k: 64}
  - {name: two, m: 64, n: 64, k: 32, dtype: bf16}
"""


@pytest.fixture
def source(tmp_path: Path) -> str:
    path = tmp_path / "kernels.yaml"
    path.write_text(TEXT)
    return str(path)


def test_new_then_unchanged(cli: Cli, source: str, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    first = cli("generate", source, "-o", out)
    assert (first.code, first.err) == (0, "")
    assert first.out.splitlines()[-1] == "5 new"
    assert [line.split()[0] for line in first.out.splitlines()[:-1]] == ["new"] * 5
    again = cli("generate", source, "-o", out)
    assert (again.code, again.out) == (0, "5 unchanged\n")
    assert cli("generate", source, "-o", out, "-v").out.count("unchanged ") == 5
    assert cli("generate", source, "-o", out, "-q").out == ""


def test_what_is_written_is_what_emit_prints(cli: Cli, source: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    cli("generate", source, "-o", str(out))
    (path,) = out.glob("one_*.cu")
    assert path.read_text() == cli("--m=64", "--n=64", "--k=64", "--label=one", "--emit=cu").out


def test_check_names_every_difference_and_the_command_that_mends_it(
    cli: Cli, source: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    check = ("generate", source, "-o", str(out), "--check")
    assert cli(*check).code == 1
    assert not out.exists()
    Path(source).write_text(f"{TEXT}  - {{name: three, m: 8, n: 8, k: 8}}\n")
    cli("generate", source, "-o", str(out))
    Path(source).write_text(TEXT)
    (one,), (two,), (three,) = (out.glob(f"{name}_*.cu") for name in ("one", "two", "three"))
    one.write_text(one.read_text() + "// edited\n")
    two.unlink()
    result = cli(*check, "-q")
    assert result.code == 1
    lines = result.out.splitlines()
    assert f"changed   {one.name}" in lines
    assert "-// edited" in lines
    assert f"missing   {two.name}" in lines
    assert f"orphan    {three.name}" in lines
    assert lines[-1] == "4 changed, 1 missing, 1 orphan"
    assert "-// edited" not in cli(*check, "--no-diff").out
    prefix = "to bring the folder up to date: deepgemm_codegen "
    assert result.err.startswith(prefix)
    mend = shlex.split(result.err.removeprefix(prefix))
    assert mend[-1] == "--clean"
    assert cli(*mend).code == 0
    assert (cli(*check).code, cli(*check).out) == (0, "5 unchanged\n")


def test_a_check_shows_the_first_differences(cli: Cli, tmp_path: Path) -> None:
    path, out = tmp_path / "kernels.yaml", tmp_path / "out"
    path.write_text("kernels: [{n: 8, k: 8, sweep: {m: [1, 2, 3, 4, 5, 6, 7]}}]\n")
    cli("generate", str(path), "-o", str(out))
    for file in out.glob("*.cu"):
        file.write_text(file.read_text() + "// edited\n")
    result = cli("generate", str(path), "-o", str(out), "--check")
    assert result.out.count("-// edited") == 5
    assert result.err.startswith("note: 2 more changed files; --diff shows them all\n")
    result = cli("generate", str(path), "-o", str(out), "--check", "--diff")
    assert result.out.count("-// edited") == 7
    assert "more changed files" not in result.err


def test_a_table_tells_of_several_files(cli: Cli, source: str, tmp_path: Path) -> None:
    other, out = tmp_path / "other.yaml", str(tmp_path / "out")
    other.write_text("kernels: [{m: 8, n: 8, k: 8, stages: 99}, {m: 8, n: 8, k: 16}]\n")
    cli("generate", source, "-o", out)
    result = cli("generate", str(tmp_path), "-o", out)
    assert result.code == 2
    assert [line.split() for line in result.out.splitlines()[-5:]] == [
        ["kernel", "file", "new", "changed", "unchanged", "failed"],
        [source, "2"],
        [str(other), "1", "1"],
        [],
        ["1", "new,", "3", "changed,", "2", "unchanged,", "1", "failed"],
    ]


def test_the_mending_command_has_flags_and_environment(
    cli: Cli, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DGEMM_TILE_N", "32")
    words = ("generate", source, "-o", str(tmp_path / "out"), "--check", "--tile-m=32", "-q")
    fix = cli(*words).err.splitlines()[-1].partition(": ")[2]
    assert fix.startswith("DGEMM_TILE_N=32 deepgemm_codegen generate ")
    assert fix.endswith(" --tile-m=32")
    monkeypatch.delenv("DGEMM_TILE_N")
    assert shell(fix.replace("deepgemm_codegen generate", "$CLI generate")).code == 0
    monkeypatch.setenv("DGEMM_TILE_N", "32")
    assert cli(*words).code == 0


def test_a_name_with_spaces_is_not_quoted_twice(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "kernels.yaml"
    path.write_text("kernels: [{name: it's a name, m: 8, n: 8, k: 8, gpu: A100 SXM 80 GB}]\n")
    cli("generate", str(path), "-o", str(tmp_path / "out"), "-q")
    (kernel,) = json.loads((tmp_path / "out" / "manifest.json").read_text())["kernels"]
    (entry,) = read(path)
    assert GemmSpec.from_text(kernel["spec"]) == entry.spec
    source = (tmp_path / "out" / kernel["file"]).read_text()
    again = re.search(r"again   deepgemm_codegen (.*)", source)
    assert again
    assert cli(*shlex.split(again[1])).out == source


def test_json(cli: Cli, source: str, tmp_path: Path) -> None:
    report = json.loads(cli("generate", source, "-o", str(tmp_path / "out"), "--json").out)
    assert (report["format"], report["check"], report["exit_code"]) == ("1.0", False, 0)
    assert [file["status"] for file in report["files"]] == ["new"] * 5
    assert report["files"][0]["source"] == f"{source}:2"


def test_several_processes_write_the_same(cli: Cli, source: str, tmp_path: Path) -> None:
    assert cli("generate", source, "-o", str(tmp_path / "out"), "--jobs=2").code == 0
    assert cli("generate", source, "-o", str(tmp_path / "out"), "--check").code == 0


def test_a_kernel_that_nothing_serves_spares_the_others(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "kernels.yaml"
    path.write_text("kernels:\n  - {m: 8, n: 8, k: 8, stages: 99}\n  - {m: 8, n: 8, k: 16}\n")
    result = cli("generate", str(path), "-o", str(tmp_path / "out"))
    assert result.code == 2
    assert result.err.startswith(f"error: {path}:2:32: stages = 99: ")
    assert result.out.splitlines()[-1] == "4 new, 1 failed"
    stopped = cli("generate", str(path), "-o", str(tmp_path / "other"), "--fail-fast")
    assert stopped.code == 2


def test_problems_of_a_file_come_all_at_once(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "kernels.yaml"
    path.write_text("kernels:\n  - {m: 0, n: 8, k: 8}\n  - {m: 8, n: 8, k: 8, tile_mm: 3}\n")
    result = cli("generate", str(path), "-o", str(tmp_path / "out"))
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"error: {path}:2:9: m = 0: too small; the smallest is 1\n")
    assert "did you mean 'tile_m'?" in result.err
    assert result.err.endswith("2 problems in 1 file\n")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("text", ["", "kernels: []\n", "kernels:\n"])
def test_nothing_asked_for_is_an_error(cli: Cli, tmp_path: Path, text: str) -> None:
    path = tmp_path / "kernels.yaml"
    path.write_text(text)
    result = cli("generate", str(path), "-o", str(tmp_path / "out"))
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"error: {path}")


def test_a_flag_that_spoils_a_kernel_names_its_place(cli: Cli, source: str, tmp_path: Path) -> None:
    result = cli("generate", source, "-o", str(tmp_path / "out"), "--lda=3")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"error: {source}:2: lda = 3: too small; ")


def test_an_output_folder_that_is_a_file(cli: Cli, source: str) -> None:
    result = cli("generate", source, "-o", source)
    assert (result.code, result.out) == (2, "")
    assert result.err == f"error: '{source}' is a file; give a folder for the kernels\n"


def test_the_schema_is_json(cli: Cli) -> None:
    assert json.loads(cli("schema").out)["type"] == "object"
