"""Sweeps: products, lists that go together, what is left out, and sweeps with names."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable

    from deepgemm_codegen.specfile import SpecEntry

    Entries = Callable[[str | bytes], list[SpecEntry]]
    Problems = Callable[[str | bytes], list[str]]


def sizes(found: list[SpecEntry]) -> list[tuple[int, int, int]]:
    return [(e.spec.m.size, e.spec.n.size, e.spec.k.size) for e in found]


def test_zipped_lists_go_together_and_multiply_with_the_rest(loader: str, entries: Entries) -> None:
    text = "kernels: [{sweep: {m: [1, 2], zip: {n: [10, 20, 20], k: [30, 40, 50]}}}]"
    assert sizes(entries(text)) == [
        (m, n, k) for m in (1, 2) for n, k in ((10, 30), (20, 40), (20, 50))
    ]


def test_several_zips_multiply(entries: Entries) -> None:
    text = (
        "kernels:\n  - m: 1\n    sweep:\n      zip:\n        - {n: [1, 2], k: [3, 4]}\n"
        "        - {arch: [sm_80, sm_90], layout: [nn, nt]}\n"
    )
    found = [(e.spec.n.size, e.spec.k.size, e.spec.arch, e.spec.layout) for e in entries(text)]
    assert found == [(*a, *b) for a in ((1, 3), (2, 4)) for b in (("sm_80", "nn"), ("sm_90", "nt"))]


@pytest.mark.parametrize(
    "exclude",
    [
        "{m: [1, 2], arch: sm_80}",
        "[{m: 1, arch: sm_80}, {m: 2, arch: '80'}]",
        "[{m: +1, arch: 8.0}, {m: '2', arch: [sm_80], dtype: half}]",
    ],
)
def test_combinations_that_are_left_out(exclude: str, entries: Entries) -> None:
    """Values are compared as what they mean, not as they are spelled."""
    text = (
        "kernels:\n  - n: 8\n    k: 8\n    dtype: fp16\n"
        f"    sweep: {{m: [1, 2, 3], arch: [sm_80, sm_90], exclude: {exclude}}}\n"
    )
    assert [(e.spec.m.size, e.spec.arch) for e in entries(text)] == [
        (1, "sm_90"),
        (2, "sm_90"),
        (3, "sm_80"),
        (3, "sm_90"),
    ]


def test_an_exclusion_of_steps_is_one_list_of_steps(entries: Entries) -> None:
    text = (
        "kernels: [{m: 1, n: 1, k: 1, sweep: {epilogue: [[], [bias, relu], [relu]],"
        " exclude: {epilogue: [bias, relu]}}}]"
    )
    assert [len(e.spec.epilogue) for e in entries(text)] == [0, 1]


def test_named_sweeps_alone_and_together(loader: str, entries: Entries) -> None:
    text = """\
sweeps:
  archs: {arch: [sm_80, sm_90]}
  mlp: {zip: {n: [11, 12], k: [12, 11]}, exclude: {arch: sm_80, n: 11}}
defaults: {sweep: archs}
kernels:
  - {name: a, m: 1, sweep: mlp}
  - {name: b, m: 2, sweep: [mlp, {layout: [nn, nt]}], arch: sm_80}
"""
    found = [(e.name, e.spec.arch, e.spec.n.size, e.spec.layout) for e in entries(text)]
    assert found == [
        ("a", "sm_80", 12, "nn"),
        ("a", "sm_90", 11, "nn"),
        ("a", "sm_90", 12, "nn"),
        ("b", "sm_80", 12, "nn"),
        ("b", "sm_80", 12, "nt"),
    ]


def test_a_field_of_a_kernel_leaves_its_zip_and_rows_fall_together(entries: Entries) -> None:
    text = """\
defaults: {sweep: {zip: {n: [1, 2, 3], k: [7, 7, 8]}}}
kernels:
  - {m: 1, n: 9}
  - {m: 2, sweep: {k: [5, 6]}}
