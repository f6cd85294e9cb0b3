"""What the GPU can do at most: kernels that do nothing but read memory, write it, or multiply.

The multiplying ones work from registers (`mma.sync`) or shared memory (`wgmma`) with random
operands, since zeros draw less power and flatter. Where one cannot be built or run, the data
sheet's figure stands in, and the report says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.harness.bench_stats import Ceilings

if TYPE_CHECKING:
    from deepgemm_codegen.arch import Arch
    from deepgemm_codegen.harness.bench_stats import Unit

__all__ = [
    "MMA",
    "READ",
    "READ_BYTES",
    "READ_THREADS",
    "READ_VECTORS",
    "WGMMA",
    "WRITE",
    "TensorKernel",
    "datasheet",
    "tensor_kernels",
]

READ_BYTES = 2 << 30
"""Memory that a read, or a write, passes over."""

READ_THREADS = (256, 512, 1024)
READ_VECTORS = (4, 8)
"""Block sizes, and 16-byte loads or stores a thread, that are tried; the best counts."""

WGMMA_FLOP_PER_CLOCK = 4096
"""FLOP a clock and multiprocessor of 16-bit wgmma (H100 data sheet: 989 TFLOP/s at 1830 MHz)."""

READ = "".join(
    f"""
extern "C" __global__ void read_{vectors}(const uint4* data, unsigned* sink, long long count)
{{
    const long long block = static_cast<long long>(blockDim.x) * {vectors};
    const long long first = blockIdx.x * block + threadIdx.x;
    uint4 v[{vectors}];
#pragma unroll
    for (int i = 0; i < {vectors}; ++i) {{
        const long long at = first + static_cast<long long>(i) * blockDim.x;
        v[i] = at < count ? data[at] : make_uint4(0, 0, 0, 0);
    }}
    unsigned bits = 0;
#pragma unroll
    for (int i = 0; i < {vectors}; ++i)
        bits ^= v[i].x ^ v[i].y ^ v[i].z ^ v[i].w;
    if (bits == 0x12345678u)
        *sink = bits;
}}
"""
    for vectors in READ_VECTORS
)
"""One kernel for each number of loads in flight."""

WRITE = "".join(
    f"""
extern "C" __global__ void write_{vectors}(uint4* data, unsigned value, long long count)
{{
    const long long block = static_cast<long long>(blockDim.x) * {vectors};
    const long long first = blockIdx.x * block + threadIdx.x;
#pragma unroll
    for (int i = 0; i < {vectors}; ++i) {{
        const long long at = first + static_cast<long long>(i) * blockDim.x;
        if (at < count)
            data[at] = make_uint4(value, static_cast<unsigned>(at), threadIdx.x, blockIdx.x);
    }}
}}
"""
    for vectors in READ_VECTORS
)
"""The same for stores."""

MMA = """
extern "C" __global__ void __launch_bounds__(256)
ceiling_mma(float* sink, const unsigned* random, int rounds)
{
    unsigned a[4][4], b[4][2];
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    for (int i = 0; i < 16; ++i) a[i / 4][i % 4] = random[(thread * 24 + i) & 0xfffff];
    for (int i = 0; i < 8; ++i) b[i / 2][i % 2] = random[(thread * 24 + 16 + i) & 0xfffff];
    float c[4][4][4] = {};
    for (int round = 0; round < rounds; ++round)
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
            for (int j = 0; j < 4; ++j)
                asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                             "{ %0, %1, %2, %3 }, { %4, %5, %6, %7 }, { %8, %9 }, "
                             "{ %0, %1, %2, %3 };"
                             : "+f"(c[i][j][0]), "+f"(c[i][j][1]),
                               "+f"(c[i][j][2]), "+f"(c[i][j][3])
                             : "r"(a[i][0]), "r"(a[i][1]), "r"(a[i][2]), "r"(a[i][3]),
                               "r"(b[j][0]), "r"(b[j][1]));
    float sum = 0;
    for (int i = 0; i < 64; ++i) sum += c[i / 16][i / 4 % 4][i % 4];
    if (sum == 1.2345f) sink[thread] = sum;
}
"""
"""A warp tile of 64 x 32 x 16 a round, from registers alone."""

_WGMMA_STAGES = 4
_WGMMA_A, _WGMMA_B = 8192, 32768
"""Bytes of a stage: a warpgroup's 64 x 64 of A, and 256 x 64 of B that both warpgroups read."""

_SUMS = 128


