"""Our own kernel of the plain product beside one with steps: which it is, and how it is timed."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from deepgemm_codegen.batch.bench_entry import build_entry
from deepgemm_codegen.decide import WgmmaChoice
from deepgemm_codegen.errors import InputError
from deepgemm_codegen.harness import bench_ceilings, bench_loaded, bench_stats, gpu_oracle
from deepgemm_codegen.harness.bench import run_bench
from deepgemm_codegen.harness.bench_data import PLAIN, Entry, Row
from deepgemm_codegen.harness.bench_gpu import CupyBench
from deepgemm_codegen.harness.bench_loaded import LoadedKernel
from deepgemm_codegen.harness.bench_plain import plain_spec
from deepgemm_codegen.harness.bench_words import choice_of
from deepgemm_codegen.harness.problem import bind
from deepgemm_codegen.spec import GemmSpec
from tests.harness.fake_bench import KERNEL_US, FakeBenchCupy
from tests.harness.support import SMALL, Choice, compiled, program_of, source_of

if TYPE_CHECKING:
    from deepgemm_codegen.plan import Program

SIZES = "m=64 n=48 k=32"
SWIGLU = "swiglu makes D half as wide as the product"
SCALED = "dtype=e4m3 layout=nt arch=sm_90a scale_a=1x128 scale_b=128x128"
US = 8.0
"""Microseconds of a launch of the plain product, where the kernel's are `KERNEL_US`."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No compiler for the oracle's kernel, no warming, small rotation, the sheet's ceilings."""
    built = type("Built", (), {"cubin": b"oracle"})
    monkeypatch.setattr(gpu_oracle, "build_cubin", lambda *_, **__: built)
    monkeypatch.setattr(LoadedKernel.time, "__defaults__", (0.0,))
    monkeypatch.setattr(bench_stats, "ROTATE_BYTES", 1 << 17)
    sheet = bench_ceilings.datasheet("sm_80", "A100", 108)
    monkeypatch.setattr(CupyBench, "ceilings", lambda _: sheet)


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        ("epilogue=bias,gelu", ""),
        # What is read or written beside D goes with the steps; C is no step.
        ("dtype_c=bf16 epilogue=residual,store,relu ldc=50 ldd=56", "dtype_c=bf16 ldc=50 ldd=56"),
        ("epilogue=layer_norm", ""),
        ("dtype_d=fp32 layout_d=t epilogue=bias:row", "dtype_d=fp32 layout_d=t"),
        (
            "batch=3 stride_a=pointers stride_b=shared epilogue=bias:per_product",
            "batch=3 stride_a=pointers stride_b=shared",
        ),
        (
            "dtype=int8 zero_point_a=per_token zero_point_b=3 dtype_d=fp16 epilogue=scale:column",
            "dtype=int8 zero_point_a=per_token zero_point_b=3 dtype_d=fp16",
        ),
        (f"{SCALED} epilogue=relu", SCALED),
        ("tile_m=64 split_k=2 epilogue=relu", "tile_m=64 split_k=2"),
        (
            "launch=dependent arch=sm_90 epilogue=relu label=up",
            "launch=dependent arch=sm_90 label=up",
        ),
        # A D that a step makes is then of the type that it has where a spec names none.
        ("epilogue=bias,quantize:int8 align_d=1", "align_d=2"),
        ("dtype=bf16 epilogue=quantize:e4m3:dynamic", "dtype=bf16"),
        ("dtype=e4m3 arch=sm_89 epilogue=quantize:e4m3", "dtype=e4m3 arch=sm_89"),
        ("dtype=int8 epilogue=quantize:int8 align_d=8", "dtype=int8 align_d=8"),
        (
            "dtype=int8 zero_point_b=per_channel epilogue=quantize:uint8",
            "dtype=int8 zero_point_b=per_channel",
        ),
        ("dtype=int8 dtype_c=fp16 epilogue=quantize:int8", "dtype=int8 dtype_c=fp16 dtype_d=fp16"),
    ],
)
def test_the_plain_product_is_the_spec_without_its_steps(given: str, plain: str) -> None:
    sizes = "m=dynamic:64 n=48 k=32"
    found = plain_spec(GemmSpec.from_text(f"{sizes} {given}"))
    assert found == GemmSpec.from_text(f"{sizes} {plain}")


