"""Runs PTX on the CPU, and reports what a GPU would let pass in silence.

>>> import numpy as np
>>> from deepgemm_codegen.emulator import Launch, run
>>> ptx = '''
...     .version 8.0
...     .target sm_80
...     .address_size 64
...     .visible .entry total(.param .u64 numbers, .param .u64 sum) {
...         .reg .pred %p<2>;
...         .reg .b32 %r<5>;
...         .reg .b64 %d<4>;
...         mov.u32 %r1, %tid.x;
...         ld.param.u64 %d1, [numbers];
...         mad.wide.u32 %d2, %r1, 4, %d1;
...         ld.global.u32 %r2, [%d2];
...         redux.sync.add.u32 %r3, %r2, 0xffffffff;  // the sum of a warp
...         and.b32 %r4, %r1, 31;
...         setp.eq.u32 %p1, %r4, 0;
...         ld.param.u64 %d3, [sum];
...         @%p1 red.global.add.u32 [%d3], %r3;
...         ret;
...     }
... '''
>>> numbers, total = np.arange(128, dtype=np.uint32), np.zeros(1, np.uint32)
>>> report = run(ptx, Launch(grid=(1, 1, 1), block=(128, 1, 1), params=[numbers, total]))
>>> print(report, total[0])
no findings 8128
>>> careless = ptx.replace("red.global.add", "st.global")
>>> launch = Launch(grid=(1, 1, 1), block=(128, 1, 1), params=[numbers, total])
>>> print(run(careless, launch).findings[0].message)
write to byte 0 of buffer 'sum', which another thread wrote with no order between

A kernel that runs often is translated once: ``Kernel(parse(ptx), "total")``. ``docs/emulator.md``
says what is executed, checked and left out, and how to add an instruction.
"""

from __future__ import annotations

from deepgemm_codegen.emulator.buffers import GlobalBuffer, LazyArray, Pointer, PointerTable
from deepgemm_codegen.emulator.costs import GlobalCost, SharedCost
from deepgemm_codegen.emulator.faults import LaunchError, PtxSyntaxError, UnsupportedError
from deepgemm_codegen.emulator.findings import Actor, Finding, Place
from deepgemm_codegen.emulator.instructions.approximate import Tolerance
from deepgemm_codegen.emulator.kernel import Checks, Kernel, Report, Statistics, run
from deepgemm_codegen.emulator.launch import Launch
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
    "PointerTable",
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
