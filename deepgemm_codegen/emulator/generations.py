"""How the tensor cores of each architecture sum, operand type by operand type.

Where each row comes from: "measured" on an H200 with random bit patterns, no output differing;
"recordings" from published outputs of the chip (MMA-Sim, arXiv 2511.10909; MATLAB-tensor-core,
arXiv 2512.07004); "literature" stated there without recordings; "unverified" taken from the
nearest relative.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from deepgemm_codegen.emulator.faults import UnknownArithmeticError

__all__ = ["ARITHMETIC", "Arithmetic", "Sums", "arithmetic"]

_FLOAT8 = frozenset({"e4m3", "e5m2"})


@dataclass(frozen=True, slots=True)
class Sums:
    """How products of one operand type are summed.

    Attributes:
        group: products summed at once.
        fraction: bits kept below the largest exponent.
        floor: the least exponent that the cut is measured from, for fp32 results; fp16 results
            have it 112 higher.
        kept: fraction bits of an fp32 result: 23, or 13 inside the 8-bit units.
        halves: whether 8-bit operands are summed as fp16 ones in two parts, k mod 4 below 2 and
            not, and C is added last, to nearest: the compiler's routine where the instruction has
            no hardware.
    """

    group: int
    fraction: int
    floor: int
    kept: int = 23
    halves: bool = False


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """How an architecture sums.

    Attributes:
        group: products of 16-bit operands summed at once.
        fraction: bits kept below the largest exponent.
        source: ``measured``, ``recordings`` (published) or ``literature``, or ``unverified``.
        tf32: products of tf32 operands summed at once; 0 where there is no such instruction.
        float8: how ``mma.sync`` multiplies 8-bit floats: ``units`` of their own, ``wide`` ones that
            keep all bits, as ``halves``, or not at all.
        bf16: whether it multiplies bf16.
        name: of the architecture, filled in by `arithmetic`.
    """

    group: int
    fraction: int
    source: str
    tf32: int = 0
    float8: str = ""
    bf16: bool = True
    name: str = ""

    def sums(self, kind: str, *, warpgroup: bool = False) -> Sums | None:
        """The rules for an operand type; None where the architecture does not multiply it.

        Args:
            kind: ``f16``, ``bf16``, ``tf32``, ``e4m3`` or ``e5m2``.
            warpgroup: of wgmma and not of mma.sync.
        """
        floor = -108 - self.fraction
        if kind in _FLOAT8:
            if warpgroup or self.float8 == "units":
                # Four times the bytes of fp16 products a step on Hopper, twice on Ada.
                return Sums(2 * self.group, 13, floor, kept=13)
            if self.float8 == "halves":
                return Sums(2 * self.group, self.fraction, floor, halves=True)
            return Sums(32, self.fraction, floor) if self.float8 == "wide" else None
        if kind == "tf32":
            return Sums(self.tf32, self.fraction, floor) if self.tf32 else None
        if kind == "bf16" and not self.bf16:
            return None
        return Sums(self.group, self.fraction, floor)


ARITHMETIC: dict[str, Arithmetic] = {
    "sm_75": Arithmetic(8, 24, "literature", bf16=False),
    "sm_80": Arithmetic(8, 24, "recordings", 4),
    "sm_86": Arithmetic(8, 24, "recordings", 4),
    "sm_87": Arithmetic(8, 24, "literature", 4),
    "sm_89": Arithmetic(8, 24, "recordings", 4, "units"),
    "sm_90": Arithmetic(16, 25, "measured", 8, "halves"),
    "sm_100": Arithmetic(16, 25, "recordings", 8, "halves"),
    "sm_103": Arithmetic(16, 25, "unverified", 8, "halves"),
    "sm_110": Arithmetic(16, 25, "unverified", 8, "halves"),
    "sm_120": Arithmetic(16, 25, "unverified", 8, "wide"),
    "sm_121": Arithmetic(16, 25, "unverified", 8, "wide"),
}


def arithmetic(name: str) -> Arithmetic:
    """The arithmetic of an architecture; a suffix (``sm_90a``) does not matter.

    Raises:
        UnknownArithmeticError: not in the table.
    """
    found = ARITHMETIC.get(name.rstrip("af"))
    if found is None:
        raise UnknownArithmeticError(
            f"no arithmetic known for '{name}'; known: {', '.join(ARITHMETIC)}; how its tensor"
            " cores sum is a row of ARITHMETIC in deepgemm_codegen/emulator/generations.py; add it"
        )
    return replace(found, name=name.rstrip("af"))
