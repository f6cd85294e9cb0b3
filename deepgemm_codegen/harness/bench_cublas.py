"""cuBLAS and cublasLt through ctypes: the other side of a benchmark.

cupy refuses to call cuBLAS while a stream is captured (its `setStream` raises), so the libraries
that cupy brings are called directly. What they are asked for stands in a `Call` (bench_call.py).
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepgemm_codegen.errors import EnvironmentLackError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from deepgemm_codegen.harness.bench_call import Call, Layout

__all__ = ["HEURISTICS", "WORKSPACE_BYTES", "Cublas", "CublasLt", "Prepared", "load_library"]

WORKSPACE_BYTES = 32 * 2**20
"""What NVIDIA recommends for Hopper, and what both columns get."""

HEURISTICS = 8
"""Algorithms that cublasLt is asked for."""

# cublas_api.h
_GEMM_DEFAULT = -1
_NOT_SUPPORTED = 15
# cublasLt.h
_DESC_TRANSA, _DESC_TRANSB = 3, 4
_DESC_EPILOGUE, _DESC_BIAS_POINTER = 7, 8
_DESC_SCALE_POINTERS, _DESC_SCALE_MODES = (17, 18), (31, 32)
_DESC_FAST_ACCUM = 25
_LAYOUT_BATCH, _LAYOUT_STRIDE = 5, 6
_PREF_WORKSPACE = 1
_RESULT_BYTES = 96
"""sizeof(cublasLtMatmulHeuristicResult_t): algo 64, workspace 8, state 4, waves 4, reserved 16."""


def load_library(stem: str, major: int) -> ctypes.CDLL:
    """``libcublas`` or ``libcublasLt`` of a CUDA version: cupy's own copy, else one that is found.

    Raises:
        EnvironmentLackError: there is none.
    """
    soname = f"lib{stem}.so.{major}"
    tried: list[str] = []
    for path in _candidates(stem, soname):
        try:
            return ctypes.CDLL(path)
        except OSError as error:
            tried.append(str(error))
    raise EnvironmentLackError(f"{soname} cannot be loaded ({'; '.join(tried)})")


def _candidates(stem: str, soname: str) -> Iterator[str]:
    """Where the library may be; each place is looked up only when the ones before had none."""
    yield from _mapped(soname)
    yield from _found(stem, soname)
    yield soname


def _mapped(soname: str) -> list[str]:
    """Paths of a library that this process has loaded already."""
    try:
        maps = Path("/proc/self/maps").read_text(encoding="utf-8")
    except OSError:
        return []
    lines = (line.split(maxsplit=5) for line in maps.splitlines())
    paths = (fields[5] for fields in lines if len(fields) > 5)
    return list(dict.fromkeys(p for p in paths if Path(p).name.startswith(soname)))[:1]


def _found(stem: str, soname: str) -> list[str]:
    """Where NVIDIA's own finder puts a library: wheels, conda, the toolkit."""
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib  # noqa: PLC0415  optional

        path = load_nvidia_dynamic_lib(stem).abs_path
    except (ImportError, RuntimeError, OSError):
        return []
    return [path] if path and soname in Path(path).name else []


def _refuse(status: int, what: str) -> None:
    if status:
        reason = "not supported" if status == _NOT_SUPPORTED else f"status {status}"
        raise EnvironmentLackError(f"{what}: {reason}")


def _scalar(call: Call, value: float) -> Any:
    """Alpha or beta in the type that goes with the sums."""
    return ctypes.c_int32(int(value)) if call.integer else ctypes.c_float(value)


class Cublas:
    """cublasGemmEx with the default algorithm, on one stream, with a workspace of its own."""

    def __init__(self, major: int, stream: int, workspace: int) -> None:
        self._library = load_library("cublas", major)
        self._handle = ctypes.c_void_p()
        _refuse(self._library.cublasCreate_v2(ctypes.byref(self._handle)), "cublasCreate")
        status = self._library.cublasSetStream_v2(self._handle, ctypes.c_void_p(stream))
        _refuse(status, "cublasSetStream")
        status = self._library.cublasSetWorkspace_v2(
            self._handle, ctypes.c_void_p(workspace), ctypes.c_size_t(WORKSPACE_BYTES)
        )
        _refuse(status, "cublasSetWorkspace")
        version = ctypes.c_int()
        self._library.cublasGetVersion_v2(self._handle, ctypes.byref(version))
        self.version = version.value

    def launch(self, call: Call, first: int, second: int, d: int) -> None:
        """One product on device pointers.

        Raises:
            EnvironmentLackError: cuBLAS refuses it.
        """
        one, beta = _scalar(call, 1.0), _scalar(call, call.beta)

        def operand(pointer: int, layout: Layout) -> tuple[Any, ...]:
            plain = (ctypes.c_void_p(pointer), layout.type, layout.leading)
            return (*plain, ctypes.c_longlong(layout.stride)) if call.batch > 1 else plain

        arguments = (
            self._handle,
            int(call.turn_first),
            int(call.turn_second),
            call.m,
            call.n,
            call.k,
            ctypes.byref(one),
            *operand(first, call.first),
            *operand(second, call.second),
            ctypes.byref(beta),
            *operand(d, call.d),
        )
        if call.batch > 1:
            run = self._library.cublasGemmStridedBatchedEx
            status = run(*arguments, call.batch, call.compute, _GEMM_DEFAULT)
        else:
            status = self._library.cublasGemmEx(*arguments, call.compute, _GEMM_DEFAULT)
        _refuse(status, "cublasGemmEx")


