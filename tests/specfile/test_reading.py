"""What right files mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from deepgemm_codegen.errors import InputError
from deepgemm_codegen.spec.naming import kernel_name
from deepgemm_codegen.specfile import SpecEntry, SpecFileError, read, read_all

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Entries = Callable[[str | bytes], list[SpecEntry]]


def specs(found: list[SpecEntry]) -> list[str]:
    return [str(entry.spec) for entry in found]


def test_both_styles_and_defaults(loader: str, entries: Entries) -> None:
    text = """\
defaults: {dtype: fp16, layout: nt, epilogue: [bias, relu]}
kernels:
  - {name: proj_64x64_c320, m: 4096, n: 320, k: 320}
  - name: qkv
    m: dynamic:8192
    n: 6144
    k: 4096
    arch: sm_90
    tile: {m: 128, n: 128, k: 32}
    stages: 3
    epilogue: [{bias: {axis: row, dtype: fp32}}, relu]
"""
    found = entries(text)
    assert specs(found) == [
        (
            "m=4096 n=320 k=320 dtype=fp16 layout=nt epilogue=bias:fp16,relu arch=sm_80"
            " label=proj_64x64_c320"
        ),
        (
            "m=dynamic:8192 n=6144 k=4096 dtype=fp16 layout=nt epilogue=bias:row:fp32,relu"
            " arch=sm_90 label=qkv tile_m=128 tile_n=128 tile_k=32 stages=3"
        ),
    ]
    assert [(e.name, e.file, e.line, e.column, e.where) for e in found] == [
        ("proj_64x64_c320", "k.yaml", 3, 5, "k.yaml:3"),
        ("qkv", "k.yaml", 4, 5, "k.yaml:4"),
    ]


def test_sweep_is_a_product_the_first_axis_slowest(loader: str, entries: Entries) -> None:
    text = "kernels: [{name: x, m: 1, n: 2, k: 3, sweep: {arch: [sm_80, sm_90], layout: [nn, nt]}}]"
    assert [(e.spec.arch, e.spec.layout, e.line) for e in entries(text)] == [
        ("sm_80", "nn", 1),
        ("sm_80", "nt", 1),
        ("sm_90", "nn", 1),
        ("sm_90", "nt", 1),
    ]


def test_sweep_of_steps_and_sizes(entries: Entries) -> None:
    text = "kernels: [{n: 2, k: 3, sweep: {m: [1, dynamic], epilogue: [[], bias, [bias, relu]]}}]"
    found = [(str(e.spec.m), ",".join(map(str, e.spec.epilogue))) for e in entries(text)]
    assert found == [
        (m, steps) for m in ("1", "dynamic:4096") for steps in ("", "bias:fp16", "bias:fp16,relu")
    ]


def test_a_kernel_overrides_a_swept_default_and_sweeps_a_fixed_one(entries: Entries) -> None:
    text = """\
defaults: {layout: nt, sweep: {arch: [sm_80, sm_90]}}
kernels:
  - {name: a, m: 1, n: 1, k: 1, arch: sm_89}
  - {name: b, m: 1, n: 1, k: 1, sweep: {layout: [nn, tt]}}
  - {name: c, m: 1, n: 1, k: 1, sweep: {arch: [sm_75]}}
