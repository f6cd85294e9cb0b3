"""The GPU side of the benchmark on a cupy whose kernels run on the emulator."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from deepgemm_codegen.decide import WgmmaChoice
from deepgemm_codegen.errors import EnvironmentLackError
from deepgemm_codegen.harness import bench_ceilings, bench_stats, bench_stream, gpu_oracle
from deepgemm_codegen.harness.bench import run_bench
from deepgemm_codegen.harness.bench_data import (
    CUBLAS,
    CUBLASLT,
    FUSED,
    WRITING,
    Entry,
    Report,
    Row,
)
from deepgemm_codegen.harness.bench_gpu import CupyBench, find_bench_gpu
from deepgemm_codegen.harness.bench_loaded import LoadedKernel
from deepgemm_codegen.harness.problem import bind
from tests.harness.bench_support import entry_of
from tests.harness.fake_bench import KERNEL_US, LIBRARY_US, WRITER_US, FakeBenchCupy, gemm
from tests.harness.support import SMALL, compiled, plan_of, program_of, source_of

if TYPE_CHECKING:
    from deepgemm_codegen.harness.bench_call import Call
    from deepgemm_codegen.plan import Program

FULL = "m=70 n=72 k=80 dtype_c=fp16 epilogue=bias,relu batch=2 lda=83 ldd=75 ldc=75"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No compiler for the helpers' kernels, no warming, small rotation, the sheet's ceilings."""
    built = type("Built", (), {"cubin": b"oracle"})
    for module in (gpu_oracle, bench_stream):
        monkeypatch.setattr(module, "build_cubin", lambda *_, **__: built)
    monkeypatch.setattr(LoadedKernel.time, "__defaults__", (0.0,))
    monkeypatch.setattr(bench_stats, "ROTATE_BYTES", 1 << 17)
    sheet = bench_ceilings.datasheet("sm_80", "A100", 108)
    monkeypatch.setattr(CupyBench, "ceilings", lambda _: sheet)


def device(text: str, source: str = "") -> tuple[FakeBenchCupy, CupyBench]:
    plan = plan_of(text)
    ptx = compiled(source or source_of(plan), plan.target)
    cupy = FakeBenchCupy(plan, ptx, plan.target.removeprefix("sm_"))
    return cupy, CupyBench(cupy)


def with_libraries(
    text: str,
    cupy: FakeBenchCupy,
    bench: CupyBench,
    spoil: Any = None,
    *,
    program: Program | None = None,
    forget_steps: bool = False,
    forget_scales: bool = False,
) -> None:
    """Gives the device a cuBLAS and a cublasLt of three algorithms, the second the quickest."""
    spec = (program.product if program else plan_of(text)).spec
    types = {"a": spec.dtype_a, "b": spec.dtype_b, "d": spec.dtype_d}

    def launch(call: Call, *pointers: int, us: float = LIBRARY_US) -> None:
        recorded = cupy.stream.recording is not None

        def work() -> None:
            cupy.clock += us
            if not recorded:  # what a graph computes was computed once before
                names = (call.first.name, call.second.name, "d")
                asked = replace(call, epilogue=0) if forget_steps else call
                asked = replace(asked, scales=()) if forget_scales else asked
                gemm(asked, tuple(types[name] for name in names), *pointers)  # type: ignore[arg-type]
                if spoil:
                    spoil(*pointers)

        cupy.stream.do(work)

    def prepare(call: Call, pointers: tuple[int, ...]) -> Any:
        assert len(pointers) == len(call.operands)

        def run(algorithm: int, *pointers: int) -> None:
            launch(call, *pointers, us=(7.0, 5.0, 6.0)[algorithm])

        return SimpleNamespace(count=3, launch=run)

    bench.cublas = SimpleNamespace(launch=launch)
    bench.cublaslt = SimpleNamespace(prepare=prepare)


def run(text: str, bench: CupyBench, against: str = "cublas") -> Report:
    return run_bench([entry_of(text)], bench, against=against)


LAYOUTS = [f"m=65 n=48 k=32 layout={a}{b} layout_d={d}" for a in "nt" for b in "nt" for d in "nt"]


