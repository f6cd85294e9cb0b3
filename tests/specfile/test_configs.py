"""The shipped configs: what they ask for, spelled out here from the models' configurations."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from deepgemm_codegen.resources import data_folder
from deepgemm_codegen.specfile import SpecEntry, read, read_all

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = data_folder("configs") / "kernels"
FILES = sorted(FOLDER.glob("*.yaml"))

# m, n, k, batch, layout, epilogue steps
SHAPES: dict[str, set[tuple[int, int, int, int, str, str]]] = {
    "stable_diffusion_1_5": {
        (8192, 960, 320, 1, "nt", ""),
        (4096, 320, 320, 1, "nt", "bias"),
        (1024, 640, 640, 1, "nt", "bias"),
        (256, 1280, 1280, 1, "nt", "bias"),
        (64, 1280, 1280, 1, "nt", "bias"),
        (77, 320, 768, 1, "nt", ""),
        (4096, 8 * 320, 320, 1, "nt", "bias"),
        (4096, 320, 4 * 320, 1, "nt", "bias"),
        (1024, 8 * 640, 640, 1, "nt", "bias"),
        (256, 8 * 1280, 1280, 1, "nt", "bias"),
        (64 * 64, 64 * 64, 320 // 8, 8, "nt", ""),
        (64 * 64, 77, 320 // 8, 8, "nt", ""),
    },
    "llama3_8b": {
        *((m, (32 + 2 * 8) * 128, 4096, 1, "nt", "") for m in (1, 8, 512)),
        (1, 4096, 4096, 1, "nt", ""),
        *((m, 2 * 14336, 4096, 1, "nt", "") for m in (1, 64, 2048)),
        *((m, 4096, 14336, 1, "nt", "") for m in (1, 16, 2048)),
        (1, 128256, 4096, 1, "nt", ""),
    },
    "deepseek_v3": {
        *((m, 1536 + 512 + 64, 7168, 1, "nt", "") for m in (64, 4096)),
        (4096, 128 * (128 + 64), 1536, 1, "nt", ""),
        (4096, 128 * (128 + 128), 512, 1, "nt", ""),
        *((m, 7168, 128 * 128, 1, "nt", "") for m in (128, 4096)),
        (4096, 2 * 2048, 7168, 1, "nt", ""),
        (4096, 7168, 2048, 1, "nt", ""),
    },
    "deepseek_v3_cards": {
        (64, 1536 + 512 + 64, 7168, 1, "nt", ""),
        (4096, 128 * (128 + 128), 512, 1, "nt", ""),
        (4096, 2 * 2048, 7168, 1, "nt", ""),
        (4096, 7168, 2048, 1, "nt", ""),
    },
    "decode": {
        (m, n, k, 1, layout, steps)
        for layout in ("nn", "nt", "tn", "tt")
        for m, n, k, steps in (
            (1, 4096, 4096, ""),
            (7, 1000, 4092, "bias,relu"),
            (16, 6144, 4096, ""),
        )
    },
    "bert_base": {
        (16 * 384, 3 * 768, 768, 1, "nt", "bias"),
        (16 * 384, 3072, 768, 1, "nt", "bias"),
        (16 * 384, 768, 3072, 1, "nt", "bias"),
        (384, 30522, 768, 1, "nt", "bias"),
        (384, 384, 64, 16 * 12, "nt", ""),
        (384, 64, 384, 16 * 12, "nn", ""),
    },
    "gpt2_small": {
        (1024, 3072, 768, 1, "nn", "bias"),
        (1024, 50257, 768, 1, "nt", ""),
        (1, 50257, 768, 1, "nt", ""),
    },
    "resnet50_1x1": {
        (16 * 56 * 56, 64, 256, 1, "nt", "bias,relu"),
        (16 * 56 * 56, 256, 64, 1, "nt", "bias"),
        (16 * 28 * 28, 512, 128, 1, "nt", "bias"),
        (16 * 14 * 14, 1024, 256, 1, "nt", "bias"),
        (16 * 7 * 7, 512, 2048, 1, "nt", "bias,relu"),
        (16, 1000, 2048, 1, "nt", "bias"),
    },
    "awkward": {
        (m, n, k, 1, layout, steps)
        for layout in ("nn", "nt")
        for m, n, k, steps in (
            (1023, 1023, 1023, ""),
            (4097, 4097, 4097, ""),
            (997, 1009, 1013, "bias,relu"),
            (1024, 1024, 1023, ""),
            (8192, 8, 8192, ""),
            (8192, 8192, 16, ""),
            (64, 64, 16384, ""),
            (128, 128, 65536, ""),
            (1, 1, 1, ""),
        )
    },
}

ARCHITECTURES = {"deepseek_v3": ("sm_90a",), "deepseek_v3_cards": ("sm_89", "sm_120")}
"""Those of a file, where they are not sm_80 and sm_90."""

DTYPES = {
    "deepseek_v3": "e4m3",
    "deepseek_v3_cards": "e4m3",
    "decode": "bf16",
    "llama3_8b": "bf16",
}
"""The operands' type of a file, where it is not fp16."""


def shape(entry: SpecEntry) -> tuple[int, int, int, int, str, str]:
    spec = entry.spec
    steps = ",".join(step.kind for step in spec.epilogue)
    return spec.m.size, spec.n.size, spec.k.size, spec.batch, spec.layout, steps


def test_no_file_is_left_out() -> None:
    assert [path.stem for path in FILES] == sorted(SHAPES)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_shape_for_each_architecture(path: Path) -> None:
    found = read(path)
    archs = ARCHITECTURES.get(path.stem, ("sm_80", "sm_90"))
    assert Counter(map(shape, found)) == Counter(dict.fromkeys(SHAPES[path.stem], len(archs)))
    assert Counter(e.spec.arch for e in found) == dict.fromkeys(archs, len(found) // len(archs))
    assert {e.spec.dtype_a.name for e in found} == {DTYPES.get(path.stem, "fp16")}
    assert all(e.name for e in found)


def test_they_read_together() -> None:
    assert len(read_all(FILES)) == 152


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_says_where_its_shapes_come_from(path: Path) -> None:
    first, second, *_ = path.read_text(encoding="utf-8").splitlines()
    assert first == "# yaml-language-server: $schema=schema.json"
    assert second.startswith("# ")


def test_editors_find_the_schema_of_every_shipped_file() -> None:
    """Kernel files, wherever they lie; `configs/arch` holds facts of another format."""
    configs = data_folder("configs")
    found = [path for path in configs.rglob("*.yaml") if path.parent.name != "arch"]
    assert len(found) > len(FILES)
    for path in found:
        first = path.read_text(encoding="utf-8").splitlines()[0]
        named = first.removeprefix("# yaml-language-server: $schema=")
        assert (path.parent / named).samefile(configs / "kernels" / "schema.json")
