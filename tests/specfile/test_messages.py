"""How problems look: marker, order, number, and nothing that a terminal would act on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.dtypes import DTYPES
from deepgemm_codegen.errors import InputError
from deepgemm_codegen.spec import GemmSpec
from deepgemm_codegen.specfile import Problem, SpecFileError, read, read_all

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from deepgemm_codegen.specfile import SpecEntry

    Entries = Callable[[str | bytes], list[SpecEntry]]


def failure(entries: Entries, text: str | bytes) -> SpecFileError:
    with pytest.raises(SpecFileError) as caught:
        entries(text)
    return caught.value


def refusal(**fields: object) -> str:
    """The spec's own words for what it refuses; where they appear is what is tested here."""
    with pytest.raises(InputError) as caught:
        load_arch(GemmSpec.from_fields(fields).arch)
    return str(caught.value)


def test_all_problems_at_once_with_line_and_marker(loader: str, entries: Entries) -> None:
    text = """\
defaults: {dtype: fp61}
kernels:
  - {name: a, m: 08, n: 64, k: 64, tile_mm: 64}
  - name: b
    m: 1.5
    n: 64
    k: 64
    arch: sm_81
    lda: 3
"""
    error = failure(entries, text)
    assert error.exit_code == 2
    lda = refusal(m=8, n=64, k=64, lda=3)
    arch = refusal(m=8, n=64, k=64, arch="sm_81")
    known = ", ".join(DTYPES)
    assert (
        str(error)
        == f"""\
k.yaml:1:19: unknown dtype 'fp61'; known: {known} (did you mean 'fp16'?)
    1 | defaults: {{dtype: fp61}}
      |                   ~~~^
k.yaml:3:18: m = 08: YAML reads this as text, because of the leading zero; write 8
    3 |   - {{name: a, m: 08, n: 64, k: 64, tile_mm: 64}}
      |                  ~^
k.yaml:3:36: unknown key 'tile_mm' (did you mean 'tile_m'?)
    3 |   - {{name: a, m: 08, n: 64, k: 64, tile_mm: 64}}
      |                                    ~~~~~~^
k.yaml:5:8: m = 1.5: not a whole number; give a whole number, dynamic, or dynamic:MAX
    5 |     m: 1.5
      |        ~~^
k.yaml:8:11: {arch}
    8 |     arch: sm_81
      |           ~~~~^
k.yaml:9:10: {lda}
    9 |     lda: 3
      |          ^
6 problems in 1 file"""
    )


def test_concise_after_ten(entries: Entries) -> None:
    lines = "".join(f"  - {{m: x{i}, n: 1, k: 1}}\n" for i in range(12))
    shown = str(failure(entries, f"kernels:\n{lines}")).splitlines()
    assert len(shown) == 10 * 3 + 2 + 1
    assert shown[27].startswith("k.yaml:11:9: m = x9: ")
    assert shown[28:30] == ["   11 |   - {m: x9, n: 1, k: 1}", "      |         ~^"]
    assert shown[30].startswith("k.yaml:12:9: m = x10: ")
    assert shown[31].startswith("k.yaml:13:9: m = x11: ")
    assert shown[32] == "12 problems in 1 file"


def test_after_a_hundred_only_a_count(entries: Entries) -> None:
    lines = "".join(f"  - {{m: x{i}, n: 1, k: 1}}\n" for i in range(500))
    error = failure(entries, f"kernels:\n{lines}")
    shown = str(error).splitlines()
    assert len(error.problems) == 500
    assert len(shown) == 10 * 3 + 90 + 2
    assert shown[-2:] == ["... and 400 more", "500 problems in 1 file"]


