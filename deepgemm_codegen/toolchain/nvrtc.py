"""NVRTC, NVIDIA's run-time compiler, called through cuda-bindings.

Why cuda-bindings and not ctypes: NVRTC's own ten functions load in 10 ms through ctypes against
80 ms for ``import cuda.bindings.nvrtc``, and a small kernel then compiles in 25 ms. But the CUDA
13.0 wheel cannot open its own ``libnvrtc-builtins`` unless somebody loads that first, and the
library hides in a different folder for each of the CUDA 13 wheels, the CUDA 12 wheels, conda,
``CUDA_HOME`` and the system's loader. NVIDIA maintains exactly this in cuda-bindings, and the
whole command stays below its 0.6 s.

Everything here runs in one process, once, without cache or time limit: ``build`` adds those.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from dataclasses import dataclass
from typing import Any

from deepgemm_codegen.errors import EnvironmentLackError, ToolError
from deepgemm_codegen.toolchain.targets import Target

__all__ = [
    "INSTALL",
    "NEWEST",
    "NONE_NEWER",
    "NvrtcOutput",
    "compile_program",
    "fingerprint",
    "main",
    "version",
]

INSTALL = (
    "pip install 'deepgemm_codegen[compile]' (or 'deepgemm_codegen[cuda12]' for a CUDA 12 driver)"
)

NEWEST = (13, 0)
"""The newest NVRTC that the extras of `pyproject.toml` install."""

NONE_NEWER = (
    "The package's extras install no newer one; --emit=cu writes the source for one that knows it"
)


CACHES_FROM = (12, 9)
"""The NVRTC from which on it keeps what it compiled, where there is a driver (NVRTC's guide,
"Caching"). A text that it compiled before, comments apart, then comes without ptxas' log: without
registers, spills and warnings."""


@dataclass(frozen=True, slots=True)
class NvrtcOutput:
    """What one compile gave: PTX always, a cubin when asked for a real architecture."""

    ptx: str
    cubin: bytes
    log: str


def _bindings() -> Any:
    try:
        from cuda.bindings import nvrtc  # noqa: PLC0415  80 ms that a cache hit's siblings skip
    except ImportError as error:
        raise EnvironmentLackError(
            f"the Python package cuda-bindings is missing ({error}): {INSTALL}"
        ) from error
    return nvrtc


def version() -> tuple[int, int]:
    """NVRTC's CUDA version, such as ``(13, 0)``; loads the library."""
    nvrtc = _bindings()
    try:
        status, major, minor = nvrtc.nvrtcVersion()
    except (RuntimeError, OSError) as error:  # cuda-bindings could not load the library
        first = str(error).strip().partition("\n")[0]
        raise EnvironmentLackError(
            f"the library libnvrtc (NVRTC) was not found in NVIDIA's wheels, CUDA_HOME or the "
            f"system ({first}): {INSTALL}"
        ) from error
    _check(nvrtc, status, "nvrtcVersion")
    return int(major), int(minor)


def fingerprint() -> str:
    """Names the compiler's build for a cache key: its version and its library's size.

    Two patch releases share the version number that NVRTC tells; the size sets them apart
    without bringing an installation path into the key.
    """
    major, minor = version()
    size = 0
    # Linux lists the files a process has mapped, whoever found them and wherever they are.
    with contextlib.suppress(OSError), open("/proc/self/maps", encoding="utf-8") as maps:  # noqa: PTH123
        for line in maps:
            path = line.rstrip("\n").partition("/")[2]
            if path.rpartition("/")[2].startswith("libnvrtc.so"):
                size = os.stat(f"/{path}").st_size  # noqa: PTH116
                break
    return f"nvrtc {major}.{minor} {size}"


def compile_program(source: str, name: str, target: Target, options: list[str]) -> NvrtcOutput:
    """Compiles ``source``; ``options`` are NVRTC's, the architecture among them.

    Raises:
        EnvironmentLackError: NVRTC is missing, or too old to know the architecture.
        ToolError: NVRTC rejects the text or an option; the message ends with its log.
    """
    release = version()
    nvrtc = _bindings()
    status, known = nvrtc.nvrtcGetSupportedArchs()
    _check(nvrtc, status, "nvrtcGetSupportedArchs")
    if target.number not in known:
        listed = ", ".join(f"sm_{number}" for number in sorted(known))
        mend = f"Install a newer one: {INSTALL}" if release < NEWEST else NONE_NEWER
        raise EnvironmentLackError(
            f"NVRTC {release[0]}.{release[1]} does not know {target.sm}; it knows {listed}. {mend}"
        )
    status, program = nvrtc.nvrtcCreateProgram(source.encode(), name.encode(), 0, [], [])
    _check(nvrtc, status, "nvrtcCreateProgram")
    try:
        raw = [option.encode() for option in options]
        if release >= CACHES_FROM:
            raw.append(b"--no-cache")
        (status,) = nvrtc.nvrtcCompileProgram(program, len(raw), raw)
        log = _text(_output(nvrtc, program, "ProgramLog"))
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise ToolError(
                f"NVRTC {release[0]}.{release[1]} rejected {name} for {target.sm} "
                f"({status.name}); options {' '.join(options)}\n{log or '(it gave no log)'}"
            )
        return NvrtcOutput(
            ptx=_text(_output(nvrtc, program, "PTX")),
            cubin=_output(nvrtc, program, "CUBIN"),
            log=log,
        )
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _output(nvrtc: Any, program: Any, what: str) -> bytes:
    status, size = getattr(nvrtc, f"nvrtcGet{what}Size")(program)
    _check(nvrtc, status, f"nvrtcGet{what}Size")
    if not size:
        return b""
    # The binding writes into the bytes object that it is handed. CPython shares one-byte objects
    # between all their users, so take one byte more than is needed.
    filled = bytes(size + 1)
    (status,) = getattr(nvrtc, f"nvrtcGet{what}")(program, filled)
    _check(nvrtc, status, f"nvrtcGet{what}")
    return filled[:size]


def _text(raw: bytes) -> str:
    return (
        raw.decode("utf-8", "replace").rstrip("\0").strip("\n") + "\n" if raw.strip(b"\0") else ""
    )


def _check(nvrtc: Any, status: Any, call: str) -> None:
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise ToolError(f"{call} failed with {getattr(status, 'name', status)}")


def main() -> None:
    """One compile in a process of its own: a request on stdin, its result on stdout, as JSON."""
    request = json.load(sys.stdin)
    target = Target.parse(request["target"])
    try:
        output = compile_program(request["source"], request["name"], target, request["options"])
        reply = {"ptx": output.ptx, "cubin": output.cubin.hex(), "log": output.log}
    except (EnvironmentLackError, ToolError) as error:
        reply = {"error": type(error).__name__, "message": str(error)}
    json.dump(reply, sys.stdout)
