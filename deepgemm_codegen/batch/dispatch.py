"""The selector of a folder: which kernel serves a problem that is known at run time only.

What a kernel computes beside its sizes and its target (types, layout, epilogue, batch, strides,
alignments) is its *operation*. A selector answers: of one operation, m, n and k, and the GPU's
architecture, which kernel? The rules, which `select` is and the C header repeats:

1. A kernel covers a problem when each fixed dimension is equal and each dynamic one at most its
   maximum. It runs on its spec's architecture; unless its code is bound to that very part
   (``sm_90a``), also on later ones of the same major number.
2. The latest architecture among those wins, code for that very part first.
3. Then the kernel with the fewest dynamic dimensions, then the smallest maxima (m's first), then
   the first name.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deepgemm_codegen import __version__
from deepgemm_codegen.arch import parse_arch
from deepgemm_codegen.errors import InputError
from deepgemm_codegen.plan.signature import parameters

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from deepgemm_codegen.plan.signature import Parameter
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["FILES", "FORMAT", "Entry", "dispatch_texts", "select"]

FORMAT = "1.1"
"""Version of the JSON: an addition raises the minor, a removal or change the major."""

FILES = ("dispatch.h", "dispatch.json")
"""Names of the files, as `dispatch_texts` orders them."""

_NOT_OPERATION = ("m", "n", "k", "arch", "gpu", "sms", "label")
_SIZES = ("m", "n", "k")
_ARGUMENTS = frozenset({*"abcdmnk", "alpha", "beta"})
_LEADING = frozenset({"lda", "ldb", "ldc", "ldd"})


@dataclass(frozen=True, slots=True)
class Entry:
    """The program of one spec: its name, and the architecture that it is compiled for.

    ``workspace`` tells whether its launcher takes one.
    """

    spec: GemmSpec
    name: str
    target: str
    workspace: bool = False


@dataclass(frozen=True, slots=True)
class Candidate:
    """One spec's program as the selector sees it.

    Attributes:
        name: its name.
        sizes: (m, n, k): the fixed size, or the most that a dynamic one may be.
        dynamic: (m, n, k): whether it is given at run time.
        arch: number of the spec's architecture.
        exact: whether the code runs on that very part alone.
        arguments: what the launcher takes, as C expressions.
        declaration: the launcher's parameters in C.
        fixed_strides: leading dimensions that are compiled in, by name.
        workspace: whether the launcher takes a workspace behind its arguments.
        dims: the dynamic dimensions, by name.
    """

    name: str
    sizes: tuple[int, int, int]
    dynamic: tuple[bool, bool, bool]
    arch: int
    exact: bool
    arguments: str
    declaration: str
    fixed_strides: tuple[tuple[str, int], ...]
    workspace: bool
    dims: tuple[str, ...]

    @property
    def other_dims(self) -> tuple[str, ...]:
        """The fixed dimensions, by name."""
        return tuple(name for name in _SIZES if name not in self.dims)

    @property
    def workspace_declaration(self) -> str:
        """The parameters of the function that tells the workspace's size."""
        return ", ".join(f"long long {name}" for name in self.dims) or "void"

    @property
    def mask(self) -> int:
        """`dynamic` as bits: 1 for m, 2 for n, 4 for k."""
        return sum(1 << i for i, is_dynamic in enumerate(self.dynamic) if is_dynamic)

    @property
    def rank(self) -> tuple[object, ...]:
        """The order in which kernels of one operation are asked."""
        shape = (sum(self.dynamic), self.sizes, self.name)
        return (-self.arch, not self.exact, *shape)


@dataclass(frozen=True, slots=True)
class Group:
    """Candidates of one operation and architecture: fixed ones by size, then dynamic ones.

    Attributes:
        arch, exact: as in `Candidate`.
        first: index of its first candidate among all.
        fixed: how many have no dynamic dimension.
        count: all of them.
    """

    arch: int
    exact: bool
    first: int
    fixed: int
    count: int


@dataclass(frozen=True, slots=True)
class Operation:
    """What kernels compute beside sizes.

    Attributes:
        symbol: its enumerator in C.
        text: the spec's fields as ``str(GemmSpec)`` writes them, type and layout first.
        groups: by architecture, in the order they are asked.
        first_group: index of the first among all.
    """

    symbol: str
    text: str
    groups: tuple[Group, ...]
    first_group: int


