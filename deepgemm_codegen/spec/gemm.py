"""`GemmSpec`: what the user wants, validated and normalised.

A spec says nothing about tiles; it is the whole input of the decision tree beside the
architecture's facts. `rules` says what its fields must be to each other, `text` how it
is read and written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from deepgemm_codegen.arch import canonical_arch
from deepgemm_codegen.dtypes import FP32, DType
from deepgemm_codegen.epilogue import AXIS_WORDS, EpilogueStep, StepOperand
from deepgemm_codegen.errors import InputError, nearest
from deepgemm_codegen.numbers import DEFAULT_ALIGNMENT
from deepgemm_codegen.spec.attributes import check_attributes
from deepgemm_codegen.spec.batching import DENSE, POINTERS, SHARED, Stride
from deepgemm_codegen.spec.dimension import Dim
from deepgemm_codegen.spec.overrides import Overrides, override_value
from deepgemm_codegen.spec.precision import check_operands, check_output, sums_of
from deepgemm_codegen.spec.rules import (
    check_alignments,
    check_block_scales,
    check_norms,
    check_pairs,
    check_quantization,
    check_vectors,
    leading_dimensions,
    steps_with_matrices,
    strides,
    zero_points,
)
from deepgemm_codegen.spec.text import (
    FREE_TEXT,
    LAUNCHES,
    ZERO_POINT_WORDS,
    fields_of_line,
    quote,
    read_fields,
    written,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["GemmSpec"]

MAX_STEPS = 64
"""Most epilogue steps: each may take a pointer of the kernel's 4 KB of arguments."""


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
        dtype_a, dtype_b: operand types; `precision` says which go together. Without a product A
            may have any type, and B has A's.
        dtype_c: type of C, or None when the kernel has no C (and no beta).
        dtype_d: type of D.
        dtype_acc: accumulator type: int32 for products of int8 and uint8, else fp32.
        accumulate: of e4m3 and e5m2 ``promoted`` or ``fast``, see `precision`; else empty.
        zero_point_a, zero_point_b: of int8 and uint8: what is taken from each element before it is
            multiplied: a whole number, ``per_tensor``, and of A ``per_token``, of B
            ``per_channel``; empty for nothing.
        scale_a, scale_b: of e4m3 and e5m2: ``1x128`` and ``128x128`` where each block of A and B
            has a scale, see `block_scales`; empty for none.
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
    scale_a: str = ""
    scale_b: str = ""
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
        check_attributes(self)
        self._settle({"arch": canonical_arch(self.arch)})
        if self.layout not in ("nn", "nt", "tn", "tt"):
            lower = self.layout.lower()
            close = f" (did you mean '{lower}'?)" if lower in ("nn", "nt", "tn", "tt") else ""
            raise InputError(
                f"layout = {self.layout}: unknown; A's letter then B's: nn, nt, tn or tt{close}"
            )
        if self.layout_d not in ("n", "t"):
            raise InputError(f"layout_d = {self.layout_d}: unknown; n (row-major) or t")
        if not self.label.isprintable():  # it stands in a comment of the generated file
            raise InputError(
                f"label = {self.label!a}: holds a control character or a byte that is not UTF-8;"
                " give plain text"
            )
        if len(self.epilogue) > MAX_STEPS:
            raise InputError(
                f"epilogue = {len(self.epilogue)} steps: too many; the most is {MAX_STEPS}"
            )
        if self.multiplies:
            check_operands(self.dtype_a, self.dtype_b, self.dtype_acc)
            self._settle({"accumulate": sums_of(self.dtype_a, self.accumulate)})
        unquantized = self.dtype_d if self.quantizes is None else FP32
        kinds, values = [s.kind for s in self.epilogue], "sums" if self.multiplies else "values"
        check_output(self.dtype_acc, self.dtype_c, unquantized, kinds, values)
        check_quantization(self)
        check_vectors(self)
        check_pairs(self)
        check_norms(self)
        self._settle(zero_points(self))
        check_block_scales(self)
        self._settle(leading_dimensions(self))
        self._settle(strides(self))
        check_alignments(self)
        if self.launch not in LAUNCHES:
            raise InputError(
                f"launch = {self.launch}: unknown; give plain or dependent"
                f"{nearest(self.launch, list(LAUNCHES))}"
            )
        self._settle({"epilogue": steps_with_matrices(self)})
        given = dict(self.overrides.items())
        kept = {name: override_value(name, value) for name, value in given.items()}
        if kept != given:
            self._settle({"overrides": Overrides.of(kept)})

    def _settle(self, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def stored(self, operand: str) -> tuple[Dim, Dim]:
        """(rows, contiguous length) of an operand as it lies in memory; ``operand`` is a..d."""
        if operand == "a":
            rows, columns, letter = self.m, self.k if self.multiplies else self.n, self.layout[0]
        elif operand == "b":
            rows, columns, letter = self.k, self.b_columns, self.layout[1]
        else:
            rows, columns, letter = self.m, self.n, self.layout_d
        return (columns, rows) if letter == "t" else (rows, columns)

    def k_major(self, operand: str) -> bool:
        """Whether k is contiguous: in A (m x k) as written, in B (k x n) stored transposed."""
        return self.layout[0] == "n" if operand == "a" else self.layout[1] == "t"

    @property
    def multiplies(self) -> bool:
        """Whether D is made of a product."""
        return self.op == "product"

    @property
    def norm(self) -> int | None:
        """The number of the step that needs whole rows of D; None where none does."""
        numbers = (i for i, step in enumerate(self.epilogue) if step.definition.normalizes)
        return next(numbers, None)

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

    @property
    def quantizes(self) -> EpilogueStep | None:
        """The step that makes D of a type of 8 bits, which is the last."""
        return next((step for step in self.epilogue if step.result is not None), None)

    @property
    def pairs(self) -> EpilogueStep | None:
        """The step that makes one column of D of two of B's, which then has twice as many."""
        return next((step for step in self.epilogue if step.definition.pairs), None)

    def pairs_behind(self, argument: str) -> bool:
        """Whether an operand comes before a step that pairs columns, and has both halves."""
        if self.pairs is None:
            return False
        before = self.epilogue[: self.epilogue.index(self.pairs)]
        names = {o.argument(i) for i, step in enumerate(before) for o in step.operands}
        return argument in names | {operand.name for operand in self.zero_operands}

    @property
    def halves(self) -> int:
        """Columns of B that make one of D: 2 for a step that pairs them."""
        return 1 if self.pairs is None else 2

    @property
    def b_columns(self) -> Dim:
        """Columns of B."""
        return self.n if self.halves == 1 else Dim(self.halves * self.n.size, self.n.dynamic)

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

    @property
    def block_scaled(self) -> bool:
        """Whether A and B have scales by block."""
        return bool(self.scale_a)

    @property
    def saturates(self) -> bool:
        """Whether what is beyond an 8-bit D becomes its largest number."""
        return self.quantizes is None or self.quantizes.values.get("saturate", True)

    @property
    def computes_scales(self) -> bool:
        """Whether the last step computes the scales of D's rows, and writes them."""
        step = self.quantizes
        return step is not None and step.computed is not None

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
            (name, quote(value) if name in FREE_TEXT else value)
            for name, value in self.to_fields().items()
        ]

    def to_fields(self) -> dict[str, str]:
        """The text fields that differ from their defaults, in the order of `FIELDS`.

        `from_fields` reads them back. They are made once: a spec is written down several times on
        its way to a file.
        """
        if not self._texts:
            object.__setattr__(self, "_texts", tuple(written(self)))
        return dict(self._texts)

    @classmethod
    def from_fields(cls, values: dict[str, Any]) -> GemmSpec:
        """A spec from text fields (the keys of `FIELDS` and of `OVERRIDES`).

        Raises:
            InputError: an unknown or missing key, or a value its field refuses.
        """
        return cls(**read_fields(values))

    @classmethod
    def from_text(cls, text: str) -> GemmSpec:
        """Reads the line that ``str()`` writes.

        Raises:
            InputError: see `fields_of_line` and `from_fields`.
        """
        return cls.from_fields(fields_of_line(text))
