"""Statistics of the assembler's log, and occupancy against NVIDIA's own calculator."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepgemm_codegen.errors import ToolError
from deepgemm_codegen.toolchain import ResourceUsage, occupancy
from deepgemm_codegen.toolchain.resources import faults, parse_resources, without_statistics

# Per architecture: threads an SM, shared bytes an SM, blocks an SM, reserved bytes, barriers.
LIMITS: dict[int, tuple[int, int, int, int, int | None]] = {
    75: (1024, 65536, 16, 0, None),
    80: (2048, 167936, 32, 1024, None),
    86: (1536, 102400, 16, 1024, None),
    89: (1536, 102400, 24, 1024, None),
    90: (2048, 233472, 32, 1024, 64),
    100: (2048, 233472, 32, 1024, 64),
    120: (1536, 102400, 24, 1024, 24),
}

# Architecture, registers, static bytes, barriers, threads, dynamic bytes, and the blocks that
# cuda_occupancy.h of CUDA 13 gives (3,000 random cases agreed; these are some of them).
NVIDIA_SAYS = [
    (90, 16, 12709, 0, 32, 0, 16),  # 17 would fit without the unit of 128 bytes
    (100, 175, 0, 5, 448, 28538, 0),
    (90, 199, 20530, 13, 224, 0, 1),
    (75, 222, 0, 2, 96, 0, 2),
    (89, 45, 0, 2, 384, 0, 3),
    (90, 244, 12749, 6, 64, 29908, 4),
    (90, 14, 0, 10, 352, 0, 5),
    (80, 26, 0, 10, 320, 0, 6),
    (100, 32, 5179, 9, 160, 0, 7),
    (86, 2, 4813, 2, 192, 0, 8),
    (100, 19, 0, 4, 224, 0, 9),
    (80, 29, 0, 2, 192, 0, 10),
    (90, 49, 0, 5, 96, 0, 12),
    (86, 14, 0, 2, 64, 0, 16),
    (89, 46, 0, 5, 64, 0, 20),
    (89, 31, 0, 5, 64, 0, 24),
    (90, 47, 7374, 2, 32, 0, 27),
    (75, 17, 17009, 5, 192, 6950, 2),
    (80, 72, 7216, 8, 768, 134181, 1),
    (86, 28, 24699, 15, 128, 3021, 3),
    (89, 2, 27590, 7, 672, 69598, 1),
    (90, 244, 12749, 6, 64, 29908, 4),
    (100, 53, 7015, 12, 256, 124244, 1),
    (120, 44, 21518, 8, 896, 27219, 1),
]

LOG = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'one' for 'sm_80'
ptxas info    : Function properties for one
ptxas         .     64 bytes stack frame, 20 bytes spill stores, 24 bytes spill loads
ptxas info    : Used 255 registers, used 3 barriers, 4096 bytes smem, 372 bytes cmem[0]
ptxas info    : Compile time = 14.163 ms
ptxas info    : Compiling entry function 'two' for 'sm_80'
ptxas info    : Function properties for two
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Function properties for helper
    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers, 360 bytes cmem[0]
"""


def blocks(case: int, usage: ResourceUsage, threads: int, dynamic: int = 0) -> int:
    threads_per_sm, shared, slots, reserved, barriers = LIMITS[case]
    return occupancy(
        usage,
        threads,
        registers_per_sm=65536,
        threads_per_sm=threads_per_sm,
        shared_per_sm=shared,
        blocks_per_sm=slots,
        barriers_per_sm=barriers,
        dynamic_shared=dynamic,
        reserved_shared=reserved,
    )


@pytest.mark.parametrize("row", NVIDIA_SAYS)
def test_occupancy_is_nvidias(row: tuple[int, ...]) -> None:
    case, registers, static, barriers, threads, dynamic, expected = row
    usage = ResourceUsage(registers, 0, 0, 0, static, barriers)
    assert blocks(case, usage, threads, dynamic) == expected


@given(
    case=st.sampled_from(sorted(LIMITS)),
    registers=st.integers(1, 255),
    threads=st.integers(1, 1024),
    dynamic=st.integers(0, 232448),
)
def test_more_of_anything_never_fits_more_blocks(
    case: int, registers: int, threads: int, dynamic: int
) -> None:
    usage = ResourceUsage(registers, 0, 0, 0, 0, 1)
    fits = blocks(case, usage, threads, dynamic)
    assert blocks(case, ResourceUsage(registers + 8, 0, 0, 0, 0, 1), threads, dynamic) <= fits
    assert blocks(case, usage, threads + 32, dynamic) <= fits
    assert blocks(case, usage, threads, dynamic + 128) <= fits
    assert fits * (dynamic + LIMITS[case][3]) <= LIMITS[case][1]


def test_statistics_are_read_by_kernel() -> None:
    assert parse_resources(LOG) == {
        "one": ResourceUsage(255, 20, 24, 64, 4096, 3),
        "two": ResourceUsage(8, 0, 0, 0, 0, 0),
    }


def test_a_log_without_statistics_is_a_fault() -> None:
    with pytest.raises(ToolError, match="gave no resource statistics in its log:\nhello"):
        parse_resources("hello")


def test_statistics_leave_the_log_and_warnings_stay() -> None:
    warning = "ptxas warning : Registers are spilled to local memory in function 'one'"
    fault = "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async"
    assert without_statistics(LOG) == ""
    assert without_statistics(f"{LOG}{warning}\n{fault}\n") == f"{warning}\n{fault}\n"


@pytest.mark.parametrize("code", ["C7508", "C7510", "C7514", "C7519"])
def test_faults_are_found(code: str) -> None:
    line = f"ptxas info    : ({code}) Potential Performance Loss: wgmma.mma_async"
    assert faults(f"{LOG}{line}\n") == [line]
    assert faults(LOG) == []
