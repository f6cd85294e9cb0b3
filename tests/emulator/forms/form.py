"""One form: its PTX, its inputs, and how two results of it are compared."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from string import Template
from typing import Any

import numpy as np

from deepgemm_codegen.emulator import GlobalBuffer, Kernel, Launch, parse, run
from tests.emulator.forms.values import generate, width_of

__all__ = ["Form", "differences", "emulate"]

Array = np.ndarray[Any, np.dtype[Any]]

_BANKS = {2: ("h", "b16"), 4: ("r", "b32"), 8: ("d", "b64")}
_HEAD = """.version 8.7
.target sm_90a
.address_size 64
{before}
.visible .entry k(.param .u64 p_in, .param .u64 p_out)
{{
.reg .pred %p<8>;
.reg .b16 %h<{count}>;
.reg .b32 %r<{count}>;
.reg .b64 %d<{count}>;
mov.u32 %r0, %tid.x;
mov.u32 %r1, %ctaid.x;
mov.u32 %r2, %ntid.x;
mad.lo.u32 %r3, %r1, %r2, %r0;
ld.param.u64 %d0, [p_in];
ld.param.u64 %d1, [p_out];
"""
# Registers below this number are the body's own; inputs and outputs come above.
_FIRST = 40


@dataclass(frozen=True)
class Form:
    """An instruction on one element a thread.

    Attributes:
        name: says the instruction and the types.
        body: PTX with ``$i0`` ... and ``$o0`` ... for input and output registers. ``%r0`` is the
            thread, ``%r3`` the thread of the launch; registers below 40 are free but for 0 to 3.
        inputs: kinds of value of the inputs, see ``values``.
        outputs: likewise of the outputs; their types say how results are compared.
        threads: of the launch; block: of a block.
        before: declarations of the module.
    """

    name: str
    body: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    threads: int = 256
    block: int = 256
    before: str = ""

    def ptx(self) -> str:
        """The module, with kernel ``k``."""
        names: dict[str, str] = {}
        lines, stores = [], []
        number, offset = _FIRST, 0
        for i, kind in enumerate(self.inputs):
            width = width_of(kind)
            bank, word = _BANKS[width]
            names[f"i{i}"] = f"%{bank}{number}"
            lines += [f"mad.wide.u32 %d2, %r3, {width}, %d0;",
                      f"ld.global.{word} {names[f'i{i}']}, [%d2+{offset}];"]  # fmt: skip
            offset += width * self.threads
            number += 1
        offset = 0
        for i, kind in enumerate(self.outputs):
            width = width_of(kind)
            bank, word = _BANKS[width]
            names[f"o{i}"] = f"%{bank}{number}"
            stores += [f"mad.wide.u32 %d2, %r3, {width}, %d1;",
                       f"st.global.{word} [%d2+{offset}], {names[f'o{i}']};"]  # fmt: skip
            offset += width * self.threads
            number += 1
        head = _HEAD.format(before=self.before, count=number + 1)
        body = Template(self.body).substitute(names)
        return head + "\n".join([*lines, body, *stores, "ret;\n}\n"])

    def input_bytes(self) -> Array:
        """The inputs, register after register; the same ones every time."""
        seed = zlib.crc32(self.name.encode())
        rng = np.random.default_rng(seed)
        parts = [generate(rng, kind, self.threads, self.block) for kind in self.inputs]
        return np.concatenate([p.view(np.uint8) for p in parts]) if parts else np.zeros(8, np.uint8)

    def output_bytes(self) -> int:
        """Size of the outputs."""
        return sum(width_of(kind) for kind in self.outputs) * self.threads

    def results(self, raw: Array) -> list[tuple[str, Array]]:
        """The outputs taken apart: type and values."""
        found, at = [], 0
        for kind in self.outputs:
            size = width_of(kind) * self.threads
            found.append((kind.partition(":")[0], raw[at : at + size]))
            at += size
        return found


def emulate(form: Form) -> tuple[Array, Kernel]:
    """What the emulator makes of a form, and the kernel.

    Raises:
        AssertionError: the emulator found a fault.
    """
    kernel = Kernel(parse(form.ptx()), "k", "sm_90")
    out = np.zeros(form.output_bytes(), np.uint8)
    buffers = [GlobalBuffer("in", form.input_bytes()), GlobalBuffer("out", out, writable=True)]
    launch = Launch((form.threads // form.block, 1, 1), (form.block, 1, 1), 0, buffers)
    report = run(kernel, launch)
    assert not report.findings, f"{form.name}: {report}"
    return out, kernel


_FLOATS = {"f32": np.float32, "f16": np.float16, "f64": np.float64, "f16x2": np.float16}


def _numbers(kind: str, raw: Array) -> Array:
    """Values of a floating type as float64."""
    if kind.startswith("bf16"):
        return (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return raw.view(_FLOATS[kind]).astype(np.float64)


def differences(form: Form, kernel: Kernel, got: Array, other: Array) -> Array:
    """Which output elements differ (bool, all outputs in a row).

    Elements of an approximating form may differ by the stated distance and one rounding.
    """
    bounds = kernel.approximations()
    result = []
    for (kind, a), (_, b) in zip(form.results(got), form.results(other), strict=True):
        if not bounds:
            size = width_of(kind)
            result.append((a.reshape(-1, size) != b.reshape(-1, size)).any(axis=1))
            continue
        ulp = {"f32": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7}[kind.removesuffix("x2")]
        (_, bound), *_ = bounds
        with np.errstate(all="ignore"):
            x, y = _numbers(kind, a), _numbers(kind, b)
            near = np.abs(x - y) <= bound.absolute + (bound.relative + ulp) * np.abs(x) + 2.0**-149
        same = (x == y) | (np.isnan(x) & np.isnan(y)) | near
        if np.isfinite(bound.within):
            with np.errstate(all="ignore"):
                argument = _numbers(form.inputs[0].partition(":")[0], form.input_bytes()[: a.size])
            same |= np.abs(argument) > bound.within
        result.append(~same)
    return np.concatenate(result)
