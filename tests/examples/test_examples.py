"""The examples, as far as a machine without a GPU can judge them; ``tests/gpu`` runs them whole."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import types
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deepgemm_codegen
from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.batch import generate
from deepgemm_codegen.decide import decide
from deepgemm_codegen.spec import GemmSpec
from deepgemm_codegen.specfile import read

ROOT = Path(deepgemm_codegen.__file__).parents[1]
EXAMPLES = ROOT / "examples"

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
C = ["gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"]


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All kernels of ``linear.yaml``."""
    folder = tmp_path_factory.mktemp("kernels")
    assert generate(read(EXAMPLES / "linear.yaml"), folder).exit_code == 0
    return folder


def records(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((folder / "manifest.json").read_text())["kernels"]
    return found


STUB = """\
extern int last_m; extern const char* last_name;
int {name}_launch(const void* a, const void* b, void* d, const void* bias0, float alpha, int m,
                  void* stream)
{{
    last_m = a && b && d && bias0 && stream && alpha == 1.0f ? m : -1;
    last_name = "{name}";
    return 0;
}}
"""


@needs_gcc
def test_the_engine_chooses_and_launches(kernels: Path, tmp_path: Path) -> None:
    names = [record["name"] for record in records(kernels)]
    stubs = "int last_m; const char* last_name;\n" + "".join(STUB.format(name=n) for n in names)
    (tmp_path / "stubs.c").write_text(stubs)
    library = tmp_path / "engine.so"
    subprocess.run(
        [*C, "-shared", "-fPIC", f"-I{EXAMPLES}", f"-I{kernels}", EXAMPLES / "engine.c",
         tmp_path / "stubs.c", "-o", library],
        check=True,
    )  # fmt: skip
    engine = ctypes.CDLL(str(library))
    pointer = ctypes.c_void_p(16)

    def call(m: int, arch: int, n: int = 1024) -> str:
        error = engine.linear_relu(*[pointer] * 4, m, n, 1024, arch, pointer)
        if error:
            return str(error)
        assert ctypes.c_int.in_dll(engine, "last_m").value == m
        return str(ctypes.c_char_p.in_dll(engine, "last_name").value.decode())  # type: ignore[union-attr]

    spec_of = {record["name"]: record["spec"] for record in records(kernels)}
    for arch, label in ((80, "sm_80"), (86, "sm_86"), (87, "sm_86"), (90, "sm_90a")):
        assert "m=dynamic:64 n=1024 k=1024 dtype=fp16" in spec_of[call(64, arch)]
        assert f"arch={label} " in spec_of[call(64, arch)]
        assert "m=dynamic:4096 " in spec_of[call(65, arch)]
    assert call(4097, 80) == call(1, 75) == call(1, 80, n=1000) == "-1"


CUDA = """\
enum { cudaSuccess, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost,
       cudaDevAttrComputeCapabilityMajor, cudaDevAttrComputeCapabilityMinor };
#include <stdlib.h>
#include <string.h>
static int cudaMalloc(void** p, size_t n) { *p = malloc(n); return *p == NULL; }
static int cudaFree(void* p) { free(p); return 0; }
static int cudaMemcpy(void* d, const void* s, size_t n, int kind)
{ (void)kind; memcpy(d, s, n); return 0; }
static int cudaDeviceSynchronize(void) { return 0; }
static int cudaDeviceGetAttribute(int* v, int name, int device)
{ *v = name == cudaDevAttrComputeCapabilityMajor ? 8 : 0; return device; }
"""

LAYER = """\
#include "engine.h"
static float value(unsigned short bits)
{{
    int exponent = bits >> 10 & 31, fraction = bits & 1023, i;
    float v = exponent ? (float)(1024 + fraction) : (float)fraction;
    for (i = 25; i > exponent; --i) v /= 2;
    for (i = 25; i < exponent; ++i) v *= 2;
    return bits >> 15 ? -v : v;
}}
static unsigned short half(float v)
{{
    unsigned short bits;
    for (bits = 0; bits < 0x7c00; ++bits) if (value(bits) == v) return bits;
    return 0x7e00;
}}
int linear_relu(const void* x, const void* w, void* bias, void* y, int m, int n, int k, int arch,
                void* stream)
{{
    int i, j, t;
    (void)arch; (void)stream;
    for (i = 0; i < m; ++i) for (j = 0; j < n; ++j) {{
        float sum = value(((unsigned short*)bias)[j]);
        for (t = 0; t < k; ++t)
            sum += value(((const unsigned short*)x)[i * k + t])
                * value(((const unsigned short*)w)[j * k + t]);
        ((unsigned short*)y)[i * n + j] = half(sum > 0 ? sum : {floor});
    }}
    return 0;
}}
"""


@needs_gcc
@pytest.mark.parametrize(("floor", "code"), [("0.0f", 0), ("1.0f", 1)])
def test_the_c_program_believes_what_is_right_only(floor: str, code: int, tmp_path: Path) -> None:
    """Its own arithmetic, against a layer in plain C on a CUDA runtime that is none."""
    (tmp_path / "cuda_runtime_api.h").write_text(CUDA)
    (tmp_path / "layer.c").write_text(LAYER.format(floor=floor))
    text = (EXAMPLES / "main.c").read_text()
    (tmp_path / "main.c").write_text(
        text.replace("N = 1024, K = 1024, MOST_ROWS = 100", "N = 64, K = 128, MOST_ROWS = 64")
    )
    words = [*C, "-O1", f"-I{tmp_path}", f"-I{EXAMPLES}", "main.c", "layer.c", "-o", "main"]
    subprocess.run(words, cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "main"], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout.count("ok")) == (code, 3 if code == 0 else 0)


