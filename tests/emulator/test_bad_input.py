"""What is no PTX, no kernel or no launch: an error with the line or the limit, never a hang."""

from __future__ import annotations

import contextlib
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepgemm_codegen.emulator import (
    Checks,
    GlobalBuffer,
    Kernel,
    Launch,
    LaunchError,
    PtxSyntaxError,
    UnsupportedError,
    parse,
    run,
)
from deepgemm_codegen.errors import CodegenError
from tests.emulator.programs import PROGRAMS, ptx
from tests.emulator.support import DATA, entry

HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"
KERNEL = ".visible .entry k() { ret; }\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: the text has no .version"),
        (".version 8.0\n", "line 2: the text has no .target"),
        (f".version 10.1\n.target sm_90\n{KERNEL}",
         "line 1: PTX version 10.1 is not supported; 6.0 to 9.x are"),
        (f".version 5.0\n{KERNEL}", "line 1: PTX version 5.0 is not supported; 6.0 to 9.x are"),
        (f".version 8\n{KERNEL}", "line 1: PTX version 8 is not supported; 6.0 to 9.x are"),
        (f".version new\n{KERNEL}", "line 1: expected a number, got 'new'"),
        (f".version 8.0\n.target compute_90\n{KERNEL}", "line 2: target 'compute_90' is no sm_NN"),
        (f".version 8.0\n.target sm_999\n{KERNEL}",
         "line 2: target 'sm_999' is unknown; the newest known is sm_121"),
        (f".version 8.0\n.target sm_90\n.address_size 32\n{KERNEL}",
         "line 3: addresses of 32 bits; only 64 are supported"),
        (f"{HEAD}.visible .entry k(", "line 4: the text ends too early"),
        (f"{HEAD}.visible .entry k()\n{{\nadd.u32 %r1,", "line 6: the text ends too early"),
        (f"{HEAD}.global .u32 a = {{1, 2", "line 4: the text ends too early"),
        (f'{HEAD}.pragma "x"', "line 4: the text ends too early"),
        (f"{HEAD}.section .debug {{", "line 4: the text ends too early"),
        (f"{HEAD}.visible .entry k() {{ {'{' * 80}", "line 4: more than 64 braces in each other"),
        (f"{HEAD}.visible .entry k() {{ ld.u32 %r1, [[a]]; }}",
         "line 4: expected an operand, got '['"),
        (f"{HEAD}.visible .entry k() {{ mov.b64 %d1, {{{{a}}}}; }}",
         "line 4: a vector within a vector"),
        (f"{HEAD}.visible .entry k() {{ ld.u32 %r1, [%d1, [%d2]]; }}",
         "line 4: an address within an address"),
        (f"{HEAD}.visible .entry k() {{ ld.u32 %r1, [%d1+99999999999]; }}",
         "line 4: an offset of 99999999999 bytes"),
    ],
)  # fmt: skip
def test_texts_that_are_no_module(text: str, message: str) -> None:
    with pytest.raises(PtxSyntaxError) as caught:
        parse(text)
    assert str(caught.value) == message


