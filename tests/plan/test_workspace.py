"""Workspaces: regions that never overlap, and sizes that C, JSON and Python agree on."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepgemm_codegen.dtypes import BF16, FP16, FP32, DType
from deepgemm_codegen.plan.expressions import (
    Expression,
    Minimum,
    Number,
    Variable,
    ceildiv,
    in_c,
    plus,
    rounded_up,
    times,
)
from deepgemm_codegen.plan.workspace import ALIGNMENT, Workspace, workspace_of

VALUES = {"m": 77, "n": 4096, "k": 1}


def expressions() -> st.SearchStrategy[Expression]:
    leaves = st.one_of(
        st.integers(0, 500).map(Number), st.sampled_from(sorted(VALUES)).map(Variable)
    )
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.tuples(inner, inner).map(lambda pair: plus(*pair)),
            st.tuples(inner, inner).map(lambda pair: times(*pair)),
            st.tuples(inner, st.integers(1, 300)).map(lambda pair: ceildiv(*pair)),
            st.tuples(inner, st.integers(1, 300)).map(lambda pair: rounded_up(*pair)),
            st.tuples(inner, inner).map(lambda pair: Minimum(*pair)),
        ),
        max_leaves=8,
    )


def evaluated(text: str) -> int:
    """What a printed expression computes, by an evaluator of our own."""
    python = re.sub(r"i64\{ (\w+) \}", r"\1", text)
    names = {"ceildiv": lambda value, divisor: -(-value // divisor), "min": min, **VALUES}
    return int(eval(python, {"__builtins__": {}}, names))


def test_both_sides_of_a_minimum_are_64_bits_wide() -> None:
    """nvcc refuses a min of an int and an i64."""
    assert in_c(Minimum(Number(18), Variable("sms"))) == "min(i64{ 18 }, i64{ sms })"


@given(expressions())
def test_c_json_and_python_agree(expression: Expression) -> None:
    wanted = expression.evaluate(VALUES)
    assert evaluated(str(expression)) == wanted
    assert evaluated(in_c(expression)) == wanted


def test_in_c_a_product_of_dimensions_is_64_bit() -> None:
    assert in_c(times(plus(Variable("m"), Number(1)), Variable("n"))) == "(i64{ m } + 1) * i64{ n }"


@given(
    st.lists(st.tuples(st.sampled_from([FP16, BF16, FP32]), expressions()), max_size=5),
)
def test_regions_are_aligned_and_apart(wanted: list[tuple[DType, Expression]]) -> None:
    workspace = workspace_of((f"r{i}", dtype, size) for i, (dtype, size) in enumerate(wanted))
    end = 0
    for region, (dtype, elements) in zip(workspace.regions, wanted, strict=True):
        start = region.offset.evaluate(VALUES)
        assert start % ALIGNMENT == 0
        assert start >= end
        end = start + elements.evaluate(VALUES) * dtype.bytes
    assert end <= workspace.bytes.evaluate(VALUES) < end + ALIGNMENT


def test_a_program_of_one_kernel_has_no_workspace() -> None:
    assert Workspace().bytes == Number(0)
    with pytest.raises(KeyError):
        Workspace().region("partials")
