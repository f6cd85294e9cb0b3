"""What the compilers make of the generated files, architecture by architecture."""

from __future__ import annotations

import re
import subprocess
from shutil import which
from typing import TYPE_CHECKING

import pytest

from deepgemm_codegen.arch import known_architectures, load_arch
from deepgemm_codegen.decide import MmaSyncChoice, WgmmaChoice, decide
from deepgemm_codegen.dtypes import parse_dtype
from deepgemm_codegen.epilogue import STEPS
from deepgemm_codegen.errors import EnvironmentLackError
from deepgemm_codegen.render import render_kernel, render_program
from deepgemm_codegen.spec import GemmSpec
from deepgemm_codegen.toolchain import build_cubin, compile_ptx, disassemble

from .plans import GOLDEN

if TYPE_CHECKING:
    from pathlib import Path

    from deepgemm_codegen.plan import KernelPlan

pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC is not installed")

ARCHITECTURES = known_architectures()


def plan_for(arch: str, **fields: object) -> KernelPlan:
    spec = GemmSpec.from_fields({"m": 256, "n": 256, "k": 256, "arch": arch, **fields})
    return MmaSyncChoice(64, 64, 32, 2, 2, 2, 1, 8).program(spec, load_arch(arch)).kernels[0]


def sass_of(cubin: bytes) -> str:
    try:
        return disassemble(cubin)
    except EnvironmentLackError as error:
        pytest.skip(str(error))


def types_of(arch: str) -> list[str]:
    return [name for name in load_arch(arch).dtypes if name not in ("e4m3", "e5m2", "fp32")]


def opcode_of(arch: str, dtype: str) -> str:
    """The machine's own instruction, as a pattern."""
    if dtype in ("int8", "uint8"):
        letter = {"int8": "S", "uint8": "U"}[dtype]
        shape = "8816" if arch == "sm_75" else "16832"
        return rf"IMMA\.{shape}\.{letter}8\.{letter}8"
    opcode = r"HMMA\.1688\.F32" if arch == "sm_75" else r"HMMA\.16816\.F32"
    return opcode + (r"\.BF16" if dtype == "bf16" else "")


@pytest.mark.parametrize(
    ("arch", "dtype"), [(arch, dtype) for arch in ARCHITECTURES for dtype in types_of(arch)]
)
def test_the_architecture_s_own_mma_in_ptx_and_sass(arch: str, dtype: str) -> None:
    plan = plan_for(arch, dtype=dtype)
    built = build_cubin(render_kernel(plan), name=plan.name, arch=plan.target)
    element = parse_dtype(dtype)
    rows = 8 if arch == "sm_75" and element.bytes == 1 else 16
    shape = f"m{rows}n8k{load_arch(arch).mma_bytes // element.bytes}"
    sums = "s32" if element.bytes == 1 else "f32"
    mma = f"mma.sync.aligned.{shape}.row.col.{sums}.{element.ptx}.{element.ptx}.{sums}"
    assert set(re.findall(r"mma\.sync\S+", built.ptx)) == {mma}
    assert re.search(rf"\.target {arch}\b", built.ptx)
    sass = sass_of(built.cubin)
    opcodes = set(re.findall(r"\b[HI]MMA\.\S+", sass))
    assert opcodes
    assert all(re.fullmatch(opcode_of(arch, dtype), opcode) for opcode in opcodes), opcodes
    assert ("LDGSTS" in sass) == (arch != "sm_75"), "cp.async becomes LDGSTS"
    assert "LDSM" in sass
    assert not re.search(r"\b(LDL|STL)\b", sass), "nothing lives in local memory"


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.full] * (i % 2)) for i, name in enumerate(GOLDEN)],
)
def test_golden_files_build_without_spills_or_globals(name: str) -> None:
    program = GOLDEN[name]
    built = build_cubin(render_program(program), name=program.name, arch=program.target)
    assert set(built.resources) == {kernel.name for kernel in program.kernels}
    for usage in built.resources.values():
        assert (usage.spill_store_bytes, usage.spill_load_bytes, usage.stack_bytes) == (0, 0, 0)
    assert not re.search(r"^\.global", built.ptx, re.MULTILINE)
    assert built.log == ""