class FakeCupy(types.ModuleType):
    """Takes what is launched in the place of a GPU."""

    def __init__(self) -> None:
        super().__init__("cupy")
        self.launches: list[tuple[Any, ...]] = []
        self.loaded: list[str] = []
        outer = self

        class Function:
            max_dynamic_shared_size_bytes = 0

            def __call__(self, *arguments: Any, shared_mem: int) -> None:
                assert self.max_dynamic_shared_size_bytes == shared_mem
                outer.launches.append((*arguments, shared_mem))

        class RawModule:
            def __init__(self, path: str) -> None:
                outer.loaded.append(path)

            def get_function(self, name: str) -> Function:
                assert outer.loaded[-1].endswith(f"{name}.cubin")
                return Function()

        self.RawModule = RawModule


@pytest.fixture
def cupy_linear(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setitem(sys.modules, "cupy", FakeCupy())
    spec = importlib.util.spec_from_file_location("cupy_linear", EXAMPLES / "cupy_linear.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("rows", "most"), [(1, 64), (64, 64), (65, 4096), (4096, 4096)])
def test_cupy_launches_what_the_manifest_says(
    rows: int, most: int, cupy_linear: Any, tmp_path: Path
) -> None:
    entries = [e for e in read(EXAMPLES / "linear.yaml") if e.spec.arch == "sm_80"]
    generate(entries, tmp_path)
    kernel = cupy_linear.kernel_for(tmp_path, rows)
    kernel(a="a", b="b", d="d", bias0="bias", alpha=1, m=rows)
    (spec,) = (e.spec for e in entries if e.spec.m.size == most)
    plan = decide(spec, load_arch("sm_80")).product
    (launch,) = cupy_linear.cupy.launches
    blocks = (plan.blocks.evaluate({"m": rows}),)
    arguments = ("a", "b", "d", "bias", np.float32(1), np.int32(rows))
    assert launch == (blocks, (plan.body.threads,), arguments, plan.body.shared_bytes)
    assert [type(value) for value in launch[2][4:]] == [np.float32, np.int32]


def test_cupy_passes_over_kernels_that_take_tensor_maps(cupy_linear: Any, tmp_path: Path) -> None:
    spec = GemmSpec.from_fields(
        {"m": "dynamic:64", "n": 1024, "k": 1024, "layout": "nt", "arch": "sm_90a",
         "family": "wgmma"}
    )  # fmt: skip
    entry = read(EXAMPLES / "linear.yaml")[0]
    generate([replace(entry, spec=spec)], tmp_path)
    with pytest.raises(SystemExit, match="no kernel without tensor maps for 5 rows in "):
        cupy_linear.kernel_for(tmp_path, 5)


def test_the_operator_calls_the_engine_as_it_is_declared() -> None:
    """As many arguments, pointers and numbers in the order of ``engine.h``."""
    declared = re.search(
        r"int linear_relu\((.*?)\)", (EXAMPLES / "engine.h").read_text(), re.DOTALL
    )
    assert declared
    kinds = ["_POINTER" if "*" in each else "_INT" for each in declared[1].split(",")]
    text = (EXAMPLES / "torch_linear.py").read_text()
    types_of = re.search(r"argtypes = (.*)", text)
    assert types_of
    names: dict[str, Any] = {"_POINTER": "_POINTER", "_INT": "_INT"}
    assert eval(types_of[1], names) == kinds
    compile(text, "torch_linear.py", "exec")


@pytest.mark.full
@pytest.mark.skipif(
    shutil.which("cmake") is None or shutil.which("nvcc") is None,
    reason="cmake or nvcc is not installed",
)
@pytest.mark.parametrize("arch", ["80", "90a"])
def test_cmake_generates_and_builds(arch: str, tmp_path: Path) -> None:
    command = f"-DDEEPGEMM_CODEGEN={sys.executable};-m;deepgemm_codegen"

    def cmake(*words: str) -> None:
        subprocess.run(["cmake", *words], check=True, cwd=ROOT, capture_output=True)

    cmake("-S", "examples", "-B", str(tmp_path), f"-DGEMM_ARCH={arch}", command)
    cmake("--build", str(tmp_path))
    assert len(list((tmp_path / "kernels").glob("*.cu"))) == 2
    ctypes.CDLL(str(tmp_path / "libengine.so")).linear_relu  # noqa: B018  it is there
    demo = subprocess.run([tmp_path / "engine_demo"], capture_output=True, text=True, check=False)
    assert (demo.returncode, demo.stdout) in [
        (3, "no GPU\n"),
        (0, "m = 1: ok\nm = 64: ok\nm = 100: ok\n"),
    ]
