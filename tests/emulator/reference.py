"""Floating point and tensor-core sums with Python integers: slow, plain, and independent.

Nothing here shares code with the emulator; a value is a Fraction, or "nan", "inf", "-inf".
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

__all__ = ["FORMATS", "Format", "clamp", "decode", "encode", "fused_dot", "scale_of"]


@dataclass(frozen=True)
class Format:
    exponent_bits: int
    fraction_bits: int
    infinite: bool = True  # e4m3 has numbers where other types have infinities and NaN

    @property
    def bias(self) -> int:
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def minimum(self) -> int:
        return 1 - self.bias

    @property
    def sign(self) -> int:
        return 1 << (self.exponent_bits + self.fraction_bits)

    @property
    def infinity(self) -> int:
        return ((1 << self.exponent_bits) - 1) << self.fraction_bits

    @property
    def nan(self) -> int:
        return self.sign - 1

    @property
    def largest(self) -> Fraction:
        bits = self.infinity - 1 if self.infinite else self.nan - 1
        value = decode(bits, self)
        assert isinstance(value, Fraction)
        return value


FORMATS = {
    "f16": Format(5, 10),
    "bf16": Format(8, 7),
    "f32": Format(8, 23),
    "f64": Format(11, 52),
    "tf32": Format(8, 10),
    "e5m2": Format(5, 2),
    "e4m3": Format(4, 3, infinite=False),
}


def decode(bits: int, form: Format) -> Fraction | str:
    """Value of a bit pattern."""
    negative = bool(bits & form.sign)
    exponent = bits >> form.fraction_bits & ((1 << form.exponent_bits) - 1)
    fraction = bits & ((1 << form.fraction_bits) - 1)
    if not form.infinite and bits & form.nan == form.nan:
        return "nan"
    if form.infinite and exponent == (1 << form.exponent_bits) - 1:
        return "nan" if fraction else ("-inf" if negative else "inf")
    if exponent:
        fraction |= 1 << form.fraction_bits
    value = Fraction(fraction) * Fraction(2) ** (max(exponent, 1) - form.bias - form.fraction_bits)
    return -value if negative else value


def scale_of(bits: int, form: Format) -> int:
    """Exponent of a pattern's leading place; the minimum for subnormals."""
    exponent = bits >> form.fraction_bits & ((1 << form.exponent_bits) - 1)
    return max(exponent, 1) - form.bias


def clamp(value: Fraction, form: Format) -> Fraction:
    """The nearest value within the type's range."""
    return max(-form.largest, min(form.largest, value))


def encode(
    value: Fraction, form: Format, *, toward_zero: bool = False, away_at_ties: bool = False
) -> int:
    """Bit pattern of a value rounded to nearest even (or toward zero); zero is +0.

    ``away_at_ties`` sends ties away from zero.
    """
    if value == 0:
        return 0
    sign = form.sign if value < 0 else 0
    magnitude = abs(value)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if Fraction(2) ** exponent > magnitude:
        exponent -= 1
    exponent = max(exponent, form.minimum)
    units = magnitude / Fraction(2) ** (exponent - form.fraction_bits)
    whole = units.numerator // units.denominator
    rest = units - whole
    half = Fraction(1, 2)
    if not toward_zero and (rest > half or (rest == half and (whole & 1 or away_at_ties))):
        whole += 1
    if whole >> (form.fraction_bits + 1):
        whole, exponent = whole >> 1, exponent + 1
    if exponent > form.bias and form.infinite:
        return sign | form.infinity
    if whole >> form.fraction_bits == 0:
        return (sign | whole) if whole else 0 if toward_zero else sign
    return (
        sign
        | (exponent + form.bias) << form.fraction_bits
        | (whole & ((1 << form.fraction_bits) - 1))
    )


def fused_dot(
    a: list[int], b: list[int], c: int, kind: str, result: str, *, group: int, fraction: int
) -> int:
    """A dot product as a tensor core forms it; patterns in, pattern out."""
    for start in range(0, len(a), group):
        part = slice(start, start + group)
        c = _one_sum(a[part], b[part], c, FORMATS[kind], FORMATS[result], fraction)
    return c


def _one_sum(a: list[int], b: list[int], c: int, form: Format, to: Format, fraction: int) -> int:
    infinities = set()
    addends: list[tuple[Fraction, int]] = []
    for x, y in zip(a, b, strict=True):
        u, v = decode(x, form), decode(y, form)
        if "nan" in (u, v):
            return to.nan
        if isinstance(u, str) or isinstance(v, str):
            if u == 0 or v == 0:
                return to.nan
            negative = bool((x ^ y) & form.sign)
            infinities.add("-inf" if negative else "inf")
            continue
        addends.append((u * v, scale_of(x, form) + scale_of(y, form)))
    w = decode(c, to)
    if w == "nan":
        return to.nan
    if isinstance(w, str):
        infinities.add(w)
    else:
        addends.append((w, scale_of(c, to)))
    if infinities:
        if len(infinities) == 2:
            return to.nan
        return to.infinity | (to.sign if infinities == {"-inf"} else 0)
    floor = (4 if to is FORMATS["f16"] else -108) - fraction
    top = max([floor, *(e for value, e in addends if value != 0)])
    unit = Fraction(2) ** (top - fraction)
    total = sum((_cut(value / unit) for value, _ in addends), 0) * unit
    bits = encode(total, to, toward_zero=to is FORMATS["f32"])
    return 0 if bits == to.sign else bits


def _cut(value: Fraction) -> int:
    whole = abs(value.numerator) // value.denominator
    return -whole if value < 0 else whole
