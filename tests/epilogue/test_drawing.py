"""The lists that draw steps by chance leave none out."""

from __future__ import annotations

from deepgemm_codegen.epilogue import STEPS
from tests import drawing_features
from tests.epilogue.strategies import DRAWN


def names(steps: tuple[str, ...]) -> set[str]:
    return {step.split(":")[0] for step in steps}


def test_every_step_is_drawn_beside_every_feature() -> None:
    lists = (drawing_features.STEPS, drawing_features.PAIRS, drawing_features.NORMS)
    assert set().union(*map(names, (*lists, drawing_features.LAST))) == {*STEPS}, (
        "a list in tests/drawing_features.py has a line for each step"
    )


def test_every_step_is_drawn_in_chains() -> None:
    """Norms need whole rows, which a product seldom holds: they have tests of their own."""
    assert {name for name, kind in STEPS.items() if not kind.normalizes} == DRAWN, (
        "tests/epilogue/strategies.py draws each"
    )
