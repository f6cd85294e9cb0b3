"""CUDA C++ to PTX, cubin and resource usage, through the cache and within the time limit.

NVRTC makes the cubins: it holds the same assembler as ptxas, needs no second tool, compiles once
where PTX and ptxas would parse twice, and with ``-v`` its log tells registers and spills. ptxas
(``assemble``) serves those who have PTX only, and shows that the PTX we hand out assembles.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from deepgemm_codegen.errors import EnvironmentLackError, InputError, InternalError, ToolError
from deepgemm_codegen.toolchain import nvrtc, tools
from deepgemm_codegen.toolchain.cache import Cache, cache_key
from deepgemm_codegen.toolchain.ptx_version import lower_ptx_version
from deepgemm_codegen.toolchain.resources import (
    ResourceUsage,
    faults,
    parse_resources,
    without_statistics,
)
from deepgemm_codegen.toolchain.targets import Target

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "BuiltCubin",
    "CompiledPtx",
    "assemble",
    "build_cubin",
    "compile_ptx",
    "compiler_version",
    "options_for",
]

# The kernels write fma where they mean it; the compiler must not add any of its own.
_OPTIONS = ("-fmad=false", "--std=c++17")
_TIMEOUT = "DGEMM_COMPILATION_TIMEOUT_MS"
_NAME = re.compile(r"[\w.+-]+")
_PTX_TARGET = re.compile(r"^\.target\s+(\w+)", re.MULTILINE)
_PTX_RELEASE = re.compile(r"// Cuda compilation tools, release [\d.]+, V([\d.]+)")
# The child takes this process's import path, so that it finds the same packages.
_CHILD = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from deepgemm_codegen.toolchain.nvrtc import main; main()"
)


@dataclass(frozen=True, slots=True)
class CompiledPtx:
    """PTX, its ``.version`` lowered, with what the compiler said and which one it was.

    ``arch`` is what it was compiled for: the ``a`` variant where an old compiler lacks the ``f``.
    """

    ptx: str
    log: str
    compiler_version: str
    arch: str


@dataclass(frozen=True, slots=True)
class BuiltCubin:
    """A cubin and the PTX it was made from; resources by kernel name."""

    cubin: bytes
    ptx: str
    resources: Mapping[str, ResourceUsage]
    log: str
    compiler_version: str
    arch: str


def compile_ptx(
    source: str,
    *,
    name: str,
    arch: str,
    options: Sequence[str] = (),
    line_info: bool = False,
    cached: bool = True,
    env: Mapping[str, str] | None = None,
) -> CompiledPtx:
    """Compiles CUDA C++ without includes to PTX.

    Args:
        source: The text of the generated file.
        name: Its name without folder; logs and line information call it ``/NAME.cu``.
        arch: Such as ``sm_80`` or ``sm_90a``.
        options: More NVRTC options, after our own.
        line_info: Adds ``.loc`` lines; the instructions stay the same.
        cached: False neither reads nor writes the cache.
        env: ``DGEMM_CACHE_DIR`` and ``DGEMM_COMPILATION_TIMEOUT_MS``; by default ``os.environ``.

    Raises:
        EnvironmentLackError: NVRTC is missing, too old, or outran the time limit.
        ToolError: NVRTC rejects the text.
    """
    target = Target.parse(arch)
    built = _build(
        source,
        name,
        target,
        real=False,
        options=options,
        line_info=line_info,
        cached=cached,
        env=env,
    )
    return CompiledPtx(built.ptx, built.log, built.compiler_version, built.arch)


def build_cubin(
    source: str,
    *,
    name: str,
    arch: str,
    options: Sequence[str] = (),
    line_info: bool = False,
    cached: bool = True,
    env: Mapping[str, str] | None = None,
) -> BuiltCubin:
    """Compiles CUDA C++ without includes to a cubin, its PTX and its resource usage.

    Arguments and errors are those of ``compile_ptx``; further, a ToolError when the assembler
    warns that it serialises wgmma or ignores setmaxnreg (C75xx).
    """
    target = Target.parse(arch)
    return _build(
        source,
        name,
        target,
        real=True,
        options=options,
        line_info=line_info,
        cached=cached,
        env=env,
    )


def options_for(arch: str) -> list[str]:
    """The options of NVRTC that make the cubin for an architecture such as ``sm_90a``."""
    return [*_OPTIONS, f"--gpu-architecture={arch}", "--ptxas-options=-v"]


def _virtual_options(target: Target) -> list[str]:
    """Those that stop at PTX."""
    return [*_OPTIONS, f"--gpu-architecture={target.compute}"]


def compiler_version(env: Mapping[str, str] | None = None) -> str:
    """The compiler and its release, such as ``NVRTC 13.0.88``, as its PTX states it.

    The limit of a compile's time is for kernels, not for this question.

    Raises:
        EnvironmentLackError: NVRTC is missing.
    """
    source = 'extern "C" __global__ void nothing() {}\n'
    given = os.environ if env is None else env
    env = {name: value for name, value in given.items() if name != _TIMEOUT}
    return compile_ptx(source, name="nothing", arch="sm_80", env=env).compiler_version


def assemble(
    ptx: str,
    *,
    arch: str,
    options: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> BuiltCubin:
    """Assembles PTX with ptxas, uncached.

    Raises:
        EnvironmentLackError: ptxas is missing, too old for the PTX, or outran the time limit.
        ToolError: ptxas rejects the text, or warns C75xx.
    """
    env = os.environ if env is None else env
    target = Target.parse(arch)
    tool = tools.find_tool("ptxas", env)
    import tempfile  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="deepgemm_codegen-") as folder:
        arguments = [f"-arch={target.sm}", "-v", *options, "-o", "kernel.cubin", "-"]
        try:
            _, log = tools.run_tool(
                tool, arguments, folder=folder, stdin=ptx.encode(), timeout_ms=_timeout_ms(env)
            )
        except ToolError as error:
            if "Unsupported .version" in str(error) or "option 'gpu-name'" in str(error):
                raise EnvironmentLackError(
                    f"ptxas {tools.tool_version(tool)} is too old for this PTX or for "
                    f"{target.sm}: {nvrtc.INSTALL}\n{error}"
                ) from error
            raise
        with open(os.path.join(folder, "kernel.cubin"), "rb") as file:  # noqa: PTH118, PTH123
            cubin = file.read()
    _refuse_faults(log, "the PTX", target)
    return BuiltCubin(
        cubin=cubin,
        ptx=ptx,
        resources=parse_resources(log),
        log=without_statistics(log),
        compiler_version=f"ptxas {tools.tool_version(tool)}",
        arch=target.sm,
    )


def _build(
    source: str,
    name: str,
    target: Target,
    *,
    real: bool,
    options: Sequence[str],
    line_info: bool,
    cached: bool,
    env: Mapping[str, str] | None,
) -> BuiltCubin:
    env = os.environ if env is None else env
    if not _NAME.fullmatch(name):
        raise InternalError(f"program name {name!r} must be a plain file name")
    if "\0" in source:
        raise InternalError(
            f"the text of {name} holds a NUL, where the compiler would stop reading"
        )
    program = f"/{name.removesuffix('.cu')}.cu"
    timeout_ms = _timeout_ms(env)
    target = target.known_to(nvrtc.version())
    flags = options_for(target.sm) if real else _virtual_options(target)
    flags += ["-lineinfo"] * line_info + list(options)
    if not cached:
        built = _compiled(source, program, target, flags, real=real, timeout_ms=timeout_ms)
        return _lowered(built)
    cache = Cache.from_env(env)
    # The program's name is in the result only where there is line information.
    shaped_by = {"source": source, "compiler": nvrtc.fingerprint(), "flags": flags}
    key = cache_key(**shaped_by, **({"name": program} if line_info else {}))
    if (data := cache.get(key)) is not None:
        return _lowered(_unpacked(data))
    with cache.lock(key):
        # Another process may have built it while this one waited for the lock.
        if (data := cache.get(key, warn=False)) is not None:
            return _lowered(_unpacked(data))
        built = _compiled(source, program, target, flags, real=real, timeout_ms=timeout_ms)
        kind = "cubin" if real else "ptx"
        cache.put(key, f"{program[1:]} {target.sm} {kind}", _packed(built))
    return _lowered(built)


def _compiled(
    source: str,
    program: str,
    target: Target,
    flags: list[str],
    *,
    real: bool,
    timeout_ms: int | None,
) -> BuiltCubin:
    if timeout_ms is None:
        output = nvrtc.compile_program(source, program, target, flags)
    else:
        output = _in_child(source, program, target, flags, timeout_ms)
    _refuse_faults(output.log, program, target)
    stated = _PTX_TARGET.search(output.ptx)
    if stated is None or stated[1] != target.sm:
        raise ToolError(
            f"NVRTC compiled {program} for {stated[1] if stated else 'no target'} although "
            f"{target.sm} was asked for; options {' '.join(flags)}"
        )
    release = _PTX_RELEASE.search(output.ptx)
    return BuiltCubin(
        cubin=output.cubin,
        ptx=output.ptx,
        resources=parse_resources(output.log) if real else {},
        log=without_statistics(output.log),
        compiler_version=f"NVRTC {release[1] if release else '.'.join(map(str, nvrtc.version()))}",
        arch=target.sm,
    )


def _lowered(built: BuiltCubin) -> BuiltCubin:
    """The cache holds what the compiler wrote: its entries outlive our tables of versions."""
    return replace(built, ptx=lower_ptx_version(built.ptx))


def _in_child(
    source: str, program: str, target: Target, flags: list[str], timeout_ms: int
) -> nvrtc.NvrtcOutput:
    """Compiles in a process of its own, the only way to stop NVRTC once it runs."""
    import subprocess  # noqa: PLC0415
    import sys  # noqa: PLC0415

    request = {"source": source, "name": program, "target": target.sm, "options": flags}
    command = [sys.executable, "-I", "-c", _CHILD, json.dumps(sys.path)]
    try:
        done = subprocess.run(
            command,
            input=json.dumps(request).encode(),
            capture_output=True,
            timeout=timeout_ms / 1000,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise tools.timed_out(f"NVRTC did not compile {program.lstrip('/')}", timeout_ms) from error
    except OSError as error:
        raise EnvironmentLackError(
            f"cannot start {sys.executable or 'Python'} for a compile with a time limit "
            f"({error.strerror}); unset {_TIMEOUT}"
        ) from error
    try:
        reply = json.loads(done.stdout)
    except ValueError as error:
        printed = (done.stderr + done.stdout).decode("utf-8", "replace")
        raise ToolError(
            f"NVRTC's process ended with exit status {done.returncode} while it compiled "
            f"{program}\n{printed or '(it printed nothing)'}"
        ) from error
    if "error" in reply:
        lack = reply["error"] == "EnvironmentLackError"
        raise (EnvironmentLackError if lack else ToolError)(reply["message"])
    return nvrtc.NvrtcOutput(reply["ptx"], bytes.fromhex(reply["cubin"]), reply["log"])


def _timeout_ms(env: Mapping[str, str]) -> int | None:
    text = env.get(_TIMEOUT, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= 86_400_000):
        raise InputError(
            f"{_TIMEOUT}={text} is not a whole number of milliseconds from 1 to 86400000 (a day); "
            f"unset it for no limit"
        )
    return int(text)


def _refuse_faults(log: str, what: str, target: Target) -> None:
    if lines := faults(log):
        raise ToolError(
            f"the assembler works against the code of {what} for {target.sm}:\n" + "\n".join(lines)
        )


def _packed(built: BuiltCubin) -> bytes:
    fields = asdict(built)
    cubin = fields.pop("cubin")
    return json.dumps(fields).encode() + b"\n" + bytes(cubin)


def _unpacked(data: bytes) -> BuiltCubin:
    header, _, cubin = data.partition(b"\n")
    fields = json.loads(header)
    resources = {name: ResourceUsage(**usage) for name, usage in fields.pop("resources").items()}
    return BuiltCubin(cubin=cubin, resources=resources, **fields)
