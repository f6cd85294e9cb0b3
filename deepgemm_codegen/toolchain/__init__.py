"""CUDA C++ text to PTX, cubin, resource usage and SASS, through NVIDIA's own compilers.

This room knows texts, compilers and architectures, and nothing of matrix products.
"""

from __future__ import annotations

from deepgemm_codegen.toolchain.build import (
    BuiltCubin,
    CompiledPtx,
    assemble,
    build_cubin,
    compile_ptx,
    compiler_version,
    options_for,
)
from deepgemm_codegen.toolchain.cache import Cache, CacheEntry, CacheInfo, CacheWarning
from deepgemm_codegen.toolchain.ptx_version import (
    PtxRequirement,
    lower_ptx_version,
    ptx_requirement,
)
from deepgemm_codegen.toolchain.resources import ResourceUsage, occupancy
from deepgemm_codegen.toolchain.targets import explain_mismatch, target_for
from deepgemm_codegen.toolchain.tools import disassemble, find_tool, tool_version

__all__ = [
    "BuiltCubin",
    "Cache",
    "CacheEntry",
    "CacheInfo",
    "CacheWarning",
    "CompiledPtx",
    "PtxRequirement",
    "ResourceUsage",
    "assemble",
    "build_cubin",
    "compile_ptx",
    "compiler_version",
    "disassemble",
    "explain_mismatch",
    "find_tool",
    "lower_ptx_version",
    "occupancy",
    "options_for",
    "ptx_requirement",
    "target_for",
    "tool_version",
]
