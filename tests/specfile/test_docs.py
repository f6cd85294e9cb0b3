"""The manual's examples do what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import deepgemm_codegen
from deepgemm_codegen.decide.fold import fold
from deepgemm_codegen.spec.overrides import OVERRIDES
from deepgemm_codegen.specfile import MAX_KERNELS, SpecFileError, read, read_all
from deepgemm_codegen.specfile.fields import HELP
from deepgemm_codegen.specfile.include import MAX_INCLUDED
from deepgemm_codegen.specfile.nodes import MAX_DEPTH, MAX_NODES
from deepgemm_codegen.specfile.text import MAX_BYTES

MANUAL = (Path(deepgemm_codegen.__file__).parents[1] / "docs" / "yaml.md").read_text("utf-8")
PROSE = " ".join(MANUAL.split())


def test_the_example_is_four_kernels(tmp_path: Path) -> None:
    example = re.search(r"```yaml\n(.*?)```", MANUAL, re.DOTALL)
    assert example
    (tmp_path / "k.yaml").write_text(example[1], encoding="utf-8")
    found = read("k.yaml")
    assert [(entry.name, entry.spec.arch) for entry in found] == [
        (name, arch) for name in ("proj", "qkv") for arch in ("sm_80", "sm_90")
    ]


def _example(name: str) -> str:
    found = re.search(rf"```yaml\n# {name}\n(.*?)```", MANUAL, re.DOTALL)
    assert found
    return found[1]


def test_the_sweep_is_ten_kernels(tmp_path: Path) -> None:
    (tmp_path / "k.yaml").write_text(_example("sweeps.yaml"), encoding="utf-8")
    found = [entry.spec for entry in read("k.yaml")]
    assert len(found) == 10
    assert len({(spec.n.size, spec.k.size) for spec in found}) == 2
    assert {spec.m.size for spec in found if spec.arch == "sm_80"} == {16, 4096}


def test_the_including_file_is_two_kernels(tmp_path: Path) -> None:
    for name in ("team.yaml", "decoder.yaml"):
        (tmp_path / name).write_text(_example(name), encoding="utf-8")
    found = [str(entry.spec) for entry in read_all([tmp_path])]
    assert found == [
        f"m=dynamic:4096 n=6144 k=4096 dtype=bf16 layout=nt arch={arch} label=qkv"
        for arch in ("sm_80", "sm_90")
    ]


def test_batches_lie_as_the_example_says(tmp_path: Path) -> None:
    (tmp_path / "k.yaml").write_text(_example("heads.yaml"), encoding="utf-8")
    found = [entry.spec for entry in read("k.yaml")]
    assert [(s.stride_a, s.stride_b, s.stride_d) for s in found] == [
        ("dense", "dense", "dense"),
        (64, 64, "dense"),
        ("dense", 0, "dense"),
        ("pointers", 0, "pointers"),
    ]
    assert fold(found[2]).m.size == 6144


def test_the_problem_looks_as_shown(tmp_path: Path) -> None:
    shown = re.search(r"```\n(k\.yaml:.*?)\n```", MANUAL, re.DOTALL)
    assert shown
    line = "  - {name: a, m: 64, n: 64, k: 64, tile_mm: 64}\n"
    (tmp_path / "k.yaml").write_text(f"# comment\nkernels:\n{line}", encoding="utf-8")
    with pytest.raises(SpecFileError) as caught:
        read("k.yaml")
    assert str(caught.value) == shown[1]


def test_each_spelling_of_the_table_is_refused(tmp_path: Path) -> None:
    table = MANUAL.split("| written | why not | write |")[1].split("\n\n")[0]
    rows = [row.split(" | ") for row in table.splitlines()[2:]]
    spellings = [word for row in rows for word in re.findall(r"`(.*?)`", row[0])]
    assert len(spellings) == 15
    sizes = {"m": "8", "n": "8", "k": "8"}
    for spelling in spellings:
        name = spelling.split(":")[0]
        rest = "".join(f"    {n}: {v}\n" for n, v in sizes.items() if n != name)
        field = f"dtype: {spelling}" if spelling.startswith("!!") else spelling
        text = f"kernels:\n  - batch: 1\n{rest}    {field}\n"
        if spelling.startswith("<<"):
            text = text.replace("8\n", "&base 8\n", 1)
        if spelling == "---":
            text = f"kernels:\n  - batch: 1\n{rest}---\nkernels: []\n"
        (tmp_path / "k.yaml").write_text(text, encoding="utf-8")
        with pytest.raises(SpecFileError) as caught:
            read("k.yaml")
        assert len(caught.value.problems) == 1, spelling


def test_limits_are_those_of_the_code() -> None:
    assert f"A file may ask for {MAX_KERNELS:,} kernels" in PROSE
    assert f"One command may include {MAX_INCLUDED} files" in PROSE
    assert MAX_NODES == 1_000_000
    assert "a file may hold a million values" in PROSE
    assert f"nested {MAX_DEPTH} deep; it may be {MAX_BYTES // 2**20} MiB" in PROSE


def test_every_field_is_named() -> None:
    written = set(re.findall(r"`(\w+)`", MANUAL))
    spelled = {"ldb", "ldc", "align_b", "align_c", "dtype_b", "dtype_c", "dtype_d", "dtype_acc"}
    spelled |= {"stride_b", "stride_c"}
    assert set(HELP) - spelled - set(OVERRIDES) <= written
