"""The manifest: what it says, and whose it is."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import pytest

from deepgemm_codegen.batch import generate
from deepgemm_codegen.batch.manifest import MANIFEST, record
from deepgemm_codegen.errors import InputError
from deepgemm_codegen.spec import GemmSpec
from deepgemm_codegen.spec.naming import kernel_name
from tests.harness.support import program_of

from .conftest import entry, files, some

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .conftest import Make

    Fake = Callable[[Make], None]


def test_manifest_ties_spec_source_and_launch(tmp_path: Path) -> None:
    dynamic = entry(9, arch="sm_90", epilogue="bias,relu", m="dynamic:100", label="d")
    generate([entry(7, label="z"), dynamic], "out")
    text = (tmp_path / "out" / MANIFEST).read_text(encoding="utf-8")
    manifest = json.loads(text)
    assert (manifest["format"], manifest["generator"]) == ("1.3", "deepgemm_codegen 0.1.0")
    assert [kernel["name"][:2] for kernel in manifest["kernels"]] == ["d_", "z_"]
    for kernel in manifest["kernels"]:
        source = (tmp_path / "out" / kernel["file"]).read_bytes()
        assert kernel["source_sha256"] == hashlib.sha256(source).hexdigest()
        assert kernel["file"] == kernel["name"] + ".cu"
        assert kernel_name(GemmSpec.from_text(kernel["spec"])) == kernel["name"]
        assert kernel["launch"]["block"] % 32 == 0
        assert kernel["launch"]["shared_bytes"] > 0
    first, second = manifest["kernels"]
    assert first["launch"]["grid"].startswith("ceildiv(m, ")
    assert second["launch"]["grid"].isdigit()
    assert first["target"] == "sm_90"
    assert [p["name"] for p in first["parameters"]] == ["a", "b", "d", "bias0", "alpha", "m"]
    assert str(tmp_path) not in text


def test_somebody_elses_manifest_is_not_overwritten(tmp_path: Path, fake: Fake) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / MANIFEST).write_text('{"name": "my app"}', encoding="utf-8")
    with pytest.raises(
        InputError, match=r"^'out/manifest\.json' is not a manifest of this tool; choose another"
    ):
        generate(some(1), "out")
    assert len(files(tmp_path / "out")) == 1


def test_an_array_of_pointers_is_told() -> None:
    program = program_of("m=8 n=8 k=8 batch=3 stride_a=pointers")
    found = json.loads(record(program, ""))["parameters"]
    assert found[0] == {"name": "a_of", "role": "a", "dtype": "fp16", "array": True}
    assert found[1] == {"name": "b", "role": "b", "dtype": "fp16"}


@pytest.mark.parametrize("damage", ["<<<<<<< ours\n{}", "{}[:50]", "", "{}{}"])
def test_a_damaged_manifest_of_ours_is_written_anew(
    damage: str, tmp_path: Path, fake: Fake
) -> None:
    generate(some(1), "out")
    path = tmp_path / "out" / MANIFEST
    good = path.read_text(encoding="utf-8")
    path.write_text(damage.replace("{}[:50]", good[:80]).replace("{}", good), encoding="utf-8")
    assert generate(some(1), "out").named("changed") == [MANIFEST]
    assert path.read_text(encoding="utf-8") == good


def test_a_program_of_several_kernels_lists_its_launches_and_workspace(tmp_path: Path) -> None:
    generate([entry(64, k="dynamic:4096", split_k=4, repack="off", label="long")], "out")
    (kernel,) = json.loads((tmp_path / "out" / MANIFEST).read_text(encoding="utf-8"))["kernels"]
    assert "launch" not in kernel
    assert [launch["kernel"] for launch in kernel["launches"]] == [
        f"{kernel['name']}_product", f"{kernel['name']}_reduce",
    ]  # fmt: skip
    assert [launch["plan"]["body"] for launch in kernel["launches"]] == ["mma_sync", "reduce"]
    assert [p["name"] for p in kernel["launches"][0]["kernel_parameters"]] == [
        "a", "b", "partials", "alpha", "k", "lda",
    ]  # fmt: skip
    assert kernel["workspace"] == {
        "bytes": "8192",
        "regions": [{"name": "partials", "dtype": "fp32", "bytes": "8192", "offset": "0"}],
    }
