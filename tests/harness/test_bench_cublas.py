"""What cuBLAS is asked for: on paper, and through the arguments that ctypes hands over."""

from __future__ import annotations

import ctypes
import itertools
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from deepgemm_codegen.errors import EnvironmentLackError
from deepgemm_codegen.harness import bench_cublas
from deepgemm_codegen.harness.bench_call import (
    Call,
    Layout,
    call_of,
    fused_call_of,
    no_plain_product,
)
from deepgemm_codegen.harness.bench_cublas import WORKSPACE_BYTES, Cublas, CublasLt, load_library
from deepgemm_codegen.harness.inputs import Inputs, Normal
from deepgemm_codegen.harness.memory import fill
from deepgemm_codegen.harness.numbers import bits_dtype, decode
from deepgemm_codegen.harness.problem import bind
from deepgemm_codegen.spec import GemmSpec
from tests.harness.fake_bench import gemm
from tests.harness.support import plan_of

LAYOUTS = [f"layout={a}{b} layout_d={d}" for a, b, d in itertools.product("nt", "nt", "nt")]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rest", ["", "batch=3", "lda=90 ldb=91 ldd=92 dtype=bf16 dtype_d=fp32"])
def test_a_call_gives_the_product_in_every_layout(layout: str, rest: str) -> None:
    problem = bind(plan_of(f"m=20 n=28 k=36 {layout} {rest}"))
    inputs = Inputs("random", {"a": Normal(1), "b": Normal(2)})
    bits: dict[str, Any] = {}
    for name in "abd":
        matrix = problem.matrix(name)
        bits[name] = np.empty(matrix.elements, bits_dtype(matrix.dtype))
        fill(matrix, inputs if name != "d" else None, bits[name], np)
    call = call_of(problem)
    types = tuple(problem.matrix(each.name).dtype for each in (call.first, call.second, call.d))
    pointers = [bits[each.name].ctypes.data for each in (call.first, call.second, call.d)]
    gemm(call, types, *pointers)  # type: ignore[arg-type]
    values = {}
    for name in "abd":
        matrix = problem.matrix(name)
        index = (
            np.arange(problem.spec.batch)[:, None, None],
            np.arange(matrix.rows)[None, :, None],
            np.arange(matrix.columns)[None, None, :],
        )
        values[name] = decode(bits[name][matrix.flat(*index)], matrix.dtype, np)
    assert np.allclose(values["d"], values["a"] @ values["b"], rtol=5e-3, atol=2e-2)
    assert call.note == ""


def test_c_is_added_in_place_where_it_has_the_type_and_stride_of_d() -> None:
    def call(text: str) -> Call:
        return call_of(bind(plan_of(f"m=20 n=28 k=36 {text}"), beta=0.5))

    assert (call("dtype_c=fp16").beta, call("dtype_c=fp16").note) == (0.5, "")
    for text in ("dtype_c=fp32", "dtype_c=fp16 ldc=32"):
        assert call(text).beta == 0.0
        assert call(text).note == "cuBLAS computes without C, whose type or stride is not D's"


@pytest.mark.parametrize(
    ("text", "epilogue", "bias"),
    [
        ("epilogue=bias", 4, "bias0"),
        ("epilogue=bias,relu", 6, "bias0"),
        ("epilogue=relu", 2, ""),
        ("epilogue=bias,gelu_tanh", 36, "bias0"),
        ("epilogue=bias:row,gelu_tanh layout_d=t", 36, "bias0"),
    ],
)
def test_the_steps_that_cublaslt_fuses(text: str, epilogue: int, bias: str) -> None:
    call = fused_call_of(bind(plan_of(f"m=20 n=28 k=36 {text}")))
    assert call is not None
    assert (call.epilogue, call.bias) == (epilogue, bias)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "epilogue=bias:row",
        "epilogue=bias:fp32",
        "epilogue=relu,bias",
        "epilogue=bias,relu,clamp:0:1",
        "epilogue=silu",
        "epilogue=bias dtype_c=fp16",
        "epilogue=bias,quantize:int8",
        "epilogue=bias layout_d=t",
        "epilogue=bias:per_product batch=2",
    ],
)
def test_others_it_does_not(text: str) -> None:
    assert fused_call_of(bind(plan_of(f"m=20 n=28 k=36 {text}"))) is None


