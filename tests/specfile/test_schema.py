"""The schema for editors says what the reader says, on the shipped configs and beyond."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import yaml

from deepgemm_codegen.resources import data_folder
from deepgemm_codegen.spec.overrides import OFF, OVERRIDE_WORDS, OVERRIDES
from deepgemm_codegen.spec.text import FIELDS
from deepgemm_codegen.specfile import SpecFileError, read, schema
from deepgemm_codegen.specfile.fields import CHOICES, GROUPS, HELP, kind_of
from tests.jsonschema import faults

if TYPE_CHECKING:
    from pathlib import Path

CONFIGS = sorted((data_folder("configs") / "kernels").glob("*.yaml"))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_shipped_configs_fit(path: Path) -> None:
    rules = schema()
    assert list(faults(yaml.safe_load(path.read_text(encoding="utf-8")), rules, rules)) == []


def test_the_committed_schema_is_fresh() -> None:
    path = data_folder("configs") / "kernels" / "schema.json"
    assert path.read_text(encoding="utf-8") == json.dumps(schema(), indent=2) + "\n", (
        "write it anew with `deepgemm_codegen schema > configs/kernels/schema.json`"
    )


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("include: a.yaml\ndefaults: {layout: nt}\n", True),
        ("include: [a.yaml, b.yaml]\nsweeps: {s: {m: [1, 2]}}\n", True),
        ("include: []\n", False),
        ("include: {a: b}\n", False),
        ("sweeps: {}\n", False),
        ("sweeps: [m]\n", False),
        ("sweeps: {s: {m: 1}}\n", False),
        ("sweeps: {s: t}\n", False),
        ("{}\n", False),
    ],
)
def test_files_that_others_include(text: str, right: bool, tmp_path: Path) -> None:
    rules = schema()
    assert (list(faults(yaml.safe_load(text), rules, rules)) == []) == right


def test_every_field_of_the_spec_is_there_with_its_help() -> None:
    rules = schema()
    kernel = rules["properties"]["kernels"]["items"]["properties"]
    names = [name for name in (*FIELDS, *OVERRIDES) if name != "label"]
    assert set(kernel) == {"name", *names, *GROUPS, "sweep", "require"}
    for name in names:
        assert rules["$defs"][name]["description"] == {**FIELDS, **OVERRIDES}[name]


def test_every_field_has_the_kind_that_its_name_tells() -> None:
    """A new field of the spec lands in ``text`` until this module learns of it."""
    kinds = {name: kind_of(name) for name in HELP}
    assert [name for name, kind in kinds.items() if kind == "text"] == ["name", "arch", "gpu"]
    assert [name for name, kind in kinds.items() if kind == "dim"] == ["m", "n", "k"]
    assert {name for name, kind in kinds.items() if kind == "choice"} == set(CHOICES)
    assert {name for name, kind in kinds.items() if kind == "dtype"} == {
        name for name in FIELDS if name.startswith("dtype")
    }
    zeros = [name for name, kind in kinds.items() if kind == "zero_point"]
    assert zeros == ["zero_point_a", "zero_point_b"]
    numbers = {name for name, kind in kinds.items() if kind == "number"}
    assert set(OVERRIDES) - set(OVERRIDE_WORDS) < numbers


def test_groups() -> None:
    assert {stem: list(names.values()) for stem, names in GROUPS.items()} == {
        "stride": ["stride_a", "stride_b", "stride_c", "stride_d"],
        "align": ["align_a", "align_b", "align_c", "align_d"],
        "tile": ["tile_m", "tile_n", "tile_k"],
        "warps": ["warps_m", "warps_n", "warps_k"],
        "cluster": ["cluster_m", "cluster_n", "cluster_k"],
        "zero_point": ["zero_point_a", "zero_point_b"],
        "scale": ["scale_a", "scale_b"],
    }


RIGHT = [
    "m: 1",
    "m: dynamic",
    "m: dynamic:5",
    "m: '1'",
    "k: 0",
    "stages: 3",
    *(f"{name}: 0" for name in OFF),
    "align_a: 4096",
    "epilogue: 'bias,relu'",
    "epilogue: []",
    "epilogue: [bias:row:fp32, relu]",
    "epilogue: [{bias: {axis: row, dtype: fp32}}]",
    "tile: {m: 64}",
    "sweep: {arch: [sm_80, 90]}",
    "sweep: {zip: {batch: [1, 2], arch: [sm_80, sm_90]}}",
    "sweep: {zip: [{batch: [1, 2]}, {arch: [sm_80, sm_90]}], exclude: [{batch: 1, arch: 80}]}",
    "sweep: {batch: [1, 2, 3], exclude: {batch: [1, 2]}}",
    "sweep: archs",
    "sweep: [archs, {batch: [1, 2]}]",
    "arch: 8.0",
    "name: 5",
    "dtype_c: none",
    "dtype: half",
    "dtype: e4m3, scale: {a: 1x128, b: 128x128}",
    "require: {max_registers: 168, no_spills: true, bank_conflicts: 0}",
    "require: {no_spills: false}",
    "require: {min_ratio_vs_cublas: 0.95}",
    "require: {min_ratio_vs_cublas: 1}",
]
WRONG = [
    "m: 0",
    "m: -1",
    "m: 1.5",
    "m: [1]",
    "m: dynamic:0",
    "m: 1e3",
    "m: NO",
    "m: 2147483648",
    *(f"{name}: 0" for name in OVERRIDES if name not in (*OFF, *OVERRIDE_WORDS)),
    "align_a: 8192",
    "stages: dynamic",
    "dtype: none",
    "dtype: fp61",
    "layout: qq",
    "layout_d: x",
    "zero_point_a: per_channel",
    "zero_point_b: 1000",
    "scale_a: 128x128",
    "scale: {b: 1x128}",
    "epilogue: [rleu]",
    "epilogue: [{bias: {aixs: row}}]",
    "epilogue: [{bias: {axis: rows}}]",
    "epilogue: {bias: {}}",
    "tile: {}",
    "tile: {x: 1}",
    "tile: 64",
    "sweep: {}",
    "sweep: {arch: []}",
    "sweep: {arch: sm_80}",
    "sweep: {name: [a]}",
    "sweep: {zip: []}",
    "sweep: {zip: {batch: 2}}",
    "sweep: {exclude: 3, batch: [1, 2]}",
    "sweep: {exclude: {name: a}, batch: [1, 2]}",
    "sweep: []",
    "label: x",
    "alpha: 1e-3",
    "require: {}",
    "require: []",
    "require: true",
    "require: {max_register: 168}",
    "require: {max_registers: 0}",
    "require: {max_registers: 256}",
    "require: {max_registers: 100.5}",
    "require: {max_registers: true}",
    "require: {no_spills: 1}",
    "require: {bank_conflicts: -1}",
    "require: {min_ratio_vs_cublas: 0}",
    "no_spills: true",
]


@pytest.mark.parametrize(
    ("field", "right"), [(f, True) for f in RIGHT] + [(f, False) for f in WRONG]
)
def test_schema_and_reader_agree(field: str, right: bool, tmp_path: Path) -> None:
    sizes = {"m": 8, "n": 8, "k": 8}
    swept = [name for name in sizes if field.startswith(f"{name}:")]
    rest = ", ".join(f"{name}: {size}" for name, size in sizes.items() if name not in swept)
    text = f"sweeps: {{archs: {{arch: [80]}}}}\nkernels: [{{{rest}, {field}}}]\n"
    rules = schema()
    assert (list(faults(yaml.safe_load(text), rules, rules)) == []) == right
    path = tmp_path / "k.yaml"
    path.write_text(text, encoding="utf-8")
    if right:
        assert read(path)
    else:
        with pytest.raises(SpecFileError):
            read(path)
