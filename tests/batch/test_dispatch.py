"""The selector: the C header answers as the JSON does, and launches what it answers."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from deepgemm_codegen.batch import make
from deepgemm_codegen.batch.dispatch import Entry, dispatch_texts, select
from deepgemm_codegen.errors import InputError
from deepgemm_codegen.spec import GemmSpec
from deepgemm_codegen.spec.naming import kernel_name

if TYPE_CHECKING:
    from pathlib import Path

COMPILERS = [
    pytest.param(words, id=words[0], marks=pytest.mark.skipif(
        shutil.which(words[0]) is None, reason=f"{words[0]} is not installed"
    ))
    for words in (["gcc", "-std=c99"], ["g++", "-std=c++11"])
]  # fmt: skip
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-pedantic"]


def spec(**fields: Any) -> GemmSpec:
    return GemmSpec.from_fields({"m": 64, "n": 64, "k": 64, "layout": "nt", **fields})


def entry(target: str = "", **fields: Any) -> Entry:
    made = spec(**fields)
    return Entry(made, kernel_name(made), target or made.arch)


def table(entries: list[Entry]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(dispatch_texts(entries)[1])
    return found


def chosen(entries: list[Entry], *sizes: int, arch: int = 80) -> str:
    """The label of the kernel that is selected, or empty."""
    given = table(entries)
    m, n, k = sizes
    name = select(given, given["operations"][0]["operation"], m, n, k, arch)
    return next((e.spec.label for e in entries if e.name == name), "")


def test_exact_sizes_before_dynamic_ones_and_the_smallest_maximum_first() -> None:
    entries = [
        entry(label="huge", m="dynamic:8192"),
        entry(label="exact", m=128),
        entry(label="large", m="dynamic:512"),
        entry(label="small", m="dynamic:128"),
        entry(label="any", m="dynamic:128", n="dynamic:64"),
    ]
    wanted = {0: "small", 100: "small", 128: "exact", 129: "large", 8192: "huge", 8193: ""}
    assert {m: chosen(entries, m, 64, 64) for m in wanted} == wanted
    assert chosen(entries, 5, 32, 64) == "any"
    assert chosen(entries, -1, 64, 64) == ""
    assert chosen(entries, 128, 64, 65) == ""


def test_the_architecture() -> None:
    entries = [
        entry(label="80", arch="sm_80"),
        entry(label="86 dynamic", arch="sm_86", m="dynamic:64"),
        entry(label="90", arch="sm_90"),
        entry("sm_90a", label="90a", arch="sm_90a", n=32),
        entry("sm_90a", label="90a dynamic", arch="sm_90a", m="dynamic:64"),
    ]
    assert chosen(entries, 64, 64, 64, arch=80) == "80"
    assert chosen(entries, 64, 64, 64, arch=86) == "86 dynamic"  # made for that very part
    assert chosen(entries, 64, 64, 64, arch=87) == "86 dynamic"
    assert chosen(entries, 64, 64, 64, arch=90) == "90a dynamic"
    assert chosen(entries, 64, 32, 64, arch=90) == "90a"
    assert chosen(entries[:3], 64, 64, 64, arch=90) == "90"
    assert chosen(entries, 64, 64, 64, arch=75) == ""
    assert chosen(entries, 64, 64, 64, arch=100) == ""


def test_plain_code_of_a_suffixed_spec_serves_its_family() -> None:
    """Through mma.sync, sm_90a is compiled for sm_90."""
    assert chosen([entry("sm_80", label="x", arch="sm_80a")], 64, 64, 64, arch=89) == "x"


def test_operations_are_told_apart_by_all_that_is_no_size() -> None:
    variants: list[dict[str, Any]] = [
        {},
        {"dtype": "bf16"},
        {"dtype_d": "fp32"},
        {"dtype_c": "fp16"},
        {"layout": "nn"},
        {"layout_d": "t"},
        {"batch": 2},
        {"lda": 72},
        {"align_a": 2},
        {"epilogue": "relu"},
        {"epilogue": "bias,relu"},
        {"epilogue": "relu,bias"},
        {"epilogue": "bias:row:fp32"},
    ]
    entries = [entry(**fields) for fields in variants]
    found = table(entries)["operations"]
    assert len(found) == len({each["symbol"] for each in found}) == len(variants)
    symbols = {each["operation"]: each["symbol"] for each in found}
    assert symbols["dtype=fp16 layout=nt"] == "DGEMM_FP16_NT"
    assert symbols["dtype=fp16 layout=nt epilogue=bias:row:fp32"] == "DGEMM_FP16_NT_BIAS_ROW_FP32"
    same = [entry(gpu="A30"), entry(sms=5), entry(label="x"), entry(stages=3), entry(m=5)]
    assert len(table(same)["operations"]) == 1


def test_the_order_of_the_entries_is_no_matter() -> None:
    entries = [entry(m=m, arch=arch) for m in (1, 2, "dynamic:9") for arch in ("sm_80", "sm_90")]
    assert dispatch_texts(entries) == dispatch_texts(entries[::-1])


def test_an_unknown_operation() -> None:
    with pytest.raises(InputError, match=r"^operation = x: the selector has none of that name$"):
        select(table([entry()]), "x", 1, 1, 1, 80)


def _random_entries(source: random.Random) -> list[Entry]:
    found: dict[str, Entry] = {}
    sizes = (1, 2, 16, 64, "dynamic:2", "dynamic:16", "dynamic:64")
    for _ in range(120):
        arch = source.choice(["sm_75", "sm_80", "sm_86", "sm_90", "sm_90a", "sm_100", "sm_103"])
        fields = {name: source.choice(sizes) for name in "mnk"}
        fields["epilogue"] = source.choice(["", "relu", "bias,relu"])
        each = entry("sm_90a" if arch == "sm_90a" else arch[:5], arch=arch, **fields)
        found[each.name] = each
    return list(found.values())


PROGRAM = """\
#include <stdio.h>
#include "dispatch.h"
int main(void)
{
    char text[200];
    int m, n, k, arch;
    while (fgets(text, sizeof text, stdin) != NULL) {
        const dgemm_kernel* kernel;
        text[strcspn(text, "\\n")] = '\\0';
        if (scanf("%d %d %d %d\\n", &m, &n, &k, &arch) != 4) return 2;
        kernel = dgemm_select(dgemm_find_operation(text), m, n, k, arch);
        puts(kernel != NULL ? kernel->name : "-");
    }
    return 0;
}
"""


def compiled(folder: Path, compiler: list[str], program: str, *options: str) -> str:
    (folder / "main.c").write_text(program)
    out = str(folder / "main")
    language = ["-x", "c++"] if compiler[0] == "g++" else []
    words = [*compiler, *WARNINGS, *options, *language, "main.c", "-o", out]
    subprocess.run(words, cwd=folder, check=True)
    return out


@pytest.mark.parametrize("compiler", COMPILERS)
def test_the_header_answers_as_the_json(compiler: list[str], tmp_path: Path) -> None:
    source = random.Random(7)
    header, text = dispatch_texts(_random_entries(source))
    (tmp_path / "dispatch.h").write_text(header)
    given = json.loads(text)
    operations = [each["operation"] for each in given["operations"]]
    sizes = (1, 2, 16, 64) * 3 + (-1, 0, 3, 17, 65, 2**31 - 1)
    questions = [
        (
            source.choice(operations),
            *(source.choice(sizes) for _ in range(3)),
            source.choice((70, 75, 80, 86, 89, 90, 100, 103, 120)),
        )
        for _ in range(4000)
    ]
    asked = "".join(f"{o}\n{m} {n} {k} {arch}\n" for o, m, n, k, arch in questions)
    program = compiled(tmp_path, compiler, PROGRAM, "-DDGEMM_SELECT_ONLY")
    done = subprocess.run([program], input=asked, capture_output=True, text=True, check=True)
    wanted = [select(given, *question) or "-" for question in questions]
    assert done.stdout.split() == wanted
    assert 0.1 < sum(name != "-" for name in wanted) / len(wanted) < 0.9


LAUNCHING = """\
#include <stdio.h>
#include "dispatch.h"
static void* seen[8];
static long long numbers[8];
static float factors[4];
static int calls;
{stubs}
int main(void)
{{
    int where[6];
    void* operands[1];
    float scalars[1] = {{ 7.0f }};
    dgemm_arguments g;
    memset(&g, 0, sizeof g);
    operands[0] = &where[4];
    g.a = &where[0]; g.b = &where[1]; g.c = &where[2]; g.d = &where[3];
    g.operands = operands; g.scalars = scalars; g.alpha = 2.0f; g.beta = 3.0f;
    g.m = 5; g.n = 64; g.k = 48;
    const dgemm_kernel* kernel = dgemm_select(0, 5, 64, 48, 80);
    if (kernel == NULL || dgemm_launch(kernel, &g, &where[5]) != 42) return 1;
    if (seen[0] != &where[0] || seen[1] != &where[1] || seen[2] != &where[2]) return 2;
    if (seen[3] != &where[3] || seen[4] != &where[4] || seen[5] != &where[5]) return 3;
    if (factors[0] != 2.0f || factors[1] != 3.0f) return 4;
    if (numbers[0] != 5 || numbers[1] != 48 || numbers[2] != 48 || numbers[3] != 48) return 5;
    g.lda = 50;
    if (dgemm_launch(kernel, &g, NULL) != 42 || numbers[2] != 50) return 6;
    g.m = 65;
    if (dgemm_launch(kernel, &g, NULL) != DGEMM_INVALID_VALUE) return 7;
    g.m = 5; g.ldd = 65;
    if (dgemm_launch(kernel, &g, NULL) != DGEMM_INVALID_VALUE) return 8;
    g.ldd = 64;
    if (dgemm_launch(kernel, &g, NULL) != 42) return 9;
    if (dgemm_launch(NULL, &g, NULL) != DGEMM_INVALID_VALUE) return 10;
    if (dgemm_find_operation("nothing") != -1 || dgemm_select(-1, 5, 64, 48, 80) != NULL) return 11;
    return calls == 3 ? 0 : 12;
}}
"""

STUB = """\
int {name}_launch(const void* a, const void* b, const void* c, void* d, const void* bias0,
                  float alpha, float beta, int m, int k, long long lda, long long ldb,
                  void* stream)
{{
    seen[0] = (void*)a; seen[1] = (void*)b; seen[2] = (void*)c; seen[3] = d;
    seen[4] = (void*)bias0; seen[5] = stream;
    factors[0] = alpha; factors[1] = beta;
    numbers[0] = m; numbers[1] = k; numbers[2] = lda; numbers[3] = ldb;
    ++calls;
    return 42;
}}
"""


@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_launch_gets_the_arguments_that_its_kernel_has(
    compiler: list[str], tmp_path: Path
) -> None:
    each = entry(m="dynamic:64", k="dynamic:64", dtype_c="fp16", epilogue="bias,relu", layout="nt")
    (tmp_path / "dispatch.h").write_text(dispatch_texts([each])[0])
    stubs = STUB.format(name=each.name)
    if compiler[0] == "g++":
        stubs = f'extern "C" {stubs}'
    # The test's own declarations come after statements, which C89 would not have.
    program = compiled(tmp_path, compiler, LAUNCHING.format(stubs=stubs))
    assert subprocess.run([program], check=False).returncode == 0


WORKSPACE = """\
#include "dispatch.h"
static void* seen;
{stubs}
int main(void)
{{
    int where = 0;
    dgemm_arguments g;
    const dgemm_kernel* kernel = dgemm_select(0, 5, 64, 64, 80);
    memset(&g, 0, sizeof g);
    g.m = 5; g.n = 64; g.k = 64; g.workspace = &where;
    if (kernel == NULL || dgemm_workspace_bytes(kernel, 5, 64, 64) != 7005) return 1;
    if (dgemm_launch(kernel, &g, NULL) != 0 || seen != &where) return 2;
    return dgemm_workspace_bytes(NULL, 5, 64, 64) == 0 ? 0 : 3;
}}
"""

WORKSPACE_STUBS = """\
long long {name}_workspace_bytes(long long m) {{ return 7000 + m; }}
int {name}_launch(const void* a, const void* b, void* d, float alpha, int m, void* workspace,
                  void* stream)
{{
    (void)a; (void)b; (void)d; (void)alpha; (void)m; (void)stream;
    seen = workspace;
    return 0;
}}
"""


@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_program_of_several_kernels_gets_its_workspace(
    compiler: list[str], tmp_path: Path
) -> None:
    each = replace(entry(m="dynamic:64"), workspace=True)
    header, text = dispatch_texts([each])
    assert json.loads(text)["operations"][0]["kernels"][0]["workspace"] is True
    (tmp_path / "dispatch.h").write_text(header)
    stubs = WORKSPACE_STUBS.format(name=each.name)
    if compiler[0] == "g++":
        stubs = f'extern "C" {{ {stubs} }}'
    program = compiled(tmp_path, compiler, WORKSPACE.format(stubs=stubs))
    assert subprocess.run([program], check=False).returncode == 0


def test_the_launchers_declarations_fit_the_kernels_sources() -> None:
    """The same parameters in the same order, whatever a spec asks for."""
    specs = [
        spec(),
        spec(m="dynamic", n="dynamic", k="dynamic", dtype_c="fp32", epilogue="bias,bias:row,relu"),
        spec(layout_d="t", batch=3, lda=80, dtype_c="bf16", dtype_d="fp32"),
        spec(arch="sm_90a", m="dynamic", n=4096, k=4096),
        spec(n="dynamic", epilogue="scale,bias,residual,scale:row,gelu"),
        spec(m="dynamic", k=4096, split_k=4, dtype_c="fp16"),
    ]
    for each in specs:
        program, source = make(each)
        several = len(program.kernels) > 1
        made = Entry(each, program.name, program.target, workspace=several)
        header = dispatch_texts([made])[0]
        found = []
        for text in (source, header):
            declared = re.search(rf"int {program.name}_launch\((.*?)\)", text, re.DOTALL)
            assert declared
            found.append([_plain(word) for word in declared[1].split(",")])
        assert found[0] == found[1]


def _plain(parameter: str) -> str:
    """A parameter without what C and CUDA spell differently: element types, restrict, i64."""
    words = parameter.replace("__restrict__", "").replace("cudaStream_t", "void*").split()
    if "*" in " ".join(words):
        return f"{'const ' * ('const' in words)}* {words[-1].strip('*')}"
    return " ".join(words).replace("i64", "long long")
