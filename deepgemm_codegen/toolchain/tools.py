"""NVIDIA's command-line tools: finding them, running them, saying what is missing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from deepgemm_codegen.errors import EnvironmentLackError, KernelLackError, ToolError
from deepgemm_codegen.toolchain.nvrtc import INSTALL

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["disassemble", "find_tool", "run_tool", "tool_version"]

# Folders of NVIDIA's wheels inside site-packages/nvidia: CUDA 13's one, then CUDA 12's three.
_WHEELS = ("cu13", "cuda_nvcc", "cuda_nvdisasm", "cuda_cuobjdump")
_STANDARD = Path("/usr/local/cuda/bin")


def _wheel_folders() -> list[Path]:
    from importlib.util import find_spec  # noqa: PLC0415

    spec = find_spec("nvidia")
    bases = (spec.submodule_search_locations if spec else None) or []
    return [Path(base) / wheel / "bin" for wheel in _WHEELS for base in bases]


def find_tool(name: str, env: Mapping[str, str] | None = None) -> Path:
    """The executable ``name``: from NVIDIA's wheels, CUDA_HOME, CUDA_PATH, PATH, in this order.

    The wheels come first because their version is the one we chose; a PATH may hold anything.

    Raises:
        EnvironmentLackError: It is nowhere; the message names the tool and what installs it.
    """
    env = os.environ if env is None else env
    folders = _wheel_folders()
    folders += [Path(env[key]) / "bin" for key in ("CUDA_HOME", "CUDA_PATH") if env.get(key)]
    folders += [Path(entry) for entry in env.get("PATH", "").split(os.pathsep) if entry]
    folders.append(_STANDARD)
    found = shutil.which(name, path=os.pathsep.join(map(str, folders)))
    if found is None:
        raise EnvironmentLackError(
            f"the tool {name} was not found in NVIDIA's wheels, CUDA_HOME, CUDA_PATH or PATH: "
            f"{INSTALL}"
        )
    return Path(found)


def run_tool(
    tool: Path,
    arguments: list[str],
    *,
    folder: str | None = None,
    stdin: bytes = b"",
    timeout_ms: int | None = None,
) -> tuple[bytes, str]:
    """Runs ``tool`` in ``folder``; returns its stdout and its stderr.

    Raises:
        ToolError: It failed; the message carries everything it printed.
        EnvironmentLackError: It could not be started.
        KernelLackError: It took longer than ``timeout_ms``.
    """
    import subprocess  # noqa: PLC0415  only those who run a tool pay for it

    shown = " ".join([tool.name, *arguments])
    limit = None if timeout_ms is None else timeout_ms / 1000
    try:
        done = subprocess.run(
            [tool, *arguments],
            input=stdin,
            capture_output=True,
            cwd=folder,
            timeout=limit,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise timed_out(f"{tool.name} did not finish", timeout_ms or 0) from error
    except OSError as error:
        raise EnvironmentLackError(
            f"the tool {tool} could not be started ({error.strerror}): {INSTALL}"
        ) from error
    stderr = done.stderr.decode("utf-8", "replace")
    if done.returncode:
        printed = stderr + done.stdout.decode("utf-8", "replace") or "(it printed nothing)"
        raise ToolError(f"{shown} failed with exit status {done.returncode}\n{printed}")
    return done.stdout, stderr


def timed_out(what: str, timeout_ms: int) -> KernelLackError:
    """The error of a compile that outran the user's limit; the next kernel may be quicker."""
    return KernelLackError(
        f"{what} within the {timeout_ms} ms of DGEMM_COMPILATION_TIMEOUT_MS; raise the limit, or "
        f"unset it for none"
    )


def tool_version(tool: Path) -> str:
    """The release a tool states, such as ``13.0.88``; ``unknown`` when it states none."""
    import re  # noqa: PLC0415

    out, _ = run_tool(tool, ["--version"])
    match = re.search(r"\bV(\d+\.\d+\.\d+)", out.decode("utf-8", "replace"))
    return match[1] if match else "unknown"


def disassemble(cubin: bytes, env: Mapping[str, str] | None = None) -> str:
    """The SASS text of a cubin, by nvdisasm.

    cuobjdump is no second way: it calls nvdisasm itself.

    Raises:
        EnvironmentLackError: nvdisasm is missing.
        ToolError: nvdisasm cannot read the cubin; its output is shown.
    """
    import tempfile  # noqa: PLC0415

    tool = find_tool("nvdisasm", env)
    with tempfile.TemporaryDirectory(prefix="deepgemm_codegen-") as folder:
        (Path(folder) / "kernel.cubin").write_bytes(cubin)
        out, _ = run_tool(tool, ["--print-code", "kernel.cubin"], folder=folder)
    return out.decode("utf-8", "replace")
