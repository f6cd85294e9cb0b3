from __future__ import annotations

import numpy as np
import pytest

from deepgemm_codegen.emulator import Checks, GlobalBuffer, SharedCost
from tests.emulator.gemms import CASES
from tests.emulator.support import entry, launch


def _shared(address: str, access: str, threads: int = 32) -> SharedCost:
    """Cost of the last shared access; the store before it fills the memory."""
    body = f"""
        .shared .align 16 .b8 box[16384];
        mov.u32 %r1, %tid.x;
        mov.u32 %r2, box;
        mad.lo.u32 %r3, %r1, {address}, %r2;
        {access}
    """
    report = launch(entry(body), [], threads=threads, checks=Checks(races=False, costs=True))
    return report.statistics.shared_costs[-1]


@pytest.mark.parametrize(
    ("stride", "degree"),
    [(0, 1), (4, 1), (8, 2), (12, 1), (16, 4), (32, 8), (64, 16), (128, 32), (132, 1), (2, 1)],
)
def test_four_byte_accesses_with_a_stride(stride: int, degree: int) -> None:
    width = "u16 %h1" if stride == 2 else "u32 %r4"
    cost = _shared(str(stride), f"ld.shared.{width}, [%r3];")
    assert (cost.requests, cost.degree, cost.excess) == (1, degree, degree - 1)


@pytest.mark.parametrize(
    ("access", "stride", "passes", "degree"),
    [
        ("ld.shared.v2.u32 {%r4, %r5}, [%r3];", 8, 2, 1),
        ("ld.shared.v2.u32 {%r4, %r5}, [%r3];", 16, 2, 2),
        ("ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r3];", 16, 4, 1),
        ("ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r3];", 32, 4, 2),
        ("st.shared.v4.u32 [%r3], {%r1, %r1, %r1, %r1};", 128, 4, 8),
        ("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4, %r5, %r6, %r7}, [%r3];", 64, 4, 4),
        ("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4, %r5, %r6, %r7}, [%r3];", 80, 4, 1),
        ("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r4, %r5}, [%r3];", 128, 2, 8),
    ],
)
def test_wide_accesses_go_in_passes(access: str, stride: int, passes: int, degree: int) -> None:
    cost = _shared(str(stride), access, threads=64)
    assert cost.requests == 2
    assert cost.degree == degree
    assert cost.wavefronts == 2 * passes * degree
    assert cost.excess == 2 * passes * (degree - 1)


@pytest.mark.parametrize(
    ("step", "load", "sectors", "ideal"),
    [
        (4, "ld.global.u32 %r4, [%d2];", 4, 4),
        (8, "ld.global.u32 %r4, [%d2];", 8, 4),
        (64, "ld.global.u32 %r4, [%d2];", 32, 4),
        (16, "ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%d2];", 16, 16),
        (4, "ld.global.u32 %r4, [%d2+16];", 5, 4),
        (0, "ld.global.u32 %r4, [%d2];", 1, 1),
    ],
)
def test_sectors_of_global_accesses(step: int, load: str, sectors: int, ideal: int) -> None:
    body = f"""
        mov.u32 %r1, %tid.x;
        ld.param.u64 %d1, [k_param_0];
        mad.wide.u32 %d2, %r1, {step}, %d1;
        {load}
    """
    buffer = GlobalBuffer("x", np.zeros(4096, np.uint8))
    report = launch(entry(body, 1), [buffer], checks=Checks(costs=True))
    (cost,) = report.statistics.global_costs
    assert (cost.requests, cost.sectors, cost.ideal) == (1, sectors, ideal)


def test_a_swizzled_kernel_has_no_conflict() -> None:
    case = CASES["gemm_f16_sm80"]
    _, report = case.run(checks=Checks(costs=True))
    costs = report.statistics.shared_costs
    assert {c.place.text.split(".")[0] for c in costs} == {"ldmatrix", "cp"}
    assert all(c.excess == 0 for c in costs), [str(c.place) for c in costs if c.excess]


SPLIT = """
    .shared .align 16 .b8 box[16384];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, box;
    mad.lo.u32 %r3, %r1, 16, %r2;
    st.shared.v4.u32 [%r3], {{%r1, %r1, %r1, %r1}};
    {0}
"""


@pytest.mark.parametrize(
    ("parts", "found"),
    [
        # What was one access in CUDA C++ is one in the machine code: no conflict.
        ("{0}[%r3]; {1}[%r3+4]; {2}[%r3+8]; {3}[%r3+12];", [(16, 1, 4, 0)]),
        ("{3}[%r3+12]; {1}[%r3+4]; {0}[%r3]; {2}[%r3+8];", [(16, 1, 4, 0)]),
        ("{0}[%r3]; {1}[%r3+4];", [(8, 1, 4, 2)]),
        # Three parts are a pair and a single; what is not aligned as a whole stays apart.
        ("{0}[%r3]; {1}[%r3+4]; {2}[%r3+8];", [(8, 1, 4, 2), (4, 1, 4, 3)]),
        ("{0}[%r3+4]; {1}[%r3+8];", [(4, 1, 4, 3), (4, 1, 4, 3)]),
        # So do parts with a store or a barrier between, and those of another register.
        ("{0}[%r3]; st.shared.u32 [%r3+8], %r1; {1}[%r3+4];", [(4, 1, 4, 3)] * 3),
        ("{0}[%r3]; bar.sync 0; {1}[%r3+4];", [(4, 1, 4, 3)] * 2),
        ("{0}[%r3]; add.u32 %r3, %r3, 0; {1}[%r3+4];", [(4, 1, 4, 3)] * 2),
        ("{0}[%r3]; @%p1 {1}[%r3+4];", [(4, 1, 4, 3)] * 2),
    ],
)
def test_what_the_assembler_joins(parts: str, found: list[tuple[int, int, int, int]]) -> None:
    loads = [f"ld.shared.u32 %r{4 + i}, " for i in range(4)]
    body = SPLIT.format("setp.eq.u32 %p1, %r1, %r1;" + parts.format(*loads))
    report = launch(entry(body), [], checks=Checks(races=False, costs=True))
    _, *costs = report.statistics.shared_costs
    assert [(c.width, c.requests, c.wavefronts, c.excess) for c in costs] == found


def test_where_the_whole_is_not_aligned_the_parts_are_counted() -> None:
    # The same code, 8 bytes off: the assembler could not have joined these.
    body = SPLIT.format(
        "add.u32 %r3, %r3, 8; "
        + "".join(f"ld.shared.u32 %r{4 + i}, [%r3+{4 * i}];" for i in range(4))
    )
    report = launch(entry(body), [], checks=Checks(races=False, costs=True))
    assert [c.width for c in report.statistics.shared_costs[1:]] == [4] * 4


def test_two_bytes_through_the_read_only_path_stay_apart() -> None:
    body = """
        ld.param.u64 %d1, [k_param_0];
        ld.global.nc.u16 %h1, [%d1]; ld.global.nc.u16 %h2, [%d1+2];
        ld.global.u16 %h3, [%d1+8]; ld.global.u16 %h4, [%d1+10];
    """
    buffer = GlobalBuffer("x", np.zeros(64, np.uint8))
    report = launch(entry(body, 1), [buffer], checks=Checks(costs=True))
    assert [c.width for c in report.statistics.global_costs] == [2, 2, 4]
