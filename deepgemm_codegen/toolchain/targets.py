"""Architecture names as compilers write them, and what runs where."""

from __future__ import annotations

import re
from dataclasses import dataclass

from deepgemm_codegen.errors import InternalError

__all__ = ["Target", "explain_mismatch", "target_for"]

_NAME = re.compile(r"(?:sm|compute)_(\d{2,3})([af]?)")


@dataclass(frozen=True, slots=True)
class Target:
    """An architecture such as ``sm_90a``: its number, and the suffix that narrows it.

    No suffix: code for this part and newer ones. ``a``: this very part only. ``f``: this part
    and later ones of its family (the same tens digit of the number).
    """

    number: int
    suffix: str = ""

    @classmethod
    def parse(cls, name: str) -> Target:
        """Reads ``sm_90a`` or ``compute_90a``; an InternalError names any other text."""
        match = _NAME.fullmatch(name)
        if match is None:
            raise InternalError(f"architecture {name!r} is not of the form sm_80 or sm_90a")
        return cls(int(match[1]), match[2])

    def __str__(self) -> str:
        return self.sm

    @property
    def sm(self) -> str:
        """The name of the real architecture: ``sm_90a``."""
        return f"sm_{self.number}{self.suffix}"

    @property
    def compute(self) -> str:
        """The name of the virtual architecture: ``compute_90a``."""
        return f"compute_{self.number}{self.suffix}"

    def known_to(self, version: tuple[int, int]) -> Target:
        """This target, or the ``a`` variant that a compiler older than 12.9 has for an ``f``."""
        if self.suffix == "f" and version < (12, 9):
            return Target(self.number, "a")
        return self


def explain_mismatch(built: str, device: str, *, ptx: bool) -> str | None:
    """Why code built for ``built`` cannot run on a ``device``; None when it can.

    ``ptx`` tells whether the PTX can be given to the driver, which compiles it for a newer part;
    a cubin runs only on parts of its own major number, from its minor number on.
    """
    have, want = Target.parse(built), Target.parse(device)
    same_major = have.number // 10 == want.number // 10
    if have.suffix == "a":
        fits, rule = have.number == want.number, "code for an 'a' target runs on that part alone"
    elif have.suffix == "f":
        fits = same_major and have.number <= want.number
        rule = "code for an 'f' target runs on its own family alone"
    elif ptx:
        fits, rule = have.number <= want.number, "PTX runs on its own part and newer ones"
    else:
        fits = same_major and have.number <= want.number
        rule = "a cubin runs on parts of the same major number that are not older"
    if fits:
        return None
    return f"built for {have}, but the device is {want.sm}: {rule}; build again for {want.sm}"


def target_for(target: str, here: str) -> str:
    """What to compile a kernel for so that a GPU runs it.

    The source of a plain target (no suffix) serves every newer architecture; its cubin does not.

    Args:
        target: the plan's, such as ``sm_80``.
        here: the GPU's, such as ``sm_90``.
    """
    wanted = Target.parse(target)
    runs = explain_mismatch(target, here, ptx=False) is None
    older = Target.parse(here).number < wanted.number
    return target if runs or wanted.suffix or older else here
