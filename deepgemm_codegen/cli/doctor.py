"""``doctor``: what this machine has, what each lack costs, and how to mend it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from deepgemm_codegen import __version__
from deepgemm_codegen.cli.flags import Command, SectionedOption, level_flags, take_console
from deepgemm_codegen.cli.request import environment_settings
from deepgemm_codegen.cli.streams import print_data
from deepgemm_codegen.errors import CodegenError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["COMMAND", "Finding"]

_FORMAT = "1.0"
_LACK = 3
_CORE = {"jinja2": "Jinja2", "yaml": "PyYAML", "numpy": "numpy", "ml_dtypes": "ml_dtypes"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report.

    Attributes:
        what: the part looked for.
        state: ``ok``; ``lack`` when a command needs it; ``none`` when it only adds something.
        text: what was found, or what installs it.
    """

    what: str
    state: Literal["ok", "lack", "none"]
    text: str

    def __str__(self) -> str:
        return f"{self.state:<5} {self.what:<10} {self.text}"


def _python() -> Finding:
    from platform import python_implementation, python_version  # noqa: PLC0415

    return Finding("python", "ok", f"{python_implementation()} {python_version()}")


def _package(module: str) -> Finding:
    from importlib import metadata, util  # noqa: PLC0415

    name = _CORE[module]
    if util.find_spec(module) is None:
        return Finding(module, "lack", f"not installed: pip install {name}")
    try:
        return Finding(module, "ok", metadata.version(name))
    except metadata.PackageNotFoundError:
        return Finding(module, "ok", "installed")


def _templates() -> Finding:
    from deepgemm_codegen.resources import data_folder  # noqa: PLC0415

    templates = len(list(data_folder("templates").rglob("*.j2")))
    facts = len(list((data_folder("configs") / "arch").glob("sm_*.yaml")))
    if not templates or not facts:
        return Finding("templates", "lack", "the installation is incomplete: install it again")
    return Finding("templates", "ok", f"{templates} templates, {facts} architectures")


def _nvrtc() -> Finding:
    from deepgemm_codegen.toolchain import nvrtc  # noqa: PLC0415

    major, minor = nvrtc.version()
    return Finding("nvrtc", "ok", f"CUDA {major}.{minor}; compiles to PTX and cubin")


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
        return Finding("gpu", "none", "no NVIDIA driver; kernels are judged on the CPU emulator")
    status = cuda.cuInit(0)
    if status:
        return Finding("gpu", "none", f"the driver finds no usable GPU (cuInit says {status})")
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
    shown = ", ".join(f"{times} x {model}" for model, times in models.items()) or "none"
    release = f"CUDA {version.value // 1000}.{version.value % 1000 // 10}"
    state: Literal["ok", "none"] = "ok" if models else "none"
    return Finding("gpu", state, f"{shown}; the driver serves up to {release}")


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
    at = info.folder
    while not at.exists():
        at = at.parent
    if not os.access(at, os.W_OK):
        return Finding(
            "cache", "none", f"{info.folder} cannot be written; set DGEMM_CACHE_DIR to keep kernels"
        )
    kernels = len(info.entries)
    return Finding("cache", "ok", f"{info.folder}, {kernels} kernels; cleared by: cache clear")


_CHECKS: tuple[tuple[str, Callable[[], Finding]], ...] = (
    ("python", _python),
    *((module, partial(_package, module)) for module in _CORE),
    ("templates", _templates),
    ("nvrtc", _nvrtc),
    ("ptxas", partial(_tool, "ptxas", "assembles PTX from elsewhere")),
    ("nvdisasm", partial(_tool, "nvdisasm", "serves --emit=sass")),
    ("gpu", _driver),
    ("cupy", _cupy),
    ("cache", _cache),
)
_OPTIONAL = ("ptxas", "nvdisasm", "gpu", "cupy", "cache")


def _look(what: str, check: Callable[[], Finding]) -> Finding:
    """One check; whatever it meets becomes a line and not an end."""
    try:
        return check()
    except CodegenError as error:
        text = " ".join(str(error).split())
    except ModuleNotFoundError as error:
        text = f"the Python package {error.name} is missing: pip install {error.name}"
    except Exception as error:  # noqa: BLE001  a broken installation breaks in any way it likes
        text = f"broken ({type(error).__name__}: {' '.join(str(error).split())}); install it again"
    return Finding(what, "none" if what in _OPTIONAL else "lack", text)


def _verdict(findings: list[Finding]) -> tuple[int, str]:
    """The exit code, and what the machine is good for in one line."""
    good = {finding.what for finding in findings if finding.state == "ok"}
    writes = {"jinja2", "yaml", "templates"} <= good
    if not writes:
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


def _doctor(*, as_json: bool, **values: Any) -> int:
    console = take_console(values)
    findings = [_look(what, check) for what, check in _CHECKS]
    code, verdict = _verdict(findings)
    settings = environment_settings(os.environ, console)
    if as_json:
        fields = {
            "format": _FORMAT,
            "version": __version__,
            "findings": [{"what": f.what, "state": f.state, "text": f.text} for f in findings],
            "environment": {name: setting.variable for name, setting in settings.items()},
            "verdict": verdict,
            "exit_code": code,
        }
        print_data(json.dumps(fields, indent=2) + "\n")
        return code
    lines = [f"deepgemm_codegen {__version__}", *map(str, findings)]
    lines.extend(f"set   {name:<10} {setting.variable}" for name, setting in settings.items())
    lines.append(f"verdict: {verdict}")
    print_data("\n".join(lines) + "\n")
    return code


COMMAND = Command(
    "doctor",
    params=[
        SectionedOption(["--json", "as_json"], is_flag=True, help="the report as JSON on stdout"),
        *level_flags(),
    ],
    callback=_doctor,
    help="Tells what is installed, what each lack costs and what installs it. Exit code 0 when"
    " the machine can write PTX, 3 when it cannot.",
    examples=("deepgemm_codegen doctor",),
)
