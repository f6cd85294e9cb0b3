"""A folder built: what is written, what is refused, what a second build finds."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from deepgemm_codegen.batch import generate
from deepgemm_codegen.batch.building import BUILD, Built, build, read_build
from deepgemm_codegen.batch.manifest import MANIFEST
from deepgemm_codegen.errors import EnvironmentLackError, InputError
from deepgemm_codegen.schemas import SCHEMAS
from deepgemm_codegen.toolchain import build_cubin, nvrtc, options_for
from tests.jsonschema import faults
from tests.toolchain.kernels import needs_nvrtc

from .conftest import entry, files

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from deepgemm_codegen.toolchain.targets import Target

pytestmark = needs_nvrtc


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DGEMM_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.delenv("DGEMM_COMPILATION_TIMEOUT_MS", raising=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two small kernels, of both families."""
    out = tmp_path / "kernels"
    generate(
        [
            entry(64, n=64, k=64, label="a"),
            entry(64, n=64, k=64, label="b", arch="sm_90a", layout="nt", family="wgmma"),
        ],
        out,
    )
    return out


def content(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / BUILD).read_text(encoding="utf-8"))
    return found


def test_cubins_and_what_they_take(folder: Path, tmp_path: Path) -> None:
    seen: list[Built] = []
    report = build(folder, tmp_path / "out", progress=seen.append)
    assert report.exit_code == 0
    assert [built.name[:2] for built in seen] == ["a_", "b_"]
    given = content(tmp_path / "out")
    rules = SCHEMAS["build"]()
    assert list(faults(given, rules, rules)) == []
    assert given["compiler"] == report.compiler
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    for kernel, record in zip(given["kernels"], manifest["kernels"], strict=True):
        cubin = (tmp_path / "out" / f"{record['name']}.cubin").read_bytes()
        source = (folder / record["file"]).read_text(encoding="utf-8")
        direct = build_cubin(source, name=record["name"], arch=record["target"], cached=False)
        assert cubin == direct.cubin
        assert kernel["cubin_sha256"] == hashlib.sha256(cubin).hexdigest()
        assert kernel["source_sha256"] == record["source_sha256"]
        assert kernel["options"] == options_for(record["target"])
        usage, (used,) = direct.resources[record["name"]], kernel["resources"]
        assert used["registers"] == usage.registers > 0
        assert used["shared_bytes"] == record["launch"]["shared_bytes"] + usage.shared_bytes
        assert used["blocks_per_sm"] >= 1
    assert str(tmp_path) not in (tmp_path / "out" / BUILD).read_text(encoding="utf-8")


def test_each_kernel_of_a_program(tmp_path: Path) -> None:
    """One cubin has them all; each takes registers of its own."""
    generate([entry(64, n=64, k=1024, split_k=4)], tmp_path)
    report = build(tmp_path)
    assert report.exit_code == 0
    given = content(tmp_path)
    rules = SCHEMAS["build"]()
    assert list(faults(given, rules, rules)) == []
    (kernel,) = given["kernels"]
    names = [used["kernel"] for used in kernel["resources"]]
    assert names == [f"{kernel['name']}_product", f"{kernel['name']}_reduce"]
    assert len(list(tmp_path.glob("*.cubin"))) == 1
    kernel["resources"][1]["registers"] = 1
    (tmp_path / BUILD).write_text(json.dumps(given))
    (change,) = build(tmp_path, check=True).changed
    assert change.startswith(f"{kernel['name']}: registers of {names[1]}: 1 -> ")


def test_the_same_folder_and_no_cubins(folder: Path) -> None:
    before = files(folder)
    build(folder, cubins=False)
    after = files(folder)
    assert after.pop(BUILD)
    assert after == before


def test_a_second_build_touches_nothing(folder: Path) -> None:
    build(folder)
    stamps = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    build(folder, jobs=2)
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == stamps


def test_generate_leaves_a_build_alone(folder: Path) -> None:
    build(folder)
    report = generate([entry(64, n=64, k=64, label="a")], folder, clean=True)
    assert [name[:2] for name in report.named("deleted", "orphan")] == ["b_"]
    assert (folder / BUILD).exists()


def test_cubins_that_nobody_asks_for_go_with_the_next_build(folder: Path) -> None:
    build(folder)
    generate([entry(64, n=64, k=64, label="a")], folder, clean=True)
    (mine,) = folder.glob("b_*.cubin")
    (folder / "c_01234567.cubin").write_bytes(b"not of any build")
    build(folder)
    assert sorted(path.name[:2] for path in folder.glob("*.cubin")) == ["a_", "c_"]
    assert not mine.exists()


