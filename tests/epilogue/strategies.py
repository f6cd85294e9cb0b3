"""Random chains of epilogue steps, for property tests."""

from __future__ import annotations

from hypothesis import strategies as st

from deepgemm_codegen.epilogue import STEPS

_TYPES = st.sampled_from(["fp16", "bf16", "fp32"])
_AXES = st.sampled_from(["row", "column"])


_MATRICES = ("residual", "store")
_PAIRS = ("swiglu", "geglu", "swiglu:gate=second")
_KINDS = (
    *("bias", "scale", "residual", "store", "relu", "relu6", "clamp"),
    *("gelu", "gelu_tanh", "silu"),
)

DRAWN = {*_KINDS, *(pair.split(":")[0] for pair in _PAIRS), "quantize"}
"""The kinds of steps that a chain may have."""


@st.composite
def _step(draw: st.DrawFn) -> str:
    kind = draw(st.sampled_from(_KINDS))
    if kind == "bias":
        dtype = draw(st.sampled_from(STEPS[kind].operands[0].types))
        return f"bias:{draw(_AXES)}:{dtype}"
    if kind == "scale":
        return draw(st.sampled_from(["scale", f"scale:{draw(_AXES)}:{draw(_TYPES)}"]))
    if kind in ("residual", "store"):
        align = draw(st.sampled_from(["", ":align=4"]))
        return f"{kind}:{draw(_TYPES)}{align}{draw(st.sampled_from(['', ':ld=211']))}"
    if kind == "clamp":
        return draw(st.sampled_from(["clamp:-3.5:40", "clamp:hi=1e1", "clamp:lo=-0.1"]))
    return kind


@st.composite
def _quantize(draw: st.DrawFn) -> list[str]:
    """A quantize step, or none."""
    if draw(st.booleans()):
        return []
    to = draw(st.sampled_from(["int8", "uint8", "e4m3", "e5m2"]))
    scale = draw(st.sampled_from(["", "0.3", "1.7", "per_tensor", "per_token", "per_channel"]))
    words = ["quantize", to, *([f"scale={scale}"] if scale else [])]
    if scale.startswith("per_") and scale != "per_tensor":
        words.append(f"scale_dtype={draw(_TYPES)}")
    if to in ("int8", "uint8"):
        zero = draw(st.sampled_from(["", "3", "per_tensor", "per_token", "per_channel"]))
        words += [f"zero_point={zero}"] if zero else []
    elif draw(st.booleans()):
        words.append("saturate=no")
    if draw(st.booleans()):
        words.append("divide")
    return [":".join(words)]


@st.composite
def chains(draw: st.DrawFn, most: int) -> list[str]:
    """Up to so many steps, each as a flag writes it, one that pairs columns, one that quantises."""
    steps = draw(st.lists(_step(), max_size=most))
    if draw(st.integers(0, 3)) == 0:
        place = next((i for i, step in enumerate(steps) if step.startswith(_MATRICES)), len(steps))
        pair = draw(st.sampled_from(_PAIRS))
        steps.insert(draw(st.integers(0, place)), pair)
    return [*steps, *draw(_quantize())]
