"""A generated folder to binaries: each source compiled, and a second file that tells of them.

``build.json`` says what a compiler made of the folder: which compiler and options, each cubin's
hash, and what each kernel takes of a multiprocessor. Like the manifest it has no path and no time;
unlike it, its content depends on the compiler.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from deepgemm_codegen import __version__
from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.batch.manifest import launches_of, read_manifest
from deepgemm_codegen.batch.shapes import has_shape, is_text
from deepgemm_codegen.errors import CodegenError, InputError, InternalError
from deepgemm_codegen.files import atomic_write, refusal
from deepgemm_codegen.parallel import cores, in_processes
from deepgemm_codegen.spec import GemmSpec
from deepgemm_codegen.toolchain import build_cubin, compiler_version, occupancy, options_for

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from deepgemm_codegen.toolchain import ResourceUsage

__all__ = ["BUILD", "FORMAT", "BuildReport", "Built", "build", "read_build"]

BUILD = "build.json"
"""Name of the file."""

FORMAT = "1.0"
"""Version of the format: an addition raises the minor, a removal or change the major."""

_OURS = '"generator": "deepgemm_codegen '

_USED = ("registers", "spill_store_bytes", "spill_load_bytes", "blocks_per_sm")
_REPORT = {
    "compiler": str,
    "kernels": [{"name": str, "resources": [{"kernel": str, **dict.fromkeys(_USED, int)}]}],
}
"""What the tool reads again of a ``build.json``; see `shapes.has_shape`."""


class _Task(NamedTuple):
    """One source to compile."""

    path: str
    record: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Built:
    """What became of one kernel.

    Attributes:
        name: the kernel.
        facts: its record in ``build.json``; empty when it failed.
        cubin: its machine code; empty when it failed.
        message: why it failed, or empty.
        exit_code: of the failure, else 0.
    """

    name: str
    facts: Mapping[str, Any]
    cubin: bytes = b""
    message: str = ""
    exit_code: int = 0


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What a build did.

    Attributes:
        kernels: every kernel of the manifest, in its order, without machine code.
        compiler: its name and version.
        changed: when only checked, what differs from the ``build.json`` that is there.
    """

    kernels: tuple[Built, ...]
    compiler: str
    changed: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """The gravest failure's code; 1 when a check found a difference; 0 otherwise."""
        return max((built.exit_code for built in self.kernels), default=0) or int(
            bool(self.changed)
        )


def build(
    folder: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    cubins: bool = True,
    check: bool = False,
    jobs: int | None = 1,
    progress: Callable[[Built], None] | None = None,
) -> BuildReport:
    """Compiles every kernel that a folder's manifest lists, for the target that it states.

    One kernel that fails does not stop the others; then ``build.json`` tells of those that are
    built. ``DGEMM_COMPILATION_TIMEOUT_MS`` bounds each compile.

    Args:
        folder: has the manifest and the sources.
        out: where the cubins and ``build.json`` go; None is the same folder.
        cubins: whether the cubins are written.
        check: write nothing; the report tells what differs from the ``build.json`` in ``out``.
        jobs: processes that compile, which import the caller's main module; None takes one a core.
        progress: called with every kernel as it is done, in the manifest's order.

    Raises:
        InputError: the folder has no manifest, or ``out`` has somebody else's ``build.json``.
        EnvironmentLackError: there is no compiler, or the disk refuses.
    """
    source = os.fspath(folder)
    target = source if out is None else os.fspath(out)
    manifest = read_manifest(source, needed=True)
    before = read_build(target)
    compiler = compiler_version()  # whoever lacks it learns so once
    tasks = [_Task(os.path.join(source, r["file"]), r) for r in manifest.kernels]  # noqa: PTH118
    found: list[Built] = []
    for built in in_processes(_built, tasks, cores() if jobs is None else jobs):
        if built.cubin and cubins and not check:
            _write(target, f"{built.name}.cubin", built.cubin)
        found.append(Built(built.name, built.facts, b"", built.message, built.exit_code))
        if progress:
            progress(found[-1])
    facts = [built.facts for built in found if built.facts]
    text = _text(compiler, facts)
    if check:
        return BuildReport(tuple(found), compiler, tuple(_changes(before, json.loads(text))))
    if facts:
        _write(target, BUILD, text.encode())
        _remove_stale(target, before, {built.name for built in found})
    return BuildReport(tuple(found), compiler)


def _built(task: _Task) -> Built:
    """Compiles one source; whatever goes wrong concerns this kernel alone."""
    name = str(task.record["name"])
    try:
        return _compiled(name, task)
    except CodegenError as error:
        return Built(name, {}, message=str(error), exit_code=error.exit_code)
    except Exception as error:  # noqa: BLE001  a fault of ours in one kernel spares the others
        message = f"internal error: {type(error).__name__}: {error}"
        return Built(name, {}, message=message, exit_code=InternalError.exit_code)


