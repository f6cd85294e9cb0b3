"""The arithmetic of tensor cores, bit for bit.

One small integer algorithm with three parameters describes every generation measured so far
(``ARITHMETIC``). k is split into consecutive groups of ``group``; C enters the first group, and
each group's rounded result is the C of the next. A group does this:

1. Products are exact and keep exponent ea + eb, not renormalised (1.5 * 1.5 has exponent 0).
2. E is the largest exponent of the non-zero products, of C if it is not zero, and of a floor.
3. Every addend, C included, is cut toward zero to a multiple of 2^(E - fraction).
4. The sum is exact, and rounded once: toward zero to fp32, or to nearest even to fp16.
5. A zero result is +0. NaN is 0x7fffffff (fp16: 0x7fff); NaN inputs, 0 * inf and inf - inf give it.

Where plain fp32 sums are exact (small integers), the algorithm and a matrix product agree, and the
latter is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator.faults import LaunchError
from deepgemm_codegen.emulator.fragments import layout
from deepgemm_codegen.emulator.numeric import round_to_f16

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.fragments import Shape

__all__ = ["ARITHMETIC", "Arithmetic", "arithmetic", "multiply", "multiply_accumulate"]

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """How an architecture sums.

    Attributes:
        group: products of 16-bit operands summed at once.
        fraction: bits kept below the largest exponent.
        source: ``measured``, ``recordings`` (published) or ``literature``, or ``unverified``.
    """

    group: int
    fraction: int
    source: str


# Where each row comes from: "measured" on an H200 with random bit patterns, no output differing;
# "recordings" from published outputs of the chip (MMA-Sim, arXiv 2511.10909; MATLAB-tensor-core,
# arXiv 2512.07004); "literature" stated there without recordings; "unverified" taken from the
# nearest relative.
ARITHMETIC: dict[str, Arithmetic] = {
    "sm_75": Arithmetic(8, 24, "literature"),
    "sm_80": Arithmetic(8, 24, "recordings"),
    "sm_86": Arithmetic(8, 24, "recordings"),
    "sm_87": Arithmetic(8, 24, "literature"),
    "sm_89": Arithmetic(8, 24, "recordings"),
    "sm_90": Arithmetic(16, 25, "measured"),
    "sm_100": Arithmetic(16, 25, "recordings"),
    "sm_103": Arithmetic(16, 25, "unverified"),
    "sm_110": Arithmetic(16, 25, "unverified"),
    "sm_120": Arithmetic(16, 25, "unverified"),
    "sm_121": Arithmetic(16, 25, "unverified"),
}


def arithmetic(name: str) -> Arithmetic:
    """The arithmetic of an architecture; a suffix (``sm_90a``) does not matter.

    Raises:
        LaunchError: not in the table.
    """
    found = ARITHMETIC.get(name.rstrip("af"))
    if found is None:
        raise LaunchError(f"no arithmetic known for '{name}'; known: {', '.join(ARITHMETIC)}")
    return found


@dataclass(frozen=True, slots=True)
class _Table:
    """Facts about each of the 65536 patterns of a 16-bit type.

    Attributes:
        value: float32; zero for infinities and NaN.
        exponent: int16, of the significand's leading place (the minimum for subnormals); very
            small for zero.
        low: int16, exponent of the lowest set bit; very large for zero.
        special: 0 finite, 1 infinity, 2 NaN.
    """

    value: Array
    exponent: Array
    low: Array
    special: Array


_NO_EXPONENT = -8000  # of a zero: never the largest, and two of them still fit int16


@lru_cache(maxsize=2)
def _table(kind: str) -> _Table:
    bits = np.arange(65536, dtype=np.uint32)
    fraction_bits, exponent_bits = (10, 5) if kind == "f16" else (7, 8)
    bias = (1 << (exponent_bits - 1)) - 1
    exponent = ((bits >> fraction_bits) & ((1 << exponent_bits) - 1)).astype(np.int64)
    fraction = (bits & ((1 << fraction_bits) - 1)).astype(np.int64)
    top = exponent == (1 << exponent_bits) - 1
    significand = np.where(exponent > 0, fraction | (1 << fraction_bits), fraction)
    e = np.maximum(exponent, 1) - bias
    sign = np.where(bits >> 15, -1.0, 1.0)
    value = np.where(top, 0.0, sign * np.ldexp(significand.astype(np.float64), e - fraction_bits))
    zero = (significand == 0) | top
    lowest = np.log2(np.maximum(significand & -significand, 1)).astype(np.int64)
    return _Table(
        value.astype(np.float32),
        np.where(zero, _NO_EXPONENT, e).astype(np.int16),
        np.where(zero, 8000, e - fraction_bits + lowest).astype(np.int16),
        np.where(top, np.where(fraction != 0, 2, 1), 0).astype(np.int8),
    )


def multiply_accumulate(shape: Shape, rules: Arithmetic, a: Array, b: Array, c: Array) -> Array:
    """D = A * B + C for a grid of fragments, in registers.

    Args:
        shape: of the instruction.
        rules: of the architecture.
        a: uint32 (groups, M, A registers, lanes).
        b: uint32 (groups, N, B registers, lanes).
        c: uint32 (groups, M, N, C registers, lanes).

    Returns:
        uint32, shaped as ``c``.
    """
    groups, m, _, lanes = a.shape
    n = b.shape[1]
    places = layout(shape.k, groups, m, n, lanes // 32)
    operands = _Operands(
        a.view(np.uint16).reshape(-1).take(places.a),
        b.view(np.uint16).reshape(-1).take(places.b),
        _table(shape.kind),
    )
    if shape.accumulator == "f32":
        matrix = c.view(np.float32).reshape(-1).take(places.c)
        result = _plain(operands, matrix)
        if result is None:
            result = _fused(operands, matrix, rules, "f32")
        return result.reshape(-1).take(places.d).view(np.uint32).reshape(c.shape)
    # Pairs (groups, m, n, 2, lanes, 2) to elements (groups, m, n, 4, lanes) and back.
    halves = c.view(np.uint16).reshape(groups, m, n, 2, lanes, 2).transpose(0, 1, 2, 3, 5, 4)
    matrix = halves.reshape(-1).take(places.c).view(np.float16).astype(np.float32)
    bits = round_to_f16(_fused(operands, matrix, rules, "f16")).reshape(-1).take(places.d)
    pairs = bits.reshape(groups, m, n, 2, 2, lanes).transpose(0, 1, 2, 3, 5, 4)
    return np.ascontiguousarray(pairs).view(np.uint32).reshape(c.shape)


def multiply(kind: str, rules: Arithmetic, a: Array, b: Array, c: Array, step: int) -> Array:
    """D = A * B + C as successive instructions of ``step`` products each form it, in fp32.

    Args:
        kind: ``f16`` or ``bf16``.
        rules: of the architecture.
        a: uint16 patterns (k, batch, rows).
        b: uint16 patterns (k, batch, columns).
        c: float32 (batch, rows, columns).
        step: k of one instruction.

    Returns:
        float32, shaped as ``c``.
    """
    operands = _Operands(a, b, _table(kind))
    result = _plain(operands, c)
    if result is not None:
        return result
    for start in range(0, a.shape[0], step):
        for group in range(start, start + step, rules.group):
            stop = min(group + rules.group, start + step)
            c = _group(operands, slice(group, stop), c, rules, "f32")
    return c


def _fused(x: _Operands, c: Array, rules: Arithmetic, to: str) -> Array:
    """All groups of k in turn; fp32 values whatever the accumulator."""
    depth = x.a.shape[0]
    step = min(rules.group, depth)
    for start in range(0, depth, step):
        c = _group(x, slice(start, start + step), c, rules, to)
    return c


class _Operands:
    """A and B of one batch, decoded: (k, batch, rows) and (k, batch, columns)."""

    def __init__(self, bits_a: Array, bits_b: Array, table: _Table) -> None:
        self.bits_a, self.bits_b, self.table = bits_a, bits_b, table
        self.a, self.b = table.value.take(bits_a), table.value.take(bits_b)
        self.special_a, self.special_b = table.special.take(bits_a), table.special.take(bits_b)
        self.special = bool(self.special_a.any() or self.special_b.any())
        self._exponents: tuple[Array, Array] | None = None

    def exponents(self) -> tuple[Array, Array]:
        if self._exponents is None:
            table = self.table
            self._exponents = table.exponent.take(self.bits_a), table.exponent.take(self.bits_b)
        return self._exponents


def _plain(x: _Operands, c: Array) -> Array | None:
    """A matrix product in fp32 where every partial sum is exact, otherwise None.

    With all addends multiples of 2^u and the sum of magnitudes below 2^(u + 24), no order of
    summation rounds, and no cut of the tensor core's falls on a set bit. Nothing may overflow on
    the way either.
    """
    if x.special:
        return None
    low = int(x.table.low.take(x.bits_a).min()) + int(x.table.low.take(x.bits_b).min())
    if low > 4000:
        low = -20  # A or B is zero; any grid will do as long as C fits it
    largest = float(np.abs(x.a).max()) * float(np.abs(x.b).max()) * x.a.shape[0]
    top = largest + float(np.abs(c).max())
    if not top < 2.0 ** min(low + 24, 127) or low < -126:
        return None
    scaled = c * np.float32(2.0**-low)
    if not (scaled == np.rint(scaled)).all():
        return None
    product = np.matmul(x.a.transpose(1, 2, 0), x.b.transpose(1, 0, 2))
    product += c
    product += np.float32(0)  # a zero result is +0
    result: Array = product
    return result


def _group(x: _Operands, part: slice, c: Array, rules: Arithmetic, to: str) -> Array:
    """One fused sum; ``c`` and the result are fp32 arrays (batch, rows, columns)."""
    fraction = rules.fraction
    floor = (-108 if to == "f32" else 4) - fraction
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
    result = _round(total, top.astype(np.int32) - fraction, to)
    if x.special or not all_finite:
        result = _specials(x, part, c, result)
    return result


def _needs_double(ea: Array, eb: Array, top: Array) -> bool:
    """Whether products or scales leave fp32's normal range (never with fp16 operands of sense)."""
    lowest = int(np.where(ea > -4000, ea, 8000).min()) + int(np.where(eb > -4000, eb, 8000).min())
    highest = int(ea.max()) + int(eb.max())
    # A product of lowest exponents can lie 2 * 10 places lower when both are subnormal.
    return lowest - 20 < -126 or highest + 2 > 127 or int(top.min()) < -98 or int(top.max()) > 125


