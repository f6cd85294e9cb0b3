"""Runs PTX on the CPU, and reports what a GPU would let pass in silence.

>>> module = parse(ptx)                                            # doctest: +SKIP
>>> kernel = Kernel(module, "gemm", arithmetic="sm_90")            # doctest: +SKIP
>>> a = GlobalBuffer("a", array)                                   # doctest: +SKIP
>>> d = GlobalBuffer("d", out, writable=True)                      # doctest: +SKIP
>>> launch = Launch((8, 8, 1), (128, 1, 1), 0, [a, d, 64])         # doctest: +SKIP
>>> report = run(kernel, launch, [(0, 0, 0)])                      # doctest: +SKIP
>>> report.findings                                                # doctest: +SKIP
()

``docs/emulator.md`` says what it executes, checks and leaves out.
"""

from __future__ import annotations

from deepgemm_codegen.emulator.costs import GlobalCost, SharedCost
from deepgemm_codegen.emulator.faults import LaunchError, PtxSyntaxError, UnsupportedError
from deepgemm_codegen.emulator.findings import Actor, Finding, Place
from deepgemm_codegen.emulator.instructions.approximate import Tolerance
from deepgemm_codegen.emulator.kernel import Checks, Kernel, Launch, Report, Statistics, run
from deepgemm_codegen.emulator.memory import GlobalBuffer, LazyArray, Pointer
from deepgemm_codegen.emulator.nodes import Module
from deepgemm_codegen.emulator.parser import parse
from deepgemm_codegen.emulator.tensormap import TensorMap

__all__ = [
    "Actor",
    "Checks",
    "Finding",
    "GlobalBuffer",
    "GlobalCost",
    "Kernel",
    "Launch",
    "LaunchError",
    "LazyArray",
    "Module",
    "Place",
    "Pointer",
    "PtxSyntaxError",
    "Report",
    "SharedCost",
    "Statistics",
    "TensorMap",
    "Tolerance",
    "UnsupportedError",
    "parse",
    "run",
]
