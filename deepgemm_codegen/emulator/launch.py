"""A launch, and the checks of it before anything runs."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.emulator.buffers import GlobalBuffer, Pointer, PointerTable
from deepgemm_codegen.emulator.faults import LaunchError
from deepgemm_codegen.emulator.tensormap import TensorMap
from deepgemm_codegen.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deepgemm_codegen.emulator.program import Program

__all__ = ["Dim3", "Launch", "check_launch", "check_shared", "whole_clusters"]

Dim3 = tuple[int, int, int]
Parameter = (
    int
    | float
    | bytes
    | np.generic
    | np.ndarray[Any, Any]
    | GlobalBuffer
    | Pointer
    | PointerTable
    | TensorMap
)

# The largest sizes in x, y, z, threads of a block and blocks of a cluster (CUDA C++ Programming
# Guide, "Technical specifications per compute capability").
_GRID = (2**31 - 1, 65535, 65535)
_BLOCK = (1024, 1024, 64)
_THREADS = 1024
_CLUSTER = 16
_MANY = 1 << 22  # blocks that nobody runs without naming some
_ALWAYS = 48 << 10  # bytes of shared memory that every GPU has


@dataclass(frozen=True, slots=True)
class Launch:
    """How a kernel is launched.

    Attributes:
        grid: blocks in x, y, z: the real grid, also where only some blocks run.
        block: threads in x, y, z.
        shared_bytes: dynamic shared memory.
        params: one for each kernel parameter, in order: integers, floats, numpy arrays (buffers
            that the kernel may write), buffers or pointers into them, tensor maps, bytes for a
            structure.
        cluster: blocks of a cluster in x, y, z; None for what the kernel was compiled for.
        dependent: whether the kernel before may still run (programmatic dependent launch): no
            thread may touch global memory before its ``griddepcontrol.wait``.
    """

    grid: Dim3
    block: Dim3
    shared_bytes: int = 0
    params: Sequence[Parameter] = ()
    cluster: Dim3 | None = None
    dependent: bool = False

    def __post_init__(self) -> None:
        """Sizes as tuples of Python's whole numbers.

        Raises:
            LaunchError: they are none.
        """
        for name in ("grid", "block", "cluster"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, _dim3(name, value))
        if not isinstance(self.shared_bytes, Integral):
            raise LaunchError(f"shared_bytes = {self.shared_bytes!r}: a whole number was expected")


def _dim3(what: str, value: Any) -> Dim3:
    """Three whole numbers, given as any sequence of them."""
    three = isinstance(value, list | tuple) and len(value) == 3
    if not three or not all(isinstance(each, Integral) for each in value):
        raise LaunchError(
            f"{what} = {value!r}: three whole numbers were expected, in x, y, z, such as (8, 1, 1)"
        )
    x, y, z = (int(each) for each in value)
    return x, y, z


def check_launch(
    program: Program, launch: Launch, blocks: Sequence[Dim3] | None
) -> tuple[list[Dim3], Dim3]:
    """The blocks to run, whole clusters together, and the size of a cluster.

    Raises:
        LaunchError: sizes that no GPU takes, or that do not fit the kernel or each other.
    """
    for what, sizes, limits in (
        ("grid", launch.grid, _GRID), ("block", launch.block, _BLOCK),
    ):  # fmt: skip
        if not all(1 <= n <= m for n, m in zip(sizes, limits, strict=True)):
            given = ", ".join(map(str, sizes))
            upper = ", ".join(map(str, limits))
            raise LaunchError(f"{what} ({given}): sizes are 1 to {upper} in x, y, z")
    threads = prod(launch.block)
    if threads > _THREADS:
        raise LaunchError(f"{threads} threads in a block; a block has 1 to {_THREADS}")
    bounds = program.bounds
    if 0 < bounds.max_threads < threads:
        raise LaunchError(
            f"{threads} threads in a block; {program.name} allows {bounds.max_threads}"
        )
    if bounds.block is not None and bounds.block != launch.block:
        raise LaunchError(
            f"blocks of {launch.block} threads; {program.name} demands {bounds.block} (.reqntid)"
        )
    if blocks is None:
        if prod(launch.grid) > _MANY:
            raise LaunchError(
                f"a grid of {prod(launch.grid)} blocks: name the blocks to run, {_MANY} at most"
            )
        gx, gy, gz = launch.grid
        blocks = [(x, y, z) for z in range(gz) for y in range(gy) for x in range(gx)]
    else:
        blocks = _named(blocks, launch.grid)
    cluster = bounds.cluster if launch.cluster is None else launch.cluster
    if min(cluster) < 1 or prod(cluster) > _CLUSTER:
        raise LaunchError(f"a cluster of {cluster}; a cluster has 1 to {_CLUSTER} blocks")
    return whole_clusters(list(blocks), launch.grid, cluster), cluster


def _named(blocks: Sequence[Dim3], grid: Dim3) -> list[Dim3]:
    """The blocks that a caller names.

    Raises:
        LaunchError: there are none, one stands twice, or one lies outside the grid.
    """
    found: dict[Dim3, None] = {}
    for given in blocks:
        block = _dim3("block", given)
        if not all(0 <= b < g for b, g in zip(block, grid, strict=True)):
            raise LaunchError(f"block {block} lies outside the grid {grid}")
        if block in found:
            raise LaunchError(f"block {block} is named twice; a launch has each of its blocks once")
        found[block] = None
    if not found:
        raise LaunchError("no block to run; None stands for all of the grid")
    return list(found)


def check_shared(program: Program, arch: str, fixed: int, dynamic: int) -> None:
    """Whether a block's shared memory fits the GPU that is imitated.

    Raises:
        LaunchError: it does not.
    """
    if dynamic < 0:
        raise LaunchError(f"{dynamic} bytes of dynamic shared memory")
    if fixed + dynamic <= _ALWAYS:
        return
    try:
        limit = load_arch(arch).shared_per_block
    except InputError:
        return  # an architecture with no facts file
    if fixed + dynamic > limit:
        raise LaunchError(
            f"{program.name} needs {fixed + dynamic} bytes of shared memory a block ({fixed} of "
            f"its own, {dynamic} of the launch); {arch} has {limit}"
        )


def whole_clusters(blocks: list[Dim3], grid: Dim3, cluster: Dim3) -> list[Dim3]:
    """The blocks, cluster by cluster in order of first appearance, each in order of rank.

    Raises:
        LaunchError: a grid that is no whole number of clusters, or a part of a cluster.
    """
    if cluster == (1, 1, 1):
        return blocks
    if any(g % c for g, c in zip(grid, cluster, strict=True)):
        raise LaunchError(f"grid {grid} is no whole number of clusters {cluster}")
    cx, cy, cz = cluster
    chosen = set(blocks)
    result: dict[Dim3, None] = {}
    for x, y, z in blocks:
        first = (x // cx * cx, y // cy * cy, z // cz * cz)
        for k in range(cz):
            for j in range(cy):
                for i in range(cx):
                    block = (first[0] + i, first[1] + j, first[2] + k)
                    if block not in chosen:
                        raise LaunchError(
                            f"block {block} is missing: it shares a cluster with {(x, y, z)}"
                        )
                    result[block] = None
    return list(result)
