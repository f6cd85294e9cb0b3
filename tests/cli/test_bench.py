"""``bench`` from the command line; the GPU is one that does what the test says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from deepgemm_codegen.harness import bench_gpu, bench_roofline
from deepgemm_codegen.harness.bench_data import CUBLAS, CUBLASLT, PLAIN, Entry, Rival
from deepgemm_codegen.resources import data_folder
from deepgemm_codegen.spec import GemmSpec
from deepgemm_codegen.spec.naming import kernel_name
from deepgemm_codegen.specfile import read_all
from tests.cli.conftest import SMALL
from tests.harness.bench_support import CEILINGS, ScriptedDevice

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Cli

NAME = kernel_name(GemmSpec.from_fields({"m": "64", "n": "48", "k": "32"}))


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> ScriptedDevice:
    """The machine's GPU."""
    found = ScriptedDevice()
    monkeypatch.setattr(bench_gpu, "find_bench_gpu", lambda _: found)
    return found


def test_one_kernel_by_flags(cli: Cli, device: ScriptedDevice) -> None:
    result = cli("bench", *SMALL)
    assert (result.code, result.err) == (0, "")
    head, table, groups, notes = result.out.split("\n\n")
    assert head.startswith("Paper GPU, sm_90, 132 multiprocessors\n")
    assert table.splitlines()[2].split()[:2] == ["64x48x32", "fp16"]
    assert table.splitlines()[2].endswith("22.00  2.000         5.50  0.500")
    assert groups == (
        "geometric mean, short k (k < 512), fp16, 1 kernel: cuBLAS 2.000, cuBLASLt 0.500"
    )
    assert notes.startswith(
        "64x48x32 fp16 nn: planned for sm_80, built for sm_90 from the same source\n"
    )
    assert [sets for _, sets, _ in device.loads] == [1024]


def test_a_kernel_with_steps_stands_beside_its_plain_product(
    cli: Cli, device: ScriptedDevice
) -> None:
    device.rivals = (*device.rivals, Rival(PLAIN, "plain", "64x64x32 4st 2x2w"))
    device.times["plain"] = [10.56]
    result = cli("bench", *SMALL, "--epilogue=bias,relu", "-v")
    assert result.code == 0
    told = ": 11.00 us; cuBLAS 2.000, cuBLASLt 0.500, own plain 0.960"
    assert any(line.endswith(told) for line in result.err.splitlines())
    groups = result.out.split("\n\n")[2].splitlines()
    assert groups[-1] == "geometric mean, bias:fp16,relu, fp16, 1 kernel: own plain 0.960"
    (entry,) = device.entries
    assert isinstance(entry.plain, Entry)
    assert entry.plain.program.spec == GemmSpec.from_fields({"m": "64", "n": "48", "k": "32"})


@pytest.mark.parametrize("words", [("--epilogue=relu", "--against=none"), ()])
def test_beside_nothing_and_without_steps_no_plain_product_is_built(
    cli: Cli, device: ScriptedDevice, words: tuple[str, ...]
) -> None:
    assert cli("bench", *SMALL, *words).code == 0
    assert [entry.plain for entry in device.entries] == [""]


def test_json(cli: Cli, device: ScriptedDevice) -> None:
    result = cli("bench", *SMALL, "--json", "--seed=3", "--min-ratio=1.5")
    assert (result.code, result.err) == (0, "")
    document = json.loads(result.out)
    fields = [document[name] for name in ("format", "exit_code", "min_ratio", "seed", "against")]
    assert fields == ["1.4", 0, 1.5, 3, "cublas"]
    (kernel,) = document["kernels"]
    assert kernel["name"] == NAME
    assert kernel["registers"] > 0
    assert kernel["against"]["cuBLAS"]["ratio"] == 2.0
    assert device.timed


def test_too_slow_is_an_honest_no(cli: Cli, device: ScriptedDevice) -> None:
    device.times["cublas"] = [10.0]
    result = cli("bench", *SMALL, "--min-ratio=0.95")
    assert result.code == 1
    assert result.err == f"slower: {NAME}: 0.909 of cuBLAS's speed, less than 0.95\n"
    assert "0.909" in result.out
    device.measured = [CEILINGS, CEILINGS]
    assert cli("bench", *SMALL, "--min-ratio=0.9").code == 0


def test_a_gate_without_a_rival_is_a_lack(cli: Cli, device: ScriptedDevice) -> None:
    device.rivals = (Rival(CUBLAS, None, "gone"), Rival(CUBLASLT, None, "gone"))
    result = cli("bench", *SMALL, "--min-ratio=0.95")
    assert result.code == 3
    assert result.err == f"error: no cuBLAS figure to hold --min-ratio against: {NAME}\n"
    assert "64x48x32 fp16 nn: cuBLAS: gone\n" in result.out


