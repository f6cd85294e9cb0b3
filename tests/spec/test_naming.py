"""Kernel names: readable, C-safe, and never shared."""

from __future__ import annotations

import re

import pytest

from deepgemm_codegen.spec import GemmSpec
from deepgemm_codegen.spec.naming import kernel_name


def name(**fields: object) -> str:
    return kernel_name(GemmSpec.from_fields({"m": 64, "n": 64, "k": 64, **fields}))


def test_y09_every_parameter_is_in_the_name() -> None:
    """Y09: specs that differ only in a stride, C, a step or an override have different names."""
    names = {
        name(),
        name(ldd=72),
        name(dtype_c="fp16"),
        name(dtype_c="fp16", ldc=72),
        name(epilogue="bias"),
        name(epilogue="bias:row"),
        name(epilogue="relu"),
        name(align_a=2),
        name(stages=3),
        name(sms=7),
    }
    assert len(names) == 10


@pytest.mark.parametrize(("first", "second"), [("a/b", "a_b"), ("Gemm", "gemm"), ("x", "x ")])
def test_y14_y16_labels_that_sanitise_alike_stay_apart(first: str, second: str) -> None:
    """Y14, Y16: also on a file system that folds case."""
    assert name(label=first).lower() != name(label=second).lower()


@pytest.mark.parametrize(
    "label", ["x; system(1)", "int main(){}", "日本", "9lives", "", '"', "a" * 999]
)
def test_a_name_is_a_c_identifier(label: str) -> None:
    found = name(label=label)
    assert re.fullmatch(r"[a-z][a-z0-9_]*", found)
    assert len(found) < 100
