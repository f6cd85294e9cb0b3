"""Instruction forms that a GPU and the emulator execute on the same inputs.

``FORMS`` names them; ``recorded/`` holds what a GPU made of them, written by
``benchmarks/record_instructions.py`` and replayed by ``test_recorded.py``. Imports numpy and the
emulator alone, so that the script on the GPU machine may use it too.
"""

from __future__ import annotations

from tests.emulator.forms import lanes, matrices, memory, warps
from tests.emulator.forms.form import Form, differences, emulate

__all__ = ["FORMS", "Form", "differences", "emulate"]

FORMS: dict[str, Form] = {}
for _form in (*lanes.forms(), *warps.forms(), *memory.forms(), *matrices.forms()):
    if _form.name in FORMS:
        raise ValueError(f"two forms named {_form.name}")
    FORMS[_form.name] = _form
