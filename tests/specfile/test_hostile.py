"""Files made to break the reader: it answers with problems or kernels, soon, and nothing else."""

from __future__ import annotations

import contextlib
import random
import time
from typing import TYPE_CHECKING

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deepgemm_codegen.specfile import MAX_KERNELS, SpecEntry, SpecFileError, read
from deepgemm_codegen.specfile.fields import KERNEL_KEYS
from deepgemm_codegen.specfile.nodes import compose
from deepgemm_codegen.specfile.problems import Sink
from deepgemm_codegen.specfile.tree import SECTIONS, FileReader

if TYPE_CHECKING:
    from collections.abc import Callable

    Problems = Callable[[str | bytes], list[str]]

QUICK = settings(
    max_examples=200,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def test_alias_bomb(loader: str, problems: Problems) -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    for before, name in zip("abcdefgh", "bcdefghi", strict=True):
        lines.append(f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]")
    started = time.perf_counter()
    found = problems("\n".join(lines))
    assert found == ["7:8: with every alias written out, the file holds more than 1,000,000 values"]
    assert time.perf_counter() - started < 2


def test_alias_chain_is_no_way_round_the_depth(loader: str, problems: Problems) -> None:
    text = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 40))
    assert problems(text) == ["16:12: aliases nest deeper than 16 levels"]


@pytest.mark.parametrize("text", ["[" * 5000, "- " * 5000, "{a: " * 5000, "? " * 5000])
def test_deep_nesting(text: str, loader: str, problems: Problems) -> None:
    [found] = problems(text)
    assert found.endswith("nested deeper than 16 levels")


def test_giant_sweep_states_the_limit(loader: str, problems: Problems) -> None:
    axis = ", ".join(str(i + 1) for i in range(200))
    text = f"kernels:\n  - n: 1\n    sweep: {{m: [{axis}], k: [{axis}], lda: [{axis}]}}\n"
    assert problems(text) == [
        (
            f"3:5: 8,000,000 kernels (200 m x 200 k x 200 lda), and a file may ask for"
            f" {MAX_KERNELS:,}; split it into several files"
        )
    ]


def test_many_small_sweeps_count_together(problems: Problems) -> None:
    axis = ", ".join(str(i + 1) for i in range(150))
    kernel = f"  - {{n: 1, sweep: {{m: [{axis}], k: [{axis[:-1]}1]}}}}\n"
    found = problems("kernels:\n" + kernel)
    assert [p.split(", and")[0] for p in found] == ["2:12: 22,500 kernels (150 m x 150 k)"]