@pytest.mark.parametrize("text", [FULL, *LAYOUTS, "m=65 n=41 k=33 dtype=bf16 dtype_d=fp32"])
def test_a_kernel_is_checked_and_timed_beside_both_libraries(text: str) -> None:
    cupy, bench = device(text)
    with_libraries(text, cupy, bench)
    (row,) = run(text, bench).rows
    assert row.message == ""
    assert row.timing is not None
    assert row.timing.median_us == pytest.approx(KERNEL_US)
    assert row.ratio(CUBLAS) == pytest.approx(LIBRARY_US / KERNEL_US)
    assert row.ratio(CUBLASLT) == pytest.approx(0.5)
    assert row.rivals[1].note == "heuristic 2 of 3"
    written = 2 * row.work.written > row.work.bytes
    assert [rival.name for rival in row.rivals] == [CUBLAS, CUBLASLT, *[WRITING] * written]
    several = 3 + 6 * written
    choosing, timing = cupy.graphs[:several], cupy.graphs[several:]
    assert choosing == [max(row.sets, 3)] * several
    assert timing == [row.launches] * (3 + written)


def test_where_d_is_most_of_the_traffic_its_writing_alone_has_a_column() -> None:
    text = "m=64 n=72 k=8 batch=2 layout=nt"
    cupy, bench = device(text)
    with_libraries(text, cupy, bench)
    report = run(text, bench)
    (row,) = report.rows
    assert report.rivals == (CUBLAS, CUBLASLT, WRITING)
    assert row.rivals[2].note == f"{2 * 64 * 72 * 2} bytes"
    assert row.ratio(WRITING) == pytest.approx(min(WRITER_US.values()) / KERNEL_US)
    assert all(WRITING not in dict(group.ratios) for group in report.groups)
    # Every set of D, and nothing but D, by each kernel of the ceiling.
    d = {at for at, _ in cupy.written}
    assert {size for _, size in cupy.written} == {2 * 64 * 72 * 2}
    assert len(d) == row.sets
    first, second = sorted(d)[:2]
    assert second - first == -(-2 * 64 * 72 * 2 // 256) * 256


@pytest.mark.parametrize(
    "text", ["m=64 n=64 k=64 layout=nt", "m=65 n=48 k=32 layout=nt", "m=64 n=32 k=22"]
)
def test_where_d_is_half_of_the_traffic_or_less_it_has_none(text: str) -> None:
    cupy, bench = device(text)
    with_libraries(text, cupy, bench)
    report = run(text, bench)
    assert report.rivals == (CUBLAS, CUBLASLT)
    assert cupy.written == []


@pytest.mark.parametrize(
    "steps", ["bias", "relu", "bias,relu", "gelu_tanh", "bias,gelu_tanh", "bias,gelu"]
)
def test_cublaslts_own_epilogue_has_a_column(steps: str) -> None:
    text = f"m=65 n=48 k=32 layout=nt epilogue={steps}"
    cupy, bench = device(text)
    with_libraries(text, cupy, bench)
    report = run(text, bench)
    (row,) = report.rows
    assert report.rivals == (CUBLAS, CUBLASLT, FUSED)
    assert row.message == ""
    assert row.ratio(FUSED) == pytest.approx(0.5)
    unlike = "; its GELU is the tanh form; of the exact one, which takes more, it has none"
    assert row.rivals[2].note == f"heuristic 2 of 3{unlike if steps[-4:] == 'gelu' else ''}"


def test_an_epilogue_that_computes_something_else_is_not_timed() -> None:
    """Of a library that forgets its epilogue the plain product is timed, and the rest is not."""
    text = "m=65 n=48 k=32 layout=nt epilogue=bias,relu"
    cupy, bench = device(text)
    with_libraries(text, cupy, bench, forget_steps=True)
    (row,) = run(text, bench).rows
    assert row.ratio(CUBLAS) is not None
    assert row.ratio(FUSED) is None
    assert row.rivals[2].note.startswith("not timed: its D differs from what the kernel computes")


def test_fp8_stands_beside_cublaslt_alone() -> None:
    text = "m=65 n=48 k=192 dtype=e4m3 layout=nt arch=sm_89"
    cupy, bench = device(text)
    with_libraries(text, cupy, bench)
    bench.cublas = None  # it is not asked
    (row,) = run(text, bench).rows
    assert [rival.note for rival in row.rivals] == ["heuristic 1 of 3", "heuristic 2 of 3"]
    assert row.ratio(CUBLAS) == pytest.approx(0.7)
    assert row.ratio(CUBLASLT) == pytest.approx(0.5)


SCALED = "layout=nt arch=sm_90a scale_a=1x128 scale_b=128x128"


def scaled_row(text: str, monkeypatch: pytest.MonkeyPatch, *, forget_scales: bool = False) -> Row:
    """The row of a kernel with scales by block beside a cublasLt that has them, or forgets them."""
    program = program_of(text, WgmmaChoice(64, 96, 1, 1, 2, 1, 1, 8, tile_k=128))
    cupy = FakeBenchCupy(program, compiled(source_of(program), "sm_90a"), "90")
    cupy.has_maps(monkeypatch)
    bench = CupyBench(cupy)
    with_libraries(text, cupy, bench, program=program, forget_scales=forget_scales)
    bench.cublas = None  # it is not asked
    entry = replace(entry_of(text, None), program=program)
    return run_bench([entry], bench).rows[0]


@pytest.mark.parametrize("m", [64, 66])
def test_scales_by_block_stand_beside_cublaslts_own(
    m: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = scaled_row(f"m={m} n=144 k=272 dtype=e4m3 {SCALED}", monkeypatch)
    assert row.message == ""
    assert row.kind == "e4m3->bf16 nt by block"
    assert [rival.note for rival in row.rivals] == ["heuristic 1 of 3", "heuristic 2 of 3"]
    assert row.ratio(CUBLASLT) == pytest.approx(0.5)


def test_a_library_without_the_scales_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"m=64 n=48 k=256 dtype=e4m3 {SCALED}"
    row = scaled_row(text, monkeypatch, forget_scales=True)
    assert row.timing is not None
    assert [rival.timing for rival in row.rivals] == [None, None]
    assert row.rivals[0].note.startswith("not timed: its D differs from the product")


def test_int8_stands_beside_cublas() -> None:
    text = "m=65 n=48 k=32 dtype=int8 layout=nt"
    cupy, bench = device(text)
    with_libraries(text, cupy, bench)
    (row,) = run(text, bench).rows
    assert row.message == ""
    assert row.ratio(CUBLAS) == pytest.approx(LIBRARY_US / KERNEL_US)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("dtype=uint8", "no plain product is timed with A in uint8"),
        ("epilogue=quantize:int8", "no plain product is timed with D in int8"),
        ("dtype=int8 dtype_d=fp16", "of int8 cuBLAS makes int32, and D is fp16"),
        ("epilogue=swiglu", "swiglu makes D half as wide as the product"),
    ],
)
def test_what_no_library_computes_is_said(text: str, why: str) -> None:
    text = f"m=65 n=48 k=32 layout=nt {text}"
    cupy, bench = device(text)
    with_libraries(text, cupy, bench)
    (row,) = run(text, bench).rows
    assert row.timing is not None
    assert [(rival.timing, rival.note) for rival in row.rivals] == [(None, why)] * 2