class CublasLt:
    """cublasLtMatmul with the algorithms that its heuristic names."""

    def __init__(self, major: int, stream: int, workspace: int) -> None:
        self._library = load_library("cublasLt", major)
        self._handle = ctypes.c_void_p()
        _refuse(self._library.cublasLtCreate(ctypes.byref(self._handle)), "cublasLtCreate")
        self._stream, self._workspace = ctypes.c_void_p(stream), ctypes.c_void_p(workspace)

    def prepare(self, call: Call, pointers: Sequence[int] = ()) -> Prepared:
        """The descriptors of a product, and its algorithms, best guess first.

        Args:
            call: what is asked for.
            pointers: those of a launch to come; the heuristic looks at some of them.

        Raises:
            EnvironmentLackError: cublasLt refuses it, or knows no algorithm.
        """
        return Prepared(self._library, self._handle, self._stream, self._workspace, call, pointers)


class Prepared:
    """A product that cublasLt can launch with each of its algorithms."""

    def __init__(
        self,
        library: ctypes.CDLL,
        handle: ctypes.c_void_p,
        stream: ctypes.c_void_p,
        workspace: ctypes.c_void_p,
        call: Call,
        pointers: Sequence[int] = (),
    ) -> None:
        self._library, self._handle = library, handle
        self._stream, self._workspace = stream, workspace
        self._one, self._beta = _scalar(call, 1.0), _scalar(call, call.beta)
        self._kept: list[tuple[str, ctypes.c_void_p]] = []
        self._description = self._made("MatmulDesc", call.compute, call.scalar_type)
        for attribute, turned in (
            (_DESC_TRANSA, call.turn_first),
            (_DESC_TRANSB, call.turn_second),
        ):
            self._describe(attribute, ctypes.c_int32(turned))
        if call.fast:
            self._describe(_DESC_FAST_ACCUM, ctypes.c_int8(1))
        if call.epilogue:
            self._describe(_DESC_EPILOGUE, ctypes.c_int32(call.epilogue))
        self._pointed = [_DESC_BIAS_POINTER] if call.bias else []
        if call.scales:
            self._pointed += _DESC_SCALE_POINTERS
        for attribute, (_, mode) in zip(_DESC_SCALE_MODES, call.scales, strict=False):
            self._describe(attribute, ctypes.c_int32(mode))
        self._point(pointers[3:])
        self._layouts = [self._layout(each, call.batch) for each in (call.first, call.second)]
        self._d = self._layout(call.d, call.batch)
        preference = self._made("MatmulPreference")
        most = ctypes.c_uint64(WORKSPACE_BYTES)
        self._set("MatmulPreference", preference, _PREF_WORKSPACE, most)
        self._results = (ctypes.c_char * (_RESULT_BYTES * HEURISTICS))()
        count = ctypes.c_int()
        status = library.cublasLtMatmulAlgoGetHeuristic(
            handle,
            self._description,
            *self._layouts,
            self._d,
            self._d,
            preference,
            HEURISTICS,
            self._results,
            ctypes.byref(count),
        )
        _refuse(status, "cublasLtMatmulAlgoGetHeuristic")
        self.count = count.value
        """Algorithms that were found."""

    def __del__(self) -> None:
        for kind, item in self._kept:
            getattr(self._library, f"cublasLt{kind}Destroy")(item)

    def launch(self, algorithm: int, first: int, second: int, d: int, *others: int) -> None:
        """One product on device pointers, those of `Call.operands`, with an algorithm by its rank.

        Raises:
            EnvironmentLackError: the algorithm does not run.
        """
        self._point(others)
        a_layout, b_layout = self._layouts
        d_pointer = ctypes.c_void_p(d)
        status = self._library.cublasLtMatmul(
            self._handle,
            self._description,
            ctypes.byref(self._one),
            ctypes.c_void_p(first),
            a_layout,
            ctypes.c_void_p(second),
            b_layout,
            ctypes.byref(self._beta),
            d_pointer,
            self._d,
            d_pointer,
            self._d,
            ctypes.byref(self._results, _RESULT_BYTES * algorithm),
            self._workspace,
            ctypes.c_size_t(WORKSPACE_BYTES),
            self._stream,
        )
        _refuse(status, "cublasLtMatmul")

    def _made(self, kind: str, *arguments: Any) -> ctypes.c_void_p:
        item = ctypes.c_void_p()
        create = getattr(self._library, f"cublasLt{kind}Create")
        _refuse(create(ctypes.byref(item), *arguments), f"cublasLt{kind}Create")
        self._kept.append((kind, item))
        return item

    def _describe(self, attribute: int, value: Any) -> None:
        self._set("MatmulDesc", self._description, attribute, value)

    def _point(self, pointers: Sequence[int]) -> None:
        """Names what is read beside the operands: a bias, then scales."""
        for attribute, pointer in zip(self._pointed, pointers, strict=False):
            self._describe(attribute, ctypes.c_void_p(pointer))

    def _set(self, kind: str, item: ctypes.c_void_p, attribute: int, value: Any) -> None:
        run = getattr(self._library, f"cublasLt{kind}SetAttribute")
        size = ctypes.c_size_t(ctypes.sizeof(value))
        _refuse(run(item, attribute, ctypes.byref(value), size), f"cublasLt{kind}SetAttribute")

    def _layout(self, layout: Layout, batch: int) -> ctypes.c_void_p:
        sizes = (ctypes.c_uint64(layout.rows), ctypes.c_uint64(layout.columns))
        item = self._made("MatrixLayout", layout.type, *sizes, ctypes.c_int64(layout.leading))
        if batch > 1:
            self._set("MatrixLayout", item, _LAYOUT_BATCH, ctypes.c_int32(batch))
            self._set("MatrixLayout", item, _LAYOUT_STRIDE, ctypes.c_int64(layout.stride))
        return item
