"""No combination of words ends in a traceback, and a refusal prints nothing on stdout."""

from __future__ import annotations

import sys
from io import BytesIO, TextIOWrapper
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from deepgemm_codegen.cli.entry import run
from deepgemm_codegen.spec.overrides import OVERRIDES
from deepgemm_codegen.spec.text import FIELDS

NUMBERS = st.one_of(
    st.sampled_from(
        ["0", "-1", "1", "7", "64", "1000", "2147483647", "2147483648", "1e3", "", "x"]
    ),
    st.integers(-(10**30), 10**30).map(str),
    st.sampled_from(["dynamic", "dynamic:1", "dynamic:0", "dynamic:", "dynamic:dynamic"]),
)
SPEC_WORDS = """fp16 bf16 fp32 fp8 none nn nt tn tt n t bias,relu bias:row:fp32 bias: : , sm_80
sm_75 sm_90a 12.0 A100 H200"""
WORDS = st.one_of(st.sampled_from(SPEC_WORDS.split()), st.text(max_size=12))
SMALL_DIMENSIONS = st.integers(1, 300).map(str)


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    """Mostly sensible dimensions, then a handful of flags with values good and bad."""
    words = [f"--{name}={draw(st.one_of(SMALL_DIMENSIONS, NUMBERS))}" for name in "mnk"]
    names = draw(st.lists(st.sampled_from([*FIELDS, *OVERRIDES]), max_size=4))
    words.extend(f"--{name.replace('_', '-')}={draw(st.one_of(NUMBERS, WORDS))}" for name in names)
    words.append(f"--emit={draw(st.sampled_from(['cu', 'plan']))}")
    return draw(st.permutations(words))


def outcome(words: list[str]) -> tuple[int, str, str]:
    out, err = TextIOWrapper(BytesIO(), "utf-8"), TextIOWrapper(BytesIO(), "utf-8")
    with mock.patch.object(sys, "stdout", out), mock.patch.object(sys, "stderr", err):
        code = run(words)
    return code, out.buffer.getvalue().decode(), err.buffer.getvalue().decode()


@settings(max_examples=150, deadline=None)
@given(command_lines())
def test_specs(words: list[str]) -> None:
    code, out, err = outcome(words)
    assert code in (0, 2), (words, err)
    assert bool(out) == (code == 0)
    if code:
        assert err.startswith(("error: ", "note: "))
        assert "Traceback" not in err


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(["explain", "generate", "schema", "cache", "-q", "-v"]),
                          st.sampled_from(["--json", "-o", "--m", "--check", "info", "--help"]),
                          st.text(max_size=8)), max_size=5))  # fmt: skip
def test_words(words: list[str]) -> None:
    code, _, err = outcome(words)
    assert code in (0, 2, 3), (words, err)
    assert "Traceback" not in err
    assert "internal error" not in err