"""
    assert sizes(entries(text)) == [
        (1, 9, 7),
        (1, 9, 8),
        *((2, n, k) for n in (1, 2, 3) for k in (5, 6)),
    ]


_LISTS = st.lists(st.integers(1, 9), min_size=1, max_size=4, unique=True)


@settings(
    max_examples=60,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(_LISTS, _LISTS, _LISTS, st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9))))
def test_a_sweep_is_its_product_without_what_is_left_out(
    entries: Entries,
    problems: Problems,
    m: list[int],
    n: list[int],
    k: list[int],
    out: list[tuple[int, int]],
) -> None:
    wanted = [each for each in product(m, n, k) if each[:2] not in out]
    idle = [pair for pair in out if pair not in set(product(m, n))]
    conditions = ", ".join(f"{{m: {a}, n: {b}}}" for a, b in dict.fromkeys(out))
    exclude = f", exclude: [{conditions}]" if out else ""
    text = f"kernels: [{{sweep: {{m: {m}, n: {n}, k: {k}{exclude}}}}}]\n"
    if wanted and not idle:
        assert sizes(entries(text)) == wanted
    else:
        assert problems(text)


_ZIP = "'zip' wants fields with lists of one length: zip: {n: [..], k: [..]}"
_SWEEP = "'sweep' wants fields with lists: sweep: {arch: [sm_80, sm_90]}"
_EXCLUDE = "'exclude' wants a list of combinations: exclude: [{arch: sm_80, m: [1, 2]}]"

WRONG = [
    (
        "sweep: {zip: {batch: [1, 2], lda: [9]}}",
        ["32: lists of a zip have one length, and here batch has 2, lda has 1"],
    ),
    ("sweep: {zip: {}}", [f"32: {_ZIP}"]),
    ("sweep: {zip: [n, k]}", [f"32: {_ZIP}"]),
    (
        "sweep: {zip: {batch: [2, 2], lda: [9, 9]}}",
        ["49: the zip has batch 2, lda 9 twice; give it once"],
    ),
    ("sweep: {zip: {nn: [1]}}", ["38: unknown key 'nn' (did you mean 'n'?)"]),
    ("sweep: {zip: {n: [1]}}", ["38: n is given twice; line 2 gives it already"]),
    (
        "sweep: {batch: [2], zip: {batch: [3]}}",
        ["50: batch is given twice; line 2 gives it already"],
    ),
    (
        "sweep: {batch: [2, 3], exclude: {batch: 4}}",
        ["56: no kernel is left out by this; correct it or drop it"],
    ),
    (
        "sweep: {batch: [2, 3], exclude: {batch: [2, 3]}}",
        ["24: every kernel of the sweep is left out; keep one"],
    ),
    ("sweep: {batch: [2, 3], exclude: []}", []),
    ("sweep: {batch: [2, 3], exclude: [2]}", [f"47: {_EXCLUDE}"]),
    (
        "sweep: {batch: [2, 3], exclude: {batsch: 4}}",
        ["57: unknown key 'batsch' (did you mean 'batch'?)"],
    ),
    (
        "sweep: {batch: [2, 3], exclude: {batch: 1e1}}",
        ["64: batch = 1e1: a whole number is wanted; write 10"],
    ),
    (
        "sweep: {batch: [2, 3], exclude: {batch: []}}",
        ["57: batch has no values; give one, or a list"],
    ),
    ("sweep: []", ["24: 'sweep' is empty; write sweep: {arch: [sm_80, sm_90]}, or leave it out"]),
    ("sweep: arcs", ["31: no sweep is named 'arcs' (did you mean 'archs'?)"]),
    ("sweep: [archs, archs]", ["39: arch is given twice; line 2 gives it already"]),
    ("arch: sm_80, sweep: archs", ["44: arch is given twice; line 2 gives it already"]),
    ("sweep: [archs, [archs]]", [f"39: {_SWEEP}"]),
    ("sweep: [archs, zip]", ["39: no sweep is named 'zip'; known: archs"]),
    ("sweep: [archs, ~]", [f"24: {_SWEEP}"]),
]


@pytest.mark.parametrize(("field", "messages"), WRONG)
def test_what_is_refused(field: str, messages: list[str], problems: Problems) -> None:
    text = f"kernels:\n  - {{m: 8, n: 8, k: 8, {field}}}\n"
    text += "sweeps: {archs: {arch: [sm_80, sm_90]}}\n"
    assert problems(text) == [f"2:{message}" for message in messages]


def test_sweeps_that_are_wrong(problems: Problems) -> None:
    assert problems("sweeps: [a]\nkernels: [{m: 1, n: 1, k: 1}]\n") == [
        "1:1: 'sweeps' wants names with sweeps: sweeps: {archs: {arch: [sm_80]}}"
    ]
    assert problems("sweeps: {a: b, c: {m: 1}}\nkernels: [{m: 1, n: 1, k: 1}]\n") == [
        "1:10: 'a' wants fields with lists: sweep: {arch: [sm_80, sm_90]}",
        "1:20: a swept field wants a list of values: m: [.., ..]",
    ]


def test_a_named_sweep_that_nobody_uses_is_no_problem(problems: Problems) -> None:
    assert (
        problems("sweeps: {a: {m: [1, 2], exclude: {m: 5}}}\nkernels: [{m: 1, n: 1, k: 1}]\n") == []
    )


def test_a_fault_in_a_named_sweep_is_told_once_where_it_stands(problems: Problems) -> None:
    text = "sweeps: {a: {lda: [4]}}\ndefaults: {sweep: a}\nkernels:\n" + "".join(
        f"  - {{m: {m}, n: 8, k: 8}}\n" for m in (1, 2)
    )
    found = problems(text)
    assert [problem[:33] for problem in found] == ["1:20: lda = 4: too small; a store"]


def test_the_limit_counts_what_is_left_out_too(
    problems: Problems, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deepgemm_codegen.specfile.tree.MAX_KERNELS", 5)
    text = (
        "kernels: [{k: 1, sweep: {zip: {m: [1, 2], arch: [sm_80, sm_90]}, n: [1, 2, 3],"
        " exclude: {n: 1}}}]"
    )
    assert problems(text) == [
        ("1:18: 6 kernels (2 m+arch x 3 n), and a file may ask for 5; split it into several files")
    ]
