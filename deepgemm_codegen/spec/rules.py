"""What a spec's fields must be to each other, beside what each allows alone.

Each function checks one part and raises `InputError`, naming the value, the limit and the remedy;
those that fill in what was left open return it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from deepgemm_codegen.errors import InputError, nearest
from deepgemm_codegen.numbers import MAX_ALIGNMENT, MAX_DIMENSION, check_range
from deepgemm_codegen.spec import batching
from deepgemm_codegen.spec.batching import DENSE
from deepgemm_codegen.spec.block_scales import BLOCK, SCALE_WORDS
from deepgemm_codegen.spec.text import ZERO_POINT_WORDS

if TYPE_CHECKING:
    from deepgemm_codegen.dtypes import DType
    from deepgemm_codegen.epilogue import EpilogueStep, StepOperand
    from deepgemm_codegen.spec.batching import Stride
    from deepgemm_codegen.spec.gemm import GemmSpec

__all__ = [
    "check_alignments",
    "check_block_scales",
    "check_norms",
    "check_pairs",
    "check_quantization",
    "check_vectors",
    "leading_dimensions",
    "steps_with_matrices",
    "strides",
    "zero_points",
]

MAX_NORM = 1 << 24
"""Longest row that a norm takes."""


def check_quantization(spec: GemmSpec) -> None:
    """D is what a quantize step makes, so it comes last and its type is D's."""
    step = spec.quantizes
    if step is None:
        return
    if spec.dtype_d != step.result:
        raise InputError(
            f"dtype_d = {spec.dtype_d}: {step.kind} makes D {step.result}; leave dtype_d out"
        )
    if step is not spec.epilogue[-1]:
        after = spec.epilogue[spec.epilogue.index(step) + 1]
        if after.result is not None:
            raise InputError(
                f"epilogue steps '{step}' and '{after}': D is made once; leave one of them out"
            )
        raise InputError(
            f"epilogue step '{step.kind}' is followed by '{after.kind}', but it makes D; put it"
            " last"
        )
    if step.computed is not None and spec.n.dynamic:
        raise InputError(
            f"n = {spec.n}: epilogue step '{step.kind}' computes scales of rows, whose length"
            " is known when the kernel is written; give n a number"
        )


def check_vectors(spec: GemmSpec) -> None:
    """Vectors of each product's own want a batch."""
    if spec.batch > 1:
        return
    for step in spec.epilogue:
        if any(operand.per_product for operand in step.operands):
            raise InputError(
                f"epilogue step '{step.kind}': per_product = yes: there is one product; give batch,"
                " or leave per_product out"
            )


def check_pairs(spec: GemmSpec) -> None:
    """Where two columns make one, there is no C, and matrices come behind."""
    step = spec.pairs
    if step is None:
        return
    what = f"epilogue step '{step.kind}'"
    check_range(spec.b_columns.size, f"{what}: B's columns", 1, MAX_DIMENSION)
    if spec.dtype_c is not None:
        raise InputError(
            f"{what} halves what C would be added to; leave dtype_c out, and put a residual"
            " behind the step"
        )
    place = spec.epilogue.index(step)
    if any(other.definition.pairs for other in spec.epilogue[place + 1 :]):
        raise InputError(f"{what}: one step of the epilogue may pair halves; leave out another")
    for before in spec.epilogue[:place]:
        if any(operand.full for operand in before.operands):
            raise InputError(
                f"epilogue step '{before.kind}' stands before '{step.kind}', where there are"
                f" two values an element of D; put it behind '{step.kind}'"
            )


