"""Random problems: every shape, stride, alignment, layout, batch and cut that a spec can say.

A case is its seed and its number, so that any of them can be drawn again alone. A third each has
at least a GFLOP, has a dimension under 32, or is anything between; four in ten have a leading
dimension that is odd (`facts_of` counts, and a test holds the shares). ``test_drawn_problems.py``
has the emulator judge some, ``benchmarks/drawn_problems.py`` thousands on a GPU.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deepgemm_codegen.errors import InputError
from deepgemm_codegen.spec import GemmSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Facts", "draw", "facts_of"]

GFLOP = 10**9
MOST_FLOP = 4 * 10**10
"""Of the large ones: the emulator judges some of their blocks, a GPU all."""

MOST_ELEMENTS = 1 << 26
"""Of any matrix, so that several processes fit on one GPU."""

TYPES = {
    "sm_75": ("fp16",),
    "sm_80": ("fp16", "bf16", "int8", "uint8", "fp32"),
    "sm_89": ("e4m3", "e5m2"),
    "sm_90": ("fp16", "bf16", "fp32"),
    "sm_90a": ("fp16", "fp16", "bf16", "bf16", "int8", "uint8", "e4m3", "e5m2"),
}
"""What is drawn for an architecture; as often as it stands there."""

BYTES = {"fp32": 4, "fp16": 2, "bf16": 2}

STEPS = ("bias", "bias:row", "relu", "scale:row", "gelu_tanh", "clamp:-8:8", "residual", "silu")


@dataclass(frozen=True, slots=True)
class Facts:
    """What the shares are counted of."""

    large: bool
    narrow: bool
    odd: bool


def draw(seed: int, number: int, archs: Sequence[str] = tuple(TYPES)) -> str:
    """The spec of a case, as `GemmSpec.from_text` reads it.

    Args:
        seed: of all cases.
        number: of this one.
        archs: targets to draw from, of `TYPES`.
    """
    chooser = random.Random(f"{seed} {number}")  # a sample, not a secret
    lying = random.Random(f"{seed} {number} strides")  # apart: the other draws stay what they were
    for _ in range(1000):
        fields = _fields(chooser, archs)
        if fields["batch"] != 1:
            fields |= _strides(lying, fields)
        if fields["dtype"] in ("e4m3", "e5m2") and lying.random() < 0.4:
            fields |= {"scale_a": "1x128", "scale_b": "128x128"}
        try:
            return str(GemmSpec.from_fields(fields))
        except InputError:  # such as fp32 on tensor cores: not every combination is a spec
            continue
    raise AssertionError(f"no spec in 1000 tries for {archs}")


def facts_of(spec: GemmSpec) -> Facts:
    """What the shares count about a spec."""
    m, n, k = spec.m.size, spec.n.size, spec.k.size
    leading = [getattr(spec, f"ld{letter}") or spec.stored(letter)[1].size for letter in "abd"]
    return Facts(
        large=2 * m * n * k * spec.batch >= GFLOP,
        narrow=min(m, n, k) < 32,
        odd=any(each % 2 for each in leading),
    )


def _fields(chooser: random.Random, archs: Sequence[str]) -> dict[str, object]:
    arch = chooser.choice(list(archs))
    dtype = chooser.choice(TYPES[arch])
    m, n, k, batch = _sizes(chooser)
    fields: dict[str, object] = {
        "m": m,
        "n": n,
        "k": k,
        "batch": batch,
        "dtype": dtype,
        "arch": arch,
        "layout": chooser.choice(["nn", "nt", "tn", "tt"]),
        "layout_d": "t" if chooser.random() < 0.15 else "n",
    }
    fields |= _lying(chooser, fields)
    fields |= _extras(chooser, dtype, k)
    for name in "mnk":
        if chooser.random() < 0.08 and fields[name]:
            fields[name] = f"dynamic:{fields[name]}"
    return fields


def _lying(chooser: random.Random, fields: dict[str, object]) -> dict[str, object]:
    """Leading dimensions and alignments."""
    layout = f"{fields['layout']}{fields['layout_d']}"
    sides = {"a": ("k", "m"), "b": ("n", "k"), "d": ("n", "m")}
    odd = chooser.random() < 0.4
    found: dict[str, object] = {}
    for (letter, (plain, turned)), stored in zip(sides.items(), layout, strict=True):
        width = int(str(fields[plain if stored == "n" else turned]))
        found[f"ld{letter}"] = _leading(chooser, width, odd=odd)
        if chooser.random() < 0.15:
            found[f"align_{letter}"] = chooser.choice([4, 8, 16])
    return found


def _strides(chooser: random.Random, fields: dict[str, object]) -> dict[str, object]:
    """Where the matrices of a batch lie: as a rule behind each other, else in every other way."""
    letters = "abcd" if "dtype_c" in fields else "abd"
    found: dict[str, object] = {}
    for letter in letters:
        kind = chooser.choice(["dense", "dense", "shared", "gap", "pointers"])
        if kind == "shared" and letter != "d":
            found[f"stride_{letter}"] = "shared"
        elif kind == "pointers":
            found[f"stride_{letter}"] = "pointers"
        elif kind == "gap" and f"ld{letter}" in fields:
            rows = {"a": "mk", "b": "kn", "d": "mn"}[letter]
            layout = dict(zip("abd", f"{fields['layout']}{fields['layout_d']}", strict=True))
            size = str(fields[rows[layout[letter] == "t"]]).removeprefix("dynamic:")
            gap = chooser.choice([1, 8, 64, 1000])
            found[f"stride_{letter}"] = int(size) * int(str(fields[f"ld{letter}"])) + gap
    return found


def _extras(chooser: random.Random, dtype: str, k: int) -> dict[str, object]:
    """C, another type of D, steps, a cut of k."""
    found: dict[str, object] = {}
    size = BYTES.get(dtype, 1)
    if dtype == "fp32":
        found["tensor_cores"] = "off"
    elif size == 2 and chooser.random() < 0.15:
        found["dtype_d"] = "fp32"
    if chooser.random() < 0.15 and size > 1:
        found["dtype_c"] = chooser.choice([dtype, "fp32"])
    if chooser.random() < 0.3:
        found["epilogue"] = ",".join(chooser.sample(STEPS, chooser.randint(1, 3)))
    if chooser.random() < 0.2 and k >= 256 and dtype != "fp32":  # CUDA cores sum all of k
        found["split_k"] = chooser.choice([2, 3, 4, 7, 16])
    return found


def _sizes(chooser: random.Random) -> tuple[int, int, int, int]:
    kind = chooser.choice(["large", "narrow", "any"])
    while True:
        batch = 1 if chooser.random() < 0.8 else chooser.randint(2, 40)
        m, n, k = (_size(chooser) for _ in "mnk")
        if kind == "narrow":
            narrow = chooser.randint(1, 31)
            place = chooser.randrange(3)
            m, n, k = (narrow if i == place else each for i, each in enumerate((m, n, k)))
        flop, widest = 2 * m * n * k * batch, batch * max(m * k, k * n, m * n)
        if widest > MOST_ELEMENTS or flop > MOST_FLOP:
            continue
        if kind == "large" and flop < GFLOP:
            continue
        return m, n, k, batch


def _size(chooser: random.Random) -> int:
    """Log-uniform from 1 to 16384; half of the larger ones are multiples of 8, as models have."""
    size = round(2 ** chooser.uniform(0, 14))
    return -(-size // 8) * 8 if size > 32 and chooser.random() < 0.5 else size


def _leading(chooser: random.Random, width: int, *, odd: bool) -> int:
    """A leading dimension for rows of a width: tight, padded to an odd one, or to any."""
    if odd:
        return (width + chooser.choice([0, 1, 2, 7, 30])) | 1
    return width if chooser.random() < 0.7 else width + chooser.choice([1, 4, 8, 64, 100])
