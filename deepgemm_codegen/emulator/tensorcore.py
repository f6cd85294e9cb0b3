"""The arithmetic of tensor cores, bit for bit.

One small integer algorithm with a few parameters describes every generation measured so far
(``generations``). k is split into consecutive groups of ``group``; C enters the first group, and
each group's rounded result is the C of the next. A group does this:

1. Products are exact and keep exponent ea + eb, not renormalised (1.5 * 1.5 has exponent 0).
2. E is the largest exponent of the non-zero products, of C if it is not zero, and of a floor.
3. Every addend, C included, is cut toward zero to a multiple of 2^(E - fraction).
4. The sum is exact, and rounded once: toward zero to fp32 (8-bit units keep 13 of its fraction
   bits), or to nearest even to fp16.
5. A zero result is +0. NaN is 0x7fffffff (fp16: 0x7fff); NaN inputs, 0 * inf and inf - inf give it.

Where plain fp32 sums are exact (small integers), the algorithm and a matrix product agree, and the
latter is used. 8-bit integers are summed exactly, modulo 2^32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator.float8 import to_f16
from deepgemm_codegen.emulator.fragments import layout
from deepgemm_codegen.emulator.generations import ARITHMETIC, Arithmetic, Sums, arithmetic
from deepgemm_codegen.emulator.numeric import canonical, round_to_f16
from deepgemm_codegen.emulator.patterns import Patterns, element, patterns

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.fragments import Shape

__all__ = [
    "ARITHMETIC",
    "Arithmetic",
    "arithmetic",
    "multiply",
    "multiply_accumulate",
    "multiply_integers",
]

Array = np.ndarray[Any, np.dtype[Any]]


def multiply_accumulate(
    shape: Shape, rules: Sums | None, a: Array, b: Array, c: Array, *, saturate: bool = False
) -> Array:
    """D = A * B + C for a grid of fragments, in registers.

    Args:
        shape: of the instruction.
        rules: of the architecture for its operand type; None for integers.
        a: uint32 (groups, M, A registers, lanes).
        b: uint32 (groups, N, B registers, lanes).
        c: uint32 (groups, M, N, C registers, lanes).
        saturate: whether integer sums clamp and do not wrap.

    Returns:
        uint32, shaped as ``c``.
    """
    groups, m, _, lanes = a.shape
    n = b.shape[1]
    places = layout(shape, groups, m, n, lanes // 32)
    if rules is None:
        types = (np.dtype(np.int8 if kind == "s8" else np.uint8) for kind in shape.kinds)
        left, right = (
            x.view(t).reshape(-1).take(at)
            for x, t, at in zip((a, b), types, (places.a, places.b), strict=True)
        )
        whole = c.view(np.int32).reshape(-1).take(places.c)
        result = multiply_integers(left, right, whole, saturate=saturate)
        return result.reshape(-1).take(places.d).view(np.uint32).reshape(c.shape)
    unit = element(shape.kind)
    bits_a = a.view(unit).reshape(-1).take(places.a)
    bits_b = b.view(unit).reshape(-1).take(places.b)
    if shape.accumulator == "f32":
        matrix = c.view(np.float32).reshape(-1).take(places.c)
        result = _product(shape.kinds, bits_a, bits_b, matrix, rules, shape.k, "f32")
        return result.reshape(-1).take(places.d).view(np.uint32).reshape(c.shape)
    # Pairs (groups, m, n, 2, lanes, 2) to elements (groups, m, n, 4, lanes) and back.
    halves = c.view(np.uint16).reshape(groups, m, n, 2, lanes, 2).transpose(0, 1, 2, 3, 5, 4)
    matrix = halves.reshape(-1).take(places.c).view(np.float16).astype(np.float32)
    result = _product(shape.kinds, bits_a, bits_b, matrix, rules, shape.k, "f16")
    bits = round_to_f16(result).reshape(-1).take(places.d)
    pairs = bits.reshape(groups, m, n, 2, 2, lanes).transpose(0, 1, 2, 3, 5, 4)
    return np.ascontiguousarray(pairs).view(np.uint32).reshape(c.shape)


def multiply(
    kinds: tuple[str, str],
    rules: Sums,
    a: Array,
    b: Array,
    c: Array,
    step: int,
    to: str = "f32",
) -> Array:
    """D = A * B + C as successive instructions of ``step`` products each form it.

    Args:
        kinds: operand types of A and B.
        rules: of the architecture for them.
        a: patterns (k, batch, rows).
        b: patterns (k, batch, columns).
        c: float32 (batch, rows, columns), of fp16 values where those are summed.
        step: k of one instruction.
        to: ``f32`` or ``f16``.

    Returns:
        float32, shaped as ``c``.
    """
    return _product(kinds, a, b, c, rules, step, to)


def multiply_integers(a: Array, b: Array, c: Array, *, saturate: bool = False) -> Array:
    """D = A * B + C of integers, exact modulo 2^32; ``saturate`` clamps to int32.

    Args:
        a: int8 or uint8 (k, batch, rows).
        b: int8 or uint8 (k, batch, columns).
        c: int32 (batch, rows, columns).
        saturate: clamp the sum of one instruction.
    """
    # Products of 8 bits are below 2^16, so float64 sums of up to 2^37 of them are exact.
    real: Any = np.float32 if a.shape[0] <= 256 else np.float64
    product = np.matmul(a.transpose(1, 2, 0).astype(real), b.transpose(1, 0, 2).astype(real))
    total = product.astype(np.int64) + c
    if saturate:
        info = np.iinfo(np.int32)
        total = np.clip(total, info.min, info.max)
    result: Array = total.astype(np.int32)
    return result


def _product(
    kinds: tuple[str, str],
    bits_a: Array,
    bits_b: Array,
    c: Array,
    rules: Sums,
    step: int,
    to: str,
) -> Array:
    """All instructions of k, ``step`` products each; fp32 values whatever the accumulator."""
    tables = patterns(kinds[0]), patterns(kinds[1])
    operands = _Operands(bits_a, bits_b, tables)
    if to == "f32":
        result = _plain(operands, c, rules.kept)
        if result is not None:
            return result
    depth = bits_a.shape[0]
    if rules.halves:
        for start in range(0, depth, step):
            part = slice(start, start + step)
            c = _by_halves(kinds, bits_a[part], bits_b[part], c, rules, to)
        return c
    for start in range(0, depth, step):
        for group in range(start, start + step, rules.group):
            stop = min(group + rules.group, start + step)
            c = _group(operands, slice(group, stop), c, rules, to)
    return c


def _by_halves(
    kinds: tuple[str, str], bits_a: Array, bits_b: Array, c: Array, rules: Sums, to: str
) -> Array:
    """One instruction of 8-bit operands as two sums of fp16 products and an ordinary addition."""
    table = patterns("f16")
    place = np.arange(bits_a.shape[0]) % 4 // 2
    total = np.zeros_like(c)
    for half in (0, 1):
        a, b = (
            to_f16(bits[place == half], kind)
            for bits, kind in zip((bits_a, bits_b), kinds, strict=True)
        )
        operands = _Operands(a, b, (table, table))
        total = _group(operands, slice(0, a.shape[0]), total, rules, to)
    total = total + c
    if to == "f16":
        total = round_to_f16(total).view(np.float16).astype(np.float32)
    return canonical(total.reshape(-1)).reshape(c.shape)


class _Operands:
    """A and B of one batch, decoded: (k, batch, rows) and (k, batch, columns)."""

    def __init__(self, bits_a: Array, bits_b: Array, tables: tuple[Patterns, Patterns]) -> None:
        self.tables = tables
        self.at = tables[0].index(bits_a), tables[1].index(bits_b)
        self.a, self.b = (t.value.take(i) for t, i in zip(tables, self.at, strict=True))
        self.special_a, self.special_b = self.take("special")
        self.special = bool(self.special_a.any() or self.special_b.any())
        self._exponents: tuple[Array, Array] | None = None

    def take(self, name: str) -> tuple[Array, Array]:
        """A fact about the elements of A and B."""
        a, b = (getattr(t, name).take(i) for t, i in zip(self.tables, self.at, strict=True))
        return a, b

    def exponents(self) -> tuple[Array, Array]:
        if self._exponents is None:
            self._exponents = self.take("exponent")
        return self._exponents

    def low(self) -> int:
        """Exponent of the lowest bit that a product can have; very large where all are zero."""
        low_a, low_b = self.take("low")
        return int(low_a.min()) + int(low_b.min())


def _plain(x: _Operands, c: Array, kept: int) -> Array | None:
    """A matrix product in fp32 where every partial sum is exact, otherwise None.

    With all addends multiples of 2^u and the sum of magnitudes below 2^(u + kept + 1), no order of
    summation rounds to ``kept`` fraction bits, and no cut of the tensor core's falls on a set bit.
    Nothing may overflow on the way either.
    """
    if x.special:
        return None
    low = x.low()
    if low > 4000:
        low = -20  # A or B is zero; any grid will do as long as C fits it
    largest = float(np.abs(x.a).max()) * float(np.abs(x.b).max()) * x.a.shape[0]
    top = largest + float(np.abs(c).max())
    if not top < 2.0 ** min(low + kept + 1, 127) or low < -126:
        return None
    scaled = c * np.float32(2.0**-low)
    if not (scaled == np.rint(scaled)).all():
        return None
    product = np.matmul(x.a.transpose(1, 2, 0), x.b.transpose(1, 0, 2))
    product += c
    product += np.float32(0)  # a zero result is +0
    result: Array = product
    return result


def _group(x: _Operands, part: slice, c: Array, rules: Sums, to: str) -> Array:
    """One fused sum; ``c`` and the result are fp32 arrays (batch, rows, columns)."""
    fraction = rules.fraction
    floor = rules.floor + (0 if to == "f32" else 112)
    ea, eb = (e[part] for e in x.exponents())
    a, b = x.a[part], x.b[part]
    steps = a.shape[0]
    finite_c = np.isfinite(c)
    all_finite = bool(finite_c.all())
    clean = c if all_finite else np.where(finite_c, c, np.float32(0))
    # E: the largest exponent.
    bits = clean.view(np.int32)
    minimum = -126 if to == "f32" else -14
    ec = np.maximum(((bits >> 23) & 0xFF) - 127, minimum)
    top = np.where(clean == 0, floor, ec).astype(np.int16)
    np.maximum(top, np.int16(floor), out=top)
    trial = np.empty_like(top)
    for k in range(steps):
        np.add(ea[k][:, :, None], eb[k][:, None, :], out=trial)
        np.maximum(top, trial, out=top)
    wide = _needs_double(ea, eb, top)
    real: np.dtype[Any] = np.dtype(np.float64 if wide else np.float32)
    integer: np.dtype[Any] = np.dtype(np.int64 if wide else np.int32)
    shift = fraction - top.astype(np.int32)
    scale: Array = np.ldexp(1.0, shift) if wide else ((shift + 127) << 23).view(np.float32)
    # Sums of eight addends below 2^27 fit int32; more go through int64.
    product: Array = np.empty(c.shape, real)
    cut: Array = np.empty(c.shape, integer)
    total: Array = np.zeros(c.shape, np.int64)
    a, b = a.astype(real, copy=False), b.astype(real, copy=False)
    for start in range(0, steps, 8):
        half: Array = np.zeros(c.shape, integer)
        for k in range(start, min(start + 8, steps)):
            np.multiply(a[k][:, :, None], b[k][:, None, :], out=product)
            product *= scale
            # The conversion cuts toward zero.
            np.copyto(cut, product, casting="unsafe")
            half += cut
        total += half
    np.copyto(cut, clean * scale, casting="unsafe")
    total += cut
    result = _round(total, top.astype(np.int32) - fraction, to, rules.kept)
    if x.special or not all_finite:
        result = _specials(x, part, c, result)
    return result


def _needs_double(ea: Array, eb: Array, top: Array) -> bool:
    """Whether products or scales leave fp32's normal range (never with fp16 operands of sense)."""
    lowest = int(np.where(ea > -4000, ea, 8000).min()) + int(np.where(eb > -4000, eb, 8000).min())
    highest = int(ea.max()) + int(eb.max())
    # A product of lowest exponents can lie 2 * 10 places lower when both are subnormal.
    return lowest - 20 < -126 or highest + 2 > 127 or int(top.min()) < -98 or int(top.max()) > 125


