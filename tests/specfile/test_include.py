"""Files that others build on, and folders of files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from deepgemm_codegen.errors import InputError
from deepgemm_codegen.specfile import SpecFileError, read, read_all

if TYPE_CHECKING:
    from pathlib import Path

SIZES = "m: 8, n: 8, k: 8"


@pytest.fixture
def write(tmp_path: Path) -> Writer:
    return Writer(tmp_path)


class Writer:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, **texts: str) -> None:
        """Writes ``a_b`` as ``a/b.yaml``."""
        for name, text in texts.items():
            path = self.folder / f"{name.replace('_', '/')}.yaml"
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")


def problems(*paths: str) -> list[str]:
    with pytest.raises(SpecFileError) as caught:
        read_all(paths)
    return [problem.summary for problem in caught.value.problems]


def test_defaults_and_sweeps_come_from_the_included_files(write: Writer) -> None:
    write(
        base="defaults: {dtype: bf16, layout: nt}\nsweeps: {archs: {arch: [sm_80, sm_90]}}\n",
        more="include: base.yaml\ndefaults: {layout: tn, epilogue: relu, sweep: archs}\n",
        k=f"include: [more.yaml]\ndefaults: {{epilogue: bias}}\nkernels: [{{{SIZES}}}]\n",
    )
    assert [str(entry.spec) for entry in read("k.yaml")] == [
        f"m=8 n=8 k=8 dtype=bf16 layout=tn epilogue=bias:bf16 arch={arch}"
        for arch in ("sm_80", "sm_90")
    ]


def test_the_later_include_wins_and_the_file_itself_last(write: Writer) -> None:
    write(
        a="defaults: {layout: nt, batch: 2}\nsweeps: {s: {m: [1]}}\n",
        b="defaults: {layout: tn, align_a: 8}\nsweeps: {s: {m: [2]}}\n",
        k="include: [a.yaml, b.yaml]\nsweeps: {t: {m: [3]}}\ndefaults: {align_a: 4}\n"
        "kernels: [{n: 8, k: 8, sweep: s}, {n: 8, k: 8, sweep: t}]\n",
    )
    assert [
        (e.spec.m.size, e.spec.layout, e.spec.batch, e.spec.align_a) for e in read("k.yaml")
    ] == [(2, "tn", 2, 4), (3, "tn", 2, 4)]


def test_a_field_replaces_an_included_sweep(write: Writer) -> None:
    write(
        base="defaults: {sweep: {arch: [sm_80, sm_90]}}\n",
        k=f"include: base.yaml\ndefaults: {{arch: sm_75}}\nkernels: [{{{SIZES}}}]\n",
    )
    assert [entry.spec.arch for entry in read("k.yaml")] == ["sm_75"]


def test_paths_are_relative_to_the_file_that_has_them(
    write: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(
        common_base="include: ../top.yaml\ndefaults: {layout: nt}\n",
        top="defaults: {dtype: bf16}\n",
        team_k=f"include: ../common/base.yaml\nkernels: [{{{SIZES}}}]\n",
    )
    assert str(read("team/k.yaml")[0].spec).startswith("m=8 n=8 k=8 dtype=bf16 layout=nt")
    monkeypatch.chdir(tmp_path / "common")
    assert read("../team/k.yaml")[0].where == "../team/k.yaml:2"


def test_a_fault_of_an_included_file_stands_there_and_once(write: Writer) -> None:
    write(
        base="sweeps: {s: {lda: [4]}}\ndefaults: {dtpye: fp16, ldb: 3}\n",
        a=f"include: base.yaml\nkernels: [{{{SIZES}, sweep: s}}]\n",
        b=f"include: base.yaml\nkernels: [{{{SIZES}, sweep: s, align_a: 3}}]\n",
    )
    found = problems("a.yaml", "b.yaml")
    assert [text.partition("; ")[0] for text in found] == [
        "b.yaml:2:49: align_a = 3: give a power of two from 2 to 4096 (bytes)",
        "base.yaml:1:20: lda = 4: too small",
        "base.yaml:2:12: unknown key 'dtpye' (did you mean 'dtype'?)",
        "base.yaml:2:30: ldb = 3: too small",
    ]


@pytest.mark.parametrize(
    ("include", "message"),
    [
        ("k.yaml", "1:10: 'k.yaml' includes itself; take one include out"),
        ("~", "1:1: 'include' wants the path of a file, or a list of paths"),
        ("[]", "1:1: 'include' wants the path of a file, or a list of paths"),
        ("[[x]]", "1:11: 'include' wants the path of a file, or a list of paths"),
        ("{a: b}", "1:10: 'include' wants the path of a file, or a list of paths"),
    ],
)
def test_an_include_that_is_none(include: str, message: str, write: Writer) -> None:
    write(k=f"include: {include}\nkernels: [{{{SIZES}}}]\n")
    assert problems("k.yaml") == [f"k.yaml:{message}"]


def test_includes_in_a_circle(write: Writer) -> None:
    write(
        a="include: b.yaml\n",
        b="include: a.yaml\n",
        k=f"include: a.yaml\nkernels: [{{{SIZES}}}]\n",
    )
    assert problems("k.yaml") == ["b.yaml:1:10: 'a.yaml' includes itself; take one include out"]


def test_an_included_file_that_is_missing_empty_or_of_another_kind(write: Writer) -> None:
    write(
        empty="# nothing\n",
        kernels=f"kernels: [{{{SIZES}}}]\n",
        other="- a\n",
        k=f"include: [gone.yaml, empty.yaml, kernels.yaml, other.yaml]\nkernels: [{{{SIZES}}}]\n",
    )
    assert problems("k.yaml") == [
        "gone.yaml: cannot be read: No such file or directory",
        "empty.yaml: the file is empty; give 'defaults' or 'sweeps', or do not include it",
        (
            "kernels.yaml:1:1: an included file has no 'kernels'; give both files to the command"
            " instead"
        ),
        "other.yaml:1:1: the list of kernels stands under a key: 'kernels:'",
    ]


def test_a_hundred_includes_are_the_most(write: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deepgemm_codegen.specfile.include.MAX_INCLUDED", 2)
    write(
        a="include: b.yaml\n",
        b="include: c.yaml\n",
        c="defaults: {}\n",
        k=f"include: a.yaml\nkernels: [{{{SIZES}}}]\n",
    )
    assert problems("k.yaml") == ["b.yaml:1:10: more than 2 files are included; join some of them"]


def test_a_folder_stands_for_its_files_in_order(write: Writer, tmp_path: Path) -> None:
    write(
        d_b="kernels: [{m: 2, n: 8, k: 8}]\n",
        d_a="include: base.yaml\nkernels: [{m: 1, n: 8, k: 8}]\n",
        d_base="defaults: {dtype: bf16}\n",
        f="kernels: [{m: 4, n: 8, k: 8}]\n",
    )
    (tmp_path / "d" / "sub").mkdir()
    (tmp_path / "d" / "sub" / "c.yml").write_text("kernels: [{m: 3, n: 8, k: 8}]\n")
    (tmp_path / "d" / ".git").mkdir()
    (tmp_path / "d" / ".git" / "x.yaml").write_text("- wrong\n")
    found = read_all(["f.yaml", "d"])
    assert [(e.spec.m.size, e.file) for e in found] == [
        (4, "f.yaml"),
        (1, "d/a.yaml"),
        (2, "d/b.yaml"),
        (3, "d/sub/c.yml"),
    ]
    assert [str(e.spec.dtype_a) for e in found] == ["fp16", "bf16", "fp16", "fp16"]
    assert len(read_all(["d/a.yaml", "d"])) == 3  # a file and its folder are no contradiction


def test_a_file_without_kernels_is_refused_when_it_is_given_itself(write: Writer) -> None:
    write(d_base="defaults: {dtype: bf16}\n")
    assert problems("d/base.yaml") == [
        "d/base.yaml:1:1: 'kernels' is missing; there is nothing to generate"
    ]
    with pytest.raises(InputError, match=r"^no file that was found asks for a kernel; there is"):
        read_all(["d"])
