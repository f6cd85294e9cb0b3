"""Each trap of YAML and of the format, with the whole of its message."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from deepgemm_codegen.dtypes import DTYPES
from deepgemm_codegen.epilogue import STEPS
from deepgemm_codegen.numbers import MAX_DIMENSION

if TYPE_CHECKING:
    from collections.abc import Callable

KNOWN_STEPS = ", ".join(STEPS)
KNOWN = ", ".join(DTYPES)
DIM = "give a whole number, dynamic, or dynamic:MAX"

# One kernel on line 2; its extra fields begin at column 28.
HEAD = "kernels:\n  - { m: 64, n: 64, k: 64,"

VALUES = [
    # sizes; the value stands at 2:9
    ("08", "YAML reads this as text, because of the leading zero; write 8"),
    ("0128", "YAML reads this as text, because of the leading zero; write 128"),
    ("010", "YAML reads this as octal 8; write 8 or 10"),
    ("1e3", "a whole number is wanted; write 1000"),
    ("1e+3", "a whole number is wanted; write 1000"),
    ("4096.0", "a whole number is wanted; write 4096"),
    ("1.5", f"not a whole number; {DIM}"),
    ("1e-3", f"not a whole number; {DIM}"),
    (".inf", f"not a whole number; {DIM}"),
    (".nan", f"not a whole number; {DIM}"),
    ("1e999", f"not a whole number; {DIM}"),
    ("1e17", f"not a whole number; {DIM}"),
    ("12:30:00", "YAML reads this as 45000, in base 60; write a plain whole number"),
    ("1:30", "YAML reads this as 90, in base 60; write a plain whole number"),
    ("0x40", "write it in decimal: 64"),
    ("0b100", "write it in decimal: 4"),
    ("0o17", "write it in decimal: 15"),
    ("1_024", "write 1024, with nothing between the digits"),
    ("1 024", "write 1024, with nothing between the digits"),
    ("4k", f"not a whole number; {DIM}"),
    ("=", f"not a whole number; {DIM}"),
    ("2024-01-01", f"not a whole number; {DIM}"),
    ("\u0661\u0662", f"not a whole number; {DIM}"),
    ("dyanmic", f"not a whole number (did you mean 'dynamic'?); {DIM}"),
    ("Dynamic", f"not a whole number (did you mean 'dynamic'?); {DIM}"),
    ("-1", "too small; the smallest is 1"),
    ("0", "too small; the smallest is 1"),
    ("2147483648", f"too large; the largest is {MAX_DIMENSION}"),
    ("NO", f"NO is a boolean in YAML; {DIM}"),
    ("on", f"on is a boolean in YAML; {DIM}"),
    ("True", f"True is a boolean in YAML; {DIM}"),
    ("dynamic:0", "too small; the smallest maximum is 1"),
]


@pytest.mark.parametrize(("value", "message"), VALUES)
def test_size(value: str, message: str, loader: str, problems: Callable[[str], list[str]]) -> None:
    found = problems(f"kernels:\n  - {{m: {value}, n: 64, k: 64}}\n")
    assert found == [f"2:9: m = {value}: {message}"]


@pytest.mark.parametrize("value", ["~", "null", "Null", "NULL"])
def test_null(value: str, loader: str, problems: Callable[[str], list[str]]) -> None:
    found = problems(f"kernels:\n  - {{m: {value}, n: 64, k: 64}}\n")
    assert found == [f"2:9: m has no value; {DIM}"]


def test_value_left_out_points_at_its_key(
    loader: str, problems: Callable[[str], list[str]]
) -> None:
    text = "kernels:\n  - m: 64\n    n:\n    k: 64\n    stages:\n"
    assert problems(text) == [
        f"3:5: n has no value; {DIM}",
        "5:5: stages has no value; give a whole number, or leave the key out",
    ]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("[1]", f"m is a list; {DIM}; for one kernel a value write sweep: {{m: [1]}}"),
        (
            "[1, 2, 3, 4, 5]",
            f"m is a list; {DIM}; for one kernel a value write sweep: {{m: [1, 2, 3, 4, ...]}}",
        ),
        ("{a: 1}", f"m is a mapping; {DIM}"),
        ("{dynamic: 8192}", "m is a mapping; write dynamic:8192, without a space"),
        ("dynamic:8k", "m = dynamic, maximum = 8k: not a whole number; give a whole number"),
        (
            "dynamic:1e3",
            "m = dynamic, maximum = 1e3: a whole number is wanted; write 1000",
        ),
        (f"'{'9' * 5000}'", f"m = {'9' * 37}...: 5000 characters; the most is 200"),
    ],
)
def test_size_of_another_shape(
    value: str, message: str, loader: str, problems: Callable[[str], list[str]]
) -> None:
    assert problems(f"kernels:\n  - {{m: {value}, n: 64, k: 64}}\n") == [f"2:9: {message}"]


EXTRAS = [
    # what follows `k: 64,` and the problems, at columns of line 2
    (" stages:3}", ["28: unknown key 'stages:3'; write stages: 3, with a space behind the colon"]),
    (" tile_mm: 64}", ["28: unknown key 'tile_mm' (did you mean 'tile_m'?)"]),
    (" lable: x}", ["28: unknown key 'lable'; the key is 'name'"]),
    (" label: x}", ["28: unknown key 'label'; the key is 'name'"]),
    (" zip: {}}", ["28: unknown key 'zip'; it stands in 'sweep': {zip: ..}"]),
    (" exclude: []}", ["28: unknown key 'exclude'; it stands in 'sweep': {exclude: ..}"]),
    (" matrix: {}}", ["28: unknown key 'matrix'; the key is 'sweep': {m: [..], arch: [..]}"]),
    (" include: x}", ["28: unknown key 'include'; it stands at the top of the file"]),
    (
        " alpha: 1e-3, beta: 1e+0}",  # Y01's own input
        [
            (
                "28: unknown key 'alpha'; it is an argument of the kernel, given at each launch;"
                " leave it out"
            ),
            (
                "41: unknown key 'beta'; it is an argument of the kernel, given at each launch;"
                " leave it out"
            ),
        ],
    ),
    (" tile: {m: 64, x: 1}}", ["42: unknown key 'x' in 'tile'; known: m, n, k"]),
    (" tile: 64}", ["28: 'tile' wants a mapping: tile: {m: 64, n: 64, k: 64}"]),
    (" tile: {}}", ["28: 'tile' wants a mapping: tile: {m: 64, n: 64, k: 64}"]),
    (" tile_m: 64, tile: {m: 32}}", ["47: tile_m is given twice; line 2 gives it already"]),
    (" sweep: {k: [1, 2]}}", ["36: k is given twice; line 2 gives it already"]),
    (
        " sweep: [sm_80]}",
        ["36: no sweep is named 'sm_80'; define it under 'sweeps'"],
    ),
    (
        " sweep: {arch: sm_80}}",
        ["36: a swept field wants a list of values: arch: [.., ..]"],
    ),
    (" sweep: {arch: []}}", ["36: a swept field wants a list of values: arch: [.., ..]"]),
    (" sweep: {acrh: [sm_80]}}", ["36: unknown key 'acrh' (did you mean 'arch'?)"]),
    (
        " sweep: {tile: [64]}}",
        ["36: 'tile' is a group; sweep its fields: tile_m, tile_n, tile_k"],
    ),
    (
        " sweep: {name: [a]}}",
        ["36: a name cannot be swept; the swept values tell kernels apart"],
    ),
    (" sweep: {arch: [sm_80, sm_80]}}", ["50: arch is swept over sm_80 twice; give it once"]),
    (
        " dtype: fp61}",
        [f"35: unknown dtype 'fp61'; known: {KNOWN} (did you mean 'fp16'?)"],
    ),
    (
        " dtype: int32}",
        ["35: dtype_a = int32: no kernel family multiplies int32 operands; ..."],
    ),
    (
        " dtype_b: bf16}",
        [("37: dtype_a = fp16, dtype_b = bf16: ...")],
    ),
    (
        " dtype_c: null}",
        ["37: dtype_c has no value; give a type such as fp16, or none, or leave the key out"],
    ),
    (" layout: qq}", ["36: layout = qq: unknown; A's letter then B's: nn, nt, tn or tt"]),
    (" layout: no}", ["36: layout = no: no is a boolean in YAML; give one of its words"]),
    (" lda: 63}", ["33: lda = 63: too small; ..."]),
    (" ldc: 64}", ["33: ldc = 64: the kernel has no C; ..."]),
    (" align_a: 3}", ["37: align_a = 3: give a power of two ..."]),
    (" align: {a: 3}}", ["39: align_a = 3: give a power of two ..."]),
    (" stages: 0}", ["36: stages = 0: too small; the smallest is 1"]),
    (" batch: 0}", ["35: batch = 0: too small; the smallest is 1"]),
    (
        " arch: sm_81}",
        ["34: arch = sm_81: no facts for sm_81; known: ..."],
    ),
    (
        " arch: ampere}",
        ["34: arch = ampere: not an architecture; known: ..."],
    ),
    (
        " arch: [sm_80, sm_90]}",
        [
            (
                "34: arch is a list; give a word; for one kernel a value write sweep:"
                " {arch: [sm_80, sm_90]}"
            )
        ],
    ),
    (
        " gpu: 4090}",
        ["33: gpu = 4090: no sm_80 GPU; give arch sm_89, or one of A100 ..."],
    ),
    (" name: NO}", ["34: name = NO: NO is a boolean in YAML; quote it: 'NO'"]),
    (" name: }", ["28: name has no value; give a word, or leave the key out"]),
    (" name: ''}", ["34: name has no value; give a word, or leave the key out"]),
    (
        ' name: "a\\nb"}',
        ["34: name holds a line break or a control character; give one plain line"],
    ),
    (
        ' name: "\\e[31m"}',
        ["34: name holds a line break or a control character; give one plain line"],
    ),
    (
        ' dtype: "\\e[31m"}',
        [f"35: unknown dtype '\\x1b[31m'; known: {KNOWN}"],
    ),
    (
        " epilogue: [rleu]}",
        [f"39: unknown epilogue step 'rleu'; known: {KNOWN_STEPS} (did you mean 'relu'?)"],
    ),
    (" epilogue: none}", ["38: epilogue = none: for no steps write []"]),
    (
        " epilogue: {bias: {}, relu: {}}}",
        [
            (
                "38: epilogue is a mapping; steps run in order, so give a list of steps, such as"
                " [bias, relu]"
            )
        ],
    ),
    (
        " epilogue: [{bias: {axis: rows}}]}",
        ["53: epilogue step 'bias': axis = rows: give column or row (did you mean 'row'?)"],
    ),
    (
        " epilogue: [{bias: {dtype: fp23}}]}",
        [
            (
                "54: epilogue step 'bias': unknown dtype 'fp23'; known: fp16, bf16, fp32, int32"
                " (did you mean 'fp32'?)"
            )
        ],
    ),
    (
        " epilogue: [{bias: {aixs: row}}]}",
        [
            (
                "47: unknown option 'aixs' of 'bias' (did you mean 'axis'?);"
                " known: axis, dtype, per_product"
            )
        ],
    ),
    (
        " epilogue: [{relu: {dtype: fp32}}]}",
        ["47: unknown option 'dtype' of 'relu'; known: none"],
    ),
    (
        " epilogue: [{bias: {}, relu: {}}]}",
        ["39: one step an item: write [bias, relu] or [{bias: {axis: row}}, relu]"],
    ),
    (" epilogue: [{bias: }]}", ["40: step 'bias' has no options; write just bias"]),
    (
        " epilogue: [{bias: row}]}",
        ["46: options of 'bias' are a mapping: {axis: row, dtype: fp32}"],
    ),
    (
        " epilogue: [{quantize: {scale: .nan, to: int8}}]}",
        [
            (
                "58: epilogue step 'quantize': scale = .nan: give per_tensor or per_token or"
                " per_channel or dynamic or a number"
            )
        ],
    ),
    (
        " epilogue: [{quantize: {to: int9}}]}",
        [
            (
                "55: epilogue step 'quantize': unknown dtype 'int9'; known: int8, uint8, e4m3, e5m2"
                " (did you mean 'int8'?)"
            )
        ],
    ),
    (
        " epilogue: [{quantize: {to: int8, divide: maybe}}]}",
        ["69: epilogue step 'quantize': divide = maybe: give yes or no"],
    ),
    (
        " epilogue: [{quantize: {to: int8}}, relu]}",
        ["5: epilogue step 'quantize' is followed by 'relu', but it makes D; put it last"],
    ),
    (
        " epilogue: [quantize]}",
        ["39: epilogue step 'quantize': to is missing; give one of int8, uint8, e4m3, e5m2"],
    ),
    (" epilogue: [{gelu: 1}]}", ["46: step 'gelu' takes no options; write just gelu"]),
    (
        " epilogue: [{clamp: 6}]}",
        ["47: options of 'clamp' are a mapping: {lo: 0, hi: 6}"],
    ),
    (
        " epilogue: [{clamp: {lo: .nan}}]}",
        [
            (
                "52: epilogue step 'clamp': lo = .nan: not a finite decimal number; give one, or"
                " leave lo out"
            )
        ],
    ),
    (
        " epilogue: [{clamp: {hi: 010}}]}",
        ["52: hi = 010: YAML reads this as octal 8; write 8 or 10"],
    ),
    (
        " epilogue: [bias, {clamp: {lo: 2, hi: 1}}]}",
        ["45: epilogue step 'clamp': lo = 2 is above hi = 1; exchange them"],
    ),
    (
        " epilogue: [{clamp: {}}]}",
        ["39: epilogue step 'clamp': no bound is given; give lo, hi or both"],
    ),
    (
        " epilogue: [{residual: {ld: 1e3}}]}",
        ["55: ld = 1e3: a whole number is wanted; write 1000"],
    ),
    (
        " epilogue: [{residual: {ld: 4}}]}",
        ["5: epilogue step 'residual': ld = 4: too small; a stored row holds ..."],
    ),
    (
        " epilogue: [{scale: {axis: ~}}]}",
        ["54: axis has no value; give scalar or row or column, or leave it out"],
    ),
    (
        " epilogue: [{scale: {dtype: fp16}}]}",
        [
            (
                "39: epilogue step 'scale': dtype = fp16: a scalar scale is an argument of type"
                " fp32; leave dtype out, or give axis row or column"
            )
        ],
    ),
    (
        " epilogue: [[bias]]}",
        [f"39: an epilogue step is a list; give a step: {KNOWN_STEPS}"],
    ),
    (" epilogue: 'bias,,relu'}", [f"38: an epilogue step is empty; known: {KNOWN_STEPS}"]),
    (
        " epilogue: [{clamp: {lo: yes}}]}",
        ["52: lo = yes: yes is a boolean in YAML; give a number"],
    ),
    (
        " epilogue: [NO]}",
        [f"39: epilogue step = NO: NO is a boolean in YAML; give a step: {KNOWN_STEPS}"],
    ),
    (
        " epilogue: [null]}",
        [f"39: epilogue step has no value; give a step: {KNOWN_STEPS}, or leave it out"],
    ),
    (
        " epilogue: [{quantize: {to: int8, scale: [1, 2]}}]}",
        [
            (
                "68: scale is a list; give per_tensor or per_token or per_channel or dynamic or a"
                " number"
            )
        ],
    ),
    (
        " epilogue: [relu:6]}",
        ["39: epilogue step 'relu' does not take '6'; options it takes: none"],
    ),
    (
        " dtype: int8, zero_point: {a: 010}}",
        ["57: zero_point_a = 010: YAML reads this as octal 8; write 8 or 10"],
    ),
    (
        " dtype: int8, zero_point: 3}",
        ["41: 'zero_point' wants a mapping: zero_point: {a: per_token, b: per_channel}"],
    ),
    (
        " dtype: e4m3, scale: 1x128}",
        ["41: 'scale' wants a mapping: scale: {a: 1x128, b: 128x128}"],
    ),
    (
        " dtype: e4m3, scale: {a: 128x128, b: 1x128}}",
        ["52: scale_a = 128x128: no kernel has such blocks; give 1x128"],
    ),
    (
        " dtype: int9, zero_point: {a: 3}}",
        ["35: unknown dtype 'int9'; known: ..."],
    ),
    (
        " op: epilogue, epilogue: [gelu]}",
        ["24: k = 64: op = epilogue has no product, and only A, m x n; leave k out"],
    ),
    (
        " op: epilog}",
        ["32: op = epilog: unknown; give product or epilogue (did you mean 'epilogue'?)"],
    ),
    (
        " <<: {dtype: fp16}}",
        ["28: merge keys (<<) are not read; put what kernels share under 'defaults'"],
    ),
    (" ? [a] : b}", ["30: a key must be one word; quote it if it holds '[' or '{'"]),
    (" dtype: !!str fp16}", ["35: tag '!!str' is not read; leave it out"]),
    (" dtype: !!python/object:os.system fp16}", None),
    (" stages: *q}", ["36: alias '*q' has no anchor '&q' before it"]),
]


@pytest.mark.parametrize(("extra", "messages"), EXTRAS)
def test_field(
    extra: str,
    messages: list[str] | None,
    loader: str,
    problems: Callable[[str], list[str]],
) -> None:
    found = problems(HEAD + extra + "\n")
    if messages is None:
        messages = ["35: tag '!!python/object:os.system' is not read; leave it out"]
    assert len(found) == len(messages)
    for problem, message in zip(found, messages, strict=True):
        whole, cut, _ = f"2:{message}".partition("...")  # the rest is the spec's own
        assert problem.startswith(whole) if cut else problem == whole
