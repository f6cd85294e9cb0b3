"""What a batch writes, and what it leaves when something fails."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import jinja2
import pytest

import deepgemm_codegen
from deepgemm_codegen.batch import Outcome, generate, generating
from deepgemm_codegen.batch import folder as folder_module
from deepgemm_codegen.batch.manifest import MANIFEST
from deepgemm_codegen.errors import EnvironmentLackError, InputError
from deepgemm_codegen.files import atomic_write
from deepgemm_codegen.spec import GemmSpec
from deepgemm_codegen.spec.naming import kernel_name
from deepgemm_codegen.specfile import SpecEntry, read_all

from .conftest import HEADER, LISTS, entry, fake_make, files, program_of, some

if TYPE_CHECKING:
    from collections.abc import Callable

    from deepgemm_codegen.plan import Program

    from .conftest import Make

    Fake = Callable[[Make], None]

HEADER_MARK = folder_module.HEADER.decode()
ROOT = Path(deepgemm_codegen.__file__).parents[1]


def kernels(folder: dict[str, bytes]) -> list[str]:
    """The first letters of the kernels' names."""
    return [name[:6] for name in folder if name.endswith(".cu")]


def failing(*lines: int, error: BaseException | None = None) -> Make:
    """A `make` that fails for the kernels of some lines."""

    def make(spec: GemmSpec) -> tuple[Program, str]:
        if spec.m.size in lines:
            raise error or InputError(f"no plan fits m = {spec.m}")
        return fake_make(spec)

    return make


def test_one_file_a_kernel_and_a_manifest(tmp_path: Path) -> None:
    entries = [entry(7, label="qkv"), entry(9, arch="sm_90", epilogue="bias,relu", m="dynamic")]
    report = generate(entries, "out")
    names = sorted(kernel_name(e.spec) for e in entries)
    assert sorted(files(tmp_path / "out")) == sorted([*(f"{n}.cu" for n in names), *LISTS])
    assert report.exit_code == 0
    assert report.named("new") == [*(f"{n}.cu" for n in names), *LISTS]
    for name in names:
        source = (tmp_path / "out" / f"{name}.cu").read_text(encoding="utf-8")
        assert 'extern "C" __global__ void __launch_bounds__' in source
        assert name in source
        assert HEADER_MARK in source[:1000]


