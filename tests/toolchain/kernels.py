"""Kernels to compile, and the reasons to skip where a compiler is missing."""

from __future__ import annotations

import pytest

from deepgemm_codegen.errors import EnvironmentLackError
from deepgemm_codegen.toolchain import find_tool, nvrtc, tool_version

__all__ = ["SMALL", "TILE", "needs_nvdisasm", "needs_nvrtc", "needs_ptxas", "needs_ptxas_13"]

# A tile product by hand: cp.async, ldmatrix and one mma, without a header.
TILE = """\
extern "C" __global__ void __launch_bounds__(128) tile(const unsigned* a, float* d, int n) {
    __shared__ __align__(128) unsigned s[1024];
    unsigned base;
    asm volatile("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }"
                 : "=r"(base) : "l"(s));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                 :: "r"(base + threadIdx.x * 16), "l"(a + threadIdx.x * 4));
    asm volatile("cp.async.commit_group;\\ncp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    unsigned r0, r1, r2, r3;
    float c0 = 0, c1 = 0, c2 = 0, c3 = 0;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 { %0, %1, %2, %3 }, [%4];"
                 : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3) : "r"(base + (threadIdx.x & 31) * 16));
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{ %0, %1, %2, %3 }, { %4, %5, %6, %7 }, { %8, %9 }, { %0, %1, %2, %3 };"
                 : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
                 : "r"(r0), "r"(r1), "r"(r2), "r"(r3), "r"(r0), "r"(r1));
    d[threadIdx.x + n] = c0 * c1 + c2 + c3;
}
"""

# Reads nothing, so that it compiles for every architecture.
SMALL = 'extern "C" __global__ void small(float* d) { d[threadIdx.x] = 2.0f; }\n'


def has_nvrtc() -> bool:
    try:
        nvrtc.version()
    except EnvironmentLackError:
        return False
    return True


def has_tool(name: str) -> bool:
    try:
        find_tool(name)
    except EnvironmentLackError:
        return False
    return True


needs_nvrtc = pytest.mark.skipif(not has_nvrtc(), reason="NVRTC is not installed")
needs_ptxas = pytest.mark.skipif(not has_tool("ptxas"), reason="ptxas is not installed")
# The ISA tables reach to PTX 9.0: only a ptxas that knows it can judge them.
needs_ptxas_13 = pytest.mark.skipif(
    not has_tool("ptxas") or int(tool_version(find_tool("ptxas")).partition(".")[0]) < 13,
    reason="ptxas 13.0 or newer is not installed",
)
needs_nvdisasm = pytest.mark.skipif(not has_tool("nvdisasm"), reason="nvdisasm is not installed")
