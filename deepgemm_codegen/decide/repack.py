"""Question: are the operands read as they lie, or copied first?

TMA and 16-byte copies want rows that start on 16 bytes. Where an operand's do not, a kernel before
the product may copy it into the workspace, its rows on whole lines. A family that can read copies
is asked twice: about the problem as it is, and about one whose operands lie as the copies do. The
cheaper answer is taken, the copies' own cost included.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, NamedTuple, Protocol

from deepgemm_codegen.decide.assemble import with_copies
from deepgemm_codegen.decide.family import Answer, Setting, setting_of
from deepgemm_codegen.decide.operands import widest_vector
from deepgemm_codegen.decide.schedule import MAX_GRID
from deepgemm_codegen.decide.split_k import WORTH
from deepgemm_codegen.numbers import MAX_DIMENSION
from deepgemm_codegen.plan import Decision
from deepgemm_codegen.repack import PASSES, THREADS, VECTOR_BYTES
from deepgemm_codegen.workspace import ALIGNMENT

if TYPE_CHECKING:
    from deepgemm_codegen.arch import Arch
    from deepgemm_codegen.decide.family import Choice
    from deepgemm_codegen.decide.machine import Machine
    from deepgemm_codegen.decide.misses import Rejection
    from deepgemm_codegen.decide.prediction import Prediction
    from deepgemm_codegen.plan import Program
    from deepgemm_codegen.spec import GemmSpec

__all__ = [
    "ProductSearch",
    "RepackChoice",
    "best_with_copies",
    "copied_operands",
]

LINE_BYTES = 128
"""Rows of a copy start on whole lines of memory, as TMA reads them best."""

MOST_BYTES = 1 << 30
"""Bytes of copies that the tree plans on its own: the caller has to find room for them."""

REPACK_US = 1.6
"""The copying kernel's launch, its first read and its last write, beside its bytes. An estimate:
as `split_k.REDUCE_US`."""

L2_WRITE_RATE = 30
"""Bytes a clock and multiprocessor at which copies that stay in the L2 are written. An estimate."""


class ProductSearch(Protocol):
    """A family's search for its cheapest product, beside ``copying`` clocks of other kernels."""

    def __call__(self, setting: Setting, below: float = inf, copying: float = 0.0) -> Answer | None:
        """As `family.Search`; the answer's clocks include those of the copies."""


def copied_operands(spec: GemmSpec) -> tuple[str, ...]:
    """The caller's operands that a copy would help: their rows start off 16 bytes.

    None where the user wants no copy, where one cannot be, or would take more than `MOST_BYTES`
    that nobody has asked for.
    """
    if spec.overrides.repack == "off" or spec.k.size == 0:
        return ()
    found = tuple(letter for letter in "ab" if _off(spec, letter))
    if not found:
        return ()
    if sum(_tiles(spec, letter, _row_threads(spec, found)) for letter in found) > MAX_GRID:
        return ()
    if max(_pitch(spec, letter) for letter in found) > MAX_DIMENSION:
        return ()
    wanted = spec.overrides.repack == "on"
    return found if wanted or _copied_bytes(spec, found) <= MOST_BYTES else ()


def _off(spec: GemmSpec, letter: str) -> bool:
    """Whether some of an operand's rows start off 16 bytes."""
    rows, _ = spec.stored(letter)
    leading: int = getattr(spec, f"ld{letter}")
    dtype, align = getattr(spec, f"dtype_{letter}"), getattr(spec, f"align_{letter}")
    stride = rows.size * leading if spec.batch > 1 else 0
    return widest_vector(dtype, align, rows, leading, stride)[0] < VECTOR_BYTES


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