@pytest.mark.parametrize("text", [f"{HEAD}{KERNEL}".encode(), None])
def test_what_is_no_text(text: Any) -> None:
    kind = type(text).__name__
    message = f"^PTX text was expected as str, not {kind}; decode bytes$"
    with pytest.raises(TypeError, match=message):
        parse(text)
    with pytest.raises(TypeError, match=message):
        run(text, Launch((1, 1, 1), (32, 1, 1), 0, ()))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{L: bra L; L: }", "line 9: label 'L' stands twice"),
        (".reg .b32 %z<200000>;", "PTX line 9: more than 131072 registers: %z"),
        (".shared .b8 x[99999999];",
         "PTX line 9: 99999999 bytes; the limit is 16777216: shared memory"),
        (".local .b8 x[999999];", "PTX line 9: 999999 bytes; the limit is 524288: local memory"),
        (".shared .align 3 .b8 x[4];", "line 9: an alignment of 3 bytes"),
        (".shared .q32 x;", "line 9: unknown type '.q32'"),
        ("call.uni nothing, ();", ("PTX line 9: calls are not supported: functions have to be "
                                   "inlined (__forceinline__): call.uni nothing, ()")),
        ("ld.global.u32 %r1, [nowhere];",
         "PTX line 9: unknown name 'nowhere': ld.global.u32 %r1, [nowhere]"),
        ("bra AWAY;", "PTX line 9: branch to an unknown label: bra AWAY"),
        ("frobnicate.u32 %r1;", "PTX line 9: unknown instruction: frobnicate.u32 %r1"),
    ],
)  # fmt: skip
def test_modules_that_hold_no_kernel_of_ours(text: str, message: str) -> None:
    whole = f"{HEAD}.visible .entry k()\n{{\n.reg .b32 %r<9>;\n.reg .b64 %d<9>;\n\n{text}\n}}\n"
    with pytest.raises((PtxSyntaxError, UnsupportedError)) as caught:
        Kernel(parse(whole), "k")
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("directive", "message"),
    [(".maxntid 0, 1, 1", "line 4: unreadable directive '.maxntid 0, 1, 1'"),
     (".reqnctapercluster two", "line 4: unreadable directive '.reqnctapercluster two'")],
)  # fmt: skip
def test_directives(directive: str, message: str) -> None:
    with pytest.raises(PtxSyntaxError) as caught:
        Kernel(parse(f"{HEAD}.visible .entry k() {directive} {{ ret; }}"), "k")
    assert str(caught.value) == message


def test_labels_of_inline_assembly_are_its_own() -> None:
    part = "{ .reg .pred P; L: setp.ge.u32 P, %r1, {}; @P bra D; add.u32 %r1, %r1, 1; bra L; D: }"
    text = "mov.u32 %r1, 0;\n" + "\n".join(part.replace("{}", str(n)) for n in (3, 9))
    text += "\nld.param.u64 %d1, [k_param_0];\nst.global.u32 [%d1], %r1;"
    out = np.zeros(1, np.uint32)
    kernel = Kernel(parse(entry(text, 1)), "k")
    report = run(kernel, Launch((1, 1, 1), (1, 1, 1), 0, [GlobalBuffer("o", out, writable=True)]))
    assert report.findings == ()
    assert out[0] == 9


# -- launches --

BUFFER = GlobalBuffer("a", np.zeros(64, np.uint32))


def _launch(**changes: Any) -> Launch:
    fields: dict[str, Any] = {
        "grid": (1, 1, 1), "block": (32, 1, 1), "shared_bytes": 0, "params": [BUFFER, 5, 1.5]
    }  # fmt: skip
    return Launch(**(fields | changes))


PARAMETERS = ".param .u64 a, .param .u32 n, .param .f32 x"