def check_norms(spec: GemmSpec) -> None:
    """At most one norm; no product, nothing of one."""
    if not spec.multiplies:
        _check_alone(spec)
    if spec.norm is None:
        return
    norms = [step for step in spec.epilogue if step.definition.normalizes]
    kind = norms[0].kind
    if len(norms) > 1:
        raise InputError(
            f"epilogue steps '{kind}' and '{norms[1].kind}': one norm is all that a kernel"
            " holds; leave the second to a kernel of its own, with op = epilogue"
        )
    if spec.pairs is not None:
        raise InputError(
            f"epilogue step '{spec.pairs.kind}' pairs sums, of which '{kind}' needs whole rows;"
            " leave the norm to a kernel of its own, with op = epilogue"
        )
    if spec.n.size > MAX_NORM:
        raise InputError(
            f"n = {spec.n.size}: too long for epilogue step '{kind}'; the most is {MAX_NORM},"
            " up to which fp32 counts elements"
        )
    for operand in norms[0].operands:
        least = operand.dtype.bytes
        if operand.align & (operand.align - 1) or not least <= operand.align <= MAX_ALIGNMENT:
            raise InputError(
                f"epilogue step '{kind}': align = {operand.align}: give a power of two from {least}"
                f" to {MAX_ALIGNMENT} (bytes), as the {operand.name} is {operand.dtype}"
            )


def _check_alone(spec: GemmSpec) -> None:
    """Steps that want a product are refused without one, and a letter of B."""
    if spec.layout[1] != "n":
        nearest = f"{spec.layout[0]}n"
        raise InputError(
            f"layout = {spec.layout}: op = epilogue has no B, whose letter is the second; give"
            f" {nearest}"
        )
    if spec.pairs is not None:
        raise InputError(
            f"op = epilogue: step '{spec.pairs.kind}' pairs columns of a product's B; leave op out"
        )


def zero_points(spec: GemmSpec) -> dict[str, str]:
    """Of whole numbers only, along what is not summed, and within the operand's type."""
    found = {}
    for letter, words in ZERO_POINT_WORDS.items():
        name = f"zero_point_{letter}"
        given = getattr(spec, name).strip()
        if not given:
            continue
        dtype = spec.dtype_a if letter == "a" else spec.dtype_b
        if not dtype.integer:
            raise InputError(f"{name} = {given}: {dtype} has none; leave it out")
        word = {"scalar": words[0], "row": "per_token", "column": "per_channel"}.get(given, given)
        if word not in words:
            if word in ("per_token", "per_channel"):
                raise InputError(
                    f"{name} = {given}: along k, over which is summed, it would not be one"
                    f" number of a sum; give {' or '.join(words)}, or a number"
                )
            least, most = int(dtype.least), int(dtype.largest)
            remedy = f"give {' or '.join(words)}, or a whole number from {least} to {most}"
            number = re.fullmatch(r"[-+]?[0-9]{1,4}", word)
            if number is None or not least <= int(word) <= most:
                raise InputError(f"{name} = {given}: {remedy}{nearest(given, list(words))}")
            word = str(int(word))
        found[name] = word
    return found


def check_block_scales(spec: GemmSpec) -> None:
    """Of fp8 on both sides, of products whose rows are A's and whose columns are B's alone."""
    given = {f"scale_{letter}": getattr(spec, f"scale_{letter}") for letter in SCALE_WORDS}
    if not any(given.values()):
        return
    for letter, word in SCALE_WORDS.items():
        name = f"scale_{letter}"
        found, dtype = given[name], getattr(spec, f"dtype_{letter}")
        if not found:
            other = next(key for key in given if key != name)
            raise InputError(
                f"{other} = {given[other]}: {letter.upper()} has none; give {name} = {word}, or"
                f" leave {other} out"
            )
        if found != word:
            raise InputError(f"{name} = {found}: no kernel has such blocks; give {word}")
        if dtype.mixes != "fp8":
            raise InputError(
                f"{name} = {found}: scales by block are of e4m3 and e5m2, and"
                f" {letter.upper()} is {dtype}; leave them out, or scale D by the epilogue step"
                " scale"
            )
    both = " and ".join(f"{name} = {word}" for name, word in given.items())
    _check_scaled_product(spec, both)


