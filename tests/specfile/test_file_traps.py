"""Each trap that concerns a whole file: its parts, its keys, its syntax."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

DIM = "give a whole number, dynamic, or dynamic:MAX"

WHOLE = [
    ("", [" the file is empty; give a list of kernels under 'kernels:'"]),
    ("# nothing\n", [" the file is empty; give a list of kernels under 'kernels:'"]),
    ("---\n", [" the file is empty; give a list of kernels under 'kernels:'"]),
    ("{}\n", ["1:1: 'kernels' is missing; there is nothing to generate"]),
    ("kernels:\n", ["1:1: 'kernels' is empty; there is nothing to generate"]),
    (
        "kernels: 3\n",
        ["1:1: 'kernels' is one value; write a list, each kernel beginning with '- '"],
    ),
    ("kernels: ~\n", ["1:1: 'kernels' is empty; there is nothing to generate"]),
    ("kernels: []\n", ["1:1: 'kernels' is empty; there is nothing to generate"]),
    (
        "kernels: {a: {m: 1}}\n",
        ["1:1: 'kernels' is a mapping; write a list, each kernel beginning with '- '"],
    ),
    ("- m: 1\n", ["1:1: the list of kernels stands under a key: 'kernels:'"]),
    ("hello\n", ["1:1: this is no kernel file; give 'kernels:' and a list"]),
    (
        "kernels:\n  - 5\n  - {}\n  -\n  - [1]\n",
        [
            "2:5: '5' is no kernel; give a mapping such as {m: 1024, n: 1024, k: 1024}",
            (
                "3:5: an empty mapping is no kernel; give a mapping such as"
                " {m: 1024, n: 1024, k: 1024}"
            ),
            "4:4: an empty item is no kernel; give a mapping such as {m: 1024, n: 1024, k: 1024}",
            "5:5: a list is no kernel; give a mapping such as {m: 1024, n: 1024, k: 1024}",
        ],
    ),
    ("kernls: []\n", ["1:1: unknown key 'kernls' (did you mean 'kernels'?)"]),
    (
        "m: 64\nn: 64\n",
        [
            "1:1: unknown key 'm'; fields stand in 'defaults' or in a kernel of 'kernels'",
            "2:1: unknown key 'n'; fields stand in 'defaults' or in a kernel of 'kernels'",
        ],
    ),
    (
        "defaults: 5\nkernels: [{m: 1, n: 1, k: 1}]\n",
        ["1:1: 'defaults' wants a mapping, such as {dtype: fp16, layout: nt}"],
    ),
    (
        "defaults: {name: x}\nkernels: [{m: 1, n: 1, k: 1}]\n",
        ["1:12: a name belongs to one kernel, not to 'defaults'"],
    ),
    (
        "kernels: [{m: 1}, {n: 1, k: 1}, {name: x}]\n",
        [
            f"1:11: n and k are missing; {DIM}",
            f"1:19: m is missing; {DIM}",
            f"1:33: m, n and k are missing; {DIM}",
        ],
    ),
    (
        "kernels: [{m: 1, n: 1, k: 1}]\n---\nkernels: []\n",
        ["2:1: a second document begins; a file holds one, so drop the '---'"],
    ),
    (
        "kernels:\n  - {m: 1, n: 1, k: 1}\n  - {k: 1, n: 1, m: 1}\n",
        [
            (
                "3:5: line 2 asks for the same kernel already; give this one another name, or leave"
                " it out"
            )
        ],
    ),
    (
        "kernels:\n  - m: 1\n    n: 1\n    k: 1\n    x: &a [*a]\n",
        ["5:12: alias '*a' stands inside its own anchor"],
    ),
]


@pytest.mark.parametrize(("text", "messages"), WHOLE)
def test_file(
    text: str, messages: list[str], loader: str, problems: Callable[[str], list[str]]
) -> None:
    assert [found.removeprefix("k.yaml:") for found in problems(text)] == messages


def test_y04_duplicate_key_names_key_and_both_lines(
    loader: str, problems: Callable[[str], list[str]]
) -> None:
    text = "kernels:\n  - m: 128\n    n: 64\n    k: 64\n    m: 64\n"
    assert problems(text) == ["5:5: duplicate key 'm'; line 2 gives it already"]


def test_y04_duplicate_key_at_every_level(
    loader: str, problems: Callable[[str], list[str]]
) -> None:
    text = (
        "kernels: [{m: 1, n: 1, k: 1, tile: {m: 64, m: 32},"
        " epilogue: [{bias: {axis: row, axis: column}}], sweep: {arch: [sm_80], arch: [sm_90]}}]\n"
        "kernels: []\n"
    )
    assert [found.split(": ", 1)[1] for found in problems(text)] == [
        "duplicate key 'm'; line 1 gives it already",
        "duplicate key 'axis'; line 1 gives it already",
        "duplicate key 'arch'; line 1 gives it already",
        "duplicate key 'kernels'; line 1 gives it already",
    ]


def test_y04_quoted_twin_of_a_key(loader: str, problems: Callable[[str], list[str]]) -> None:
    assert problems("kernels: [{m: 1, n: 1, k: 1, 'm': 2}]\n") == [
        "1:30: duplicate key 'm'; line 1 gives it already"
    ]


SYNTAX = [
    # libyaml's place; the pure parser may point elsewhere
    ("kernels:\n\t- {m: 1}\n", "2:1: a tab cannot indent YAML; use spaces"),
    (
        "kernels:\n  - {m: dynamic: 5, n: 1, k: 1}\n",
        "2:5: this bracket is not closed with '}', or a comma is missing",
    ),
    (
        "kernels:\n  - m: dynamic: 8192\n",
        (
            "2:15: a second ': ' in one value; put {} round several fields, quote the value, or"
            " mend the indentation of this line"
        ),
    ),
    (
        "kernels: [{m: 1, n: 1, k: 1}\n",
        "1:10: this bracket is not closed with ']', or a comma is missing",
    ),
    ("kernels: [{name: 'x}]\n", "1:18: this quote is never closed"),
    ("kernels: @x\n", "1:10: a value cannot start with this character; quote it"),
    (
        "kernels:\n  - m: 1\n   n: 2\n",
        "3:4: this line does not fit the block above; check its indentation, '- ' and ': '",
    ),
    (
        "kernels:\n- m: 1\n n: 2\n",
        "3:2: this line does not fit the block above; check its indentation, '- ' and ': '",
    ),
    ("kernels: []]\n", "1:12: this bracket closes nothing"),
    ("a: - b\n", "1:4: a '- ' list begins here; start it on its own line"),
    (
        'a: "\\q"\n',
        "1:5: this is no escape of a double-quoted text; write '\\\\', or use single quotes",
    ),
    ("{a: 1}}\n", "1:7: this bracket closes nothing"),
    ("{a: 1} b\n", "1:8: the document ended before this; one mapping is the whole file"),
    ("a: b\x07\n", "1:5: control character U+0007; YAML text cannot hold it"),
    ("a: b\n\u2028 \x00", "3:2: control character U+0000; YAML text cannot hold it"),
]


@pytest.mark.parametrize(("text", "message"), SYNTAX)
def test_malformed(
    text: str, message: str, loader: str, problems: Callable[[str], list[str]]
) -> None:
    found = problems(text)
    if loader == "libyaml":
        assert found == [message]
    else:
        assert len(found) == 1
        assert found[0].split(": ", 1)[0].replace(":", "").isdigit()