def _kernel(parameters: str = PARAMETERS, before: str = "", arithmetic: str = "sm_90") -> Kernel:
    return Kernel(
        parse(f"{HEAD}{before}.visible .entry k({parameters}) {{ ret; }}"), "k", arithmetic
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"grid": (0, 1, 1)}, "grid (0, 1, 1): sizes are 1 to 2147483647, 65535, 65535 in x, y, z"),
        ({"grid": (1, 1, 70000)},
         "grid (1, 1, 70000): sizes are 1 to 2147483647, 65535, 65535 in x, y, z"),
        ({"grid": (1, 1)},
         "grid = (1, 1): three whole numbers were expected, in x, y, z, such as (8, 1, 1)"),
        ({"grid": (1 << 23, 1, 1)},
         "a grid of 8388608 blocks: name the blocks to run, 4194304 at most"),
        ({"block": (0, 1, 1)}, "block (0, 1, 1): sizes are 1 to 1024, 1024, 64 in x, y, z"),
        ({"block": (32, 1, 65)}, "block (32, 1, 65): sizes are 1 to 1024, 1024, 64 in x, y, z"),
        ({"block": (64, 32, 1)}, "2048 threads in a block; a block has 1 to 1024"),
        ({"cluster": (32, 1, 1), "grid": (32, 1, 1)},
         "a cluster of (32, 1, 1); a cluster has 1 to 16 blocks"),
        ({"cluster": (0, 1, 1)}, "a cluster of (0, 1, 1); a cluster has 1 to 16 blocks"),
        ({"shared_bytes": -1}, "-1 bytes of dynamic shared memory"),
        ({"shared_bytes": 240000}, ("k needs 240000 bytes of shared memory a block (0 of its "
                                    "own, 240000 of the launch); sm_90 has 232448")),
        ({"params": [BUFFER, 5]}, "k takes 3 parameters, got 2"),
        ({"params": [5, BUFFER, 1.5]}, "parameter n has 4 bytes, got 8"),
        ({"params": [BUFFER, 5.5, 1.5]}, "parameter n is a .u32 of 4 bytes, got 5.5"),
        ({"params": [BUFFER, 1 << 32, 1.5]}, "parameter n is a .u32 of 4 bytes, got 4294967296"),
        ({"params": [BUFFER, -(1 << 31) - 1, 1.5]},
         "parameter n is a .u32 of 4 bytes, got -2147483649"),
        ({"params": [BUFFER, "five", 1.5]}, "parameter n is a .u32 of 4 bytes, got 'five'"),
        ({"params": [BUFFER, None, 1.5]}, "parameter n is a .u32 of 4 bytes, got None"),
        ({"params": [BUFFER, 5, 1e300]}, "parameter x is a .f32 of 4 bytes, got 1e+300"),
        ({"params": [BUFFER, 5, np.float64(1)]}, "parameter x has 4 bytes, got 8"),
    ],
)  # fmt: skip
def test_launches_that_do_not_fit(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(LaunchError) as caught:
        run(_kernel(), _launch(**changes))
    assert str(caught.value) == message


def test_shared_memory_by_architecture() -> None:
    before = ".shared .align 16 .b8 own[60000];\n"
    for arch, limit in (("sm_75", 65536), ("sm_80", 166912), ("sm_89", 101376), ("sm_90a", 232448)):
        kernel = _kernel("", before, arch)
        most = limit - 60000
        assert run(kernel, _launch(params=[], shared_bytes=most)).findings == ()
        with pytest.raises(LaunchError, match=f"{arch.rstrip('a')} has {limit}$"):
            run(kernel, _launch(params=[], shared_bytes=most + 1))


def test_too_many_parameters() -> None:
    with pytest.raises(UnsupportedError, match="32768 bytes; the limit is 32764: parameters"):
        _kernel(".param .align 8 .b8 a[32768]")


def test_a_kernel_that_never_ends_says_its_budget() -> None:
    kernel = Kernel(parse(entry("LOOP:\nbra LOOP;")), "k")
    report = run(kernel, _launch(params=[]), checks=Checks(step_limit=1000))
    (finding,) = report.findings
    assert finding.kind == "timeout"
    assert finding.message == (
        "still running after 1,000 basic blocks (Checks.step_limit); give it more if it is meant to"
        " take so long"
    )
    assert "bra LOOP" in str(finding)


def test_barriers_that_no_block_has() -> None:
    with pytest.raises(UnsupportedError, match="barrier 16 of a block that has 16"):
        Kernel(parse(entry("bar.sync 16;")), "k")
    for body, message in (
        ("mov.u32 %r1, 16;\nbar.sync %r1;", "barrier 16 of a block that has 16"),
        ("bar.sync 1, 40;", "40 threads: no whole number of warps"),
    ):
        report = run(Kernel(parse(entry(body)), "k"), _launch(params=[], block=(64, 1, 1)))
        assert (report.findings[0].kind, report.findings[0].message) == ("bad-barrier", message)


# -- mutated texts: whatever comes, only the project's errors come out --

_TEXTS = {p.name: ptx(p.name) for p in PROGRAMS}
_TEXTS["staged"] = (DATA / "staged_f16_sm75.ptx").read_text()
_WORDS = [
    "", " ", ";", ",", "{", "}", "[", "]", "(", ")", "@", "!", "|", "<", ">", "-", "+", ":", "%r1",
    "%rd1", "%p1", "0", "-1", "4294967296", "0x7fffffffffffffff", "1e9", "0f7F800000", ".u32",
    ".f32",
    ".pred", ".b8", ".cc", ".wide", ".sync", ".reg", ".shared", ".entry", "bar.sync", "ret", "exit",
    "\x00", "é", "\n", '"', "/*", "//",
]  # fmt: skip
_CUT = st.tuples(st.floats(0, 1), st.integers(0, 40), st.sampled_from(_WORDS))


def _try(text: str) -> None:
    """Parse, translate and run; anything but an error of the project goes through."""
    with contextlib.suppress(CodegenError):
        module = parse(text)
        for name in module.entries()[:1]:
            kernel = Kernel(module, name)
            values: list[Any] = [
                GlobalBuffer(slot.name, np.zeros(4096, np.uint8), writable=True)
                if slot.type == "u64" and not slot.array
                else bytes(slot.size)
                for slot in kernel.program.parameters
            ]
            launch = Launch((2, 1, 1), (64, 1, 1), 1024, values)
            run(kernel, launch, checks=Checks(step_limit=300))


def _mutate(name: str, cuts: list[tuple[float, int, str]]) -> str:
    text = _TEXTS[name]
    for where, length, word in cuts:
        at = int(where * len(text))
        text = text[:at] + word + text[at + length :]
    return text


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(sorted(_TEXTS)), st.lists(_CUT, min_size=1, max_size=3))
def test_mutated_texts(name: str, cuts: list[tuple[float, int, str]]) -> None:
    _try(_mutate(name, cuts))


