"""The one table of element types.

Everything the project knows about a type stands in one row here: the planner asks for its
size, the templates for its CUDA and PTX names, the oracle and the emulator for its numpy twin.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from deepgemm_codegen.errors import InputError, nearest

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "BF16",
    "DTYPES",
    "E4M3",
    "E5M2",
    "FP16",
    "FP32",
    "INT8",
    "INT32",
    "UINT8",
    "DType",
    "parse_dtype",
]

_ML_DTYPES = ("bfloat16", "float8_e4m3fn", "float8_e5m2")
"""Names of twins that numpy itself does not have."""


@dataclass(frozen=True, slots=True)
class DType:
    """One element type.

    Attributes:
        name: the name in flags, YAML and generated names.
        bits: size of an element.
        kind: ``float``, ``signed`` or ``unsigned``.
        storage: the CUDA C++ integer or float type that holds the bits with no header.
        ptx: the type suffix in PTX (``mma.sync...f16``).
        accumulator: name of the type that its products are summed in, or None when the type
            cannot be a matrix operand of the families built so far.
        result: name of the type of D where a spec does not name one.
        numpy_name: the numpy or ml_dtypes type with the same bits.
        mantissa_bits: stored fraction bits of a float, for error bounds; 0 for integers.
        exponents: of a float's smallest normal and its largest finite number.
        infinite: whether a float has infinities; e4m3 has the one NaN pattern a sign instead.
        mixes: a word that types have in common which an instruction multiplies with each other;
            empty for a type that goes only with itself.
        aliases: other spellings that flags and YAML accept.
    """

    name: str
    bits: int
    kind: Literal["float", "signed", "unsigned"]
    storage: str
    ptx: str
    accumulator: str | None
    result: str
    numpy_name: str
    mantissa_bits: int = 0
    exponents: tuple[int, int] = (0, 0)
    infinite: bool = True
    mixes: str = ""
    aliases: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        """Size of one element in bytes."""
        return self.bits // 8

    @property
    def integer(self) -> bool:
        """Whether the type holds whole numbers, without NaN or infinity."""
        return self.kind != "float"

    @property
    def largest(self) -> float:
        """The largest finite value."""
        if self.kind == "float":
            below = 2.0**-self.mantissa_bits * (1 if self.infinite else 2)
            return float(2.0 ** self.exponents[1] * (2.0 - below))
        return float(2 ** (self.bits - (self.kind == "signed")) - 1)

    @property
    def least(self) -> float:
        """The least finite value."""
        if self.kind == "float":
            return -self.largest
        return -self.largest - 1 if self.kind == "signed" else 0.0

    def multiplies(self, other: DType) -> bool:
        """Whether an instruction multiplies operands of this type and of the other."""
        return self == other or (self.mixes != "" and self.mixes == other.mixes)

    def numpy(self) -> np.dtype[Any]:
        """The numpy dtype; imports numpy (and ml_dtypes where needed) at the first call."""
        import numpy as np  # noqa: PLC0415  planning and rendering never need numpy

        if self.numpy_name in _ML_DTYPES:
            import ml_dtypes  # noqa: PLC0415

            found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, self.numpy_name))
            return found
        return np.dtype(self.numpy_name)

    def __str__(self) -> str:
        return self.name


FP16 = DType(
    name="fp16",
    bits=16,
    kind="float",
    storage="unsigned short",
    ptx="f16",
    accumulator="fp32",
    result="fp16",
    numpy_name="float16",
    mantissa_bits=10,
    exponents=(-14, 15),
    aliases=("f16", "half", "float16"),
)
BF16 = DType(
    name="bf16",
    bits=16,
    kind="float",
    storage="unsigned short",
    ptx="bf16",
    accumulator="fp32",
    result="bf16",
    numpy_name="bfloat16",
    mantissa_bits=7,
    exponents=(-126, 127),
    aliases=("bfloat16",),
)
FP32 = DType(
    name="fp32",
    bits=32,
    kind="float",
    storage="float",
    ptx="f32",
    accumulator="fp32",
    result="fp32",
    numpy_name="float32",
    mantissa_bits=23,
    exponents=(-126, 127),
    aliases=("f32", "float", "float32"),
)
E4M3 = DType(
    name="e4m3",
    bits=8,
    kind="float",
    storage="unsigned char",
    ptx="e4m3",
    accumulator="fp32",
    result="bf16",
    numpy_name="float8_e4m3fn",
    mantissa_bits=3,
    exponents=(-6, 8),
    infinite=False,
    mixes="fp8",
    aliases=("fp8_e4m3", "e4m3fn", "float8_e4m3fn"),
)
E5M2 = DType(
    name="e5m2",
    bits=8,
    kind="float",
    storage="unsigned char",
    ptx="e5m2",
    accumulator="fp32",
    result="bf16",
    numpy_name="float8_e5m2",
    mantissa_bits=2,
    exponents=(-14, 15),
    mixes="fp8",
    aliases=("fp8_e5m2", "float8_e5m2"),
)
INT8 = DType(
    name="int8",
    bits=8,
    kind="signed",
    storage="signed char",
    ptx="s8",
    accumulator="int32",
    result="int32",
    numpy_name="int8",
    mixes="int8",
    aliases=("s8", "i8"),
)
UINT8 = DType(
    name="uint8",
    bits=8,
    kind="unsigned",
    storage="unsigned char",
    ptx="u8",
    accumulator="int32",
    result="int32",
    numpy_name="uint8",
    mixes="int8",
    aliases=("u8",),
)
INT32 = DType(
    name="int32",
    bits=32,
    kind="signed",
    storage="int",
    ptx="s32",
    accumulator=None,
    result="int32",
    numpy_name="int32",
    aliases=("s32", "i32"),
)

DTYPES: dict[str, DType] = {t.name: t for t in (FP16, BF16, FP32, E4M3, E5M2, INT8, UINT8, INT32)}
_BY_ALIAS = {alias: t for t in DTYPES.values() for alias in (t.name, *t.aliases)}

_FIRST_ARCH: dict[str, str] = {
    "int4": "sm_75",
    **dict.fromkeys(("tf32", "fp64", "f64", "double"), "sm_80"),
    **dict.fromkeys(("fp4", "fp6", "mxfp8", "mxfp4", "nvfp4"), "sm_100"),
}
"""Types that tensor cores multiply and no kernel family does yet, with the first architecture."""

_AMBIGUOUS = {"fp8": "e4m3 or e5m2", "float8": "e4m3 or e5m2", "int": "int8 or int32"}
"""Words that leave open which type is meant."""


def parse_dtype(text: str) -> DType:
    """The type with that name or alias, case-insensitive.

    Raises:
        InputError: unknown name; the message lists the known ones and the closest.
    """
    word = text.lower()
    found = _BY_ALIAS.get(word)
    if found is None:
        known = ", ".join(DTYPES)
        if word in _AMBIGUOUS:
            raise InputError(f"dtype '{text}' is more than one type; give {_AMBIGUOUS[word]}")
        if word in _FIRST_ARCH:
            raise InputError(
                f"dtype '{text}' has no kernels yet (tensor cores multiply it from"
                f" {_FIRST_ARCH[word]} on); known: {known}"
            )
        raise InputError(f"unknown dtype '{text}'; known: {known}{nearest(text, list(DTYPES))}")
    return found
