"""What this machine has, what each lack costs, and what mends it; it needs nothing installed.

Every check becomes one line, whatever it meets. A line that is not ``ok`` says what to do.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

from deepgemm_codegen.errors import CodegenError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Finding", "examine", "verdict"]

_LACK = 3
_AGAIN = "pip install --force-reinstall"
_NEEDED = {
    "click": "click",
    "jinja2": "Jinja2",
    "yaml": "PyYAML",
    "numpy": "numpy",
    "ml_dtypes": "ml_dtypes",
    "filelock": "filelock",
    "platformdirs": "platformdirs",
}
"""Packages by module; without one of them some command does not work."""

_DRIVER = (
    "install NVIDIA's driver to run kernels on a GPU; without one the CPU emulator judges them"
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report.

    Attributes:
        what: the part looked for.
        state: ``ok``; ``lack`` when a command needs it; ``none`` when it only adds something.
        text: what was found, or what to do.
    """

    what: str
    state: Literal["ok", "lack", "none"]
    text: str

    def __str__(self) -> str:
        return f"{self.state:<5} {self.what:<12} {self.text}"


def _python() -> Finding:
    from platform import python_implementation, python_version  # noqa: PLC0415

    return Finding("python", "ok", f"{python_implementation()} {python_version()}")


def _package(module: str, name: str, cost: str = "") -> Finding:
    """A package that is needed, or, with a cost, one that adds something."""
    from importlib import metadata, util  # noqa: PLC0415

    if util.find_spec(module) is None:
        text = f"not installed{cost and f'; {cost}'}: pip install {name}"
        return Finding(module, "none" if cost else "lack", text)
    try:
        return Finding(module, "ok", metadata.version(name))
    except metadata.PackageNotFoundError:
        return Finding(module, "ok", "installed")


def _templates() -> Finding:
    from deepgemm_codegen.resources import data_folder  # noqa: PLC0415

    templates = len(list(data_folder("templates").rglob("*.j2")))
    facts = len(list((data_folder("configs") / "arch").glob("sm_*.yaml")))
    if not templates or not facts:
        return Finding(
            "templates", "lack", f"the installation is incomplete: {_AGAIN} deepgemm_codegen"
        )
    return Finding("templates", "ok", f"{templates} templates, {facts} architectures")


def _nvrtc() -> Finding:
    from deepgemm_codegen.toolchain import nvrtc  # noqa: PLC0415
    from deepgemm_codegen.toolchain.targets import Target  # noqa: PLC0415

    major, minor = nvrtc.version()
    options = ["--gpu-architecture=compute_80"]
    ptx = nvrtc.compile_program("", "/nothing.cu", Target(80), options).ptx
    isa = ptx.partition(".version ")[2].partition("\n")[0]
    return Finding("nvrtc", "ok", f"CUDA {major}.{minor}, PTX ISA {isa}; compiles to PTX and cubin")


def _tool(name: str, purpose: str) -> Finding:
    from deepgemm_codegen.toolchain import find_tool, tool_version  # noqa: PLC0415

    path = find_tool(name)
    return Finding(name, "ok", f"{tool_version(path)} ({path}); {purpose}")


def _driver() -> Finding:
    """The driver and its GPUs, asked of libcuda itself: cupy need not be there."""
    import ctypes  # noqa: PLC0415

    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return Finding("gpu", "none", f"no NVIDIA driver; {_DRIVER}")
    status = cuda.cuInit(0)
    if status:
        return Finding(
            "gpu",
            "none",
            f"the driver finds no usable GPU (cuInit says {status}): look at nvidia-smi and at"
            " CUDA_VISIBLE_DEVICES",
        )
    version, count = ctypes.c_int(), ctypes.c_int()
    cuda.cuDriverGetVersion(ctypes.byref(version))
    cuda.cuDeviceGetCount(ctypes.byref(count))
    models: dict[str, int] = {}
    for index in range(count.value):
        name = ctypes.create_string_buffer(256)
        cuda.cuDeviceGetName(name, 256, index)
        numbers = []
        for attribute in (75, 76):  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR
            number = ctypes.c_int()
            cuda.cuDeviceGetAttribute(ctypes.byref(number), attribute, index)
            numbers.append(str(number.value))
        model = f"{name.value.decode('utf-8', 'replace')} (sm_{''.join(numbers)})"
        models[model] = models.get(model, 0) + 1
    release = f"CUDA {version.value // 1000}.{version.value % 1000 // 10}"
    if not models:
        return Finding("gpu", "none", f"the driver ({release}) sees no GPU; {_DRIVER}")
    shown = ", ".join(f"{times} x {model}" for model, times in models.items())
    return Finding("gpu", "ok", f"{shown}; the driver serves up to {release}")


def _cupy() -> Finding:
    from importlib.util import find_spec  # noqa: PLC0415

    if find_spec("cupy") is None:
        return Finding(
            "cupy",
            "none",
            "not installed; needed only to run kernels on a GPU:"
            " pip install 'deepgemm_codegen[cuda13]' (or [cuda12])",
        )
    import cupy  # noqa: PLC0415

    return Finding("cupy", "ok", f"{cupy.__version__}")