@pytest.mark.parametrize("text", [SIZES, "op=epilogue m=64 n=48 epilogue=layer_norm"])
def test_without_steps_or_without_a_product_there_is_none(text: str) -> None:
    assert plain_spec(GemmSpec.from_text(text)) is None


@pytest.mark.parametrize("steps", ["swiglu", "bias,swiglu,quantize:int8:dynamic"])
def test_of_pairs_the_product_is_twice_as_wide(steps: str) -> None:
    with pytest.raises(InputError, match=f"^{SWIGLU}$"):
        plain_spec(GemmSpec.from_text(f"{SIZES} epilogue={steps}"))


def test_it_is_built_with_the_kernel_where_it_is_asked_for() -> None:
    fused = f"{SIZES} epilogue=relu"
    entry = build_entry((fused, "a.yaml:1", "sm_80", True))
    assert isinstance(entry, Entry)
    assert isinstance(entry.plain, Entry)
    assert entry.plain.program.spec == GemmSpec.from_text(SIZES)
    assert entry.plain.program.product.name.encode() in entry.plain.cubin
    assert entry.plain.registers > 0
    assert entry.plain.plain == ""
    for text, beside, plain in (
        (fused, False, ""),
        (SIZES, True, ""),
        (f"{SIZES} epilogue=swiglu", True, SWIGLU),
    ):
        entry = build_entry((text, "", "sm_80", beside))
        assert isinstance(entry, Entry)
        assert entry.plain == plain


def test_a_plain_product_that_no_plan_serves_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = GemmSpec.from_text(f"{SIZES} tile_m=7")
    monkeypatch.setattr("deepgemm_codegen.batch.bench_entry.plain_spec", lambda _: odd)
    entry = build_entry((f"{SIZES} epilogue=relu", "", "sm_80", True))
    assert isinstance(entry, Entry)
    assert isinstance(entry.plain, str)
    assert entry.plain.startswith("tile_m = 7: ")


def plain_of(text: str) -> str:
    spec = plain_spec(GemmSpec.from_text(text))
    assert spec is not None
    return str(spec)


def loaded_on(
    text: str, choice: Choice | None = SMALL, plain: Choice | None = SMALL, source: str = ""
) -> tuple[FakeBenchCupy, CupyBench, Entry]:
    """A device with a kernel and its plain product, or with another text in that one's place."""
    fused, bare = program_of(text, choice), program_of(plain_of(text), plain)
    arch = fused.target.removeprefix("sm_").removesuffix("a")
    cupy = FakeBenchCupy(fused, compiled(source_of(fused), fused.target), arch)
    cupy.add(bare, compiled(source or source_of(bare), bare.target))
    cupy.us = {kernel.name: US for kernel in bare.kernels}
    bench = CupyBench(cupy)
    bench.cublas = bench.cublaslt = None

    def entry(program: Program) -> Entry:
        return Entry(program, b"cubin", program.target)

    return cupy, bench, replace(entry(fused), plain=entry(bare))


def beside(row: Row) -> tuple[float | None, str]:
    """The ratio to the plain product, and its note."""
    assert row.message == ""
    assert row.timing is not None
    (rival,) = (each for each in row.rivals if each.name == PLAIN)
    return row.ratio(PLAIN), rival.note


KERNEL = "the kernel"
ZEROS = "dtype=int8 layout=nt dtype_d=fp16 zero_point_a=per_token"
"""Two kernels: the sums of B's columns come first."""

SPLIT = replace(SMALL, split_k=2)
WGMMA = WgmmaChoice(64, 96, 1, 1, 2, 1, 1, 8, tile_k=128)