def test_of_a_batch_with_scales_by_block_there_is_no_peer() -> None:
    fields = "m=20 n=32 k=48 dtype=e4m3 layout=nt arch=sm_90a scale_a=1x128 scale_b=128x128"
    assert no_plain_product(GemmSpec.from_text(fields)) == ""
    lack = no_plain_product(GemmSpec.from_text(f"{fields} batch=2"))
    assert lack == "no batch of products with scales by block is timed"


def address(value: Any) -> int:
    """What a ctypes argument points to."""
    return int(ctypes.cast(value, ctypes.c_void_p).value or 0)


class FakeLibrary:
    """Takes calls by name with the number of arguments that the C prototype has."""

    COUNTS: ClassVar = {
        "cublasCreate_v2": 1, "cublasSetStream_v2": 2, "cublasSetWorkspace_v2": 3,
        "cublasGetVersion_v2": 2, "cublasGemmEx": 19, "cublasGemmStridedBatchedEx": 23,
        "cublasLtCreate": 1, "cublasLtMatmulDescCreate": 3, "cublasLtMatmulDescSetAttribute": 4,
        "cublasLtMatrixLayoutCreate": 5, "cublasLtMatrixLayoutSetAttribute": 4,
        "cublasLtMatmulPreferenceCreate": 1, "cublasLtMatmulPreferenceSetAttribute": 4,
        "cublasLtMatmulAlgoGetHeuristic": 10, "cublasLtMatmul": 16,
        "cublasLtMatmulDescDestroy": 1, "cublasLtMatrixLayoutDestroy": 1,
        "cublasLtMatmulPreferenceDestroy": 1,
    }  # fmt: skip

    def __init__(self, **statuses: int) -> None:
        self.statuses = statuses
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.made = 0

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> int:
            assert len(arguments) == self.COUNTS[name], name
            self.calls.append((name, arguments))
            if "Create" in name:
                self.made += 1
                arguments[0]._obj.value = self.made
            if name == "cublasLtMatmulAlgoGetHeuristic":
                arguments[-1]._obj.value = 3
            if name == "cublasGetVersion_v2":
                arguments[-1]._obj.value = 130002
            return self.statuses.get(name, 0)

        return call

    def named(self, name: str) -> list[tuple[Any, ...]]:
        return [arguments for called, arguments in self.calls if called == name]


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> FakeLibrary:
    fake = FakeLibrary()
    monkeypatch.setattr(bench_cublas, "load_library", lambda *_: fake)
    return fake


PLAIN = Call(
    *(28, 20, 36),
    turn_first=True,
    turn_second=False,
    first=Layout("b", 2, 36, 28, 36, 1008),
    second=Layout("a", 2, 36, 20, 36, 720),
    d=Layout("d", 2, 28, 20, 28, 560),
    batch=1,
    beta=0.0,
)
MANY = replace(PLAIN, batch=5, beta=0.5)


def test_gemm_ex_gets_its_arguments_in_order(library: FakeLibrary) -> None:
    cublas = Cublas(13, 77, 4096)
    assert cublas.version == 130002
    assert [name for name, _ in library.calls] == [
        "cublasCreate_v2",
        "cublasSetStream_v2",
        "cublasSetWorkspace_v2",
        "cublasGetVersion_v2",
    ]  # fmt: skip  the workspace after the stream, which would take it away again
    assert library.named("cublasSetWorkspace_v2")[0][2].value == WORKSPACE_BYTES
    cublas.launch(PLAIN, 100, 200, 300)
    (got,) = library.named("cublasGemmEx")
    assert got[1:6] == (1, 0, 28, 20, 36)
    assert (got[6]._obj.value, got[13]._obj.value) == (1.0, 0.0)
    assert [(got[i].value, got[i + 1], got[i + 2]) for i in (7, 10, 14)] == [
        (100, 2, 36), (200, 2, 36), (300, 2, 28),
    ]  # fmt: skip
    assert got[17:] == (68, -1)


