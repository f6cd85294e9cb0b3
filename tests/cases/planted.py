"""Each case is run twice: as it is, and in the full run with a fault planted, which it must see.

The fault is a change of the generated text that brings back what was reported. A case that passes
with its fault would have shown nothing.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from deepgemm_codegen.plan.mma_sync import MmaSync
from deepgemm_codegen.render import render_kernel
from tests.harness.support import FAULTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from deepgemm_codegen.plan import Program

    Fault = Callable[[Program, str], str]


def text(pattern: str, replacement: str, which: int | None = None) -> Fault:
    """The fault that changes every match of a pattern, or one of them."""

    def change(_: Program, source: str) -> str:
        found = list(re.finditer(pattern, source))
        if not found:
            return source
        for match in reversed(found if which is None else [found[which]]):
            source = source[: match.start()] + match.expand(replacement) + source[match.end() :]
        return source

    return change


def wider_copies(vector_bytes: int) -> Fault:
    """The fault of vectors that the operands' alignment does not allow."""

    def change(program: Program, _: str) -> str:
        plan, body = program.product, program.product.body
        assert isinstance(body, MmaSync)
        return render_kernel(
            replace(
                plan,
                body=replace(
                    body,
                    a=replace(body.a, vector_bytes=vector_bytes, mechanism="cp_async"),
                    b=replace(body.b, vector_bytes=vector_bytes, mechanism="cp_async"),
                ),
            )
        )

    return change


def wider_stores(elements: int) -> Fault:
    """The fault of stores that D's alignment does not allow."""

    def change(program: Program, _: str) -> str:
        plan = program.product
        return render_kernel(replace(plan, output=replace(plan.output, vector=elements)))

    return change


def planted(
    fault: Fault, *, full: bool = False
) -> Callable[[Callable[[], None]], Callable[[Fault | None], None]]:
    """Makes a case of a test: it must pass as it is, and fail with the fault.

    The second half belongs to the full run; of a ``full`` case, both do.
    """
    late = [pytest.mark.full]

    def decorate(test: Callable[[], None]) -> Callable[[Fault | None], None]:
        @pytest.mark.parametrize(
            "fault",
            [pytest.param(None, marks=late if full else []), pytest.param(fault, marks=late)],
            ids=["sound", "planted"],
        )
        def case(fault: Fault | None) -> None:
            if fault is None:
                test()
                return
            changed = []

            def plant(program: Program, source: str) -> str:
                faulty = fault(program, source)
                changed.append(faulty != source)
                return faulty

            FAULTS.append(plant)
            try:
                with pytest.raises(AssertionError):
                    test()
            finally:
                FAULTS.pop()
            assert any(changed), "the fault changed no kernel of the case"

        case.__name__, case.__doc__ = test.__name__, test.__doc__
        return case

    return decorate


# Faults that several cases bring back.
NO_ZERO_FILL = text(r"fp16\{\}", "static_cast<fp16>(0x7e00)")
"""Undefined values where a copy through registers has nothing to read."""

ROWS_BEYOND_K = text(r"row < K \? N - column : 0", "N - column")
"""Rows of B beyond k are read."""

LAST_SLICE_SKIPPED = text(
    r"(slice = 0; slice < SLICES)(; \+\+slice\) \{\n\s+(?:cp|const))", r"\1 - 1\2"
)
"""The main loop ends one slice early."""

STORE_BEYOND_N = text(r"row >= M \|\| column >= N", "row >= M")
"""Stores are guarded along m alone."""

LAST_COLUMN_LOST = text(r"column >= N\)", "column >= N - 1)")
"""The last column is not stored."""

C_ALWAYS_READ = text(r"if \(beta != 0\.0f\)", "if (true)")
"""C is read whatever beta is."""

C_NEVER_READ = text(r"if \(beta != 0\.0f\)", "if (false)")
"""C is not read whatever beta is."""

NARROW_OFFSETS = text(
    r"\((row \* LD[CD] \+ column)\)",
    r'[&] { int n; asm("mov.b32 %0, %1;" : "=r"(n) : "r"((int)(\1))); return n; }()',
)
"""Offsets of D and C in 32 bits; a mere cast is undone where the compiler joins rows' offsets."""