def test_y07_bytes_do_not_depend_on_the_hash_seed_the_order_or_the_jobs(tmp_path: Path) -> None:
    (tmp_path / "k.yaml").write_text(
        "defaults: {sweep: {arch: [sm_80, sm_90], layout: [nn, nt, tn]}}\n"
        "kernels:\n  - {name: a, m: 64, n: 64, k: 64}\n"
        "  - {m: dynamic, n: 96, k: 33, epilogue: [bias, relu], dtype_c: fp32}\n",
        encoding="utf-8",
    )
    code = (
        "import sys\n"
        "from deepgemm_codegen.batch import generate\n"
        "from deepgemm_codegen.specfile import read\n"
        "if __name__ == '__main__':\n"
        f"    e = read({str(tmp_path / 'k.yaml')!r})\n"
        "    e = e[::-1] if sys.argv[2] == '2' else e\n"
        "    r = generate(e, sys.argv[1], jobs=int(sys.argv[2]))\n"
        "    assert r.exit_code == 0\n"
        "    print(r)\n"
    )
    (tmp_path / "go.py").write_text(code, encoding="utf-8")
    printed = []
    for seed, jobs in (("0", "1"), ("1", "1"), ("2", "2")):
        done = subprocess.run(
            [sys.executable, "-W", "error", "go.py", f"out{seed}", jobs],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        printed.append(done.stdout)
    assert printed[0] == printed[1] == printed[2]
    first = files(tmp_path / "out0")
    assert len(first) == 12 + len(LISTS)
    assert first == files(tmp_path / "out1") == files(tmp_path / "out2")


def test_a_failure_in_another_process_is_that_kernels_alone(tmp_path: Path) -> None:
    bad = SpecEntry(GemmSpec.from_fields({"m": 1, "n": 1, "k": 1, "arch": "sm_999"}), "k.yaml", 3)
    report = generate([bad, *map(entry, range(1, 40))], "out", jobs=2)
    assert [outcome.where for outcome in report.failures] == ["k.yaml:3"]
    assert report.failures[0].message.startswith("arch = sm_999: no facts for sm_999; known: ")
    assert report.exit_code == 2
    assert len(files(tmp_path / "out")) == 39 + len(LISTS)


@pytest.mark.parametrize("labels", [("a/b", "a_b"), ("a_b", "a/b"), ("Gemm", "gemm")])
def test_y14_y16_labels_that_look_alike_get_two_files(
    labels: tuple[str, str], tmp_path: Path, fake: Fake
) -> None:
    report = generate([entry(4, m=8, label=labels[0]), entry(5, m=8, label=labels[1])], "out")
    assert report.exit_code == 0
    kernels = [name for name in files(tmp_path / "out") if name.endswith(".cu")]
    assert len({name.casefold() for name in kernels}) == 2
    for name in kernels:  # each holds its own spec
        assert kernel_name(GemmSpec.from_text(_spec_line(tmp_path / "out" / name))) + ".cu" == name


def _spec_line(path: Path) -> str:
    return path.read_text(encoding="utf-8").splitlines()[1].removeprefix("// ")


def test_y09_specs_that_differ_in_one_parameter_get_files_of_their_own(
    tmp_path: Path, fake: Fake
) -> None:
    variants: list[dict[str, object]] = [
        {},
        {"dtype_c": "fp16"},
        {"dtype_c": "fp16", "ldc": 9},
        {"dtype_c": "fp32"},
        {"epilogue": "relu"},
        {"epilogue": "bias"},
        {"epilogue": "bias:row"},
        {"ldd": 9},
        {"lda": 9},
        {"align_a": 2},
        {"layout": "nt"},
        {"layout_d": "t"},
        {"batch": 2},
        {"stages": 3},
        {"sms": 1},
        {"gpu": "A30"},
        {"arch": "sm_86"},
    ]
    entries = [entry(i, m=8, label="g", **fields) for i, fields in enumerate(variants)]
    assert generate(entries, "out").exit_code == 0
    assert len(files(tmp_path / "out")) == len(variants) + len(LISTS)


def test_the_same_spec_twice_names_both_lines(tmp_path: Path, fake: Fake) -> None:
    with pytest.raises(InputError) as caught:
        generate([entry(3, m=1), entry(7, m=1), entry(8, m=2), entry(9, m=1)], "out")
    assert str(caught.value) == (
        "k.yaml:7: k.yaml:3 asks for the same kernel already\n"
        "k.yaml:9: k.yaml:3 asks for the same kernel already"
    )
    assert not (tmp_path / "out").exists()


def test_two_specs_of_one_digest_are_refused(
    tmp_path: Path, fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {3: "gemm_1_00000000", 4: "Gemm_1_00000000"}
    monkeypatch.setattr(generating, "kernel_name", lambda spec: names[spec.m.size])
    with pytest.raises(InputError) as caught:
        generate([entry(3), entry(4)], "out")
    assert str(caught.value) == (
        "k.yaml:4: its kernel would share the file Gemm_1_00000000.cu with that of k.yaml:3;"
        " give one of them another name"
    )


def test_nothing_asked_for() -> None:
    with pytest.raises(InputError, match="no kernel is asked for; there is nothing to generate"):
        generate([], "out")


def test_y18_going_on_after_a_failure(tmp_path: Path, fake: Fake) -> None:
    fake(failing(2, 4))
    report = generate(some(5), "out")
    assert report.exit_code == 2
    assert len(report.named("new")) == 3 + len(LISTS)
    assert [o.where for o in report.failures] == ["k.yaml:2", "k.yaml:4"]
    kept = files(tmp_path / "out")
    assert kernels(kept) == ["k00001", "k00003", "k00005"]
    listed = json.loads(kept[MANIFEST])["kernels"]
    assert [kernel["name"][:6] for kernel in listed] == ["k00001", "k00003", "k00005"]
    assert str(report).splitlines()[1:3] == [
        f"failed    {kernel_name(some(2)[1].spec)}.cu",
        "    k.yaml:2: no plan fits m = 2",
    ]
    assert str(report).splitlines()[-1] == "6 new, 2 failed"


def test_y18_stopping_at_a_failure_keeps_what_is_finished(tmp_path: Path, fake: Fake) -> None:
    fake(failing(3))
    report = generate(some(5), "out", keep_going=False)
    assert report.exit_code == 2
    assert [name[:6] for name in report.named("skipped")] == ["k00004", "k00005"]
    kept = files(tmp_path / "out")
    assert kernels(kept) == ["k00001", "k00002"]
    assert len(json.loads(kept[MANIFEST])["kernels"]) == 2


def test_all_fail_and_nothing_is_written(tmp_path: Path, fake: Fake) -> None:
    fake(failing(1, 2))
    assert generate(some(2), "out").exit_code == 2
    assert not (tmp_path / "out").exists()


def test_a_failing_kernel_keeps_its_old_file(tmp_path: Path, fake: Fake) -> None:
    generate(some(3), "out")
    before = files(tmp_path / "out")
    fake(failing(2))
    report = generate(some(3), "out", clean=True)
    after = files(tmp_path / "out")
    assert {n: b for n, b in after.items() if n not in LISTS} == {
        n: b for n, b in before.items() if n not in LISTS
    }
    assert report.named("orphan", "deleted") == []


def test_the_gravest_failure_gives_the_exit_code(fake: Fake) -> None:
    def make(spec: GemmSpec) -> tuple[Program, str]:
        if spec.m.size == 2:
            return program_of(spec), str(1 // (spec.m.size - 2))
        return failing(1)(spec)

    fake(make)
    report = generate(some(3), "out")
    assert report.exit_code == 70
    assert report.failures[1].message.startswith("internal error: ZeroDivisionError: ")


def test_y06_undefined_template_name_writes_no_file(tmp_path: Path, fake: Fake) -> None:
    def make(spec: GemmSpec) -> tuple[Program, str]:
        strict = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False)
        return program_of(spec), strict.from_string("TILE_K = {{ tile_k }}").render()

    fake(make)
    report = generate(some(1), "out")
    assert report.failures[0].message == "internal error: UndefinedError: 'tile_k' is undefined"
    assert report.exit_code == 70
    assert not (tmp_path / "out").exists()


def test_full_disk_ends_the_batch(
    tmp_path: Path, fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, left = atomic_write, [2]

    def write(path: str, data: bytes) -> None:
        if left[0] == 0:
            raise EnvironmentLackError(f"cannot write '{path}': {os.strerror(errno.ENOSPC)}")
        left[0] -= 1
        real(path, data)

    monkeypatch.setattr(folder_module, "atomic_write", write)
    report = generate(some(5), "out")
    assert report.exit_code == 3
    assert (len(report.failures), len(report.named("skipped"))) == (1, 2)
    assert [name[:6] for name in files(tmp_path / "out")] == ["k00001", "k00002"]


def test_interrupt_leaves_whole_files_and_their_manifest(tmp_path: Path, fake: Fake) -> None:
    generate(some(2), "out")
    before = files(tmp_path / "out")
    fake(failing(4, error=KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        generate(some(5), "out")
    after = files(tmp_path / "out")
    third = some(3)[2].spec
    listed = json.loads(after[MANIFEST])["kernels"]
    for name in LISTS:
        del before[name], after[name]
    assert after == {**before, f"{kernel_name(third)}.cu": f"{HEADER}// {third}\n".encode()}
    assert [kernel["name"] for kernel in listed] == [kernel_name(e.spec) for e in some(3)]


def test_a_file_that_is_right_is_not_touched(tmp_path: Path, fake: Fake) -> None:
    generate(some(2), "out")
    for path in (tmp_path / "out").iterdir():
        os.utime(path, ns=(1, 1))
    report = generate(some(2), "out")
    assert str(report) == "5 unchanged"
    assert {path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()} == {1}


def test_folders_that_cannot_be(tmp_path: Path, fake: Fake) -> None:
    (tmp_path / "f").write_text("", encoding="utf-8")
    with pytest.raises(InputError, match=r"^'f' is a file; give a folder for the kernels$"):
        generate(some(1), "f")
    for folder in ("f/below", "f/below/it", "nul\0"):
        with pytest.raises(InputError, match=r"^'.*' can be no folder; choose another$"):
            generate(some(1), folder)


def test_a_folder_in_the_place_of_a_kernel(tmp_path: Path, fake: Fake) -> None:
    name = f"{kernel_name(some(1)[0].spec)}.cu"
    (tmp_path / "out" / name).mkdir(parents=True)
    report = generate(some(2), "out")
    assert report.failures[0].message == f"'out/{name}' is a folder; move it away"
    assert len(report.named("new")) == 1 + len(LISTS)


@pytest.mark.parametrize("name", ["other", "", "../up"])
def test_a_program_named_after_another_spec_is_our_fault(
    name: str, tmp_path: Path, fake: Fake
) -> None:
    fake(lambda spec: (replace(program_of(spec), name=name), HEADER))
    report = generate(some(1), "out")
    assert report.exit_code == 70
    assert not (tmp_path / "out").exists()


def test_progress_comes_with_each_file(fake: Fake) -> None:
    seen: list[Outcome] = []
    report = generate(some(3), "out", progress=seen.append)
    assert tuple(seen) == report.outcomes


def test_every_shipped_config_generates(tmp_path: Path) -> None:
    folder = ROOT / "configs" / "kernels"
    report = generate(read_all(sorted(folder.glob("*.yaml"))), "out")
    assert report.exit_code == 0, str(report)
    assert len(files(tmp_path / "out")) == 152 + len(LISTS)


@pytest.mark.parametrize("count", [1, 3, 5, 6, 7])
def test_an_interrupted_batch_leaves_a_manifest_of_what_is_finished(
    tmp_path: Path, count: int
) -> None:
    """Ctrl-C, or a reader of the outcomes that went away, after a kernel or at the lists."""
    seen: list[Outcome] = []

    def interrupt(outcome: Outcome) -> None:
        seen.append(outcome)
        if len(seen) == count:
            raise KeyboardInterrupt

    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        generate(some(5), out, progress=interrupt)
    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    kept = {f"{kernel['name']}.cu" for kernel in manifest["kernels"]}
    assert kept == {outcome.file for outcome in seen[:5]}
    assert {path.name for path in out.glob("*.cu")} == kept
    assert (out / "dispatch.h").exists()


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("", "the folder for the kernels is ''; give one, such as generated"),
        (
            "loop",
            "cannot read 'loop/manifest.json': its symbolic links form a loop; choose another",
        ),
        ("x" * 300, f"cannot read '{'x' * 300}/manifest.json': the name is too long for this file"),
        ("file", "'file' is a file; give a folder for the kernels"),
        ("file/deep", "'file/deep' can be no folder; choose another"),
    ],
)
def test_a_path_that_can_be_no_folder_is_the_users_mistake(path: str, message: str) -> None:
    Path("loop").symlink_to("loop")
    Path("file").touch()
    with pytest.raises(InputError) as caught:
        generate(some(1), path)
    assert str(caught.value).startswith(message)