def _check_scaled_product(spec: GemmSpec, both: str) -> None:
    """What no kernel with scales by block has beside them; `both` says which they are."""
    if spec.accumulate == "fast":
        raise InputError(
            f"accumulate = fast: {both} take sums out of the tensor core to be scaled; leave"
            " accumulate out"
        )
    if spec.pairs is not None and (spec.n.dynamic or spec.n.size % BLOCK):
        raise InputError(
            f"n = {spec.n}: with {both} each of the halves of B that {spec.pairs.kind} pairs begins"
            f" with a block of its own; give n a multiple of {BLOCK}"
        )
    if spec.k.size == 0:
        raise InputError(f"k = 0: with {both} there has to be a block of k; the smallest k is 1")


def leading_dimensions(spec: GemmSpec) -> dict[str, int]:
    """Those that are left out, where rows lie one behind the other; given ones are checked."""
    found = {}
    for operand in "abcd":
        name = f"ld{operand}"
        given: int = getattr(spec, name)
        if operand == "c" and spec.dtype_c is None:
            if given:
                raise InputError(
                    f"ldc = {given}: the kernel has no C; give dtype_c or leave ldc out"
                )
            continue
        _, length = spec.stored(operand)
        if given == 0:
            found[name] = 0 if length.dynamic else max(length.size, 1)
        elif given < length.size:
            raise InputError(
                f"{name} = {given}: too small; a stored row of {operand.upper()} holds"
                f" {length.size} elements (layout {spec.layout}, D {spec.layout_d}), so give"
                f" {length.size} or more"
            )
        else:
            check_range(given, name, 1, MAX_DIMENSION)
    return found


def strides(spec: GemmSpec) -> dict[str, Stride]:
    """Where the products of a batch find their matrices, in the one way of saying it."""
    found = {}
    for operand in "abcd":
        name = f"stride_{operand}"
        given: Stride = getattr(spec, name)
        if operand == "c" and spec.dtype_c is None:
            if given != DENSE:
                raise InputError(
                    f"{name} = {given}: the kernel has no C; give dtype_c or leave {name} out"
                )
            continue
        found[name] = batching.checked(
            name,
            given,
            *spec.stored(operand),
            getattr(spec, f"ld{operand}"),
            spec.batch,
            output=operand == "d",
        )
    return found


def check_alignments(spec: GemmSpec) -> None:
    """Powers of two, an element at least."""
    for operand in "abcd":
        name = f"align_{operand}"
        given: int = getattr(spec, name)
        dtype: DType | None = getattr(spec, f"dtype_{operand}")
        least = dtype.bytes if dtype is not None else 1
        if not least <= given <= MAX_ALIGNMENT or given & (given - 1):
            raise InputError(
                f"{name} = {given}: give a power of two from {least} to {MAX_ALIGNMENT} (bytes)"
            )


def steps_with_matrices(spec: GemmSpec) -> tuple[EpilogueStep, ...]:
    """Checks what steps read that is as large as D; a dense leading dimension becomes 0."""
    _, length = spec.stored("d")

    def checked(operand: StepOperand) -> StepOperand:
        if not operand.full:
            return operand
        least = operand.dtype.bytes
        if operand.align & (operand.align - 1) or not least <= operand.align <= MAX_ALIGNMENT:
            raise InputError(
                f"epilogue step '{operand.name}': align = {operand.align}: give a power of two from"
                f" {least} to {MAX_ALIGNMENT} (bytes)"
            )
        if operand.leading and operand.leading < length.size:
            raise InputError(
                f"epilogue step '{operand.name}': ld = {operand.leading}: too small; a stored row"
                f" holds {length.size} elements, as D's does, so give {length.size} or more"
            )
        dense = not length.dynamic and operand.leading == length.size
        return replace(operand, leading=0) if dense else operand

    return tuple(step.changed(checked) for step in spec.epilogue)
