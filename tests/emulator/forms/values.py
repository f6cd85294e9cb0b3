"""Seeded inputs by kind: specials, random bits, and numbers of sense.

A kind is a type, and after a colon how its values are chosen. ``mixed`` (the default) mixes all
ways; ``halves`` has numbers of sense in the first half of the threads (or of the blocks) and any
bits in the second.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["generate", "width_of"]

Array = np.ndarray[Any, np.dtype[Any]]

# Exponent bits, fraction bits.
_FLOATS = {"f64": (11, 52), "f32": (8, 23), "tf32": (8, 23), "f16": (5, 10), "bf16": (8, 7)}
_FLOATS |= {"e4m3": (4, 3), "e5m2": (5, 2)}
_BITS = {"f64": 64, "f32": 32, "tf32": 32, "f16": 16, "bf16": 16, "e4m3": 8, "e5m2": 8}


def _split(kind: str) -> tuple[str, int]:
    """Element type, and elements of a register."""
    name, _, count = kind.partition(":")[0].partition("x")
    return name, int(count or 1)


def width_of(kind: str) -> int:
    """Bytes of a register of that kind."""
    name, count = _split(kind)
    bits = _BITS.get(name) or int(name.lstrip("usb"))
    return max(2, bits * count // 8)


def generate(rng: np.random.Generator, kind: str, threads: int, block: int) -> Array:
    """One register's values, an unsigned integer a thread."""
    name, count = _split(kind)
    how = kind.partition(":")[2] or "mixed"
    bits = _BITS.get(name) or int(name.lstrip("usb"))
    total = threads * count
    held = np.dtype(f"u{max(bits, 8) // 8}")
    anything = rng.integers(0, 1 << bits, total, np.uint64)
    if how.isdigit() or how == "small":
        # Whole numbers below a limit: shift amounts, lanes.
        values = rng.integers(0, int(how) if how.isdigit() else 40, total, np.uint64)
    elif name in _FLOATS:
        sense = _numbers(rng, name, total)
        special = rng.choice(_specials(name), total)
        choice = rng.integers(0, 4, total)
        values = np.choose(choice, [anything, sense, sense, special])
        if how == "halves":
            first = np.arange(total) // count < threads // 2
            if threads > block:
                first = np.arange(total) // count // block < threads // block // 2
            values = np.where(first, sense, np.where(choice == 0, special, anything))
        elif how == "sense":
            values = sense
    else:
        few = rng.integers(0, 300, total, np.uint64)
        few = np.where(rng.random(total) < 0.5, few, _mask(bits) - few)
        top = np.uint64(1 << (bits - 1))
        corners = np.array([0, 1, _mask(bits), top, top - np.uint64(1)], np.uint64)
        choice = rng.integers(0, 3, total)
        values = np.choose(choice, [anything, few, rng.choice(corners, total)])
        if how == "nonzero":
            values = np.where(values == 0, np.uint64(3), values)
    packed = np.ascontiguousarray(values.astype(held))
    if count == 1:
        return packed.astype(np.uint16) if bits == 8 else packed
    return packed.view(f"u{width_of(kind)}")


def _mask(bits: int) -> np.uint64:
    return np.uint64((1 << bits) - 1)


def _specials(name: str) -> Array:
    """Zeros, infinities, NaN of several payloads, ends of the range, and halves between numbers."""
    exponent_bits, fraction_bits = _FLOATS[name]
    bits = _BITS[name]
    one = ((1 << (exponent_bits - 1)) - 1) << fraction_bits
    top = ((1 << exponent_bits) - 1) << fraction_bits
    unit = 1 << fraction_bits
    positive = [0, 1, 2, unit - 1, unit, unit + 1, top - 1, top, top + 1, top | unit >> 1, one,
                one + 1, one - 1, one | unit >> 1, one | (unit - 1)]  # fmt: skip
    if name in ("f32", "tf32"):
        # Ties and their neighbours on the way to fp16, bf16, tf32, the 8-bit types and integers.
        positive += [0x3F801000, 0x3F800FFF, 0x3F801001, 0x3F803000, 0x3F808000, 0x3F818000]
        positive += [0x3F880000, 0x3F900000, 0x3F980000, 0x477FF000, 0x477FEFFF, 0x33000000]
        positive += [0x33000001, 0x387FE000, 0x7F7F8000, 0x43E00000, 0x43E80000, 0x43E80001]
        positive += [0x47600000, 0x47700000, 0x3F000000, 0x3FC00000, 0x40200000, 0x42FF0000]
        positive += [0x437F8000, 0x4F000000, 0x4EFFFFFF, 0x4F7FFFFF, 0x3A800000, 0x3B000000]
    values = np.array([p & ((1 << (bits - 1)) - 1) for p in positive], np.uint64)
    return np.concatenate([values, values | np.uint64(1 << (bits - 1))])


def _numbers(rng: np.random.Generator, name: str, total: int) -> Array:
    """Numbers from 2^-4 to 2^4 of both signs, some zeros among them."""
    exponent_bits, fraction_bits = _FLOATS[name]
    bias = (1 << (exponent_bits - 1)) - 1
    exponent = rng.integers(bias - 4, bias + 4, total, np.uint64)
    fraction = rng.integers(0, 1 << fraction_bits, total, np.uint64)
    sign = rng.integers(0, 2, total, np.uint64)
    bits = np.uint64(_BITS[name] - 1)
    values = sign << bits | exponent << np.uint64(fraction_bits) | fraction
    return np.where(rng.random(total) < 0.05, np.uint64(0), values)