@settings(max_examples=15, deadline=None)
@given(st.sampled_from(sorted(_TEXTS)), st.floats(0, 1))
def test_truncated_texts(name: str, where: float) -> None:
    text = _TEXTS[name]
    _try(text[: int(where * len(text))])


# Words of a text in each other's places, registers in those of registers, numbers in those of
# numbers: still PTX to the parser, most of the time.
_TOKEN = re.compile(r"[%$.\w:]+")


def _class(word: str) -> str:
    return "1" if word[0].isdigit() else "a" if word[0].isalpha() else word[0]


def _classes(text: str) -> dict[str, list[re.Match[str]]]:
    found: dict[str, list[re.Match[str]]] = {}
    for token in _TOKEN.finditer(text):
        found.setdefault(_class(token.group()), []).append(token)
    return found


_TOKENS = {name: _classes(text) for name, text in _TEXTS.items()}
_PLACE = st.floats(0, 1, exclude_max=True)
_SWAP = st.tuples(st.sampled_from("%1aa."), _PLACE, _PLACE)


def _swap(name: str, swaps: list[tuple[str, float, float]]) -> str:
    text = _TEXTS[name]
    chosen: dict[tuple[int, int], str] = {}
    for kind, where, source in swaps:
        tokens = _TOKENS[name].get(kind, [])
        if tokens:
            word = tokens[int(source * len(tokens))].group()
            chosen[tokens[int(where * len(tokens))].span()] = word
    for start, end in sorted(chosen, reverse=True):
        text = text[:start] + chosen[start, end] + text[end:]
    return text


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(sorted(_TEXTS)), st.lists(_SWAP, min_size=1, max_size=3))
def test_words_in_other_places(name: str, swaps: list[tuple[str, float, float]]) -> None:
    _try(_swap(name, swaps))


@pytest.mark.full
@settings(max_examples=3000, deadline=None)
@given(st.sampled_from(sorted(_TEXTS)), st.lists(_SWAP, min_size=1, max_size=3))
def test_many_words_in_other_places(name: str, swaps: list[tuple[str, float, float]]) -> None:
    _try(_swap(name, swaps))


