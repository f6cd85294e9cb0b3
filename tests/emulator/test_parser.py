from __future__ import annotations

import pytest

from deepgemm_codegen.emulator import Kernel, LaunchError, PtxSyntaxError, nodes, parse
from deepgemm_codegen.emulator.printer import print_instruction, print_module
from tests.emulator.support import DATA, entry

_FILES = sorted(DATA.glob("*.ptx"))


@pytest.mark.parametrize("path", _FILES, ids=lambda p: p.stem)
def test_text_to_tree_to_text(path: object) -> None:
    text = path.read_text()  # type: ignore[attr-defined]
    tree = parse(text)
    printed = print_module(tree)
    assert parse(printed) == tree
    assert print_module(parse(printed)) == printed


@pytest.mark.parametrize("path", _FILES, ids=lambda p: p.stem)
def test_every_instruction_knows_its_line(path: object) -> None:
    text = path.read_text()  # type: ignore[attr-defined]
    lines = text.splitlines()
    tree = parse(text)
    assert len(tree.entries()) == 1
    kernel = Kernel(tree, tree.entries()[0])
    assert len(kernel.program.instructions) > 100
    for ins in kernel.program.instructions:
        assert ".".join(ins.opcode) in lines[ins.line - 1]
        assert ins.location is not None


def test_lines_take_no_part_in_comparison() -> None:
    text = entry("add.u32 %r1, %r2, %r3;\nret;")
    assert parse(text) == parse(text.replace("\n", "\n\n\n"))
    assert parse(text) != parse(text.replace("%r2", "%r4"))


@pytest.mark.parametrize(
    "text",
    [
        "@%p1 bra $L__BB0_1",
        "@!%p1 add.s32 %r1, %r2, -5",
        "setp.lt.and.s32 %p1|%p2, %r1, 0x1F, !%p3",
        "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1+16]",
        "st.shared.u32 [%r1+-4], _",
        "mov.b64 {%r1, _}, %rd1",
        "mov.f32 %f1, 0f3F800000",
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f1, %f2}, {%r1, %r2}, {%r5}, {%f5}",
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile [%r1], [%rd1, {%r2, %r3}], [%r4]",
        "call.uni (%r1), printf, (%rd1, %rd2)",
        "ret",
    ],
)
def test_an_instruction_prints_as_it_was_written(text: str) -> None:
    body = parse(entry(text + ";")).items[0]
    assert isinstance(body, nodes.Function)
    assert body.body is not None
    assert print_instruction(body.body.items[-1]) == text  # type: ignore[arg-type]


def test_locations_with_inlining() -> None:
    text = (
        entry(".loc 1 50 5, function_name $info+4, inlined_at 1 120 9\nadd.u32 %r1, %r1, %r1;")
        + '.file 1 "/kernel.cu", 0, 0\n'
    )
    kernel = Kernel(parse(text), "k")
    place = kernel.program.place(0)
    assert str(place) == (
        f"PTX line {place.line}: add.u32 %r1, %r1, %r1 (kernel.cu:50, inlined at kernel.cu:120)"
    )


def test_braces_of_inline_asm_scope_their_registers() -> None:
    text = entry(
        "{ .reg .pred q; setp.ne.u32 q, %r1, 0; @q add.u32 %r1, %r1, %r1; }\n"
        "{ .reg .b64 q; mov.u64 q, %d1; { .reg .b32 q; mov.u32 q, 1; } add.u64 %d1, q, q; }"
    )
    kernel = Kernel(parse(text), "k")
    banks = [r.bank for n, r in kernel.program.registers.items() if n.startswith("q#")]
    assert banks == ["p", "d", "r"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("add.u32 %r1 %r2;", "line 9: expected ',', got '%r2'"),
        ("add.u32 %r1, %r2", "line 10: expected ',', got '}'"),
        ("ld.u32 %r1, [%r2;", "line 9: expected ',', got ';'"),
        ("add.u32 %r1, ;", "line 9: expected an operand, got ';'"),
        ("add.u32 `;", "line 9: unexpected character '`'"),
        (".loc 1 2 3, mystery 4", "line 9: unknown .loc attribute 'mystery'"),
        (".reg .b32 %z<1.5>;", "line 9: expected an integer, got '1.5'"),
    ],
)
def test_syntax_errors_name_line_and_token(body: str, message: str) -> None:
    text = ".version 8.0\n.target sm_80\n.visible .entry k(\n)\n{\n.reg .b32 %r<9>;\n\n\n"
    with pytest.raises(PtxSyntaxError) as caught:
        parse(f"{text}{body}\n}}")
    assert str(caught.value) == message


def test_a_truncated_text() -> None:
    text = (DATA / "gemm_f16_sm80.ptx").read_text()
    with pytest.raises(PtxSyntaxError, match=r"^line \d+: "):
        parse(text[: len(text) // 3])


def test_an_unknown_kernel_lists_the_known() -> None:
    with pytest.raises(LaunchError) as caught:
        Kernel(parse(entry("ret;")), "gemm")
    assert str(caught.value) == "no kernel 'gemm' in the module; it has: k"


def test_comments_and_directives_are_skipped() -> None:
    text = entry('.pragma "nounroll";\n/* two\nlines */ add.u32 %r1, %r1, 1; // end\nret;')
    kernel = Kernel(parse(text), "k")
    assert [i.opcode[0] for i in kernel.program.instructions] == ["add", "ret"]
    assert kernel.program.instructions[0].line == text[: text.index("add.u32")].count("\n") + 1
