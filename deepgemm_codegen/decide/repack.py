"""Question: are the operands read as they lie, or copied first?

TMA and 16-byte copies want rows that start on 16 bytes, and wgmma reads 1-byte operands along k
only. Where an operand lies otherwise, a kernel before the product may copy it into the workspace,
its rows on whole lines, turned where need be. A family that can read copies is asked twice: about
the problem as it is, and about one whose operands lie as the copies do. The cheaper answer is
taken, the copies' own cost included.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, NamedTuple, Protocol

from deepgemm_codegen.decide.assemble import with_copies
from deepgemm_codegen.decide.family import Answer, Setting, setting_of
from deepgemm_codegen.decide.operands import strided, widest_vector
from deepgemm_codegen.decide.schedule import MAX_GRID
from deepgemm_codegen.decide.split_k import WORTH
from deepgemm_codegen.decide.tma import tma_obstacle
from deepgemm_codegen.numbers import MAX_DIMENSION
from deepgemm_codegen.plan import Decision
from deepgemm_codegen.plan.repack import PASSES, THREADS, TURN, VECTOR_BYTES
from deepgemm_codegen.plan.workspace import ALIGNMENT
from deepgemm_codegen.spec.batching import DENSE, SHARED

if TYPE_CHECKING:
    from deepgemm_codegen.arch import Arch
    from deepgemm_codegen.decide.family import Choice
    from deepgemm_codegen.decide.machine import Machine
    from deepgemm_codegen.decide.misses import Rejection
    from deepgemm_codegen.decide.prediction import Prediction
    from deepgemm_codegen.plan import Program
    from deepgemm_codegen.spec import GemmSpec

__all__ = [
    "Copies",
    "ProductSearch",
    "RepackChoice",
    "best_with_copies",
    "contiguous_of",
    "copies_for",
]

LINE_BYTES = 128
"""Rows of a copy start on whole lines of memory, as TMA reads them best."""

MOST_BYTES = 1 << 30
"""Bytes of copies that the tree plans on its own: the caller has to find room for them."""

REPACK_US = 1.6
"""The copying kernel's launch, its first read and its last write, beside its bytes. An estimate."""

L2_WRITE_RATE = 30
"""Bytes a clock and multiprocessor at which copies that stay in the L2 are written. An estimate."""


class ProductSearch(Protocol):
    """A family's search for its cheapest product, beside ``copying`` clocks of other kernels."""

    def __call__(self, setting: Setting, below: float = inf, copying: float = 0.0) -> Answer | None:
        """As `family.Search`; the answer's clocks include those of the copies."""


@dataclass(frozen=True, slots=True)
class Copies:
    """Which of the caller's operands are copied before the product.

    Attributes:
        letters: all of them.
        turned: those whose copy is stored transposed.
    """

    letters: tuple[str, ...] = ()
    turned: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.letters)

    @property
    def words(self) -> str:
        """``A transposed, B repacked``."""
        groups = (
            (self.turned, "transposed"),
            (tuple(letter for letter in self.letters if letter not in self.turned), "repacked"),
        )
        return ", ".join(
            f"{' and '.join(map(str.upper, group))} {what}" for group, what in groups if group
        )


def copies_for(spec: GemmSpec, *, along_k: bool = False) -> Copies:
    """The copies that would help a product, of operands whose rows start off 16 bytes.

    None where the user wants no copy, where one cannot be, or would take more than `MOST_BYTES`
    that nobody has asked for.

    Args:
        spec: the product.
        along_k: whether TMA is to read them, for wgmma: 1-byte operands along k only, matrices of
            a batch at one distance, and even a single row by a stride of whole 16 bytes.
    """
    if spec.overrides.repack == "off" or spec.k.size == 0:
        return Copies()
    turned = tuple(letter for letter in "ab" if along_k and _lies_across(spec, letter))
    unread = tuple(letter for letter in "ab" if along_k and tma_obstacle(spec, letter))
    wanting = {*turned, *unread}
    found = Copies(tuple(each for each in "ab" if each in wanting or _off(spec, each)), turned)
    if not found or sum(_tiles(spec, letter, found) for letter in found.letters) > MAX_GRID:
        return Copies()
    if max(_pitch(spec, letter, found) for letter in found.letters) > MAX_DIMENSION:
        return Copies()
    wanted = turned or spec.overrides.repack == "on"
    return found if wanted or _copied_bytes(spec, found) <= MOST_BYTES else Copies()