def _pitch(spec: GemmSpec, letter: str) -> int:
    """Elements from row to row of a copy: whole lines that hold the longest row."""
    line: int = LINE_BYTES // getattr(spec, f"dtype_{letter}").bytes
    return -(-spec.stored(letter)[1].size // line) * line


def _row_threads(spec: GemmSpec, letters: tuple[str, ...]) -> int:
    """Threads along a row: a power of two, of which the shortest row leaves few idle."""
    shortest = min(_row_vectors(spec, letter) for letter in letters)
    return min(1 << (shortest - 1).bit_length(), 32)


def _row_vectors(spec: GemmSpec, letter: str) -> int:
    vector: int = VECTOR_BYTES // getattr(spec, f"dtype_{letter}").bytes
    return -(-spec.stored(letter)[1].size // vector)


def _tiles(spec: GemmSpec, letter: str, row_threads: int) -> int:
    rows = spec.batch * spec.stored(letter)[0].size
    tile_rows = THREADS // row_threads * PASSES
    return -(-rows // tile_rows) * -(-_row_vectors(spec, letter) // row_threads)


def _copied_bytes(spec: GemmSpec, letters: tuple[str, ...]) -> int:
    """Bytes that are copied, without what lies between rows."""
    found = 0
    for letter in letters:
        rows, columns = spec.stored(letter)
        size: int = getattr(spec, f"dtype_{letter}").bytes
        found += spec.batch * rows.size * columns.size * size
    return found


def as_copied(spec: GemmSpec, letters: tuple[str, ...]) -> GemmSpec:
    """The spec of a product that reads copies of some operands."""
    pitches = {f"ld{letter}": _pitch(spec, letter) for letter in letters}
    aligns = {f"align_{letter}": ALIGNMENT for letter in letters}
    return replace(spec, **pitches, **aligns)  # type: ignore[arg-type]


def repack_clocks(spec: GemmSpec, machine: Machine, letters: tuple[str, ...]) -> float:
    """Clocks of the kernel that copies."""
    read = _copied_bytes(spec, letters)
    written = read / (machine.sms * L2_WRITE_RATE)
    if read > machine.l2_bytes:
        written = read / machine.dram_rate
    return REPACK_US * machine.clock_mhz + read / machine.dram_rate + written


@dataclass(frozen=True, slots=True)
class RepackChoice:
    """A choice of a family whose product reads copies.

    Attributes:
        product: the family's own.
        letters: the caller's operands that are copied.
    """

    product: Choice
    letters: tuple[str, ...]

    @property
    def words(self) -> str:
        """The choice in a few words."""
        return f"{_names(self.letters)} repacked, {self.product.words}"

    def program(self, spec: GemmSpec, arch: Arch, decisions: tuple[Decision, ...] = ()) -> Program:
        """The program of the choice, which the family's constraints have passed."""
        program = self.product.program(as_copied(spec, self.letters), arch, decisions)
        return with_copies(program, spec, arch, self.letters, _row_threads(spec, self.letters))


def _names(letters: tuple[str, ...]) -> str:
    return " and ".join(letter.upper() for letter in letters)


def best_with_copies(
    search: ProductSearch, setting: Setting, below: float, *, as_they_lie: bool
) -> Answer | None:
    """A family's best, whether it reads the operands as they lie or copies of them.

    Args:
        search: of the family.
        setting: what it is asked about.
        below: clocks that a rival takes.
        as_they_lie: whether the family can read the operands as they are.
    """
    spec, arch, _, machine = setting
    letters = copied_operands(spec)
    best = None
    if as_they_lie and not (letters and spec.overrides.repack == "on"):
        best = search(setting, below)
        below = below if best is None else best.clocks
    if not letters:
        return best
    copying = repack_clocks(spec, machine, letters)
    if copying >= below:
        return best
    copied = setting_of(as_copied(spec, letters), arch)
    inner = search(copied, WORTH * below, copying)
    if inner is None:
        return best
    return _Answer(setting, inner, letters, copying, search if as_they_lie else None)


class _Answer(NamedTuple):
    """See `deepgemm_codegen.decide.family.Answer`.

    Attributes:
        setting: of the problem as it is.
        inner: the family's answer to the problem with copies, whose clocks hold the copies'.
        letters: the caller's operands that are copied.
        copying: clocks of the copies.
        as_they_lie: the family's search, where it can read the operands as they lie.
    """

    setting: Setting
    inner: Answer
    letters: tuple[str, ...]
    copying: float
    as_they_lie: ProductSearch | None

    @property
    def choice(self) -> RepackChoice:
        return RepackChoice(self.inner.choice, self.letters)

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
        causes = " and ".join(_cause(spec, letter) for letter in self.letters)
        took = f"{self.copying / mhz:.1f} us of copies as predicted"
        reason = f"{causes}: rows start off 16 bytes; {took}"
        question = Decision("D13", "operands", f"{_names(self.letters)} repacked", reason)
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