def test_a_batch_brings_its_strides(library: FakeLibrary) -> None:
    Cublas(13, 77, 4096).launch(MANY, 100, 200, 300)
    (got,) = library.named("cublasGemmStridedBatchedEx")
    assert [got[i].value for i in (10, 14, 19)] == [1008, 720, 560]
    assert [got[i].value for i in (7, 11, 16)] == [100, 200, 300]
    assert got[15]._obj.value == 0.5
    assert got[20:] == (5, 68, -1)


def test_refusals_say_what_refused(library: FakeLibrary) -> None:
    cublas = Cublas(13, 77, 4096)
    library.statuses.update(cublasGemmEx=15)
    with pytest.raises(EnvironmentLackError, match=r"^cublasGemmEx: not supported$"):
        cublas.launch(PLAIN, 1, 2, 3)
    library.statuses.update(cublasGemmEx=13)
    with pytest.raises(EnvironmentLackError, match=r"^cublasGemmEx: status 13$"):
        cublas.launch(PLAIN, 1, 2, 3)


def test_cublaslt_describes_launches_and_cleans_up(library: FakeLibrary) -> None:
    prepared = CublasLt(13, 77, 4096).prepare(MANY)
    assert prepared.count == 3
    turns = library.named("cublasLtMatmulDescSetAttribute")
    assert [(a[1], a[2]._obj.value, a[3].value) for a in turns] == [(3, 1, 4), (4, 0, 4)]
    layouts = library.named("cublasLtMatrixLayoutCreate")
    assert [(a[1], *(x.value for x in a[2:])) for a in layouts] == [
        (2, 36, 28, 36), (2, 36, 20, 36), (2, 28, 20, 28),
    ]  # fmt: skip
    batches = library.named("cublasLtMatrixLayoutSetAttribute")
    assert [(a[1], a[2]._obj.value, a[3].value) for a in batches] == [
        (5, 5, 4), (6, 1008, 8), (5, 5, 4), (6, 720, 8), (5, 5, 4), (6, 560, 8),
    ]  # fmt: skip
    (most,) = library.named("cublasLtMatmulPreferenceSetAttribute")
    assert (most[1], most[2]._obj.value, most[3].value) == (1, WORKSPACE_BYTES, 8)
    prepared.launch(2, 100, 200, 300)
    (heuristic,), (got,) = (
        library.named(name) for name in ("cublasLtMatmulAlgoGetHeuristic", "cublasLtMatmul")
    )
    assert heuristic[7] == 8
    assert [got[i].value for i in (3, 5, 8, 10)] == [100, 200, 300, 300]
    assert (got[2]._obj.value, got[7]._obj.value) == (1.0, 0.5)
    assert address(got[12]) - address(heuristic[8]) == 2 * 96
    assert (got[13].value, got[14].value, got[15].value) == (4096, WORKSPACE_BYTES, 77)
    del prepared
    gone = [name for name, _ in library.calls if name.endswith("Destroy")]
    assert sorted(gone) == [
        "cublasLtMatmulDescDestroy", "cublasLtMatmulPreferenceDestroy",
        *["cublasLtMatrixLayoutDestroy"] * 3,
    ]  # fmt: skip