@pytest.mark.parametrize(
    ("text", "choices", "kernels", "note"),
    [
        ("m=65 n=48 k=32 epilogue=bias,gelu", (SMALL, SMALL), (1, 1), ""),
        ("m=65 n=48 k=32 dtype_c=fp16 epilogue=relu", (SMALL, SMALL), (1, 1), ""),
        ("m=65 n=48 k=32 epilogue=residual:ld=50,store,relu", (SMALL, SMALL), (1, 1), ""),
        ("m=65 n=48 k=32 batch=3 epilogue=bias:per_product", (SMALL, SMALL), (1, 1), ""),
        ("m=65 n=48 k=64 epilogue=relu", (SPLIT, SPLIT), (2, 2), " 2k"),
        ("m=65 n=48 k=64 epilogue=relu", (SMALL, SPLIT), (1, 2), " 2k"),
        ("m=65 n=300 k=32 epilogue=bias,layer_norm", (None, SMALL), (2, 1), ""),
        (f"m=65 n=48 k=32 {ZEROS} epilogue=scale:column", (SMALL, SMALL), (2, 2), ""),
        ("m=65 n=48 k=32 ldd=51 epilogue=quantize:int8", (SMALL, SMALL), (1, 1), ", D in fp16"),
        (
            "m=65 n=48 k=32 dtype=int8 layout=nt epilogue=quantize:int8",
            (SMALL, SMALL),
            (1, 1),
            ", D in int32",
        ),
        ("m=65 n=48 k=32 epilogue=quantize:int8:dynamic", (None, SMALL), (2, 1), ", D in fp16"),
    ],
)
def test_it_is_checked_and_timed_on_the_same_operands(
    text: str, choices: tuple[Choice | None, Choice], kernels: tuple[int, int], note: str
) -> None:
    cupy, bench, entry = loaded_on(text, *choices)
    assert isinstance(entry.plain, Entry)
    assert (len(entry.program.kernels), len(entry.plain.program.kernels)) == kernels
    (row,) = run_bench([entry], bench).rows
    ratio, told = beside(row)
    assert ratio == pytest.approx(kernels[1] * US / (kernels[0] * KERNEL_US))
    assert told == f"64x64x32 2st 2x2w{note}"
    timed = [KERNEL, *(rival.name for rival in row.rivals if rival.timing is not None)]
    launched = dict(zip(timed, cupy.graphs[-len(timed) :], strict=True))
    assert launched[KERNEL] == row.launches * kernels[0]
    assert launched[PLAIN] == row.launches * kernels[1]


def test_it_adds_c_as_the_kernel_does() -> None:
    cupy, bench, entry = loaded_on("m=65 n=48 k=32 dtype_c=fp16 epilogue=relu")
    betas: set[tuple[str, float]] = set()
    original = FakeBenchCupy.run

    def spy(*call: Any) -> None:
        names = [parameter.name for parameter in cupy.plans[call[0]].kernel_parameters]
        betas.add((call[0], float(call[3][names.index("beta")])))
        original(cupy, *call)

    cupy.run = spy  # type: ignore[method-assign,assignment]
    (row,) = run_bench([entry], bench).rows
    assert beside(row)[0] is not None
    assert isinstance(entry.plain, Entry)
    assert betas == {(entry.program.name, 0.5), (entry.plain.program.name, 0.5)}


def test_a_batch_that_only_a_step_keeps_apart_is_one_product_without_it() -> None:
    text = "m=65 n=48 k=32 batch=2 stride_b=shared dtype_c=fp16 epilogue=bias:per_product"
    _, bench, entry = loaded_on(text, None, None)
    assert isinstance(entry.plain, Entry)
    assert [each.program.solved.batch for each in (entry, entry.plain)] == [2, 1]
    (row,) = run_bench([entry], bench).rows
    ratio, note = beside(row)
    assert ratio == pytest.approx(US / KERNEL_US)
    assert note == choice_of(entry.plain.plan)


def test_it_keeps_scales_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    cupy, bench, entry = loaded_on(f"m=64 n=144 k=272 {SCALED} epilogue=relu", WGMMA, WGMMA)
    cupy.has_maps(monkeypatch)
    (row,) = run_bench([entry], bench).rows
    assert beside(row)[0] == pytest.approx(US / KERNEL_US)


