"""Problems drawn at random, each decided by the tree and judged whole by the emulator."""

from __future__ import annotations

import pytest

from deepgemm_codegen.spec import GemmSpec
from tests.drawing import draw, facts_of
from tests.harness.support import assert_right

SEED = 2026


def test_the_shares_are_what_is_said() -> None:
    drawn = [facts_of(GemmSpec.from_text(draw(SEED, number))) for number in range(1000)]
    for name in ("large", "narrow", "odd"):
        assert sum(getattr(each, name) for each in drawn) >= 300, name


@pytest.mark.parametrize(
    "number",
    [pytest.param(n, marks=[] if n % 3 else [pytest.mark.full]) for n in range(12)],
)
def test_a_drawn_problem_is_right(number: int) -> None:
    assert_right(draw(SEED, number), None, effort=0.25)


@pytest.mark.full
@pytest.mark.parametrize("number", range(12, 600))
def test_more_drawn_problems_are_right(number: int) -> None:
    assert_right(draw(SEED, number), None, effort=0.25)