@pytest.mark.full
@pytest.mark.skipif(which("nvcc") is None, reason="nvcc is not installed")
@pytest.mark.parametrize("name", GOLDEN)
def test_nvcc_takes_the_golden_files_with_their_launchers(name: str, tmp_path: Path) -> None:
    program = GOLDEN[name]
    source = tmp_path / "kernel.cu"
    source.write_text(render_program(program), encoding="utf-8")
    number = program.target.removeprefix("sm_")
    made = subprocess.run(
        ["nvcc", f"-gencode=arch=compute_{number},code=sm_{number}", "-c", "-o", "k.o", source],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    assert made.stderr == "", "nor is there anything to warn of"


def test_a_comment_changes_nothing_in_the_ptx() -> None:
    plan = GOLDEN["aligned_nt"].product
    source = render_kernel(plan)
    changed = source.replace("// -- who am I --", "// -- which thread is this --")
    assert changed != source
    first, second = (
        compile_ptx(text, name=plan.name, arch=plan.target).ptx for text in (source, changed)
    )
    assert first == second


def test_r03_no_tensor_memory_instruction_on_consumer_blackwell() -> None:
    """R03: sm_120 is Blackwell without tcgen05."""
    plan = plan_for("sm_120", dtype="bf16", m=128, n=128, k=128)
    source = render_kernel(plan)
    assert "tcgen05" not in source
    assert "tcgen05" not in compile_ptx(source, name=plan.name, arch=plan.target).ptx


def test_b12_relu_compiles_on_turing() -> None:
    """B12: relu needs no packed maximum, which sm_75 lacks."""
    plan = plan_for("sm_75", epilogue="relu")
    assert "max.f16x2" not in compile_ptx(render_kernel(plan), name=plan.name, arch="sm_75").ptx


@pytest.mark.parametrize(
    "arch", ["sm_75", *(pytest.param(a, marks=pytest.mark.full) for a in ARCHITECTURES[1:])]
)
def test_every_type_is_written_on_every_architecture(arch: str) -> None:
    """C, D and stores of all types; sm_75 has no conversion to bf16. ptxas takes each."""
    stores = "store:fp16,store:bf16,store:fp32"
    for fields in (
        {"dtype_d": "bf16", "dtype_c": "bf16", "epilogue": f"bias:bf16,{stores}"},
        {"epilogue": f"residual:bf16,{stores},quantize:e4m3"},
        {"op": "epilogue", "k": None, "dtype": "bf16", "epilogue": f"{stores},rms_norm"},
    ):
        asked = {"m": 64, "n": 64, "k": 64, "arch": arch, **fields}
        spec = GemmSpec.from_fields({k: v for k, v in asked.items() if v is not None})
        program = decide(spec, load_arch(arch))
        build_cubin(render_program(program), name=program.name, arch=program.target)


def test_n15_the_entry_is_found_by_its_plain_name() -> None:
    """N15: extern "C", so the manifest's name is the symbol's."""
    plan = GOLDEN["aligned_nt"].product
    ptx = compile_ptx(render_kernel(plan), name=plan.name, arch=plan.target).ptx
    assert re.findall(r"\.entry (\w+)", ptx) == [plan.name]


def wgmma_opcodes(choice: WgmmaChoice, epilogue: str) -> list[str]:
    """The opcodes of a kernel for sm_90a, in the machine code's order."""
    fields = {"m": 512, "n": 512, "k": 512, "arch": "sm_90a", "layout": "nt"}
    spec = GemmSpec.from_fields({**fields, "epilogue": epilogue})
    (plan,) = choice.program(spec, load_arch("sm_90a")).kernels
    built = build_cubin(render_kernel(plan), name=plan.name, arch="sm_90a")
    lines = re.findall(r"/\*[0-9a-f]{4,}\*/ +(?:@!?U?P\w+ +)?([A-Z][\w.]*)", sass_of(built.cubin))
    return [line for line in lines if line != "NOP"]


@pytest.mark.parametrize(
    "choice", [WgmmaChoice(128, 128, 2, 1, 4, 1, 1, 4), WgmmaChoice(128, 96, 2, 2, 4, 1, 1, 4)]
)
def test_columns_are_on_their_way_while_wgmma_multiplies(choice: WgmmaChoice) -> None:
    """The compiler has not moved the loads to where they are used, behind the last slice."""
    opcodes = wgmma_opcodes(choice, "bias,scale:column:fp32,gelu")
    loads = [i for i, opcode in enumerate(opcodes) if opcode.startswith("LDG")]
    first = next(i for i, opcode in enumerate(opcodes) if opcode.startswith("HGMMA"))
    assert len(loads) == 2
    assert max(loads) < first


def test_the_table_counts_what_a_step_takes_in_machine_code() -> None:
    choice = WgmmaChoice(64, 64, 1, 1, 4, 1, 1, 4)
    elements = 64 * 64 // 128  # a thread

    def counts(epilogue: str) -> tuple[float, float]:
        opcodes = wgmma_opcodes(choice, epilogue)
        specials = sum(opcode in ("MUFU.EX2", "MUFU.RCP") for opcode in opcodes)
        return len(opcodes) / elements, specials / elements

    plain, none = counts("bias")
    for name, kind in STEPS.items():
        if kind.instructions and not kind.pairs:
            instructions, specials = counts(f"bias,{name}")
            assert specials - none == pytest.approx(kind.specials, abs=0.1), name
            assert instructions - plain == pytest.approx(kind.instructions, abs=0.5), name