def test_a_d_of_another_type_has_memory_of_its_own() -> None:
    text = "m=65 n=48 k=32 epilogue=quantize:int8"
    cupy, bench, entry = loaded_on(text)
    assert isinstance(entry.plain, Entry)
    wide = entry.plain.program.product.name
    seen: dict[bool, list[tuple[int, ...]]] = {True: [], False: []}
    original = FakeBenchCupy.run

    def spy(self: Any, name: str, grid: Any, block: Any, arguments: Any, shared: int) -> None:
        seen[name == wide].append(tuple(int(x) for x in arguments[:3]))
        original(self, name, grid, block, arguments, shared)

    cupy.run = lambda *call: spy(cupy, *call)  # type: ignore[method-assign]
    (row,) = run_bench([entry], bench).rows
    own, theirs = ({call[2] for call in seen[x]} for x in (True, False))
    assert {call[:2] for call in seen[True]} == {call[:2] for call in seen[False]}
    assert len(own) == len(theirs) == row.sets > 1
    assert not own & theirs
    first, second = sorted(own)[:2]
    assert second - first == -(-65 * 48 * 2 // 256) * 256


def test_a_wrong_one_is_not_timed_and_the_kernel_is() -> None:
    text = "m=65 n=32 k=32 epilogue=relu"
    right, other = program_of(plain_of(text)), program_of(plain_of(f"{text} layout=nt"))
    source = source_of(other).replace(other.name, right.name)
    _, bench, entry = loaded_on(text, source=source)
    (row,) = run_bench([entry], bench).rows
    ratio, note = beside(row)
    assert ratio is None
    assert re.match(r"wrong, not timed: \d+ of 512 sampled elements of D; the worst at row ", note)
    assert row.exit_code == 0


def test_without_room_for_it_the_kernel_is_timed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    _, bench, entry = loaded_on("m=65 n=48 k=32 epilogue=quantize:int8")
    loaded = bench.load(entry, bind(entry.program), 2, "cublas")

    def full(*_: Any) -> None:
        raise MemoryError("out of memory")

    monkeypatch.setattr(bench_loaded._Sets, "empty", full)
    assert [(rival.side, rival.note) for rival in loaded.own_plain()] == [
        (None, "the GPU's memory does not suffice (out of memory)")
    ]


def test_a_launch_that_fails_names_the_plain_product() -> None:
    cupy, bench, entry = loaded_on("m=65 n=48 k=32 epilogue=relu")
    assert isinstance(entry.plain, Entry)
    name = entry.plain.program.name
    original = FakeBenchCupy.run

    def spy(*call: Any) -> None:
        cupy.failure = RuntimeError("illegal address") if call[0] == name else None
        original(cupy, *call)

    cupy.run = spy  # type: ignore[method-assign,assignment]
    (row,) = run_bench([entry], bench).rows
    assert row.message == f"own plain, {name}: the launch failed: illegal address"
    assert row.exit_code == 1


@pytest.mark.parametrize(("plain", "told"), [("", []), (SWIGLU, [(PLAIN, SWIGLU)])])
def test_where_there_is_none_the_row_says_why_or_nothing(
    plain: str, told: list[tuple[str, str]]
) -> None:
    _, bench, entry = loaded_on("m=65 n=48 k=32 epilogue=relu")
    (row,) = run_bench([replace(entry, plain=plain)], bench).rows
    assert [(each.name, each.note) for each in row.rivals if each.name == PLAIN] == told


def test_beside_nothing_it_is_not_launched() -> None:
    cupy, bench, entry = loaded_on("m=65 n=48 k=32 epilogue=relu")
    (row,) = run_bench([entry], bench, against="none").rows
    assert row.rivals == ()
    assert cupy.graphs == [row.launches]


def test_who_has_whole_rows_goes_with_the_norm() -> None:
    text = "m=512 n=768 k=256 layout=nt {} arch=sm_90a stages=3"
    spec = GemmSpec.from_text(text.format("epilogue=rms_norm cluster_rows=4"))
    assert plain_spec(spec) == GemmSpec.from_text(text.format(""))