@dataclass(frozen=True, slots=True)
class Table:
    """The whole selector, as the template sees it."""

    version: str
    operations: tuple[Operation, ...]
    candidates: tuple[Candidate, ...]

    @property
    def groups(self) -> list[Group]:
        """All groups, in order."""
        return [group for operation in self.operations for group in operation.groups]


def dispatch_texts(entries: Iterable[Entry]) -> tuple[str, str]:
    """``dispatch.h`` and ``dispatch.json`` of some kernels; the entries' order does not matter."""
    from deepgemm_codegen.render import environment  # noqa: PLC0415  imports the template engine

    table = _table(entries)
    header = environment().get_template("dispatch/dispatch.h.j2").render(table=table)
    return header.rstrip("\n") + "\n", _json_text(table)


def _table(entries: Iterable[Entry]) -> Table:
    by_operation: dict[str, list[Candidate]] = {}
    for entry in entries:
        by_operation.setdefault(_operation_text(entry.spec), []).append(_candidate(entry))
    operations: list[Operation] = []
    candidates: list[Candidate] = []
    symbols: dict[str, int] = {}
    groups = 0
    for text in sorted(by_operation):
        found = sorted(by_operation[text], key=lambda candidate: candidate.rank)
        own = _groups(found, len(candidates))
        operations.append(Operation(_symbol(text, symbols), text, own, groups))
        candidates.extend(found)
        groups += len(own)
    return Table(__version__, tuple(operations), tuple(candidates))


def _groups(candidates: Sequence[Candidate], first: int) -> tuple[Group, ...]:
    """Runs of candidates of one architecture; `rank` has put them together."""
    found: list[Group] = []
    keys = [(candidate.arch, candidate.exact) for candidate in candidates]
    for key in dict.fromkeys(keys):
        own = [c for c, each in zip(candidates, keys, strict=True) if each == key]
        fixed = sum(not any(candidate.dynamic) for candidate in own)
        found.append(Group(*key, first, fixed, len(own)))
        first += len(own)
    return tuple(found)


def _operation_text(spec: GemmSpec) -> str:
    hidden = {*_NOT_OPERATION, *(name for name, _ in spec.overrides.items())}
    fields = {"layout": "nn", **spec.to_fields()}
    ordered = {"dtype": fields.pop("dtype"), **fields}
    return " ".join(f"{name}={text}" for name, text in ordered.items() if name not in hidden)


def _symbol(text: str, taken: dict[str, int]) -> str:
    """``DGEMM_FP16_NT_BIAS_RELU``, and a number where two operations would share a name."""
    words = []
    for pair in text.split(" "):
        name, _, value = pair.partition("=")
        prefix = (
            "" if name in ("dtype", "layout", "epilogue") else f"{name.removeprefix('dtype_')}_"
        )
        words.append(f"{prefix}{value}")
    symbol = "DGEMM_" + re.sub(r"[^A-Z0-9]+", "_", "_".join(words).upper()).strip("_")
    taken[symbol] = taken.get(symbol, 0) + 1
    return symbol if taken[symbol] == 1 else f"{symbol}__{taken[symbol]}"


def _candidate(entry: Entry) -> Candidate:
    spec = entry.spec
    own = parameters(spec)
    strides = [(f"ld{letter}", getattr(spec, f"ld{letter}")) for letter in "abcd"]
    return Candidate(
        name=entry.name,
        sizes=(spec.m.size, spec.n.size, spec.k.size),
        dynamic=(spec.m.dynamic, spec.n.dynamic, spec.k.dynamic),
        arch=parse_arch(spec.arch)[0],
        exact=parse_arch(entry.target)[1] == "a",
        arguments=_wrapped(_expressions(own, spec), 8),
        declaration=_wrapped([_declaration(parameter) for parameter in own], 4),
        fixed_strides=tuple((name, value) for name, value in strides if value),
        workspace=entry.workspace,
        dims=tuple(name for name in _SIZES if getattr(spec, name).dynamic),
    )