def test_an_edited_cubin_stays(folder: Path) -> None:
    build(folder)
    (mine,) = folder.glob("b_*.cubin")
    mine.write_bytes(b"mine")
    generate([entry(64, n=64, k=64, label="a")], folder, clean=True)
    build(folder)
    assert mine.read_bytes() == b"mine"


def test_a_source_that_is_not_the_manifests(folder: Path) -> None:
    a, b = sorted(folder.glob("*.cu"))
    a.write_text(a.read_text() + "// edited\n")
    b.unlink()
    report = build(folder)
    assert report.exit_code == 2
    assert [built.message for built in report.kernels] == [
        f"'{a}' is not what the manifest tells of; generate again",
        f"cannot read '{b}': No such file or directory; generate again",
    ]
    assert not (folder / BUILD).exists()


def test_one_kernel_that_the_compiler_rejects_spares_the_others(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, _ = sorted(folder.glob("*.cu"))
    text = a.read_text().replace("__global__", "__globull__", 1)
    a.write_text(text)
    path = folder / MANIFEST
    manifest = json.loads(path.read_text(encoding="utf-8"))
    manifest["kernels"][0]["source_sha256"] = hashlib.sha256(text.encode()).hexdigest()
    path.write_text(
        json.dumps(manifest).replace('"generator": "', '"generator": "'), encoding="utf-8"
    )
    report = build(folder)
    assert report.exit_code == 70
    assert "__globull__" in report.kernels[0].message
    assert [kernel["name"][:2] for kernel in content(folder)["kernels"]] == ["b_"]


def test_each_compile_is_bounded(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DGEMM_CACHE_DIR", str(tmp_path / "cold"))
    build(folder, tmp_path / "first")  # which compiler it is, is then in the cache
    for path in (tmp_path / "cold").glob("*.entry"):
        if b"cubin" in path.read_bytes()[:300]:
            path.unlink()
    monkeypatch.setenv("DGEMM_COMPILATION_TIMEOUT_MS", "1")
    report = build(folder, tmp_path / "out")
    assert report.exit_code == EnvironmentLackError.exit_code
    assert len(report.kernels) == 2
    assert all(
        " within the 1 ms of DGEMM_COMPILATION_TIMEOUT_MS; " in b.message for b in report.kernels
    )
    assert not (tmp_path / "out").exists()


def test_a_check_tells_what_changed_and_writes_nothing(folder: Path) -> None:
    assert build(folder, check=True).exit_code == 1
    assert not (folder / BUILD).exists()
    build(folder, cubins=False)
    assert build(folder, check=True).exit_code == 0
    path = folder / BUILD
    given = content(folder)
    registers = given["kernels"][0]["resources"][0]["registers"]
    given["kernels"][0]["resources"][0]["registers"] = 7
    given["kernels"][1]["name"] = "gone"
    given["compiler"] = "NVRTC 1.0.0"
    path.write_text(json.dumps(given))
    before = path.read_bytes()
    report = build(folder, check=True)
    name, other = (built.name for built in report.kernels)
    assert report.exit_code == 1
    assert report.changed == (
        f"compiler: NVRTC 1.0.0 -> {report.compiler}",
        "gone: no longer there",
        f"{name}: registers: 7 -> {registers}",
        f"{other}: new",
    )
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "text",
    [
        "",
        '{"generator": "deepgemm_codegen 0.1.0", "ker',
        '{"generator": "deepgemm_codegen 0.1.0", "kernels": 3}',
        '{"generator": "deepgemm_codegen 0.1.0", "compiler": "", "kernels": [{"name": "x"}]}',
    ],
)
def test_a_damaged_build_file_of_ours_is_written_anew(text: str, folder: Path) -> None:
    (folder / BUILD).write_text(text)
    build(folder, cubins=False)
    assert len(content(folder)["kernels"]) == 2


def test_somebody_elses_build_file(folder: Path) -> None:
    (folder / BUILD).write_text('{"scripts": {}}')
    with pytest.raises(
        InputError, match=r"build\.json' is not a file of this tool; choose another"
    ):
        build(folder)


@pytest.mark.parametrize("text", [None, "", "{}", '"generator": "deepgemm_codegen 0.1.0"'])
def test_a_folder_without_a_manifest(text: str | None, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / MANIFEST).write_text(text)
    with pytest.raises(InputError, match=r"manifest\.json' is (missing|damaged|not a manifest)"):
        build(tmp_path)


def test_without_a_compiler_nothing_is_tried(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise EnvironmentLackError("no NVRTC")

    monkeypatch.setattr(nvrtc, "version", missing)
    with pytest.raises(EnvironmentLackError, match="no NVRTC"):
        build(folder)


def test_a_kernel_is_compiled_for_the_target_that_its_record_states(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DGEMM_CACHE_DIR", str(tmp_path / "cold"))
    targets: list[str] = []
    real = nvrtc.compile_program

    def listening(source: str, name: str, target: Target, options: list[str]) -> object:
        targets.append(f"{name} {target}")
        return real(source, name, target, options)

    monkeypatch.setattr(nvrtc, "compile_program", listening)
    report = build(folder, cubins=False)
    assert targets[1:] == [
        f"/{report.kernels[0].name}.cu sm_80",
        f"/{report.kernels[1].name}.cu sm_90a",
    ]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda kernel: kernel.pop("name"),
        lambda kernel: kernel.pop("spec"),
        lambda kernel: kernel.pop("decisions"),
        lambda kernel: kernel.update(target=5),
        lambda kernel: kernel.update(decisions=[{}]),
        lambda kernel: kernel["launch"].pop("block"),
        lambda kernel: kernel["launch"].update(shared_bytes="0"),
        lambda kernel: kernel.update(launches=[None]),
        lambda kernel: kernel.update(launch=[]),
        lambda kernel: kernel.update(plan=[]),
        lambda kernel: kernel.pop("parameters"),
        lambda kernel: kernel.update(parameters=["a"]),
        lambda kernel: kernel["parameters"][0].pop("name"),
        lambda kernel: kernel["decisions"][0].pop("choice"),
        lambda kernel: kernel.update(workspace={}),
        lambda kernel: kernel["plan"].update(body="\ud800"),  # half a character
        lambda kernel: kernel.update(file="../one.cu"),
        lambda kernel: kernel.update(name="../one", file="../one.cu"),
    ],
)
def test_a_manifest_without_something_is_damaged(
    spoil: Callable[[Any], Any], tmp_path: Path
) -> None:
    generate([entry(64)], tmp_path)
    path = tmp_path / MANIFEST
    manifest = json.loads(path.read_text())
    spoil(manifest["kernels"][0])
    path.write_text(json.dumps(manifest))
    with pytest.raises(InputError) as caught:
        build(tmp_path, jobs=1)
    assert str(caught.value) == f"'{path}' is damaged; generate the kernels again"
    assert generate([entry(64)], tmp_path).exit_code == 0
    assert generate([entry(64)], tmp_path, check=True).exit_code == 0


def test_a_manifest_that_tells_of_another_kernel(folder: Path) -> None:
    """Nor does a manifest say where a cubin goes: names hold no path."""
    path = folder / MANIFEST
    manifest = json.loads(path.read_text())
    (folder / manifest["kernels"][0]["file"]).rename(folder / "other.cu")
    manifest["kernels"][0].update(name="other", file="other.cu")
    path.write_text(json.dumps(manifest))
    first, second = build(folder, jobs=1).kernels
    assert (first.exit_code, second.exit_code) == (2, 0)
    assert first.message == f"'{folder / 'other.cu'}' has no kernel other; generate again"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda report: report.pop("compiler"),
        lambda report: report["kernels"][0].pop("resources"),
        lambda report: report["kernels"][0].update(resources=[3]),
        lambda report: report["kernels"][0]["resources"][0].pop("registers"),
        lambda report: report["kernels"][0]["resources"][0].update(blocks_per_sm="\ud800"),
        lambda report: report.update(compiler="\ud800"),
    ],
)
def test_a_build_file_without_something_tells_nothing(
    spoil: Callable[[Any], Any], folder: Path
) -> None:
    build(folder, cubins=False)
    report = content(folder)
    assert read_build(str(folder)) == report
    spoil(report)
    (folder / BUILD).write_text(json.dumps(report))
    assert read_build(str(folder)) == {"compiler": "", "kernels": []}
    assert build(folder, cubins=False, check=True).exit_code == 1


def test_a_file_where_the_cubins_should_go(folder: Path, tmp_path: Path) -> None:
    taken = tmp_path / "file"
    taken.touch()
    with pytest.raises(InputError) as caught:
        build(folder, taken, jobs=1)
    assert (
        str(caught.value) == f"cannot make folder '{taken}': a file is there; choose another path"
    )
