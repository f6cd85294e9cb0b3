"""Epilogue steps: what may follow the product, and what each step means.

One row of `STEPS` is the whole definition of a step: what it reads, the options it takes, the
template that prints it, and its meaning in numpy, from which the oracle and the error bound
follow; `kinds` says what the columns are. Adding a step is one row in `table`, one function in
`meaning` and one file in ``templates/epilogue/``.
"""

from __future__ import annotations

from deepgemm_codegen.epilogue.kinds import (
    AXIS_WORDS,
    FLOATS,
    Access,
    OperandKind,
    Option,
    StepKind,
)
from deepgemm_codegen.epilogue.parsing import parse_epilogue, read_option, step_kind
from deepgemm_codegen.epilogue.step import EpilogueStep, StepOperand, column_vectors
from deepgemm_codegen.epilogue.table import STEPS

__all__ = [
    "AXIS_WORDS",
    "FLOATS",
    "STEPS",
    "Access",
    "EpilogueStep",
    "OperandKind",
    "Option",
    "StepKind",
    "StepOperand",
    "column_vectors",
    "parse_epilogue",
    "read_option",
    "step_kind",
]
