"""`GemmSpec`: what the user wants, validated and normalised.

A spec says nothing about tiles; it is the whole input of the decision tree beside the
architecture's facts. Flags, YAML and the text form use the same field names, read by the one
table `FIELDS`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from deepgemm_codegen import batching
from deepgemm_codegen.arch import canonical_arch
from deepgemm_codegen.batching import DENSE, POINTERS, SHARED, Stride
from deepgemm_codegen.dtypes import FP32, DType, parse_dtype
from deepgemm_codegen.epilogue import (
    AXIS_WORDS,
    FLOATS,
    EpilogueStep,
    StepOperand,
    parse_epilogue,
)
from deepgemm_codegen.errors import InputError, nearest
from deepgemm_codegen.numbers import (
    DEFAULT_ALIGNMENT,
    MAX_DIMENSION,
    check_range,
    whole_number,
)
from deepgemm_codegen.overrides import OVERRIDES, Overrides, override_value
from deepgemm_codegen.precision import ACCUMULATE, check_operands, check_output, sums_of

__all__ = [
    "DEFAULT_DYNAMIC_MAX",
    "MAX_DIMENSION",
    "OVERRIDES",
    "Dim",
    "GemmSpec",
    "Overrides",
]

MAX_NORM = 1 << 24
"""Longest row that a norm takes."""

MAX_STEPS = 64
"""Most epilogue steps: each may take a pointer of the kernel\'s 4 KB of arguments."""

ZERO_POINT_WORDS = {"a": ("per_tensor", "per_token"), "b": ("per_tensor", "per_channel")}
"""Zero points of A and of B that are given at each launch: one, or one a row or column."""

DEFAULT_DYNAMIC_MAX = 4096
"""A dynamic dimension without a maximum is planned for this size."""


@dataclass(frozen=True, slots=True)
class Dim:
    """One of m, n, k: fixed at generation time, or given at run time up to a maximum.

    Attributes:
        size: the fixed size, or the size that a dynamic dimension is planned for and must not
            exceed at run time.
        dynamic: whether the kernel takes the dimension as an argument.
    """

    size: int
    dynamic: bool = False

    def __str__(self) -> str:
        return f"dynamic:{self.size}" if self.dynamic else str(self.size)

    @classmethod
    def parse(cls, text: str | int, name: str) -> Dim:
        """Reads ``1024``, ``dynamic`` or ``dynamic:8192``.

        Raises:
            InputError: not a whole number, out of range, or zero for m and n. (k may be zero.)
        """
        word = str(text).strip()
        dynamic = word == "dynamic" or word.startswith("dynamic:")
        digits = word.partition(":")[2] if dynamic else word
        if word == "dynamic":
            return cls(DEFAULT_DYNAMIC_MAX, dynamic=True)
        size = whole_number(digits, name, remedy="give a whole number, dynamic, or dynamic:MAX")
        smallest = 0 if name == "k" and not dynamic else 1
        check_range(size, name, smallest, MAX_DIMENSION)
        return cls(size, dynamic)


LAUNCHES = ("plain", "dependent")
"""How a kernel may be launched."""

OPS = ("product", "epilogue")
"""What D is made of: A times B, or A alone."""

_OF_PRODUCTS = (
    *("k", "batch", "dtype_b", "dtype_c", "dtype_acc", "accumulate", "layout", "layout_d"),
    *("ldb", "ldc", "stride_a", "stride_b", "stride_c", "stride_d", "align_b", "align_c"),
)
"""Fields that only a product has."""