def contiguous_of(spec: GemmSpec, letter: str) -> str:
    """The dimension along which an operand is contiguous: ``m``, ``n`` or ``k``."""
    across, along = {"a": ("m", "k"), "b": ("k", "n")}[letter]
    return along if spec.layout["ab".index(letter)] == "n" else across


def _lies_across(spec: GemmSpec, letter: str) -> bool:
    """Whether an operand has 1-byte elements that are contiguous along m or n."""
    return getattr(spec, f"dtype_{letter}").bytes == 1 and contiguous_of(spec, letter) != "k"


def _off(spec: GemmSpec, letter: str) -> bool:
    """Whether some of an operand's rows start off 16 bytes."""
    leading: int = getattr(spec, f"ld{letter}")
    dtype, align = getattr(spec, f"dtype_{letter}"), getattr(spec, f"align_{letter}")
    minded, apart = strided(spec, letter), spec.distance(letter)
    return widest_vector(dtype, align, leading, apart, strided=minded)[0] < VECTOR_BYTES


def _cause(spec: GemmSpec, letter: str) -> str:
    """Why they do."""
    leading: int = getattr(spec, f"ld{letter}")
    align: int = getattr(spec, f"align_{letter}")
    if align < VECTOR_BYTES:
        return f"align_{letter} = {align}"
    if leading == 0:
        return f"ld{letter} as it comes"
    if leading * getattr(spec, f"dtype_{letter}").bytes % VECTOR_BYTES:
        return f"ld{letter} = {leading}"
    return f"{letter.upper()}'s batch"


def _stored_copy(spec: GemmSpec, letter: str, copies: Copies) -> tuple[int, int]:
    """(rows, columns) of a copy."""
    rows, columns = (extent.size for extent in spec.stored(letter))
    return (columns, rows) if letter in copies.turned else (rows, columns)