def test_problems_of_every_file(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("kernels: [{m: x, n: 1, k: 1}]\n", encoding="utf-8")
    (tmp_path / "b.yaml").write_text("kernels: [{m: 1, n: 1, k: 1}]\n", encoding="utf-8")
    (tmp_path / "c.yaml").write_text("kernels: []\n", encoding="utf-8")
    with pytest.raises(SpecFileError) as caught:
        read_all(["a.yaml", "missing.yaml", "b.yaml", "c.yaml"])
    assert [problem.summary for problem in caught.value.problems] == [
        "a.yaml:1:15: m = x: not a whole number; give a whole number, dynamic, or dynamic:MAX",
        "missing.yaml: cannot be read: No such file or directory",
        "c.yaml:1:1: 'kernels' is empty; there is nothing to generate",
    ]
    assert str(caught.value).splitlines()[-1] == "3 problems in 3 files"


def test_a_default_at_fault_is_reported_once(entries: Entries) -> None:
    text = "defaults: {lda: 3, sweep: {arch: [sm_80, sm_90]}}\nkernels:\n"
    text += "".join(f"  - {{m: 1, n: {i + 1}, k: 64}}\n" for i in range(5))
    error = failure(entries, text)
    assert [problem.summary for problem in error.problems] == [
        f"k.yaml:1:17: {refusal(m=1, n=1, k=64, lda=3)}"
    ]


def test_every_fault_of_one_kernel(entries: Entries) -> None:
    text = """\
kernels:
  - m: 64
    n: 64
    k: 64
    batch: 0
    layout: qq
    align_a: 3
    stages: 0
    arch: sm_81
    tile: {m: -1}
"""
    error = failure(entries, text)
    assert [problem.line for problem in error.problems] == [5, 6, 7, 8, 9, 10]


@pytest.mark.parametrize(
    ("fields", "column"),
    [
        ("dtype: fp61, dtype_a: bf16", 47),
        ("dtype: fp61, dtype_c: bf16, ldc: 8", 47),
        ("dtype_c: fp61, ldc: 8", 49),
        ("dtype: int32, align_d: 2", 47),
        ("arch: sm_81, gpu: H100", 46),
        ("layout: qq, lda: 8", 48),
    ],
)
def test_what_follows_from_a_fault_is_not_told(fields: str, column: int, entries: Entries) -> None:
    error = failure(entries, f"kernels: [{{m: 8, n: 8, k: 9, batch: 2, {fields}}}]\n")
    assert [problem.column for problem in error.problems] == [column]


def test_places_behind_a_byte_order_mark(loader: str, entries: Entries) -> None:
    error = failure(entries, "\ufeffkernls: 1\n")
    assert str(error).splitlines()[0].startswith("k.yaml:1:1: unknown key 'kernls'")
    assert str(error).splitlines()[1:] == ["    1 | kernls: 1", "      | ~~~~~^"]


def test_an_invalid_value_is_not_called_missing(entries: Entries) -> None:
    error = failure(entries, "kernels: [{m: x, n: 1, k: 1}]\n")
    assert len(error.problems) == 1


def test_marker_under_wide_text_and_tabs(entries: Entries) -> None:
    error = failure(entries, "kernels: [{name: '漢字', m: x, n: 1, k: 1}]\n")
    assert str(error.problems[0]).splitlines()[1:] == [
        "    1 | kernels: [{name: '漢字', m: x, n: 1, k: 1}]",
        "      |                             ^",
    ]
    error = failure(entries, "kernels:\t[{m:\tx, n: 1, k: 1}]\n")
    assert str(error.problems[0]).splitlines()[1:] == [
        "    1 | kernels: [{m: x, n: 1, k: 1}]",
        "      |               ^",
    ]


@pytest.mark.parametrize("before", [0, 30, 90, 200, 5000])
def test_a_long_line_is_cut_round_the_problem(before: int, entries: Entries) -> None:
    error = failure(entries, f"kernels: [{' ' * before}{{m: xyz, n: 1, k: 1}}{' ' * 300}]\n")
    _, source, marker = str(error.problems[0]).splitlines()
    assert len(source) <= 8 + 96
    at = marker.index("~~^")
    assert source[at : at + 3] == "xyz"


def test_nothing_reaches_a_terminal(entries: Entries) -> None:
    error = failure(entries, 'kernels: [{m: "\\e[31m\\u202e", n: 1, k: 1, "\\a": 1}]\n')
    assert str(error).replace("\n", "").isprintable()
    with pytest.raises(SpecFileError) as caught:
        read("no\x1b[31m\nsuch")
    assert str(caught.value).startswith("no\\x1b[31m\\nsuch: cannot be read: ")


def test_annotation_for_github() -> None:
    problem = Problem("a,b:c.yaml", 3, 5, "m = 50%: no", "  - m: 50%", 3)
    assert problem.annotation() == "::error file=a%2Cb%3Ac.yaml,line=3,col=5::m = 50%25: no"
    assert Problem("a.yaml", 0, 0, "gone").annotation() == "::error file=a.yaml::gone"


def test_a_folder_without_kernel_files(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / ".hidden.yaml").touch()
    (tmp_path / "d" / "notes.txt").touch()
    with pytest.raises(
        InputError, match=r"^d: the folder holds no kernel file \(\*\.yaml, \*\.yml\)$"
    ):
        read("d")


def test_the_comment_of_a_line_is_shown(entries: Entries) -> None:
    text = "kernels:\n  - {m: 8, n: 0, k: 8}  # 64 once the tails work\n"
    assert str(failure(entries, text)).splitlines()[1:] == [
        "    2 |   - {m: 8, n: 0, k: 8}  # 64 once the tails work",
        "      |               ^",
    ]


def test_a_name_that_no_system_has() -> None:
    with pytest.raises(SpecFileError, match="cannot be read"):
        read("a\0b")
    with pytest.raises(SpecFileError, match="cannot be read: File name too long"):
        read("x" * 5000)


def test_not_utf8(entries: Entries) -> None:
    error = failure(entries, b"kernels:\n  - {name: caf\xe9, m: 1}\n")
    assert str(error).splitlines()[0] == (
        "k.yaml:2:15: byte 0xe9 is not UTF-8; save the file as UTF-8"
    )
    error = failure(entries, "kernels: []".encode("utf-16"))
    assert error.problems[0].summary == (
        "k.yaml:1:1: byte 0xff is not UTF-8; save the file as UTF-8"
    )


def test_flags_of_a_message_are_written_as_keys(entries: Entries) -> None:
    """The spec speaks to both; ``--sms=COUNT`` is ``sms: COUNT`` in a file."""
    assert "--sms=COUNT" in refusal_of_gpu()
    error = failure(entries, "kernels: [{m: 8, n: 8, k: 8, gpu: nonesuch}]\n")
    assert error.problems[0].message == refusal_of_gpu().replace("--sms=COUNT", "sms: COUNT")


def refusal_of_gpu() -> str:
    with pytest.raises(InputError) as caught:
        load_arch("sm_80", "nonesuch")
    return str(caught.value)


def test_kernels_that_a_mistake_makes_alike_are_not_told_of(tmp_path: Path) -> None:
    path = tmp_path / "k.yaml"
    path.write_text(
        "kernels:\n  - {m: 8, n: 8, k: 8}\n  - {m: 8, n: 8, k: 8, tile: 128}\n", encoding="utf-8"
    )
    with pytest.raises(SpecFileError) as caught:
        read(path)
    (problem,) = caught.value.problems
    assert problem.message == "'tile' wants a mapping: tile: {m: 64, n: 64, k: 64}"