def _wgmma_source() -> str:
    outputs = ", ".join(f"%{i}" for i in range(_SUMS))
    operands = ", ".join(f'"+f"(d[{i}])' for i in range(_SUMS))
    return f"""
typedef unsigned long long u64;

__device__ __forceinline__ u64 descriptor(unsigned address)
{{
    return u64{{ (address & 0x3ffff) >> 4 }} | u64{{ 1 }} << 16 | u64{{ 1024 >> 4 }} << 32
        | u64{{ 1 }} << 62;
}}

extern "C" __global__ void __launch_bounds__(256)
ceiling_wgmma(float* sink, const unsigned* random, int rounds)
{{
    constexpr int A_BYTES = {_WGMMA_A}, B_BYTES = {_WGMMA_B}, STAGES = {_WGMMA_STAGES};
    extern __shared__ __align__(1024) unsigned shared[];
    for (int i = threadIdx.x; i < STAGES * (2 * A_BYTES + B_BYTES) / 4; i += blockDim.x)
        shared[i] = random[(blockIdx.x * 7919 + i) & 0xfffff];
    asm volatile("fence.proxy.async;" : : : "memory");
    __syncthreads();
    const unsigned base = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    const unsigned mine = base + (threadIdx.x / 128) * STAGES * A_BYTES;
    const u64 a = descriptor(mine), b = descriptor(base + 2 * STAGES * A_BYTES);
    float d[{_SUMS}] = {{}};
    for (int round = 0; round < rounds; ++round) {{
#pragma unroll
        for (int i = 0; i < {_SUMS}; ++i) asm volatile("" : "+f"(d[i]) : : "memory");
        asm volatile("wgmma.fence.sync.aligned;" : : : "memory");
#pragma unroll
        for (int step = 0; step < 4 * STAGES; ++step)
            asm volatile("wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 "
                         "{{ {outputs} }}, %{_SUMS}, %{_SUMS + 1}, 1, 1, 1, 0, 0;"
                         : {operands}
                         : "l"(a + (step / 4 * A_BYTES + step % 4 * 32) / 16),
                           "l"(b + (step / 4 * B_BYTES + step % 4 * 32) / 16));
        asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" : : : "memory");
    }}
#pragma unroll
    for (int i = 0; i < {_SUMS}; ++i) asm volatile("" : "+f"(d[i]) : : "memory");
    float sum = 0;
    for (int i = 0; i < {_SUMS}; ++i) sum += d[i];
    if (sum == 1.2345f) sink[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}}
"""


WGMMA = _wgmma_source()
"""Two warpgroups of 64 x 256 x 256 a round, from shared memory, two of them filling each other's
gaps."""


@dataclass(frozen=True, slots=True)
class TensorKernel:
    """A kernel that only multiplies.

    Attributes:
        unit: its instruction.
        source, name: what to build.
        arch: for which architecture.
        threads, shared_bytes: of a block.
        blocks_per_sm: resident blocks.
        flop_per_round: of a block.
        rounds: so that a launch takes some 20 ms.
    """

    unit: Unit
    source: str
    name: str
    arch: str
    threads: int
    shared_bytes: int
    blocks_per_sm: int
    flop_per_round: float
    rounds: int


def tensor_kernels(arch: str) -> tuple[TensorKernel, ...]:
    """The kernels that show the ceilings of an architecture such as ``sm_90``."""
    number = int(arch.removeprefix("sm_"))
    found = []
    if number >= 80:
        flop = 8 * 16 * 2.0 * 16 * 8 * 16
        found.append(TensorKernel("mma.sync", MMA, "ceiling_mma", arch, 256, 0, 2, flop, 16000))
    if number == 90:
        shared = _WGMMA_STAGES * (2 * _WGMMA_A + _WGMMA_B)
        flop = 2 * 4 * _WGMMA_STAGES * 2.0 * 64 * 256 * 16
        found.append(
            TensorKernel("wgmma", WGMMA, "ceiling_wgmma", "sm_90a", 256, shared, 1, flop, 6000)
        )
    return tuple(found)


def datasheet(arch: str, gpu: str, sms: int) -> Ceilings:
    """The facts of ``configs/arch``: of the GPU by that name, else of the architecture's first.

    Args:
        arch: such as ``sm_90``.
        gpu: the device's name, such as ``NVIDIA H200``.
        sms: the device's multiprocessors.
    """
    facts: Arch = load_arch(arch)
    words = gpu.lower().split()
    named = [g for g in facts.gpus if g.name.lower().split()[0] in words]
    chosen = named[0] if named else facts.gpu
    clock = sms * chosen.clock_mhz * 1e6 / 1e12
    rates: dict[Unit, float] = {"mma.sync": facts.mma_rate("fp16") * clock}
    rates["fp32 FMA"] = 2 * facts.fma_per_clock * clock
    if facts.number == 90:
        rates["wgmma"] = WGMMA_FLOP_PER_CLOCK * clock
    return Ceilings(float(chosen.memory_gbs), rates)
