"""Features beside each other, drawn at random: the tree decides or refuses, the emulator judges."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deepgemm_codegen.errors import InputError
from deepgemm_codegen.spec import GemmSpec
from deepgemm_codegen.spec.overrides import Overrides
from tests.drawing_features import draw_features
from tests.harness.support import assert_right, program_of

SEED = 1


def judge(number: int) -> None:
    """Whole kernels are right, or refused for what is forced."""
    text = draw_features(SEED, number)
    try:
        program_of(text, None)
    except InputError:
        return
    assert_right(text, None, effort=0.2)


@pytest.mark.parametrize("number", range(0, 600, 6))
def test_only_what_is_forced_is_refused(number: int) -> None:
    spec = GemmSpec.from_text(draw_features(SEED, number))
    free = Overrides(tensor_cores="off" if spec.dtype_a.name == "fp32" else None)
    program_of(str(replace(spec, launch="plain", overrides=free)), None)


@pytest.mark.parametrize("number", range(8))
def test_drawn_features_go_together(number: int) -> None:
    judge(number)


@pytest.mark.full
@pytest.mark.parametrize("number", range(8, 600))
def test_more_drawn_features_go_together(number: int) -> None:
    judge(number)