def _expressions(own: Sequence[Parameter], spec: GemmSpec) -> list[str]:
    """The launcher's arguments, taken out of ``dgemm_arguments``."""
    found = []
    counts = {"operands": 0, "strides": 0, "scalars": 0}
    for parameter in own:
        if parameter.name in _ARGUMENTS:
            found.append(f"g->{parameter.name}")
            continue
        if parameter.name in _LEADING:
            _, length = spec.stored(parameter.name[-1])
            dense = next(name for name in _SIZES if getattr(spec, name) is length)
            found.append(f"g->{parameter.name} ? g->{parameter.name} : g->{dense}")
            continue
        kind = "scalars"
        if parameter.pointer:
            kind = "operands"
        elif parameter.role == "stride":
            kind = "strides"
        found.append(f"g->{kind}[{counts[kind]}]")
        counts[kind] += 1
    return found


def _wrapped(items: Sequence[str], indent: int) -> str:
    """Items between commas, in lines of 100 columns that begin with so many spaces."""
    lines: list[str] = []
    for item in items:
        if lines and indent + len(lines[-1]) + len(item) + 3 <= 100:
            lines[-1] += f", {item}"
        else:
            lines.append(item)
    return (",\n" + " " * indent).join(lines)


def _declaration(parameter: Parameter) -> str:
    """The parameter in plain C, where pointers have no element type."""
    if parameter.pointer:
        return f"{'' if parameter.written else 'const '}void* {parameter.name}"
    return parameter.declaration.replace("i64 ", "long long ")


def _json_text(table: Table) -> str:
    """The selector as JSON, a kernel a line."""
    lines = ["{", f'  "format": "{FORMAT}",', f'  "generator": "deepgemm_codegen {table.version}",']
    lines.append('  "operations": [')
    blocks = []
    for operation in table.operations:
        kernels = ",\n".join(
            f"        {json.dumps(_kernel_json(candidate))}"
            for group in operation.groups
            for candidate in table.candidates[group.first : group.first + group.count]
        )
        blocks.append(
            f'    {{\n      "operation": {json.dumps(operation.text)},\n'
            f'      "symbol": "{operation.symbol}",\n      "kernels": [\n{kernels}\n      ]\n    }}'
        )
    return "\n".join([*lines, ",\n".join(blocks), "  ]", "}"]) + "\n"


def _kernel_json(candidate: Candidate) -> dict[str, Any]:
    sizes = {
        name: {"max": size} if is_dynamic else size
        for name, size, is_dynamic in zip(_SIZES, candidate.sizes, candidate.dynamic, strict=True)
    }
    found: dict[str, Any] = {"name": candidate.name, "arch": candidate.arch}
    if candidate.exact:
        found["exact_arch"] = True
    found.update(sizes)
    if candidate.workspace:
        found["workspace"] = True
    return found


def select(
    table: Mapping[str, Any], operation: str, m: int, n: int, k: int, arch: int
) -> str | None:
    """The name of the kernel that serves a problem, by the content of ``dispatch.json``.

    Args:
        table: the file, read by ``json.load``.
        operation: its text or its symbol.
        m: rows of A and D.
        n: columns of B and D.
        k: columns of A.
        arch: the GPU's compute capability as a number, such as 90.

    Returns:
        None when no kernel covers the problem.

    Raises:
        InputError: there is no such operation.
    """
    for each in table["operations"]:
        if operation in (each["operation"], each["symbol"]):
            kernels = each["kernels"]
            break
    else:
        raise InputError(f"operation = {operation}: the selector has none of that name")
    found: list[tuple[tuple[object, ...], str]] = []
    for kernel in kernels:
        bounds = [kernel[name] for name in _SIZES]
        dynamic = [isinstance(bound, dict) for bound in bounds]
        sizes = [bound["max"] if isinstance(bound, dict) else bound for bound in bounds]
        exact = kernel.get("exact_arch", False)
        runs = arch == kernel["arch"] if exact else 0 <= arch - kernel["arch"] <= arch % 10
        covers = all(
            0 <= given <= size if is_dynamic else given == size
            for given, size, is_dynamic in zip((m, n, k), sizes, dynamic, strict=True)
        )
        if runs and covers:
            rank = (-kernel["arch"], not exact, sum(dynamic), sizes, kernel["name"])
            found.append((rank, kernel["name"]))
    return min(found)[1] if found else None
