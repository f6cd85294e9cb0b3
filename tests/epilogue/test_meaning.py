"""The meanings against other ways to say them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from deepgemm_codegen.epilogue import STEPS, meaning

X = np.concatenate([np.linspace(-30, 30, 6001), -np.logspace(-300, 2, 500)])


def test_gelu_by_the_c_library() -> None:
    wanted = np.array([0.5 * x * math.erfc(-x / math.sqrt(2)) for x in X])
    assert np.allclose(meaning.gelu(X), wanted, rtol=1e-11, atol=1e-300)


def test_gelu_tanh_by_tanh() -> None:
    inner = math.sqrt(2 / math.pi) * (X + 0.044715 * X**3)
    near = np.abs(X) < 4  # further out, 1 + tanh cancels
    wanted = 0.5 * X * (1 + np.tanh(inner))
    assert np.allclose(meaning.gelu_tanh(X)[near], wanted[near], rtol=1e-7, atol=1e-300)
    assert np.allclose(meaning.gelu_tanh(X), wanted, atol=1e-9)


def test_silu_by_the_logistic_function() -> None:
    assert np.allclose(meaning.silu(X), X / (1 + np.exp(-X)), rtol=1e-14, atol=1e-300)


ACTIVATION = (0.0, np.inf, 0.0)
"""What an activation makes of minus infinity, of infinity, and of zero."""

LIMITS = {"relu6": (0.0, 6.0, 0.0), "clamp": (-1.0, 2.0, 0.0)}
"""Of those steps that end elsewhere."""


@pytest.mark.parametrize(
    "name", [n for n, kind in STEPS.items() if not kind.operands and not kind.pairs]
)
def test_nan_passes_and_infinity_has_a_limit(name: str) -> None:
    constants: dict[str, Any] = {"lo": -1.0, "hi": 2.0} if name == "clamp" else {}
    ends = STEPS[name].meaning(np.array([np.nan, -np.inf, np.inf, 0.0]), **constants)
    assert np.isnan(ends[0])
    below, above, at_zero = LIMITS.get(name, ACTIVATION)
    assert ends[1] == below, "another limit than 0 stands in LIMITS"
    assert ends[2] == above, "another limit than infinity stands in LIMITS"
    assert ends[3] == at_zero
