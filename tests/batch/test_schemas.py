"""The published schemas describe what is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from deepgemm_codegen.batch import generate
from deepgemm_codegen.batch.dispatch import Entry, dispatch_texts
from deepgemm_codegen.batch.manifest import MANIFEST
from deepgemm_codegen.resources import data_folder
from deepgemm_codegen.schemas import SCHEMAS
from deepgemm_codegen.specfile import read_all
from tests.jsonschema import faults

from .conftest import entry, some

if TYPE_CHECKING:
    from collections.abc import Callable

    from .conftest import Make

    Fake = Callable[[Make], None]

CONFIGS = data_folder("configs")
COMMITTED = Path(__file__).parents[2] / "generated"


def wrong(name: str, text: str) -> list[str]:
    rules = SCHEMAS[name]()
    return list(faults(json.loads(text), rules, rules))


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_published_schema_is_fresh(name: str) -> None:
    text = (CONFIGS / "schemas" / f"{name}.schema.json").read_text(encoding="utf-8")
    assert text == json.dumps(SCHEMAS[name](), indent=2) + "\n", (
        f"write it anew with `deepgemm_codegen schema {name} > configs/schemas/{name}.schema.json`"
    )


@pytest.mark.parametrize("name", ["manifest", "dispatch"])
def test_the_committed_files_fit(name: str) -> None:
    assert wrong(name, (COMMITTED / f"{name}.json").read_text(encoding="utf-8")) == []


def test_every_kind_of_kernel_fits(tmp_path: Path) -> None:
    entries = [
        entry(64, label="dynamic", m="dynamic", k="dynamic", n=64),
        entry(64, label="hopper", n=64, k=64, arch="sm_90a", layout="nt", family="wgmma"),
        entry(64, label="steps", n=64, k=64, epilogue="bias,relu", dtype_c="fp32"),
        entry(64, label="columns", n=64, k=64, layout_d="t", batch=3),
        entry(64, label="parts", n=64, k=2048, split_k=4),
    ]
    generate(entries, tmp_path)
    for name in ("manifest", "dispatch"):
        assert wrong(name, (tmp_path / f"{name}.json").read_text(encoding="utf-8")) == []
    kernels = json.loads((tmp_path / MANIFEST).read_text(encoding="utf-8"))["kernels"]
    assert [k["name"][:6] for k in kernels if "tensor_maps" in k] == ["hopper"]


def test_what_is_left_fits(tmp_path: Path, fake: Fake) -> None:
    generate(some(3), tmp_path)
    generate(some(1), tmp_path)
    text = (tmp_path / MANIFEST).read_text(encoding="utf-8")
    assert len(json.loads(text)["left"]) == 2
    assert wrong("manifest", text) == []


def test_several_kernels_of_a_spec_fit() -> None:
    made = Entry(entry(8).spec, "a", "sm_80", workspace=True)
    assert wrong("dispatch", dispatch_texts([made])[1]) == []


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda m: m.pop("format"), "format missing"),
        (lambda m: m.update(format="2.0"), "'2.0' does not match"),
        (lambda m: m["kernels"].clear(), "too few items"),
        (lambda m: m["kernels"][0].pop("launch"), "fits none"),
        (lambda m: m["kernels"][0].update(source_sha256="ab"), "'ab' does not match"),
        (lambda m: m["kernels"][0]["launch"].update(block=0), "0 out of range"),
    ],
)
def test_a_broken_manifest_does_not_fit(change: Callable[[Any], None], fault: str) -> None:
    manifest = json.loads((COMMITTED / MANIFEST).read_text(encoding="utf-8"))
    change(manifest)
    (found,) = wrong("manifest", json.dumps(manifest))
    assert found.endswith(fault)


@pytest.mark.full
def test_every_shipped_config_fits(tmp_path: Path) -> None:
    generate(read_all([CONFIGS / "kernels"]), tmp_path)
    for name in ("manifest", "dispatch"):
        assert wrong(name, (tmp_path / f"{name}.json").read_text(encoding="utf-8")) == []