def _cache() -> Finding:
    from deepgemm_codegen.toolchain import Cache  # noqa: PLC0415

    info = Cache.from_env().info()
    if info.folder is None:
        return Finding("cache", "none", "no home folder; set DGEMM_CACHE_DIR to keep kernels")
    if not info.keeps:
        return Finding(
            "cache", "none", f"{info.folder} cannot be written; set DGEMM_CACHE_DIR to keep kernels"
        )
    kernels = len(info.entries)
    return Finding("cache", "ok", f"{info.folder}, {kernels} kernels; cleared by: cache clear")


def _arch(wanted: str) -> Finding:
    """Whether kernels of an architecture can be decided, compiled, and run here."""
    from deepgemm_codegen.arch import load_arch  # noqa: PLC0415
    from deepgemm_codegen.toolchain import nvrtc  # noqa: PLC0415
    from deepgemm_codegen.toolchain.targets import Target, explain_mismatch  # noqa: PLC0415

    arch = load_arch(wanted)
    suffix = arch.suffix if arch.wgmma else ""
    target = Target(arch.number, suffix)
    nvrtc.compile_program("", "/nothing.cu", target, [f"--gpu-architecture={target.sm}"])
    compiles = f"NVRTC compiles for {target.sm}"
    here = _gpu_arch()
    if not here:
        return Finding(
            wanted, "none", f"{compiles}; no GPU to run it on: give --on=emulator, or {_DRIVER}"
        )
    mismatch = explain_mismatch(target.sm, here, ptx=not suffix)
    if mismatch is None:
        return Finding(wanted, "ok", f"{compiles}, and {here} runs it")
    return Finding(wanted, "none", f"{compiles}; {mismatch}")


def _gpu_arch() -> str:
    """The architecture of the first GPU, such as ``sm_90``; empty where there is none."""
    finding = _look("gpu", _driver)
    return finding.text.partition("(")[2].partition(")")[0] if finding.state == "ok" else ""


_CHECKS: tuple[tuple[str, Callable[[], Finding]], ...] = (
    ("python", _python),
    *((module, partial(_package, module, name)) for module, name in _NEEDED.items()),
    ("rich", partial(_package, "rich", "rich", "progress and tables are plain")),
    ("templates", _templates),
    ("nvrtc", _nvrtc),
    ("ptxas", partial(_tool, "ptxas", "assembles PTX from elsewhere")),
    ("nvdisasm", partial(_tool, "nvdisasm", "serves --emit=sass")),
    ("gpu", _driver),
    ("cupy", _cupy),
    ("cache", _cache),
)
_OPTIONAL = ("rich", "ptxas", "nvdisasm", "gpu", "cupy", "cache")


def _look(what: str, check: Callable[[], Finding], *, optional: bool = False) -> Finding:
    """One check; whatever it meets becomes a line and not an end."""
    try:
        return check()
    except CodegenError as error:
        text = " ".join(str(error).split())
    except ModuleNotFoundError as error:
        text = f"the Python package {error.name} is missing: pip install {error.name}"
    except Exception as error:  # noqa: BLE001  a broken installation breaks in any way it likes
        cause = f"broken ({type(error).__name__}: {' '.join(str(error).split())})"
        package = _NEEDED.get(what, what if what in ("cupy", "rich") else "deepgemm_codegen")
        text = f"{cause}: {_AGAIN} {package}"
    return Finding(what, "none" if optional or what in _OPTIONAL else "lack", text)


def examine(arch: str = "") -> list[Finding]:
    """Every check's line.

    Args:
        arch: an architecture to ask about too, such as ``sm_90a``.
    """
    found = [_look(what, check) for what, check in _CHECKS]
    if arch:
        found.append(_look(arch, partial(_arch, arch)))
    return found


def verdict(findings: list[Finding]) -> tuple[int, str]:
    """The exit code, and what the machine is good for in one line."""
    good = {finding.what for finding in findings if finding.state == "ok"}
    if not {"click", "jinja2", "yaml", "templates"} <= good:
        return _LACK, "cannot generate kernels; mend the lines marked lack"
    if "nvrtc" not in good:
        from deepgemm_codegen.toolchain.nvrtc import INSTALL  # noqa: PLC0415

        return _LACK, f"writes CUDA C++ (--emit=cu) but no PTX; mend that with: {INSTALL}"
    able = ["writes CUDA C++, PTX and cubins"]
    if "nvdisasm" in good:
        able.append("shows SASS")
    if {"numpy", "ml_dtypes"} <= good:
        judges = ["emulator", *(["GPU"] if {"gpu", "cupy"} <= good else [])]
        able.append(f"verifies on the {' and the '.join(judges)}")
    lacking = sum(finding.state == "lack" for finding in findings)
    return (_LACK if lacking else 0), "; ".join(able)
