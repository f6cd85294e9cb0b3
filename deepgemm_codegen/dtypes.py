"""The one table of element types.

Everything the project knows about a type stands in one row here: the planner asks for its
size, the templates for its CUDA and PTX names, the oracle and the emulator for its numpy twin.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deepgemm_codegen.errors import InputError, nearest

if TYPE_CHECKING:
    import numpy as np

__all__ = ["BF16", "DTYPES", "FP16", "FP32", "DType", "parse_dtype"]


@dataclass(frozen=True, slots=True)
class DType:
    """One element type.

    Attributes:
        name: the name in flags, YAML and generated names.
        bits: size of an element.
        storage: the CUDA C++ integer or float type that holds the bits with no header.
        ptx: the type suffix in PTX (``mma.sync...f16``).
        accumulator: name of the type that its products are summed in, or None when the type
            cannot be a matrix operand of the families built so far.
        numpy_name: the numpy or ml_dtypes type with the same bits.
        mantissa_bits: stored fraction bits, for error bounds.
        aliases: other spellings that flags and YAML accept.
    """

    name: str
    bits: int
    storage: str
    ptx: str
    accumulator: str | None
    numpy_name: str
    mantissa_bits: int
    aliases: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        """Size of one element in bytes."""
        return self.bits // 8

    def numpy(self) -> np.dtype[Any]:
        """The numpy dtype; imports numpy (and ml_dtypes where needed) at the first call."""
        import numpy as np  # noqa: PLC0415  planning and rendering never need numpy

        if self.numpy_name == "bfloat16":
            import ml_dtypes  # noqa: PLC0415

            found: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
            return found
        return np.dtype(self.numpy_name)

    def __str__(self) -> str:
        return self.name


FP16 = DType("fp16", 16, "unsigned short", "f16", "fp32", "float16", 10, ("f16", "half", "float16"))
BF16 = DType("bf16", 16, "unsigned short", "bf16", "fp32", "bfloat16", 7, ("bfloat16",))
FP32 = DType("fp32", 32, "float", "f32", None, "float32", 23, ("f32", "float", "float32"))

DTYPES: dict[str, DType] = {t.name: t for t in (FP16, BF16, FP32)}
_BY_ALIAS = {alias: t for t in DTYPES.values() for alias in (t.name, *t.aliases)}


_FIRST_ARCH: dict[str, str] = {
    **dict.fromkeys(("fp8", "e4m3", "e5m2", "fp8_e4m3", "fp8_e5m2"), "sm_89"),
    **dict.fromkeys(("int8", "uint8", "s8", "u8", "int4"), "sm_75"),
    **dict.fromkeys(("tf32", "fp64", "f64", "double"), "sm_80"),
    **dict.fromkeys(("fp4", "fp6", "mxfp8", "mxfp4", "nvfp4"), "sm_100"),
}
"""Types that tensor cores multiply and no kernel family does yet, with the first architecture."""


def parse_dtype(text: str) -> DType:
    """The type with that name or alias, case-insensitive.

    Raises:
        InputError: unknown name; the message lists the known ones and the closest.
    """
    found = _BY_ALIAS.get(text.lower())
    if found is None:
        known = ", ".join(DTYPES)
        first = _FIRST_ARCH.get(text.lower())
        if first is not None:
            raise InputError(
                f"dtype '{text}' is not built yet (its tensor cores exist from {first} on);"
                f" known: {known}"
            )
        raise InputError(f"unknown dtype '{text}'; known: {known}{nearest(text, list(_BY_ALIAS))}")
    return found