def test_as_many_kernels_as_a_file_may_hold(
    problems: Problems, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deepgemm_codegen.specfile.tree.MAX_KERNELS", 50)
    lines = ["kernels:", *(f"  - {{m: {i + 1}, n: 1, k: 1}}" for i in range(51))]
    assert problems("\n".join(lines[:51])) == []
    assert problems("\n".join(lines)) == [
        "52:5: one kernel more, and a file may ask for 50; split it into several files"
    ]


def test_endless_file(problems: Problems) -> None:
    with pytest.raises(SpecFileError, match=r"^/dev/zero: larger than 16 MiB"):
        read("/dev/zero")


def test_long_words(loader: str, problems: Problems) -> None:
    long, key = "x" * 100_000, "y" * 1000
    text = f"{key}: 1\nkernels: [{{m: {long}, {key}: 1, {key}: 1, n: 1, k: 1, arch: {long}}}]\n"
    found = problems(text)
    assert len(found) == 5
    assert max(map(len, found)) < 800  # the fields are named


CORPUS = """\
sweeps:
  archs: {arch: [sm_80, sm_90]}
  sizes: {zip: {n: [64, 128], k: [32, 64]}, exclude: [{n: 64, arch: [sm_80]}]}
defaults: {dtype: fp16, layout: nt, epilogue: [bias, relu], sweep: archs}
kernels:
  - {name: proj, m: 4096, n: 320, k: 320}
  - name: qkv   # a comment
    m: dynamic:8192
    n: 6144
    k: 4096
    tile: {m: 128, n: 128, k: 32}
    epilogue: [{bias: {axis: row, dtype: fp32}}, relu]
  - {name: 'quoted', m: "77", n: &n 320, k: *n, batch: 8, dtype_c: none}
  - {name: swept, sweep: [sizes, {m: [1, 2], exclude: {m: 1, n: 128}}]}
"""
PIECES = [
    *" \n\t:-,[]{}'\"#&*!|>%@`?~=<",
    *("---", "...", "<<", "NO", "null", "08", "1e3", "- ", ": ", "\u2028", "\x85", "é", "漢"),
    *(
        "sweep",
        "kernels",
        "defaults",
        "sweeps",
        "include",
        "zip",
        "exclude",
        "archs",
        "\r\n",
        "  ",
        "!!int",
        "&a",
        "*a",
        "0x",
        "12:30",
    ),
]


def _mutant(seed: int) -> str:
    """The corpus with a few pieces cut, put in, doubled or moved."""
    source = random.Random(seed)
    text = CORPUS
    for _ in range(source.randint(1, 6)):
        at = source.randrange(len(text) + 1)
        end = min(len(text), at + source.randrange(12))
        action = source.randrange(4)
        if action == 0:
            text = text[:at] + text[end:]
        elif action == 1:
            text = text[:at] + source.choice(PIECES) + text[at:]
        elif action == 2:
            text = text[:end] + text[at:end] + text[end:]
        else:
            to = source.randrange(len(text) + 1)
            text = text[:to] + text[at:end] + text[to:]
    return text


def answers(entries: Callable[[str], list[SpecEntry]], text: str) -> bool:
    """Whether the text is right; anything but entries or well-formed problems fails."""
    try:
        found = entries(text)
    except SpecFileError as error:
        problems = error.problems
    else:
        assert found
        assert all(isinstance(entry, SpecEntry) for entry in found)
        return True
    assert problems
    for problem in problems:
        assert problem.file == "k.yaml"
        assert problem.message
        assert (problem.line > 0) == (problem.column > 0)
        assert all(line.isprintable() for line in str(problem).split("\n"))
    return False


def test_a_thousand_mutants(loader: str, entries: Callable[[str], list[SpecEntry]]) -> None:
    right = sum(
        answers(entries, _mutant(seed)) for seed in range(1000 if loader != "pure" else 300)
    )
    assert right > 5  # else the mutants say nothing about what lies behind the syntax


def test_a_file_of_five_hundred_wrong_lines(
    loader: str, entries: Callable[[str], list[SpecEntry]]
) -> None:
    """Lines that are YAML each, of keys and values in any mixture."""
    source = random.Random(7)
    values = ["08", "NO", "[1]", "{a: 1}", "1.5", "~", "dynamic:x", "sm_80", "'x'", "-3", "bias"]
    lines = ["kernels:"]
    for _ in range(500):
        keys = source.sample([*KERNEL_KEYS, "mm", "tile_x", "swep"], 6)
        lines.append("  - {" + ", ".join(f"{k}: {source.choice(values)}" for k in keys) + "}")
    with pytest.raises(SpecFileError) as caught:
        entries("\n".join(lines))
    assert {problem.line for problem in caught.value.problems} == set(range(2, 502))


def quiet(text: str) -> None:
    """Reads a text without a disk; the sink or the list tells, nothing is raised."""
    sink = Sink("k.yaml", text)
    root = compose(text, sink)
    found = FileReader("k.yaml", sink).read(root) if root is not None else []
    assert sink or found or root is None
    for problem in sink.sorted():
        assert all(line.isprintable() for line in str(problem).split("\n"))


@QUICK
@given(st.text())
def test_any_text(text: str) -> None:
    quiet(text)


@QUICK
@given(st.lists(st.sampled_from([*PIECES, *KERNEL_KEYS, "1", "fp16"]), max_size=40))
def test_any_text_of_yaml_pieces(pieces: list[str]) -> None:
    quiet("".join(pieces))


@QUICK
@given(st.binary(max_size=80))
def test_any_bytes(entries: Callable[[bytes], list[SpecEntry]], data: bytes) -> None:
    with contextlib.suppress(SpecFileError):
        assert entries(data)


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.dates(),
    st.text(max_size=8),
    st.sampled_from(["fp16", "nt", "bias", "relu", "sm_80", "dynamic", "dynamic:9"]),
)
WORDS = [*KERNEL_KEYS, *SECTIONS, "zip", "exclude"]
KEYS = st.one_of(st.sampled_from(WORDS), SCALARS)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=12,
)
KERNEL = st.dictionaries(st.sampled_from(KERNEL_KEYS), TREES, max_size=8)
SIZED = st.builds(lambda sizes, rest: {**rest, **sizes}, st.just({"m": 8, "n": 8, "k": 8}), KERNEL)


@QUICK
@given(
    st.one_of(
        TREES,
        st.fixed_dictionaries(
            {"kernels": st.lists(st.one_of(SIZED, KERNEL), max_size=3)},
            optional={"defaults": KERNEL, "sweeps": TREES, "include": TREES},
        ),
    ),
    st.booleans(),
)
def test_any_tree(tree: object, flow: bool) -> None:
    quiet(yaml.safe_dump(tree, default_flow_style=flow, allow_unicode=True))