def test_integers_are_summed_as_integers(library: FakeLibrary) -> None:
    call = call_of(bind(plan_of("m=20 n=28 k=36 dtype=int8 layout=nt")))
    assert (call.first.type, call.second.type, call.d.type) == (3, 3, 10)
    Cublas(13, 77, 4096).launch(call, 100, 200, 300)
    (got,) = library.named("cublasGemmEx")
    assert [type(got[i]._obj) for i in (6, 13)] == [ctypes.c_int32] * 2
    assert got[17:] == (72, -1)
    CublasLt(13, 77, 4096).prepare(call)
    assert library.named("cublasLtMatmulDescCreate")[0][1:] == (72, 10)


def test_an_epilogue_and_fast_sums_are_described(library: FakeLibrary) -> None:
    text = "m=20 n=28 k=36 dtype=e4m3 layout=nt accumulate=fast epilogue=bias,relu arch=sm_89"
    call = fused_call_of(bind(plan_of(text)))
    assert call is not None
    assert call.float8
    prepared = CublasLt(13, 77, 4096).prepare(call)
    described = library.named("cublasLtMatmulDescSetAttribute")
    assert [(a[1], a[2]._obj.value, a[3].value) for a in described] == [
        (3, 1, 4), (4, 0, 4), (25, 1, 1), (7, 6, 4),
    ]  # fmt: skip
    prepared.launch(0, 100, 200, 300, 400)
    attribute, value, size = library.named("cublasLtMatmulDescSetAttribute")[-1][1:]
    assert (attribute, value._obj.value, size.value) == (8, 400, 8)


def test_scales_by_block_are_described_before_the_heuristic_is_asked(library: FakeLibrary) -> None:
    """The first is B, whose scales are of 128 x 128: cublasLt computes D^T."""
    text = "m=20 n=48 k=256 dtype=e4m3 layout=nt arch=sm_90a scale_a=1x128 scale_b=128x128"
    call = call_of(bind(plan_of(text, None)))
    assert call.scales == (("scale_b", 5), ("scale_a", 4))
    assert call.operands == ("b", "a", "d", "scale_b", "scale_a")
    prepared = CublasLt(13, 77, 4096).prepare(call, (100, 200, 300, 400, 500))
    names = [name for name, _ in library.calls]
    last = len(names) - names[::-1].index("cublasLtMatmulDescSetAttribute")
    assert last < names.index("cublasLtMatmulAlgoGetHeuristic")
    described = library.named("cublasLtMatmulDescSetAttribute")
    assert [(a[1], a[2]._obj.value, a[3].value) for a in described] == [
        (3, 1, 4), (4, 0, 4), (31, 5, 4), (32, 4, 4), (17, 400, 8), (18, 500, 8),
    ]  # fmt: skip
    prepared.launch(0, 100, 200, 300, 401, 501)
    again = library.named("cublasLtMatmulDescSetAttribute")[-2:]
    assert [(a[1], a[2]._obj.value, a[3].value) for a in again] == [(17, 401, 8), (18, 501, 8)]


def test_a_library_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_cublas, "_mapped", lambda _: [])
    monkeypatch.setattr(bench_cublas, "_found", lambda *_: ["/nowhere/libcublasLt.so.99"])
    with pytest.raises(EnvironmentLackError, match=r"^libcublasLt\.so\.99 cannot be loaded \(/now"):
        load_library("cublasLt", 99)


def test_a_library_that_is_loaded_already_is_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    maps = tmp_path / "maps"
    line = "7f00-7f01 r-xp 00000000 08:01 42   "
    maps.write_text(
        f"7f00-7f01 rw-p 00000000 00:00 0\n{line}/x/libcublasLt.so.13\n"
        f"{line}/y z/libcublas.so.13.1\n"
    )
    monkeypatch.setattr(
        bench_cublas, "Path", lambda p: maps if str(p).startswith("/proc") else type(tmp_path)(p)
    )
    opened: list[str] = []

    def open_library(path: str) -> SimpleNamespace:
        opened.append(path)
        return SimpleNamespace()

    monkeypatch.setattr(ctypes, "CDLL", open_library)
    load_library("cublas", 13)
    assert opened == ["/y z/libcublas.so.13.1"]
