"""Random programs: scheduled, batched and masked execution against one thread at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from deepgemm_codegen.emulator import Checks, GlobalBuffer
from tests.emulator.support import entry, launch

Array = np.ndarray[Any, np.dtype[Any]]

_REGISTERS = 5
_THREADS = 64
_MASK = 0xFFFFFFFF


@dataclass
class Thread:
    """Registers, predicates and four private words of shared memory."""

    number: int
    r: list[int] = field(default_factory=list)
    p: list[bool] = field(default_factory=lambda: [False, False, False])
    memory: list[int] = field(default_factory=lambda: [0, 0, 0, 0])

    def step(self, op: tuple[str, int, int, int, int]) -> None:
        name, target, a, b, guard = op
        x, y = self.r[a % _REGISTERS], self.r[b % _REGISTERS]
        target %= _REGISTERS
        if guard and not self.p[guard % 3]:
            return
        if name == "setp":
            self.p[target % 3] = x < y
        elif name == "load":
            self.r[target] = self.memory[a % 4]
        elif name == "store":
            self.memory[a % 4] = y
        elif name == "vector":
            self.memory[a % 2 * 2 : a % 2 * 2 + 2] = [x, y]
        else:
            self.r[target] = {"add": x + y, "sub": x - y, "xor": x ^ y, "mul": x * y}[name] & _MASK


def _text(op: tuple[str, int, int, int, int]) -> str:
    name, target, a, b, guard = op
    x, y, z = (f"%r{10 + v % _REGISTERS}" for v in (target, a, b))
    before = f"@%p{guard % 3 + 1} " if guard else ""
    return (
        before
        + {
            "setp": f"setp.lt.u32 %p{target % _REGISTERS % 3 + 1}, {y}, {z};",
            "load": f"ld.shared.u32 {x}, [%r30+{4 * (a % 4)}];",
            "store": f"st.shared.u32 [%r30+{4 * (a % 4)}], {z};",
            "vector": f"st.shared.v2.u32 [%r30+{8 * (a % 2)}], {{{y}, {z}}};",
            "add": f"add.u32 {x}, {y}, {z};",
            "sub": f"sub.u32 {x}, {y}, {z};",
            "xor": f"xor.b32 {x}, {y}, {z};",
            "mul": f"mul.lo.u32 {x}, {y}, {z};",
        }[name]
    )


_NAMES = ["setp", "load", "store", "vector", "add", "sub", "xor", "mul"]
_OP = st.tuples(
    st.sampled_from(_NAMES), st.integers(0, 5), st.integers(0, 5), st.integers(0, 5),
    st.integers(0, 3),
)  # fmt: skip
# A run of instructions, and the predicate that skips it (0: never).
_RUN = st.tuples(st.integers(0, 3), st.lists(_OP, min_size=1, max_size=12))


@settings(max_examples=60, deadline=None)
@given(st.lists(_RUN, min_size=1, max_size=6), st.integers(0, 3))
def test_random_programs(
    runs: list[tuple[int, list[tuple[str, int, int, int, int]]]], loops: int
) -> None:
    lines = [
        ".shared .align 16 .b8 box[1024];",
        "mov.u32 %r1, %tid.x; mov.u32 %r31, box; mad.lo.u32 %r30, %r1, 16, %r31;",
        "mov.u32 %r40, 0; st.shared.v4.u32 [%r30], {%r40, %r40, %r40, %r40};",
        "setp.ne.u32 %p1, %r1, %r1; setp.ne.u32 %p2, %r1, %r1; setp.ne.u32 %p3, %r1, %r1;",
    ]
    lines += [f"mad.lo.u32 %r{10 + i}, %r1, {2654435761 + i}, {i};" for i in range(_REGISTERS)]
    lines += ["and.b32 %r41, %r1, 3;", f"min.u32 %r41, %r41, {loops};", "LOOP:"]
    for i, (skip, ops) in enumerate(runs):
        if skip:
            lines.append(f"@%p{skip} bra AFTER{i};")
        lines += [_text(op) for op in ops]
        lines.append(f"AFTER{i}:")
    lines += ["setp.eq.u32 %p5, %r41, 0;", "sub.u32 %r41, %r41, 1;", "@!%p5 bra LOOP;"]
    lines += ["ld.param.u64 %d1, [k_param_0];", "mad.wide.u32 %d1, %r1, 40, %d1;"]
    for i in range(_REGISTERS):
        lines.append(f"st.global.u32 [%d1+{4 * i}], %r{10 + i};")
    for i in range(4):
        lines.append(f"ld.shared.u32 %r42, [%r30+{4 * i}]; st.global.u32 [%d1+{20 + 4 * i}], %r42;")
    out = np.zeros((_THREADS, 10), np.uint32)
    report = launch(
        entry("\n".join(lines), 1), [GlobalBuffer("out", out, writable=True)], threads=_THREADS,
        checks=Checks(step_limit=10000),
    )  # fmt: skip
    assert report.findings == (), str(report)
    for number in range(_THREADS):
        thread = Thread(
            number, [(number * (2654435761 + i) + i) & _MASK for i in range(_REGISTERS)]
        )
        for _ in range(min(number & 3, loops) + 1):
            for skip, ops in runs:
                if skip and thread.p[skip - 1]:
                    continue
                for op in ops:
                    thread.step(op)
        assert out[number, :9].tolist() == thread.r + thread.memory, number
