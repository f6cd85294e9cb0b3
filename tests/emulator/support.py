"""Runs a few PTX instructions, one thread an element, and hands back what they wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from deepgemm_codegen.emulator import Checks, GlobalBuffer, Kernel, Launch, Report, parse, run

Array = np.ndarray[Any, np.dtype[Any]]
DATA = Path(__file__).parent / "data"

DECLARATIONS = """
    .reg .pred %p<16>;
    .reg .b16 %h<64>;
    .reg .b32 %r<64>;
    .reg .b64 %d<64>;
"""


def entry(body: str, parameters: int = 0, before: str = "") -> str:
    """A module with one kernel ``k`` around some instructions."""
    names = ",\n".join(f"    .param .u64 k_param_{i}" for i in range(parameters))
    head = f".version 8.0\n.target sm_90\n.address_size 64\n{before}\n"
    return f"{head}.visible .entry k(\n{names}\n)\n{{{DECLARATIONS}\n{body}\n}}\n"


def launch(
    ptx: str,
    buffers: list[GlobalBuffer],
    *,
    threads: int = 32,
    blocks: int = 1,
    shared: int = 0,
    arithmetic: str = "sm_90",
    checks: Checks | None = None,
) -> Report:
    """Run kernel ``k`` on some blocks in x."""
    kernel = Kernel(parse(ptx), "k", arithmetic)
    shape = Launch((blocks, 1, 1), (threads, 1, 1), shared, buffers)
    return run(kernel, shape, None, checks)


_LOAD = {2: ("u16", "%h"), 4: ("u32", "%r"), 8: ("u64", "%d"), 1: ("u8", "%h")}


def execute(body: str, inputs: list[Array], output: str, dtype: Any, **kwargs: Any) -> Array:
    """Run instructions on arrays, one element a thread.

    Input i arrives in register 1 + i of the bank of its size (``%h``, ``%r``, ``%d``); ``output``
    is the register stored, ``%r40`` by habit, ``%p1`` for a predicate.
    """
    count = inputs[0].size
    threads = -(-count // 32) * 32
    padded = [np.concatenate([a, np.zeros(threads - count, a.dtype)]) for a in inputs]
    out = np.zeros(threads, dtype)
    lines = ["mov.u32 %r60, %tid.x;"]
    for i, a in enumerate(padded):
        size = a.dtype.itemsize
        kind, bank = _LOAD[size]
        lines += [
            f"ld.param.u64 %d60, [k_param_{i}];",
            f"mad.wide.u32 %d61, %r60, {size}, %d60;",
            f"ld.global.{kind} {bank}{i + 1}, [%d61];",
        ]
    lines.append(body)
    size = out.dtype.itemsize
    if output.startswith("%p"):
        lines.append(f"selp.u32 %r59, 1, 0, {output};")
        output = "%r59"
    kind = {"%h": "b16", "%r": "b32", "%d": "b64"}[output[:2]]
    lines += [
        f"ld.param.u64 %d60, [k_param_{len(inputs)}];",
        f"mad.wide.u32 %d61, %r60, {size}, %d60;",
        f"st.global.{kind} [%d61], {output};",
        "ret;",
    ]
    buffers = [GlobalBuffer(f"in{i}", a) for i, a in enumerate(padded)]
    buffers.append(GlobalBuffer("out", out, writable=True))
    ptx = entry("\n".join(lines), len(buffers))
    report = launch(ptx, buffers, threads=threads, **kwargs)
    assert report.findings == (), str(report)
    return out[:count]