def test_no_rival_is_launched_when_none_is_asked_for() -> None:
    cupy, bench = device("m=64 n=48 k=32")
    (row,) = run("m=64 n=48 k=32", bench, against="none").rows
    assert row.rivals == ()
    assert cupy.graphs == [row.launches]


def test_libraries_that_cannot_be_loaded_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(stem: str, major: int) -> None:
        raise EnvironmentLackError(f"lib{stem}.so.{major} cannot be loaded (gone)")

    monkeypatch.setattr("deepgemm_codegen.harness.bench_cublas.load_library", refuse)
    _, bench = device("m=64 n=48 k=32")
    (row,) = run("m=64 n=48 k=32", bench).rows
    assert [(rival.timing, rival.note) for rival in row.rivals] == [
        (None, "libcublas.so.13 cannot be loaded (gone)"),
        (None, "libcublasLt.so.13 cannot be loaded (gone)"),
    ]
    assert row.timing is not None


def test_a_wrong_kernel_is_not_timed() -> None:
    text = "m=65 n=48 k=32 epilogue=relu"
    broken = source_of(plan_of(text)).replace("x < 0.0f ? 0.0f : x", "x")
    assert broken != source_of(plan_of(text))
    cupy, bench = device(text, broken)
    (row,) = run(text, bench).rows
    assert re.match(r"wrong, not timed: \d+ of 768 sampled elements of D; ", row.message)
    assert row.exit_code == 1
    assert cupy.graphs == []