def _compiled(name: str, task: _Task) -> Built:
    try:
        with open(task.path, "rb") as file:  # noqa: PTH123
            data = file.read()
    except OSError as error:
        raise InputError(f"cannot read '{task.path}': {error.strerror}; generate again") from error
    digest = sha256(data).hexdigest()
    if digest != task.record["source_sha256"]:
        raise InputError(f"'{task.path}' is not what the manifest tells of; generate again")
    target = str(task.record["target"])
    built = build_cubin(data.decode(), name=name, arch=target)
    launches = launches_of(task.record)
    if missing := {launch["kernel"] for launch in launches} - set(built.resources):
        raise InputError(f"'{task.path}' has no kernel {min(missing)}; generate again")
    facts = {
        "name": name,
        "target": built.arch,
        "options": options_for(built.arch),
        "source_sha256": digest,
        "cubin_sha256": sha256(built.cubin).hexdigest(),
        "cubin_bytes": len(built.cubin),
        "resources": [
            _resources(task.record, launch, built.resources[launch["kernel"]])
            for launch in launches
        ],
    }
    return Built(name, facts, built.cubin)


def _resources(
    record: Mapping[str, Any], launch: Mapping[str, Any], usage: ResourceUsage
) -> dict[str, Any]:
    """One kernel's registers and bytes a thread, shared bytes a block, blocks a multiprocessor."""
    spec = GemmSpec.from_text(record["spec"])
    arch = load_arch(spec.arch, spec.gpu, spec.sms)
    fields = asdict(usage)
    static = fields.pop("shared_bytes")
    blocks = occupancy(
        usage,
        launch["block"],
        registers_per_sm=arch.registers_per_sm,
        threads_per_sm=arch.threads_per_sm,
        shared_per_sm=arch.shared_per_sm,
        blocks_per_sm=arch.blocks_per_sm,
        dynamic_shared=launch["shared_bytes"],
        reserved_shared=arch.shared_reserved,
    )
    return {
        "kernel": launch["kernel"],
        **fields,
        "static_shared_bytes": static,
        "shared_bytes": static + launch["shared_bytes"],
        "blocks_per_sm": blocks,
    }


def _text(compiler: str, facts: Sequence[Mapping[str, Any]]) -> str:
    """``build.json``, a kernel a few lines, so that a diff shows what changed."""
    blocks = []
    for each in facts:
        *head, (_, resources) = each.items()
        lines = [f'      "{name}": {json.dumps(value)}' for name, value in head]
        used = ",\n".join(f"        {json.dumps(each)}" for each in resources)
        lines.append(f'      "resources": [\n{used}\n      ]')
        blocks.append("    {\n" + ",\n".join(lines) + "\n    }")
    return (
        f'{{\n  "format": "{FORMAT}",\n  {_OURS}{__version__}",\n'
        f'  "compiler": {json.dumps(compiler)},\n  "kernels": [\n'
        + ",\n".join(blocks)
        + "\n  ]\n}\n"
    )


def read_build(folder: str) -> Mapping[str, Any]:
    """The content of a folder's ``build.json``; no kernels when there is none, or a damaged one.

    Raises:
        InputError: it is somebody else's file.
        EnvironmentLackError: it may not be read.
    """
    path = os.path.join(folder, BUILD)  # noqa: PTH118
    nothing: dict[str, Any] = {"compiler": "", "kernels": []}
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            text = file.read()
    except (FileNotFoundError, NotADirectoryError):
        return nothing
    except OSError as error:
        raise refusal(path, error, "read") from error
    if _OURS not in text and text.strip():
        raise InputError(f"'{path}' is not a file of this tool; choose another folder")
    try:
        given: Mapping[str, Any] = json.loads(text)
    except (ValueError, RecursionError):
        return nothing
    return given if has_shape(given, _REPORT) and is_text(given, text) else nothing


def _changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What differs between two builds, a line a kernel and fact."""
    found = []
    if before.get("compiler") != now["compiler"]:
        found.append(f"compiler: {before.get('compiler') or 'none'} -> {now['compiler']}")
    old = {each["name"]: each for each in before["kernels"]}
    new = {each["name"]: each for each in now["kernels"]}
    found += [f"{name}: no longer there" for name in sorted(old.keys() - new.keys())]
    for name, facts in new.items():
        if name not in old:
            found.append(f"{name}: new")
            continue
        flat, other = _flat(facts), _flat(old[name])
        found += [
            f"{name}: {key}: {other.get(key)} -> {value}"
            for key, value in flat.items()
            if other.get(key) != value
        ]
    return found


def _flat(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The facts without nesting; a kernel's are named after it where there are several."""
    flat = {name: value for name, value in facts.items() if name != "resources"}
    several = facts.get("resources", [])
    for used in several:
        suffix = f" of {used['kernel']}" if len(several) > 1 else ""
        flat |= {f"{name}{suffix}": value for name, value in used.items()}
    return flat


def _write(folder: str, file: str, data: bytes) -> None:
    try:
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103
    except OSError as error:
        raise refusal(folder, error, "make folder") from error
    path = os.path.join(folder, file)  # noqa: PTH118
    if _digest_of(path) != sha256(data).hexdigest():
        atomic_write(path, data)


def _remove_stale(folder: str, before: Mapping[str, Any], names: set[str]) -> None:
    """Removes cubins that the last build made and this one does not ask for."""
    for each in before["kernels"]:
        name = each["name"]
        path = os.path.join(folder, f"{os.path.basename(name)}.cubin")  # noqa: PTH118, PTH119
        if name not in names and _digest_of(path) == each.get("cubin_sha256"):
            os.unlink(path)  # noqa: PTH108


def _digest_of(path: str) -> str:
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return sha256(file.read()).hexdigest()
    except OSError:
        return ""