def test_a_wrong_kernel(cli: Cli, device: ScriptedDevice) -> None:
    device.faults[NAME] = "3 of 768 sampled elements of D"
    result = cli("bench", *SMALL)
    assert result.code == 1
    assert result.err == (f"error: {NAME}: wrong, not timed: 3 of 768 sampled elements of D\n")


def test_files_sweeps_and_processes(cli: Cli, device: ScriptedDevice, tmp_path: Path) -> None:
    path = tmp_path / "some.yaml"
    path.write_text(
        "defaults: {n: 48, k: 32, sweep: {arch: [sm_80, sm_90]}}\n"
        "kernels:\n  - {m: 64, name: one}\n  - {m: 80, name: two}\n"
    )
    result = cli("bench", str(path), "--jobs=2", "--json")
    document = json.loads(result.out)
    assert [kernel["built_for"] for kernel in document["kernels"]] == ["sm_90"] * 4
    assert [kernel["source"] for kernel in document["kernels"]] == [
        f"{path}:3", f"{path}:3", f"{path}:4", f"{path}:4",
    ]  # fmt: skip
    assert len(device.timed) == 4


def test_kernels_that_a_flag_makes_equal_are_timed_once(
    cli: Cli, device: ScriptedDevice, tmp_path: Path
) -> None:
    path = tmp_path / "some.yaml"
    path.write_text("kernels:\n  - {m: 64, n: 48, k: 32, sweep: {arch: [sm_80, sm_90]}}\n")
    result = cli("bench", str(path), "--arch=sm_90", "--against=none", "-v")
    assert result.code == 0
    notes = result.err.splitlines()
    assert notes[0] == "note: 1 of 2 kernels are asked for twice under these flags"
    assert notes[1].endswith(": 11.00 us; no rival") or "cuBLAS" in notes[1]
    assert [against for _, _, against in device.loads] == ["none"]


def test_a_kernel_without_a_plan_does_not_stop_the_others(
    cli: Cli, device: ScriptedDevice, tmp_path: Path
) -> None:
    path = tmp_path / "some.yaml"
    path.write_text(
        "kernels:\n  - {m: 64, n: 48, k: 32, tile_m: 7, name: odd}\n  - {m: 64, n: 48, k: 32}\n"
    )
    result = cli("bench", str(path))
    assert result.code == 2
    assert result.err.startswith(f"error: {path}:2:35: odd_sm_80_")
    assert len(device.timed) == 1
    assert "64x48x32" in result.out


def test_the_plot_is_written(
    cli: Cli, device: ScriptedDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_roofline, "require_matplotlib", lambda: None)
    monkeypatch.setattr(bench_roofline, "draw", lambda figure: figure.title.encode())
    target = tmp_path / "roof.png"
    assert cli("bench", *SMALL, f"--plot={target}").code == 0
    assert target.read_bytes() == b"Paper GPU, 4500 GB/s"
    assert device.timed


def test_a_plot_without_matplotlib_fails_before_anything_runs(
    cli: Cli, device: ScriptedDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_roofline, "find_spec", lambda _: None)
    result = cli("bench", *SMALL, "--plot=roof.png")
    assert result.code == 3
    assert result.err == ("error: --plot needs matplotlib: pip install 'deepgemm_codegen[plot]'\n")
    assert device.loads == []


def test_without_a_gpu(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cupy", None)
    result = cli("bench", *SMALL)
    assert (result.code, result.out) == (3, "")
    assert result.err.startswith(
        "error: bench measures on an NVIDIA GPU: cupy is missing (import of cupy halted; None in"
        " sys.modules): pip install 'deepgemm_codegen[cuda13]'"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--m=0", "--n=1", "--k=1"), "error: m = 0: too small"),
        ((*SMALL, "--min-ratio=1", "--against=none"), "error: --min-ratio compares with cuBLAS"),
        ((*SMALL, "--min-ratio=nan"), "error: invalid value for '--min-ratio'"),
        ((*SMALL, "--against=cublass"), "error: invalid value for '--against'"),
        (("nowhere.yaml",), "nowhere.yaml: cannot be read"),
    ],
)
def test_usage(cli: Cli, words: tuple[str, ...], message: str) -> None:
    result = cli("bench", *words)
    assert (result.code, result.out) == (2, "")
    assert message in result.err


def test_the_shipped_bench_file() -> None:
    entries = read_all([str(data_folder("configs") / "bench" / "hopper.yaml")])
    assert len(entries) == 54
    assert {(entry.spec.arch, entry.spec.layout, entry.spec.gpu) for entry in entries} == {
        ("sm_90a", "nt", "H200")
    }
    assert {str(entry.spec.dtype_a) for entry in entries} == {"fp16", "bf16"}
    assert sum(entry.spec.k.size < 512 for entry in entries) == 14