def test_a_library_that_computes_something_else_is_not_timed() -> None:
    text = "m=65 n=48 k=32"
    cupy, bench = device(text)

    def spoil(*pointers: int) -> None:
        store = next(s for s in cupy.stores if 0 <= pointers[2] - s.data.ptr < s.nbytes)
        np.asarray(store)[...] = 0

    with_libraries(text, cupy, bench, spoil)
    (row,) = run(text, bench).rows
    assert row.timing is not None
    assert [rival.timing for rival in row.rivals] == [None, None]
    for rival in row.rivals:
        assert rival.note == "not timed: its D differs from the product by 1 of its size"


def test_a_launch_that_fails_is_the_kernels_fault() -> None:
    cupy, bench = device("m=64 n=48 k=32")
    cupy.failure = RuntimeError("illegal address")
    (row,) = run("m=64 n=48 k=32", bench).rows
    assert (row.message, row.exit_code) == ("the launch failed: illegal address", 1)


def test_what_cannot_run_here_is_a_row() -> None:
    _, bench = device("m=64 n=48 k=32")
    entry = entry_of("m=64 n=48 k=32", built_for="sm_90a")
    (row,) = run_bench([entry], bench).rows
    assert row.exit_code == 3
    assert row.message.startswith("built for sm_90a, but the device is sm_80: ")
    with pytest.raises(EnvironmentLackError, match=r"it needs 200000 bytes of shared memory a bl"):
        bench.function(b"", "big", 200_000)


def test_sets_lie_apart_and_aligned() -> None:
    text = "m=65 n=47 k=33 align_d=1024"
    cupy, bench = device(text)
    bases: list[tuple[int, ...]] = []
    original = FakeBenchCupy.run

    def spy(self: Any, *call: Any) -> None:
        bases.append(tuple(int(x) for x in call[3][:3]))
        original(self, *call)

    cupy.run = lambda *call: spy(cupy, *call)  # type: ignore[method-assign]
    (row,) = run(text, bench, against="none").rows
    a, b, d = (sorted({base[i] for base in bases}) for i in range(3))
    assert len(a) == len(b) == len(d) == row.sets > 1
    assert all(base % 256 == 0 for base in (*a, *b))
    assert all(base % 1024 == 0 for base in d)
    sizes = ((a, 65 * 33), (b, 33 * 47), (d, 65 * 47))
    for found, elements in sizes:
        steps = {later - first for first, later in pairwise(found)}
        assert min(steps) >= 2 * elements


def test_a_program_of_several_kernels_is_timed_as_one() -> None:
    text = "m=65 n=48 k=64"
    program = program_of(text, replace(SMALL, split_k=2))
    bench = CupyBench(FakeBenchCupy(program, compiled(source_of(program), program.target)))
    entry = Entry(program, b"cubin", program.target)
    (row,) = run_bench([entry], bench, against="none").rows
    assert row.message == ""
    assert row.choice == "64x64x32 2st 2x2w 2k"
    assert row.timing is not None
    assert row.timing.median_us == pytest.approx(2 * KERNEL_US)


def test_more_kernels_run_on_the_same_operands() -> None:
    text = "m=65 n=48 k=32"
    cupy, bench = device(text)
    first = entry_of(text)
    loaded = bench.load(first, bind(first.plan), 2, "none")
    sides = [loaded.side(first), loaded.side(first)]
    assert [loaded.fault_of(side) for side in sides] == ["", ""]
    assert loaded.time(sides, 4, warm_seconds=0.0) == [[KERNEL_US] * 7] * 2
    assert cupy.graphs == [4, 4]


def test_the_machine_is_described() -> None:
    _, bench = device("m=64 n=48 k=32")
    machine = bench.machine
    assert (machine.gpu, machine.arch, machine.sms) == ("Paper GPU", "sm_80", 108)
    assert dict(machine.software)["CUDA runtime"] == "13.0"


def test_without_a_gpu_the_message_is_about_benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    cupy, _ = device("m=64 n=48 k=32")
    cupy.count = 0
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    with pytest.raises(EnvironmentLackError, match=r"^bench measures on an NVIDIA GPU: no NVIDIA"):
        find_bench_gpu()