@pytest.mark.full
@settings(max_examples=3000, deadline=None)
@given(st.sampled_from(sorted(_TEXTS)), st.lists(_CUT, min_size=1, max_size=4))
def test_many_mutated_texts(name: str, cuts: list[tuple[float, int, str]]) -> None:
    _try(_mutate(name, cuts))


@pytest.mark.full
@settings(max_examples=300, deadline=None)
@given(st.text(max_size=200))
def test_any_text(text: str) -> None:
    _try(text)
    _try(HEAD + text)
    _try(f"{HEAD}.visible .entry k() {{ {text} }}")


def refused(*launch: Any, blocks: Any = None, **fields: Any) -> str:
    """What is said of a launch of a kernel with two pointers."""
    text = f"{HEAD}.visible .entry k(.param .u64 p, .param .u64 q) {{ ret; }}\n"
    with pytest.raises(LaunchError) as caught:
        run(text, Launch(*launch, **fields), blocks)
    return str(caught.value)


def test_launches_that_are_none() -> None:
    whole = "three whole numbers were expected, in x, y, z, such as (8, 1, 1)"
    one = (1, 1, 1)
    assert refused(1, (32, 1, 1)) == f"grid = 1: {whole}"
    assert refused(one, 128) == f"block = 128: {whole}"
    assert refused((1.0, 1, 1), one) == f"grid = (1.0, 1, 1): {whole}"
    assert refused(one, one, 1.5) == "shared_bytes = 1.5: a whole number was expected"
    assert refused(one, one, params=(0, 0), blocks=[0]) == f"block = 0: {whole}"
    assert (
        refused(one, one, params=(0, 0), blocks=[])
        == "no block to run; None stands for all of the grid"
    )
    assert (
        refused(one, one, params=(0, 0), blocks=[(0, 0, 0), [0, 0, 0]])
        == "block (0, 0, 0) is named twice; a launch has each of its blocks once"
    )
    sizes: Any = [np.int64(2), 1, 1]
    assert Launch(sizes, one).grid == (2, 1, 1)


@pytest.mark.parametrize("view", [lambda x: x[1:], lambda x: x.view(np.int32)])
def test_buffers_that_share_memory_are_refused(view: Any) -> None:
    """They would lie apart, and races between them would not be seen."""
    x = np.zeros(64, np.float32)
    told = refused((1, 1, 1), (32, 1, 1), params=(x[:32], view(x)))
    assert told == (
        "buffers 'p' and 'q' share memory: make one GlobalBuffer of the whole, and point into it "
        "with its at()"
    )
    x.flags.writeable = False  # what nobody writes may lie anywhere
    text = f"{HEAD}.visible .entry k(.param .u64 p, .param .u64 q) {{ ret; }}\n"
    assert run(text, Launch((1, 1, 1), (32, 1, 1), 0, (x[:32], view(x)))).findings == ()


def test_another_byte_order_is_refused() -> None:
    x = np.zeros(4, np.dtype(np.float32).newbyteorder())
    told = refused((1, 1, 1), (1, 1, 1), params=(x, 0))
    assert told == (
        "buffer 'p' is not in this machine's byte order; pass a copy of it that is:"
        " astype(dtype.newbyteorder('='))"
    )