def _round(total: Array, exponent: Array, to: str) -> Array:
    """Scale a sum by 2^exponent and round: to fp32 toward zero, to fp16 to nearest even.

    The result is fp32 either way.
    """
    value = np.ldexp(total.astype(np.float64), exponent)
    if to == "f16":
        return value.astype(np.float16).astype(np.float32) + np.float32(0)  # a zero is +0
    magnitude = np.abs(value)
    small = (magnitude < 2.0**-126) & (total != 0)
    # Clearing float64's last 29 bits leaves 24: the cast is then exact.
    bits = value.view(np.int64) & ~np.int64((1 << 29) - 1)
    result = bits.view(np.float64).astype(np.float32)
    if small.any():
        units = np.trunc(np.ldexp(value[small], 149))
        result[small] = np.ldexp(units, -149).astype(np.float32) + np.float32(0)
    return result


def _specials(x: _Operands, part: slice, c: Array, result: Array) -> Array:
    """Infinities and NaN over a result computed without them."""
    sa, sb = x.special_a[part], x.special_b[part]
    zero_a = (x.bits_a[part] & 0x7FFF) == 0
    zero_b = (x.bits_b[part] & 0x7FFF) == 0
    negative_a = (x.bits_a[part] >> 15).astype(bool)
    negative_b = (x.bits_b[part] >> 15).astype(bool)
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
