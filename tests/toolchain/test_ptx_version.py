"""The lowered ``.version`` assembles, and the one before it does not."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepgemm_codegen.errors import InternalError
from deepgemm_codegen.toolchain import (
    assemble,
    compile_ptx,
    disassemble,
    lower_ptx_version,
    ptx_requirement,
)
from deepgemm_codegen.toolchain.ptx_isa import DIRECTIVES, FORMS, SPECIAL_REGISTERS, TARGETS

from .isa_examples import DIRECTIVE_EXAMPLES, EXAMPLES, program
from .kernels import SMALL, TILE, needs_nvdisasm, needs_nvrtc, needs_ptxas, needs_ptxas_13

if TYPE_CHECKING:
    from collections.abc import Callable

NEWEST = (9, 0)
# Our tables follow the manual, or stay on the safe side, where ptxas takes more.
LATER_IN_THE_TABLE = ("neg.f16", "abs.f16", "cp.async.cg.shared::cta")
ALL_VERSIONS = [(6, 3), (6, 4), (6, 5), *[(7, n) for n in range(9)], *[(8, n) for n in range(9)]]
ALL_VERSIONS.append(NEWEST)


def before(version: tuple[int, int]) -> tuple[int, int] | None:
    older = [known for known in ALL_VERSIONS if known < version]
    return older[-1] if older else None


def needed(target: str, body: str = "", head: str = "") -> tuple[int, int]:
    requirement = ptx_requirement(program(NEWEST, target, body, head))
    assert not requirement.because.startswith("unknown"), requirement
    return requirement.version


def opcode_of(statement: str) -> str:
    match = re.search(r"(?:^|[;{}] *|@\S+ )((?!\.)[a-z][\w.:]*)[ ;]", statement)
    assert match is not None, statement
    return match[1]


def test_every_form_has_an_example() -> None:
    opcodes = {opcode_of(part) for _, body in EXAMPLES for part in body.split("\n")}
    opcodes |= {"mov.b128", "ret", "call.uni"}
    used = set()
    for opcode in opcodes:
        first = next((form for form in FORMS if re.fullmatch(form[1], opcode)), None)
        assert first is not None, opcode
        used.add(first)
    assert [form for form in FORMS if form not in used] == []


@needs_ptxas_13
@pytest.mark.parametrize("target", sorted(TARGETS))
def test_r08_each_target_at_its_oldest_version(
    target: str, ptxas: Callable[[str, str], str]
) -> None:
    """R08: a PTX .version at least 7.8 for sm_89 and sm_90, rising with the target."""
    version = needed(target)
    assert version == TARGETS[target]
    assert ptxas(target, program(version, target)) == ""
    older = before(version)
    if older is not None and target != "sm_88":  # the manual and ptxas differ there
        assert "does not support .target" in ptxas(target, program(older, target))


def test_r08_versions_rise_with_the_target() -> None:
    """R08: sm_100 comes after sm_90, which a comparison of strings gets wrong."""
    rising = [needed(target) for target in ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100")]
    assert rising == sorted(rising)
    assert len(set(rising)) == len(rising)


@needs_ptxas_13
def test_examples_assemble_at_their_version(ptxas: Callable[[str, str], str]) -> None:
    groups = defaultdict(list)
    for target, body in EXAMPLES:
        groups[target, needed(target, body)].append(body)
    for (target, version), bodies in sorted(groups.items()):
        text = "\n".join(
            body.replace("LABEL", f"LABEL_{number}") for number, body in enumerate(bodies)
        )
        assert ptxas(target, program(version, target, text)) == "", (target, version)


@needs_ptxas_13
@pytest.mark.parametrize(
    ("target", "body"),
    [example for example in EXAMPLES if needed(*example) > TARGETS[example[0]]],
)
def test_examples_are_refused_one_version_earlier(
    target: str, body: str, ptxas: Callable[[str, str], str]
) -> None:
    older = before(needed(target, body))
    assert older is not None
    complaint = ptxas(target, program(older, target, body))
    if any(opcode in body for opcode in LATER_IN_THE_TABLE):
        assert complaint == ""
        return
    assert re.search(r"requires (?:PTX ISA )?\.(?:version|target)|not allowed", complaint)


@needs_ptxas_13
@pytest.mark.parametrize(("target", "head"), DIRECTIVE_EXAMPLES)
def test_directives(target: str, head: str, ptxas: Callable[[str, str], str]) -> None:
    version = needed(target, head=head)
    assert ptxas(target, program(version, target, head=head)) == ""
    if version > TARGETS[target]:
        older = before(version)
        assert older is not None
        assert "requires PTX ISA" in ptxas(target, program(older, target, head=head))


@pytest.mark.parametrize(
    ("body", "because"),
    [
        ("foo.bar.b32 %r1, %r2;", "unknown here: foo.bar.b32"),
        ("mma.sync.aligned.m16n8k99.row.col.f32.f16.f16.f32 {%f1}, {%r1}, {%r2}, {%f1};",
         "unknown here: mma.sync.aligned.m16n8k99.row.col.f32.f16.f16.f32"),
        ("ld.global.nc.L3::wild.u32 %r1, [%rd1];", "unknown here: ld.global.nc.L3::wild.u32"),
        ("mov.u32 %r1, %novel_register;", "unknown here: %novel_register"),
        (".novel .b32 x;", "unknown here: .novel"),
        ("@%p1 foo.u32 %r1;", "unknown here: foo.u32"),
        ("L7: @!%p1 foo.u32 %r1;", "unknown here: foo.u32"),
        ("{ .reg .b32 t; foo.u32 t; }", "unknown here: foo.u32"),
        ("mov.b64 {%r1, %r2}, %rd1; foo.u32 %r1;", "unknown here: foo.u32"),
    ],
)  # fmt: skip
def test_what_is_unknown_keeps_the_stamped_version(body: str, because: str) -> None:
    ptx = program(NEWEST, "sm_80", body)
    requirement = ptx_requirement(ptx)
    assert requirement.version == NEWEST
    assert requirement.because == because
    assert lower_ptx_version(ptx) == ptx


def test_an_unknown_target_keeps_the_stamped_version() -> None:
    ptx = program(NEWEST, "sm_130")
    assert str(ptx_requirement(ptx)) == "PTX ISA 9.0 (unknown here: target sm_130)"


@pytest.mark.parametrize(
    "body",
    [
        "// foo.bar %r1;",
        "/* foo.bar\n %r1; */",
        '.pragma "foo.bar %r1;";',
        ".reg .b64 %mine; mov.u64 %mine, %rd1;",
        ".reg .b32 %tmp<4>; mov.u32 %tmp3, %r1;",
    ],
)
def test_comments_strings_and_own_registers_ask_for_nothing(body: str) -> None:
    assert needed("sm_80", body) == (7, 0)


@needs_ptxas_13
@pytest.mark.parametrize(
    ("text", "version"),
    [
        (".global .f64 x = 1.e5;", (7, 0)),
        ('.file 1 "/k.cu"', (7, 0)),
        (".section .debug_str { $label: .b8 0 }", (7, 2)),
    ],
)
def test_what_stands_outside_kernels(
    text: str, version: tuple[int, int], ptxas: Callable[[str, str], str]
) -> None:
    assert needed("sm_80", head=text) == version
    assert ptxas("sm_80", program(version, "sm_80", head=text)) == ""


def test_inlined_lines_need_their_version() -> None:
    inlined = ".loc 1 3 3, function_name $L__info_string0, inlined_at 1 5 1\n"
    assert needed("sm_80", body=f"{inlined}mov.u32 %r1, %tid.x;") == (7, 2)
    assert needed("sm_80", body=".loc 1 3 3\nmov.u32 %r1, %tid.x;") == (7, 0)


def test_the_reason_names_the_instruction() -> None:
    ptx = program(NEWEST, "sm_90", "mov.u32 %r1, %tid.x;\nfence.proxy.async.shared::cta;")
    assert str(ptx_requirement(ptx)) == "PTX ISA 8.0 (fence.proxy.async.shared::cta)"


def test_a_text_stamped_older_is_left_alone() -> None:
    ptx = program((7, 0), "sm_90a")
    assert lower_ptx_version(ptx) == ptx


def test_r08_versions_compare_as_integers() -> None:
    """R08: 7.10 is newer than 7.8."""
    ptx = program((7, 10), "sm_89")
    assert ".version 7.8\n" in lower_ptx_version(ptx)


def test_only_the_version_line_changes() -> None:
    ptx = program(NEWEST, "sm_80", "// .version 9.0\nmov.u32 %r1, %tid.x;")
    lowered = lower_ptx_version(ptx)
    assert lowered == ptx.replace(".version 9.0", ".version 7.0", 1)
    assert lower_ptx_version(lowered) == lowered


@pytest.mark.parametrize("text", ["", "int main() {}", ".version 9.0\n", ".target sm_80\n"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(InternalError, match=r"no \.version or \.target line"):
        ptx_requirement(text)


@given(st.lists(st.sampled_from([e for e in EXAMPLES if e[0] in {"sm_75", "sm_80"}]), max_size=8))
def test_a_text_needs_the_most_of_its_parts(chosen: list[tuple[str, str]]) -> None:
    bodies = [body for _, body in chosen]
    whole = needed("sm_80", "\n".join(bodies))
    assert whole == max([(7, 0), *(needed("sm_80", body) for body in bodies)])


@given(st.text(st.sampled_from('abc.{}();@%:,_$019 \n\t"/*'), max_size=60))
def test_no_text_is_lowered_by_accident(noise: str) -> None:
    """Whatever stands in a body, the answer is a version from the target's own to the stamp."""
    requirement = ptx_requirement(program(NEWEST, "sm_80", noise))
    assert (7, 0) <= requirement.version <= NEWEST