"""
    assert [(e.name, e.spec.arch, e.spec.layout) for e in entries(text)] == [
        ("a", "sm_89", "nt"),
        ("b", "sm_80", "nn"),
        ("b", "sm_80", "tt"),
        ("b", "sm_90", "nn"),
        ("b", "sm_90", "tt"),
        ("c", "sm_75", "nt"),
    ]


def test_words_stay_as_written(loader: str, entries: Entries) -> None:
    """What YAML would turn into numbers and dates is text where text is wanted."""
    for value in ("010", "1e3", "12:30:00", "2024-01-01", "1_000", "0x10", "'NO'", "n", "y"):
        [entry] = entries(f"kernels: [{{name: {value}, m: 1, n: 1, k: 1}}]\n")
        assert entry.name == value.strip("'")
    for arch in ("80", "8.0", "sm_80", "90a", "12.0"):
        [entry] = entries(f"kernels: [{{m: 1, n: 1, k: 1, arch: {arch}}}]\n")
        assert entry.spec.arch.removeprefix("sm_") == arch.removeprefix("sm_").replace(".", "")


def test_layout_d_n_is_no_boolean(loader: str, entries: Entries) -> None:
    assert entries("kernels: [{m: 1, n: 1, k: 1, layout_d: n}]")[0].spec.layout_d == "n"


@pytest.mark.parametrize("value", ["1024", "'1024'", '"1024"', "+1024"])
def test_size_in_quotes_is_the_same_size(value: str, loader: str, entries: Entries) -> None:
    [entry] = entries(f"kernels: [{{m: {value}, n: 1, k: 0}}]")
    assert entry.spec.m.size == 1024


def test_aliases_stand_for_their_anchor(loader: str, entries: Entries) -> None:
    text = (
        "defaults: {epilogue: &steps [bias, relu]}\n"
        "kernels:\n"
        "  - {m: 1, n: 1, k: 1}\n"
        "  - {m: 2, n: 1, k: 1, epilogue: [relu]}\n"
        "  - {m: 3, n: 1, k: 1, epilogue: *steps}\n"
    )
    assert [len(e.spec.epilogue) for e in entries(text)] == [2, 1, 2]


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_line_ends_and_byte_order_mark(ends: str, mark: str, loader: str, entries: Entries) -> None:
    text = mark + ends.join(["# comment", "kernels:", "  - {m: 1, n: 1, k: 1}", ""])
    assert entries(text)[0].line == 3


def test_text_of_the_spec_reads_back_to_the_same_spec(entries: Entries) -> None:
    text = "kernels: [{name: 'a b/c', m: 5, n: 6, k: 7, lda: 9, dtype_c: fp32, align: {b: 2}}]"
    [entry] = entries(text)
    assert type(entry.spec).from_text(str(entry.spec)) == entry.spec


def test_y09_kernels_that_differ_in_one_parameter_have_names_of_their_own(
    entries: Entries,
) -> None:
    text = """\
defaults: {name_: x}
kernels:
""".replace("defaults: {name_: x}\n", "")
    for extra in ("", "ldc: 8, dtype_c: fp16", "ldc: 9, dtype_c: fp16", "epilogue: [relu]"):
        text += f"  - {{name: g, m: 4, n: 8, k: 4, {extra}}}\n"
    text += "  - {name: g, m: 4, n: 8, k: 4, dtype_c: fp32}\n"
    text = text.replace(", }", "}")
    names = [kernel_name(entry.spec) for entry in entries(text)]
    assert len(set(names)) == 5


@pytest.mark.parametrize("names", [("a/b", "a_b"), ("a_b", "a/b"), ("Gemm", "gemm")])
def test_y14_y16_names_that_sanitise_alike_stay_apart(
    names: tuple[str, str], entries: Entries
) -> None:
    first, second = names
    text = f"kernels:\n  - {{name: {first}, m: 1, n: 1, k: 1}}\n"
    text += f"  - {{name: {second}, m: 1, n: 1, k: 1}}\n"
    stems = {kernel_name(entry.spec).casefold() for entry in entries(text)}
    assert len(stems) == 2


def test_same_kernel_in_two_files(tmp_path: Path) -> None:
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text("kernels: [{m: 1, n: 1, k: 1}]\n", encoding="utf-8")
    with pytest.raises(SpecFileError) as caught:
        read_all(["a.yaml", "b.yaml"])
    assert str(caught.value).splitlines()[0] == (
        "b.yaml:1:11: a.yaml:1 asks for the same kernel already; give this one another name, or"
        " leave it out"
    )


def test_same_file_twice(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("kernels: [{m: 1, n: 1, k: 1}]\n", encoding="utf-8")
    with pytest.raises(SpecFileError, match=r"^\./a\.yaml: the file is given twice; give it once$"):
        read_all(["a.yaml", "./a.yaml"])


def test_no_file_at_all() -> None:
    with pytest.raises(InputError, match="no kernel file is given; give at least one"):
        read_all([])


def test_kernels_of_several_files_keep_their_order(tmp_path: Path) -> None:
    for index, name in enumerate(("b.yaml", "a.yaml")):
        text = f"kernels: [{{m: {index + 1}, n: 1, k: 1}}]\n"
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert [entry.file for entry in read_all(["b.yaml", "a.yaml"])] == ["b.yaml", "a.yaml"]
    assert read(tmp_path / "a.yaml")[0].file == str(tmp_path / "a.yaml")