def _pitch(spec: GemmSpec, letter: str, copies: Copies) -> int:
    """Elements from row to row of a copy: whole lines that hold the longest row."""
    line: int = LINE_BYTES // getattr(spec, f"dtype_{letter}").bytes
    return -(-_stored_copy(spec, letter, copies)[1] // line) * line


def _row_threads(spec: GemmSpec, copies: Copies) -> int:
    """Threads along a row that is not turned: a power of two; the shortest row leaves few idle."""
    straight = [letter for letter in copies.letters if letter not in copies.turned]
    shortest = min((_row_vectors(spec, letter) for letter in straight), default=32)
    return min(1 << (shortest - 1).bit_length(), 32)


def _row_vectors(spec: GemmSpec, letter: str) -> int:
    vector: int = VECTOR_BYTES // getattr(spec, f"dtype_{letter}").bytes
    return -(-spec.stored(letter)[1].size // vector)


def _tiles(spec: GemmSpec, letter: str, copies: Copies) -> int:
    rows, columns = spec.stored(letter)
    if letter in copies.turned:
        return spec.matrices(letter) * -(-rows.size // TURN) * -(-columns.size // TURN)
    row_threads = _row_threads(spec, copies)
    tile_rows = THREADS // row_threads * PASSES
    across = -(-_row_vectors(spec, letter) // row_threads)
    if getattr(spec, f"stride_{letter}") not in (DENSE, SHARED):
        return spec.batch * -(-rows.size // tile_rows) * across
    return -(-spec.matrices(letter) * rows.size // tile_rows) * across


def _copied_bytes(spec: GemmSpec, copies: Copies) -> int:
    """Bytes that are copied, without what lies between rows."""
    found = 0
    for letter in copies.letters:
        rows, columns = spec.stored(letter)
        size: int = getattr(spec, f"dtype_{letter}").bytes
        found += spec.matrices(letter) * rows.size * columns.size * size
    return found


def as_copied(spec: GemmSpec, copies: Copies) -> GemmSpec:
    """The spec of a product that reads copies of some operands."""
    pitches = {f"ld{letter}": _pitch(spec, letter, copies) for letter in copies.letters}
    aligns = {f"align_{letter}": ALIGNMENT for letter in copies.letters}
    layout = "".join(
        {"n": "t", "t": "n"}[stored] if letter in copies.turned else stored
        for letter, stored in zip("ab", spec.layout, strict=True)
    )
    dense = {f"stride_{each}": DENSE for each in copies.letters if not spec.shared(each)}
    return replace(spec, layout=layout, **pitches, **aligns, **dense)  # type: ignore[arg-type]


def repack_clocks(spec: GemmSpec, machine: Machine, copies: Copies) -> float:
    """Clocks of the kernel that copies."""
    read = _copied_bytes(spec, copies)
    written = read / (machine.sms * L2_WRITE_RATE)
    if read > machine.l2_bytes:
        written = read / machine.dram_rate
    return REPACK_US * machine.clock_mhz + read / machine.dram_rate + written


@dataclass(frozen=True, slots=True)
class RepackChoice:
    """A choice of a family whose product reads copies.

    Attributes:
        product: the family's own.
        copies: of the caller's operands.
    """

    product: Choice
    copies: Copies

    @property
    def words(self) -> str:
        """The choice in a few words."""
        return f"{self.copies.words}, {self.product.words}"

    def program(self, spec: GemmSpec, arch: Arch, decisions: tuple[Decision, ...] = ()) -> Program:
        """The program of the choice, which the family's constraints have passed."""
        copies, row_threads = self.copies, _row_threads(spec, self.copies)
        program = self.product.program(as_copied(spec, copies), arch, decisions)
        return with_copies(program, spec, arch, copies.letters, copies.turned, row_threads)


def best_with_copies(
    search: ProductSearch, setting: Setting, below: float, copies: Copies, *, as_they_lie: bool
) -> Answer | None:
    """A family's best, whether it reads the operands as they lie or copies of them.

    Args:
        search: of the family.
        setting: what it is asked about.
        below: clocks that a rival takes.
        copies: that would help it.
        as_they_lie: whether the family can read the operands as they are.
    """
    spec, arch, _, machine = setting
    best = None
    if as_they_lie and not (copies and spec.overrides.repack == "on"):
        best = search(setting, below)
        below = below if best is None else best.clocks
    if not copies:
        return best
    copying = repack_clocks(spec, machine, copies)
    if copying >= below:
        return best
    copied = setting_of(as_copied(spec, copies), arch)
    inner = search(copied, WORTH * below, copying)
    if inner is None:
        return best
    return _Answer(setting, inner, copies, copying, search if as_they_lie else None)


class _Answer(NamedTuple):
    """See `deepgemm_codegen.decide.family.Answer`.

    Attributes:
        setting: of the problem as it is.
        inner: the family's answer to the problem with copies, whose clocks hold the copies'.
        copies: of the caller's operands.
        copying: clocks of the copies.
        as_they_lie: the family's search, where it can read the operands as they lie.
    """

    setting: Setting
    inner: Answer
    copies: Copies
    copying: float
    as_they_lie: ProductSearch | None

    @property
    def choice(self) -> RepackChoice:
        return RepackChoice(self.inner.choice, self.copies)

    @property
    def clocks(self) -> float:
        return self.inner.clocks

    @property
    def costed(self) -> int:
        return self.inner.costed

    def prediction(self) -> Prediction:
        return self.inner.prediction()

    def decisions(self, family_reason: str) -> tuple[Decision, ...]:
        spec, mhz = self.setting.spec, self.setting.machine.clock_mhz
        off = [_cause(spec, letter) for letter in self.copies.letters if _off(spec, letter)]
        across = [
            f"{letter.upper()} has {contiguous_of(spec, letter)} contiguous"
            for letter in self.copies.turned
        ]
        causes = [f"{' and '.join(off)}: rows start off 16 bytes"] if off else []
        if across:
            causes.append(f"{' and '.join(across)}: 1-byte operands are read along k")
        scattered = [each.upper() for each in self.copies.letters if spec.scattered(each)]
        if scattered:
            causes.append(f"{' and '.join(scattered)} through pointers, which no tensor map holds")
        took = f"{self.copying / mhz:.1f} us of copies as predicted"
        question = Decision("D13", "operands", self.copies.words, "; ".join((*causes, took)))
        return (*self.inner.decisions(family_reason), question)

    def rival(self, question: str) -> str:
        if question != "operands":
            return self.inner.rival(question)
        other = None if self.as_they_lie is None else self.as_they_lie(self.setting)
        if other is None:
            return "none: no kernel of the family reads them as they lie"
        return f"as they lie, {other.choice.words}: {other.clocks / self.clocks:.3f} x the time"

    def rejections(self) -> tuple[Rejection, ...]:
        return self.inner.rejections()