def test_an_array_of_objects_is_refused() -> None:
    told = refused((1, 1, 1), (1, 1, 1), params=(np.array([None, "x"]), 0))
    assert told == "buffer 'p' is an array of Python objects; pass one of numbers"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (".version 8.0\n", ".version 8.0\n.version 8.5\n", "line 2: .version stands twice"),
        (".target sm_90\n", ".target sm_90\n.target sm_80\n", "line 3: .target stands twice"),
        (")\n{", ")\n.maxntid 32 .maxntid 64\n{", "directive '.maxntid' stands twice"),
        (")\n{", ")\n.maxthreads 32\n{", "unknown directive '.maxthreads 32'"),
        (")\n{", ")\n.maxntid 1, 2, 3, 4\n{", "unreadable directive '.maxntid 1, 2, 3, 4'"),
        ("BODY", ".reg .b32 %z; .reg .b32 %z;", "register '%z' is declared twice"),
        ("BODY", ".reg .b32 %z<3>; .reg .f32 %z1;", "register '%z1' is declared twice"),
        ("BODY", ".reg .b32 %z<-3>;", "-3 registers '%z'"),
        ("BODY", ".shared .b32 s[2][4];", "an array of several dimensions; write it as one of all"),
        ("BODY", "/* never mind", "a comment that nothing ends"),
        ("BODY", "ret; }\n.visible .entry k() {", "'k' stands twice"),
        ("BODY", "@%r1 ret;", "guard is not a predicate: @%r1 ret"),
        ("BODY", "@%r1 mov.u32 %r1, 0;", "guard is not a predicate: @%r1 mov.u32 %r1, 0"),
        (
            "BODY",
            "ld.param.u32 %r1, [k_param_0+2];",
            "an address that is no multiple of 4 bytes: ld.param.u32 %r1, [k_param_0+2]",
        ),
        ("BODY", "ld.param.v2.u32 {%r1, %r2}, [k_param_0+4];", "the access runs over the end"),
        ("BODY", "ld.param.u32 {}, [k_param_0];", "a destination was expected"),
        ("BODY", "bra.uni;", "branch to an unknown label: bra.uni"),
        ("BODY", "mov.b32 {}, %r1;", "0 parts of 32 bits; two or four of 16 or 32 each are read"),
        ("BODY", "mov.b32 %r1, {};", "0 parts of 32 bits; two or four of 16 or 32 each are read"),
        ("BODY", "mov.b32 %r1, {%r2};", "1 parts of 32 bits; two or four of 16 or 32"),
        ("BODY", "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, %r2;", "an address was expected"),
        ("BODY", "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r1}, [%r2];", "2 registers were"),
    ],
)
def test_what_makes_no_sense_is_refused_and_not_guessed(old: str, new: str, message: str) -> None:
    text = entry("BODY", 1)
    assert old in text
    with pytest.raises((PtxSyntaxError, UnsupportedError)) as caught:
        Kernel(parse(text.replace(old, new).replace("BODY", "")), "k")
    assert message in str(caught.value)


def test_blocks_of_other_threads_than_demanded() -> None:
    kernel = Kernel(parse(entry("ret;").replace(")\n{", ")\n.reqntid 32, 2\n{")), "k")
    assert run(kernel, _launch(params=[], block=(32, 2, 1))).findings == ()
    for block in ((64, 1, 1), (32, 1, 1)):
        with pytest.raises(LaunchError) as caught:
            run(kernel, _launch(params=[], block=block))
        assert str(caught.value) == (f"blocks of {block} threads; k demands (32, 2, 1) (.reqntid)")


@pytest.mark.parametrize(("word", "value"), [("017", 15), ("0", 0), ("0x1fU", 31), ("0b11", 3)])
def test_whole_numbers(word: str, value: int) -> None:
    out = GlobalBuffer("out", np.full(1, 99, np.uint32), writable=True)
    body = f"ld.param.u64 %d1, [k_param_0]; mov.u32 %r1, {word}; st.global.u32 [%d1], %r1;"
    run(Kernel(parse(entry(body, 1)), "k"), _launch(params=[out], block=(1, 1, 1)))
    assert out.data[0] == value  # type: ignore[index]


@pytest.mark.parametrize("name", ["step_limit", "lanes"])
@pytest.mark.parametrize("value", [0, -1, 1.5, "9", None])
def test_limits_that_are_none(name: str, value: Any) -> None:
    with pytest.raises(LaunchError) as caught:
        Checks(**{name: value})
    assert str(caught.value) == f"Checks.{name} = {value!r}: give a whole number of 1 or more"
