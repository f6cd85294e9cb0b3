"""Integer expressions over dynamic dimensions."""

from __future__ import annotations

from deepgemm_codegen.plan.expressions import Number, Variable, ceildiv, times


def test_expressions_agree_in_python_and_text() -> None:
    blocks = times(ceildiv(Variable("m"), 128), ceildiv(Number(1000), 64))
    assert str(blocks) == "ceildiv(m, 128) * 16"
    assert blocks.evaluate({"m": 129}) == 32
    assert times(Number(1), Variable("m")) == Variable("m")
    assert times(Number(3), Number(4)) == Number(12)
