"""Random chains of epilogue steps, for property tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

_TYPES = st.sampled_from(["fp16", "bf16", "fp32"])
_AXES = st.sampled_from(["row", "column"])


@st.composite
def _step(draw: st.DrawFn) -> str:
    kind = draw(
        st.sampled_from(
            ["bias", "scale", "residual", "relu", "relu6", "clamp", "gelu", "gelu_tanh", "silu"]
        )
    )
    if kind == "bias":
        return f"bias:{draw(_AXES)}:{draw(_TYPES)}"
    if kind == "scale":
        return draw(st.sampled_from(["scale", f"scale:{draw(_AXES)}:{draw(_TYPES)}"]))
    if kind == "residual":
        align = draw(st.sampled_from(["", ":align=4"]))
        return f"residual:{draw(_TYPES)}{align}{draw(st.sampled_from(['', ':ld=211']))}"
    if kind == "clamp":
        return draw(st.sampled_from(["clamp:-3.5:40", "clamp:hi=1e1", "clamp:lo=-0.1"]))
    return kind


def chains(most: int) -> SearchStrategy[list[str]]:
    """Up to so many steps, each as a flag writes it."""
    return st.lists(_step(), max_size=most)