@dataclass(frozen=True, slots=True)
class GemmSpec:
    """D = epilogue(alpha * A * B + beta * C), with A m x k, B k x n, C and D m x n.

    A gated step (``swiglu``) makes one column of D of two of B's: then B is k x 2n, its first half
    beside its second. With ``op = epilogue`` there is no product: D = epilogue(A), with A m x n; k
    is 0.

    The constructor validates and fills what was left open (leading dimensions, types), so two
    specs that mean the same compare equal. ``str()`` gives a line that `from_text` reads back.

    Attributes:
        op: ``product`` or ``epilogue``.
        m, n, k: the dimensions; k may be 0.
        batch: number of products.
        dtype_a, dtype_b: operand types; `precision` says which go together.
        dtype_c: type of C, or None when the kernel has no C (and no beta).
        dtype_d: type of D.
        dtype_acc: accumulator type: int32 for int8 and uint8, else fp32.
        accumulate: of e4m3 and e5m2 ``promoted`` or ``fast``, see `precision`; else empty.
        zero_point_a, zero_point_b: of int8 and uint8: what is taken from each element before it is
            multiplied: a whole number, ``per_tensor``, and of A ``per_token``, of B
            ``per_channel``; empty for nothing.
        layout: two letters, A then B: ``n`` row-major as written, ``t`` stored transposed.
        layout_d: the letter of D and C.
        lda, ldb, ldc, ldd: leading dimensions in elements; 0 where it equals a dynamic dimension.
        stride_a, stride_b, stride_c, stride_d: where each product finds its matrix, see `batching`;
            what epilogue steps read or write like D is dense.
        align_a, align_b, align_c, align_d: guaranteed alignment of the base pointers, bytes.
        epilogue: the steps in the order they run.
        arch: target such as ``sm_80``.
        gpu: a GPU of that architecture whose facts are used; empty for the default one.
        sms: multiprocessor count that overrides the GPU's; 0 keeps it.
        launch: ``dependent`` lets the kernel begin before the kernel before it in the stream has
            ended (programmatic dependent launch); it waits for that one before it touches memory.
        label: free text for people; it names the file and the kernel after sanitising.
        overrides: choices made in the tree's place.

    Raises:
        InputError: any value that no kernel could serve, naming the value, limit and remedy.
    """

    m: Dim
    n: Dim
    k: Dim
    dtype_a: DType
    dtype_b: DType
    dtype_d: DType
    op: Literal["product", "epilogue"] = "product"
    dtype_c: DType | None = None
    dtype_acc: DType = FP32
    accumulate: str = ""
    zero_point_a: str = ""
    zero_point_b: str = ""
    batch: int = 1
    layout: str = "nn"
    layout_d: Literal["n", "t"] = "n"
    lda: int = 0
    ldb: int = 0
    ldc: int = 0
    ldd: int = 0
    stride_a: Stride = DENSE
    stride_b: Stride = DENSE
    stride_c: Stride = DENSE
    stride_d: Stride = DENSE
    align_a: int = DEFAULT_ALIGNMENT
    align_b: int = DEFAULT_ALIGNMENT
    align_c: int = DEFAULT_ALIGNMENT
    align_d: int = DEFAULT_ALIGNMENT
    epilogue: tuple[EpilogueStep, ...] = ()
    arch: str = "sm_80"
    gpu: str = ""
    sms: int = 0
    launch: Literal["plain", "dependent"] = "plain"
    label: str = ""
    overrides: Overrides = field(default_factory=Overrides)
    _texts: tuple[tuple[str, str], ...] = field(default=(), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.layout not in ("nn", "nt", "tn", "tt"):
            raise InputError(
                f"layout = {self.layout}: unknown; A's letter then B's: nn, nt, tn or tt"
            )
        if self.layout_d not in ("n", "t"):
            raise InputError(f"layout_d = {self.layout_d}: unknown; n (row-major) or t")
        if not self.label.isprintable():  # it stands in a comment of the generated file
            raise InputError(
                f"label = {self.label!a}: holds a control character or a byte that is not UTF-8;"
                " give plain text"
            )
        check_range(self.batch, "batch", 1, MAX_DIMENSION)
        if len(self.epilogue) > MAX_STEPS:
            raise InputError(
                f"epilogue = {len(self.epilogue)} steps: too many; the most is {MAX_STEPS}"
            )
        for name in ("m", "n"):
            dim: Dim = getattr(self, name)
            if dim.size == 0:
                raise InputError(f"{name} = 0: nothing to compute; the smallest is 1")
        check_operands(self.dtype_a, self.dtype_b, self.dtype_acc)
        object.__setattr__(self, "accumulate", sums_of(self.dtype_a, self.accumulate))
        unquantized = self.dtype_d if self.quantizes is None else FP32
        check_output(self.dtype_acc, self.dtype_c, unquantized, len(self.epilogue))
        self._check_quantization()
        self._check_pairs()
        self._check_norms()
        self._check_zero_points()
        self._fill_leading_dimensions()
        self._check_strides()
        self._check_alignments()
        if self.launch not in LAUNCHES:
            raise InputError(
                f"launch = {self.launch}: unknown; give plain or dependent"
                f"{nearest(self.launch, list(LAUNCHES))}"
            )
        self._check_matrices_of_steps()
        for name, value in self.overrides.items():
            override_value(name, value)

    def stored(self, operand: str) -> tuple[Dim, Dim]:
        """(rows, contiguous length) of an operand as it lies in memory; ``operand`` is a..d."""
        rows, columns, letter = {
            "a": (self.m, self.k if self.multiplies else self.n, self.layout[0]),
            "b": (self.k, self.b_columns, self.layout[1]),
            "c": (self.m, self.n, self.layout_d),
            "d": (self.m, self.n, self.layout_d),
        }[operand]
        return (columns, rows) if letter == "t" else (rows, columns)

    @property
    def multiplies(self) -> bool:
        """Whether D is made of a product."""
        return self.op == "product"

    @property
    def norm(self) -> int | None:
        """The number of the step that needs whole rows of D; None where none does."""
        numbers = (i for i, step in enumerate(self.epilogue) if step.definition.normalizes)
        return next(numbers, None)

    def _check_norms(self) -> None:
        """At most one norm, along rows that lie as they are read; no product, nothing of one."""
        if not self.multiplies:
            self._check_alone()
        if self.norm is None:
            return
        norms = [step for step in self.epilogue if step.definition.normalizes]
        kind = norms[0].kind
        if len(norms) > 1:
            raise InputError(
                f"epilogue steps '{kind}' and '{norms[1].kind}': one norm is all that a kernel"
                " holds; leave the second to a kernel of its own, with op = epilogue"
            )
        if self.pairs is not None:
            raise InputError(
                f"epilogue step '{self.pairs.kind}' pairs sums, of which '{kind}' needs whole rows;"
                " leave the norm to a kernel of its own, with op = epilogue"
            )
        if self.layout_d == "t":
            raise InputError(
                f"layout_d = t: epilogue step '{kind}' runs along rows of D, which then lie apart;"
                " leave layout_d out"
            )
        if self.n.size > MAX_NORM:
            raise InputError(
                f"n = {self.n.size}: too long for epilogue step '{kind}'; the most is {MAX_NORM},"
                " up to which fp32 counts elements"
            )
        for operand in norms[0].operands:
            least = operand.dtype.bytes
            if operand.align & (operand.align - 1) or not least <= operand.align <= 4096:
                raise InputError(
                    f"{operand.name} of '{kind}': align = {operand.align}: give a power of two from"
                    f" {least} to 4096 (bytes)"
                )

    def _check_alone(self) -> None:
        """Steps that want a product are refused without one."""
        if self.pairs is not None:
            raise InputError(
                f"op = epilogue: step '{self.pairs.kind}' pairs columns of a product's B; leave op"
                " out"
            )

    def _fill_leading_dimensions(self) -> None:
        for operand in "abcd":
            name = f"ld{operand}"
            given: int = getattr(self, name)
            if operand == "c" and self.dtype_c is None:
                if given:
                    raise InputError(
                        f"ldc = {given}: the kernel has no C; give dtype_c or leave ldc out"
                    )
                continue
            _, length = self.stored(operand)
            if given == 0:
                object.__setattr__(self, name, 0 if length.dynamic else max(length.size, 1))
            elif given < length.size:
                raise InputError(
                    f"{name} = {given}: too small; a stored row of {operand.upper()} holds"
                    f" {length.size} elements (layout {self.layout}, D {self.layout_d}), so give"
                    f" {length.size} or more"
                )
            else:
                check_range(given, name, 1, MAX_DIMENSION)

    def _check_strides(self) -> None:
        for operand in "abcd":
            name = f"stride_{operand}"
            given: Stride = getattr(self, name)
            if operand == "c" and self.dtype_c is None:
                if given != DENSE:
                    raise InputError(
                        f"{name} = {given}: the kernel has no C; give dtype_c or leave {name} out"
                    )
                continue
            stride = batching.checked(
                name,
                given,
                *self.stored(operand),
                getattr(self, f"ld{operand}"),
                self.batch,
                output=operand == "d",
            )
            object.__setattr__(self, name, stride)

    def shared(self, operand: str) -> bool:
        """Whether all products of a batch read one matrix; ``operand`` is a, b or c."""
        return self.batch > 1 and getattr(self, f"stride_{operand}") == SHARED

    def scattered(self, operand: str) -> bool:
        """Whether the caller gives an array of pointers, one a product."""
        return bool(getattr(self, f"stride_{operand}", DENSE) == POINTERS)

    def matrices(self, operand: str) -> int:
        """How many there are of an operand."""
        return 1 if self.shared(operand) else self.batch

    def distance(self, operand: str) -> int:
        """Elements from one product's matrix to the next's, at the planned size; 0 without any.

        Also 0 where the leading dimension is known only at run time, and where each has a pointer
        of its own, which is aligned as ``align_..`` promises.
        """
        if self.batch == 1 or self.scattered(operand):
            return 0
        stride: Stride = getattr(self, f"stride_{operand}")
        if isinstance(stride, int):
            return stride
        leading: int = getattr(self, f"ld{operand}")
        return self.stored(operand)[0].size * leading

    def _check_alignments(self) -> None:
        for operand in "abcd":
            name = f"align_{operand}"
            given: int = getattr(self, name)
            dtype: DType | None = getattr(self, f"dtype_{operand}")
            least = dtype.bytes if dtype is not None else 1
            if given & (given - 1) or not least <= given <= 4096:
                raise InputError(
                    f"{name} = {given}: give a power of two from {least} to 4096 (bytes)"
                )

    @property
    def quantizes(self) -> EpilogueStep | None:
        """The step that makes D of a type of 8 bits, which is the last."""
        return next((step for step in self.epilogue if step.result is not None), None)

    @property
    def pairs(self) -> EpilogueStep | None:
        """The step that makes one column of D of two of B's, which then has twice as many."""
        return next((step for step in self.epilogue if step.definition.pairs), None)

    def pairs_behind(self, argument: str) -> bool:
        """Whether an operand's step stands before one that pairs columns, and has both halves."""
        names = [o.argument(i) for i, s in enumerate(self.epilogue) for o in s.operands]
        step = self.pairs
        if step is None or argument not in names:
            return False
        before = self.epilogue[: self.epilogue.index(step)]
        return argument in names[: sum(len(s.operands) for s in before)]

    @property
    def halves(self) -> int:
        """Columns of B that make one of D: 2 for a step that pairs them."""
        return 1 if self.pairs is None else 2

    @property
    def b_columns(self) -> Dim:
        """Columns of B."""
        return Dim(self.halves * self.n.size, self.n.dynamic)

    def _check_pairs(self) -> None:
        """Where two columns make one, D is row-major, there is no C, and matrices come behind."""
        step = self.pairs
        if step is None:
            return
        what = f"epilogue step '{step.kind}'"
        check_range(self.b_columns.size, f"{what}: B's columns", 1, MAX_DIMENSION)
        if self.layout_d == "t":
            raise InputError(
                f"{what} pairs the columns of a row, so D is row-major; leave layout_d out"
            )
        if self.dtype_c is not None:
            raise InputError(
                f"{what} halves what C would be added to; leave dtype_c out, and put a residual"
                " behind the step"
            )
        place = self.epilogue.index(step)
        if any(other.definition.pairs for other in self.epilogue[place + 1 :]):
            raise InputError(f"{what}: one step of the epilogue may pair halves; leave out another")
        for before in self.epilogue[:place]:
            if any(operand.full for operand in before.operands):
                raise InputError(
                    f"epilogue step '{before.kind}' stands before '{step.kind}', where there are"
                    f" two values an element of D; put it behind '{step.kind}'"
                )

    @property
    def zero_points(self) -> bool:
        """Whether A or B has zero points."""
        return bool(self.zero_point_a or self.zero_point_b)

    @property
    def zero_operands(self) -> tuple[StepOperand, ...]:
        """The zero points of A and B that are given at each launch, of the operands' types."""
        found = []
        for letter in "ab":
            word = getattr(self, f"zero_point_{letter}")
            if word in ZERO_POINT_WORDS[letter]:
                dtype = self.dtype_a if letter == "a" else self.dtype_b
                access = AXIS_WORDS[word]
                found.append(StepOperand(f"zero_point_{letter}", access, dtype))
        return tuple(found)

    def _check_zero_points(self) -> None:
        """Of whole numbers only, along what is not summed, and within the operand's type."""
        for letter, words in ZERO_POINT_WORDS.items():
            name = f"zero_point_{letter}"
            given = getattr(self, name).strip()
            if not given:
                continue
            dtype = self.dtype_a if letter == "a" else self.dtype_b
            if not dtype.integer:
                raise InputError(f"{name} = {given}: {dtype} has none; leave it out")
            if self.batch > 1:
                raise InputError(
                    f"{name} = {given}: zero points are taken from one product at a time; leave"
                    " batch out"
                )
            if self.pairs is not None:
                raise InputError(
                    f"{name} = {given}: no kernel folds zero points into the pairs of"
                    f" {self.pairs.kind}; leave one of them out"
                )
            word = {"scalar": words[0], "row": "per_token", "column": "per_channel"}.get(
                given, given
            )
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
            object.__setattr__(self, name, word)

    @property
    def saturates(self) -> bool:
        """Whether what is beyond an 8-bit D becomes its largest number."""
        return self.quantizes is None or self.quantizes.values.get("saturate", True)

    @property
    def computes_scales(self) -> bool:
        """Whether the last step computes the scales of D's rows, and writes them."""
        step = self.quantizes
        return step is not None and step.computed is not None

    def _check_quantization(self) -> None:
        """D is what a quantize step makes, so it comes last and its type is D's."""
        step = self.quantizes
        if step is None:
            return
        if self.dtype_d != step.result:
            raise InputError(
                f"dtype_d = {self.dtype_d}: {step.kind} makes D {step.result}; leave dtype_d out"
            )
        if step is not self.epilogue[-1]:
            after = self.epilogue[self.epilogue.index(step) + 1]
            raise InputError(
                f"epilogue step '{step.kind}' is followed by '{after.kind}', but it makes D; put it"
                " last"
            )
        if step.computed is not None and self.layout_d == "t":
            raise InputError(
                f"epilogue step '{step.kind}' computes scales of rows, which a block reads as they"
                " lie, so D is row-major; leave layout_d out"
            )
        if step.computed is not None and self.n.dynamic:
            raise InputError(
                f"n = {self.n}: epilogue step '{step.kind}' computes scales of rows, whose length"
                " is known when the kernel is written; give n a number"
            )

    def _check_matrices_of_steps(self) -> None:
        """Checks what steps read that is as large as D; a dense leading dimension becomes 0."""
        _, length = self.stored("d")

        def checked(operand: StepOperand) -> StepOperand:
            if not operand.full:
                return operand
            least = operand.dtype.bytes
            if operand.align & (operand.align - 1) or not least <= operand.align <= 4096:
                raise InputError(
                    f"{operand.name}: align = {operand.align}: give a power of two from {least} to"
                    " 4096 (bytes)"
                )
            if operand.leading and operand.leading < length.size:
                raise InputError(
                    f"{operand.name}: ld = {operand.leading}: too small; a stored row holds"
                    f" {length.size} elements, as D's does, so give {length.size} or more"
                )
            dense = not length.dynamic and operand.leading == length.size
            return replace(operand, leading=0) if dense else operand

        object.__setattr__(self, "epilogue", tuple(s.changed(checked) for s in self.epilogue))

    def leading_of(self, operand: StepOperand) -> int:
        """Elements from row to row of a step's matrix; 0 when known only at run time."""
        _, length = self.stored("d")
        return operand.leading or (0 if length.dynamic else length.size)

    def __str__(self) -> str:
        """The spec in one line, defaults left out; `from_text` reads it back."""
        return " ".join(f"{name}={value}" for name, value in self.shell_words())

    def shell_words(self) -> list[tuple[str, str]]:
        """`to_fields` with free text as a shell takes it."""
        return [
            (name, _quote(value) if name in _FREE_TEXT else value)
            for name, value in self.to_fields().items()
        ]

    def to_fields(self) -> dict[str, str]:
        """The text fields that differ from their defaults, in the order of `FIELDS`.

        `from_fields` reads them back. They are made once: a spec is written down several times on
        its way to a file.
        """
        if not self._texts:
            object.__setattr__(self, "_texts", tuple(self._written()))
        return dict(self._texts)

    def _written(self) -> list[tuple[str, str]]:
        texts = {
            "op": "" if self.multiplies else self.op,
            "m": str(self.m),
            "n": str(self.n),
            "k": str(self.k) if self.multiplies else "",
            "batch": "" if self.batch == 1 else str(self.batch),
            "dtype": str(self.dtype_a),
            "dtype_b": "" if self.dtype_b == self.dtype_a else str(self.dtype_b),
            "dtype_c": "" if self.dtype_c is None else str(self.dtype_c),
            "dtype_d": self._output_text(),
            "accumulate": "" if self.accumulate == ACCUMULATE[0] else self.accumulate,
            "zero_point_a": self.zero_point_a,
            "zero_point_b": self.zero_point_b,
            "layout": "" if self.layout == "nn" else self.layout,
            "layout_d": "" if self.layout_d == "n" else self.layout_d,
            **{f"ld{operand}": self._leading_text(operand) for operand in "abcd"},
            **{f"stride_{o}": batching.written(getattr(self, f"stride_{o}")) for o in "abcd"},
            **{f"align_{operand}": self._alignment_text(operand) for operand in "abcd"},
            "epilogue": ",".join(map(str, self.epilogue)),
            "arch": self.arch,
            "gpu": self.gpu,
            "sms": str(self.sms or ""),
            "launch": "" if self.launch == "plain" else self.launch,
            "label": self.label,
            **{name: str(value) for name, value in self.overrides.items()},
        }
        return [(name, text) for name, text in texts.items() if text]

    def _output_text(self) -> str:
        """D's type where neither a step nor A's type tells it."""
        told = self.quantizes is not None or self.dtype_d.name == self.dtype_a.result
        return "" if told else str(self.dtype_d)

    def _leading_text(self, operand: str) -> str:
        """The leading dimension where it is not the dense one, else empty."""
        leading: int = getattr(self, f"ld{operand}")
        _, length = self.stored(operand)
        dense = 0 if length.dynamic else max(length.size, 1)
        return "" if leading in (0, dense) else str(leading)

    def _alignment_text(self, operand: str) -> str:
        """The base alignment where it is not the default, else empty."""
        align: int = getattr(self, f"align_{operand}")
        return "" if align == DEFAULT_ALIGNMENT else str(align)

    @classmethod
    def from_fields(cls, values: dict[str, Any]) -> GemmSpec:
        """A spec from text fields (the keys of `FIELDS` and of `OVERRIDES`).

        Raises:
            InputError: an unknown or missing key, or a value its field refuses.
        """
        for key in values:
            if key not in FIELDS and key not in OVERRIDES:
                raise InputError(f"unknown field '{key}'{nearest(key, [*FIELDS, *OVERRIDES])}")
        values = _filled_in(values)
        for key in ("m", "n", "k"):
            if key not in values:
                raise InputError(f"{key} is missing; give --{key}=SIZE or --{key}=dynamic")
        dtype = parse_dtype(str(values.get("dtype", "fp16")))

        def type_of(key: str) -> DType:
            return parse_dtype(str(values[key])) if key in values else dtype

        def number(key: str, default: int) -> int:
            if key not in values:
                return default
            value = whole_number(values[key], key)
            smallest = 0 if key == "sms" else 1
            check_range(value, key, smallest, MAX_DIMENSION)
            return value

        dtype_a, dtype_c = type_of("dtype_a"), values.get("dtype_c")
        result = dtype.result if "dtype" in values else dtype_a.result
        dtype_d = parse_dtype(str(values.get("dtype_d", result)))
        steps = parse_epilogue(
            str(values.get("epilogue", "")), parse_dtype(result) if dtype_d.bits == 8 else dtype_d
        )
        if "dtype_d" not in values:
            dtype_d = next((step.result for step in steps if step.result), dtype_d)
        return cls(
            m=Dim.parse(values["m"], "m"),
            n=Dim.parse(values["n"], "n"),
            k=Dim.parse(values["k"], "k"),
            dtype_a=dtype_a,
            dtype_b=type_of("dtype_b"),
            dtype_c=None if dtype_c in (None, "none") else parse_dtype(str(dtype_c)),
            dtype_d=dtype_d,
            op=values.get("op", OPS[0]),
            dtype_acc=parse_dtype(str(values.get("dtype_acc", dtype_a.accumulator or "fp32"))),
            accumulate=str(values.get("accumulate", "")),
            zero_point_a=str(values.get("zero_point_a", "")),
            zero_point_b=str(values.get("zero_point_b", "")),
            batch=number("batch", 1),
            layout=str(values.get("layout", "nn")),
            layout_d=values.get("layout_d", "n"),
            **{f"ld{o}": number(f"ld{o}", 0) for o in "abcd"},
            stride_a=batching.parse(values.get("stride_a", DENSE), "stride_a"),
            stride_b=batching.parse(values.get("stride_b", DENSE), "stride_b"),
            stride_c=batching.parse(values.get("stride_c", DENSE), "stride_c"),
            stride_d=batching.parse(values.get("stride_d", DENSE), "stride_d"),
            **{f"align_{o}": number(f"align_{o}", DEFAULT_ALIGNMENT) for o in "abcd"},
            epilogue=steps,
            arch=canonical_arch(str(values.get("arch", "sm_80"))),
            gpu=str(values.get("gpu", "")),
            sms=number("sms", 0),
            launch=values.get("launch", "plain"),
            label=str(values.get("label", "")),
            overrides=Overrides.of({key: values[key] for key in OVERRIDES if key in values}),
        )

    @classmethod
    def from_text(cls, text: str) -> GemmSpec:
        """Reads the line that ``str()`` writes."""
        import shlex  # noqa: PLC0415  only tests and tools read specs from text

        pairs = [word.partition("=") for word in shlex.split(text)]
        return cls.from_fields({key: value for key, _, value in pairs})


def _filled_in(values: dict[str, Any]) -> dict[str, Any]:
    """The fields of a spec; of one without a product, with those that a product would need.

    Raises:
        InputError: an unknown op, a field that only a product has, or a type that epilogues do not
            read.
    """
    op = str(values.get("op", OPS[0]))
    if op not in OPS:
        raise InputError(f"op = {op}: unknown; give {' or '.join(OPS)}{nearest(op, list(OPS))}")
    if op == "product":
        return values
    for key in _OF_PRODUCTS:
        if key in values and (key, values[key]) != ("dtype_c", "none"):
            raise InputError(
                f"{key} = {values[key]}: op = epilogue has no product, and only A, m x n;"
                f" leave {key} out"
            )
    dtype = parse_dtype(str(values.get("dtype_a", values.get("dtype", "fp16"))))
    if dtype.name not in FLOATS:
        raise InputError(
            f"dtype = {dtype}: op = epilogue reads no {dtype}; give one of {', '.join(FLOATS)}"
        )
    return {**values, "k": "0", "dtype_b": dtype.name}


_FREE_TEXT = ("gpu", "label")
"""Fields whose value may be any words."""


def _quote(text: str) -> str:
    """`text` as one shell word, so that a label with spaces round-trips."""
    import shlex  # noqa: PLC0415

    return shlex.quote(text)


FIELDS: dict[str, str] = {
    "op": "product, or epilogue: no product, D = epilogue(A) with A m x n",
    "m": "rows of A and D; SIZE, dynamic, or dynamic:MAX",
    "n": "columns of D and of B; for a gated step B has twice as many",
    "k": "columns of A, rows of B; may be 0",
    "batch": "number of products",
    "dtype": "type of A and B, and of D: fp16, bf16, int8, uint8 (D int32), e4m3, e5m2 (D bf16)",
    "dtype_a": "type of A",
    "dtype_b": "type of B",
    "dtype_c": "type of C; 'none' (the default) leaves C and beta out of the kernel",
    "dtype_d": "type of D: fp16, bf16, fp32; int32 where A and B are int8 or uint8",
    "dtype_acc": "type that sums are kept in: fp32, int32 for int8 and uint8",
    "accumulate": "e4m3 and e5m2: promoted to fp32 every 128 of k, or fast, 13 bits of a fraction",
    "zero_point_a": "taken from A's int8 or uint8: per_tensor, per_token, or a number; exact",
    "zero_point_b": "the same of B: per_tensor, per_channel, or a number",
    "layout": "A's letter then B's: n row-major as written, t stored transposed",
    "layout_d": "letter of D and C",
    "lda": "leading dimension of A in elements",
    "ldb": "leading dimension of B in elements",
    "ldc": "leading dimension of C in elements",
    "ldd": "leading dimension of D in elements",
    "stride_a": "elements from one product's A to the next; shared (0): one A; pointers: an array",
    "stride_b": "the same of B",
    "stride_c": "the same of C",
    "stride_d": "the same of D, which no two products may share",
    "align_a": "alignment in bytes that A's base pointer is promised to have",
    "align_b": "alignment of B's base pointer",
    "align_c": "alignment of C's base pointer",
    "align_d": "alignment of D's base pointer",
    "epilogue": "steps after the product, in order, such as bias,gelu or bias:row:fp32",
    "arch": "target architecture, such as sm_80",
    "gpu": "a GPU of that architecture whose facts the tree uses",
    "sms": "multiprocessor count that the tree uses",
    "launch": "plain, or dependent: the kernel may begin before the one before it ends (sm_90)",
    "label": "free text that names the file and the kernel",
}
"""Help text of every spec field, in the order flags, YAML docs and ``str()`` use."""