@needs_nvrtc
@needs_ptxas
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_120"])
@pytest.mark.parametrize("line_info", [False, True])
def test_compiled_code_is_lowered_and_assembles(
    arch: str, *, line_info: bool, ptxas: Callable[[str, str], str]
) -> None:
    source = SMALL if arch == "sm_75" else TILE
    ptx = compile_ptx(source, name="x", arch=arch, line_info=line_info, cached=False).ptx
    assert f".version {TARGETS[arch][0]}.{TARGETS[arch][1]}\n.target {arch}\n" in ptx
    assert ptxas(arch, ptx) == ""


@needs_nvrtc
@needs_ptxas
@needs_nvdisasm
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_lowering_leaves_the_machine_code_alone(arch: str) -> None:
    lowered = compile_ptx(TILE, name="x", arch=arch, cached=False).ptx
    stamped = re.sub(r"\.version \S+", ".version 9.0", lowered)
    assert stamped != lowered
    texts = [disassemble(assemble(ptx, arch=arch).cubin) for ptx in (lowered, stamped)]
    assert texts[0] == texts[1]
    assert "HMMA" in texts[0]


def test_the_tables_hold_valid_expressions() -> None:
    for version, pattern in (*FORMS, *SPECIAL_REGISTERS, *DIRECTIVES):
        re.compile(pattern)
        assert version in ALL_VERSIONS