def _round(total: Array, exponent: Array, to: str, kept: int) -> Array:
    """Scale a sum by 2^exponent and round: to ``kept`` bits toward zero, to fp16 to nearest even.

    The result is fp32 either way.
    """
    value = np.ldexp(total.astype(np.float64), exponent)
    if to == "f16":
        return value.astype(np.float16).astype(np.float32) + np.float32(0)  # a zero is +0
    magnitude = np.abs(value)
    small = (magnitude < 2.0**-126) & (total != 0)
    # With float64's last bits cleared the cast is exact.
    bits = value.view(np.int64) & ~np.int64((1 << (52 - kept)) - 1)
    result = bits.view(np.float64).astype(np.float32)
    if small.any():
        units = np.trunc(np.ldexp(value[small], 126 + kept))
        result[small] = np.ldexp(units, -126 - kept).astype(np.float32) + np.float32(0)
    return result


def _specials(x: _Operands, part: slice, c: Array, result: Array) -> Array:
    """Infinities and NaN over a result computed without them."""
    sa, sb = x.special_a[part], x.special_b[part]
    zero_a, zero_b = (z[part] for z in x.take("zero"))
    negative_a, negative_b = (n[part] for n in x.take("negative"))
    nan = np.isnan(c)
    plus = np.isposinf(c)
    minus = np.isneginf(c)
    for k in range(sa.shape[0]):
        p, q = sa[k][:, :, None], sb[k][:, None, :]
        bad = (p == 2) | (q == 2)
        bad = bad | ((p == 1) & zero_b[k][:, None, :]) | ((q == 1) & zero_a[k][:, :, None])
        infinite = ((p == 1) | (q == 1)) & ~bad
        sign = negative_a[k][:, :, None] ^ negative_b[k][:, None, :]
        nan |= bad
        plus |= infinite & ~sign
        minus |= infinite & sign
    nan |= plus & minus
    result = np.where(plus, np.float32(np.inf), np.where(minus, np.float32(-np.inf), result))
    bits = np.where(nan, np.uint32(0x7FFFFFFF), result.view(np.uint32))
    return bits.view(np.float32)
