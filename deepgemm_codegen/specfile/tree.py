"""The tree of one file to specs: ``include``, ``sweeps``, ``defaults`` and ``kernels``."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from deepgemm_codegen.errors import nearest
from deepgemm_codegen.specfile.build import build, culprit, spec_name
from deepgemm_codegen.specfile.fields import KERNEL_KEYS, NAME
from deepgemm_codegen.specfile.layer import Layer, LayerReader
from deepgemm_codegen.specfile.nodes import Mapping, Node, Scalar, Sequence
from deepgemm_codegen.specfile.values import describe, shorten, yaml_flavour

if TYPE_CHECKING:
    from deepgemm_codegen.checks import Requirement
    from deepgemm_codegen.spec import GemmSpec
    from deepgemm_codegen.specfile.problems import Mark, Sink
    from deepgemm_codegen.specfile.sweep import Exclusion, Sweep
    from deepgemm_codegen.specfile.values import Given

__all__ = ["MAX_KERNELS", "SECTIONS", "Base", "FileReader", "Includes", "SpecEntry"]

MAX_KERNELS = 20_000
"""Kernels of one file, sweeps multiplied out and nothing left out of them."""

SECTIONS = ("include", "sweeps", "defaults", "kernels")
"""Keys of a file."""


@dataclass(frozen=True, slots=True)
class SpecEntry:
    """One kernel that a file asks for.

    Attributes:
        spec: what to generate.
        file: the path as the caller gave it; empty for a spec from elsewhere.
        line, column: where the kernel begins, one-based; all kernels of a sweep share it.
        require: what ``verify`` demands of it beside right values, in the file's order.
        places: (line, column) of the values that stand in the kernel's own lines, by the spec's
            field.
    """

    spec: GemmSpec
    file: str = ""
    line: int = 0
    column: int = 0
    require: tuple[Requirement, ...] = ()
    places: dict[str, tuple[int, int]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def name(self) -> str:
        """The label, or empty."""
        return self.spec.label

    @property
    def where(self) -> str:
        """``file:line``, or ``command line``."""
        return f"{self.file}:{self.line}" if self.file else "command line"

    def place_of(self, refusal: str) -> str:
        """``file:line:column`` of the value that the tree refuses; `where` if it is not here."""
        name = culprit(refusal, self.places)
        return ":".join(map(str, (self.file, *self.places[name]))) if name else self.where


@dataclass(frozen=True, slots=True)
class Base:
    """What a file builds on: the defaults and the named sweeps of the files that it includes."""

    defaults: Layer
    sweeps: dict[str, Sweep]


class Includes(Protocol):
    """Reads the files that ``include`` names."""

    def __call__(self, name: str, mark: Mark, sink: Sink) -> Base | None:
        """The file that ``name`` means where it stands; None when a problem was added."""


class FileReader:
    """Reads the tree of one file."""

    def __init__(self, name: str, sink: Sink, includes: Includes | None = None) -> None:
        self.name = name
        self.sink = sink
        self.total = 0
        self._includes = includes
        self._exclusions: dict[int, Exclusion] = {}  # by identity, those that were asked
        self._used: set[int] = set()

    def read(self, root: Node, *, alone: bool = True) -> list[tuple[SpecEntry, Mark]]:
        """The file's kernels, each with the mark that problems about it point at.

        Args:
            root: the file's tree.
            alone: whether it has to have kernels; a file that others include need not.
        """
        sections = self._sections(root)
        if sections is None:
            return []
        base = self.base(sections)
        if "kernels" not in sections:
            strange = isinstance(root, Mapping) and len(sections) < len(root.pairs)
            if not strange and (alone or not sections):
                self.sink.add(root.mark, "'kernels' is missing; there is nothing to generate")
            return []
        return self._kernels(*sections["kernels"], base)

    def read_base(self, root: Node) -> Base | None:
        """What the file gives to one that includes it; it may have no kernels."""
        sections = self._sections(root)
        if sections is None:
            return None
        if "kernels" in sections:
            self.sink.add(
                sections["kernels"][0].mark,
                "an included file has no 'kernels'; give both files to the command instead",
            )
        base = self.base(sections)
        sweep = replace(base.defaults.sweep, mark=None)  # it has no place in the includer's file
        layer = Layer(base.defaults.plain, sweep, base.defaults.require)
        return Base(layer, base.sweeps)

    def _sections(self, root: Node) -> dict[str, tuple[Scalar, Node]] | None:
        """The file's keys with their values; None when the file is of another kind."""
        if not isinstance(root, Mapping):
            if isinstance(root, Scalar) and yaml_flavour(root) == "null":
                self.sink.add(None, "the file is empty; give a list of kernels under 'kernels:'")
            elif isinstance(root, Sequence):
                self.sink.add(root.mark, "the list of kernels stands under a key: 'kernels:'")
            else:
                self.sink.add(root.mark, "this is no kernel file; give 'kernels:' and a list")
            return None
        found: dict[str, tuple[Scalar, Node]] = {}
        for key, value in root.pairs:
            if key.text in SECTIONS:
                found[key.text] = (key, value)
                continue
            remedy = nearest(key.text, list(SECTIONS))
            if not remedy and key.text in KERNEL_KEYS:
                remedy = "; fields stand in 'defaults' or in a kernel of 'kernels'"
            known = f"; known: {', '.join(SECTIONS)}"
            self.sink.add(key.mark, f"unknown key '{shorten(key.text)}'{remedy or known}")
        return found

    def base(self, sections: dict[str, tuple[Scalar, Node]]) -> Base:
        """The file's defaults and named sweeps, laid over those of the files it includes."""
        defaults = Layer()
        sweeps: dict[str, Sweep] = {}
        if "include" in sections:
            for included in self._included(*sections["include"]):
                defaults = included.defaults.over(defaults)
                sweeps.update(included.sweeps)
        if "sweeps" in sections:
            sweeps.update(self._sweeps(*sections["sweeps"]))
        if "defaults" in sections:
            defaults = self._defaults(*sections["defaults"], sweeps).over(defaults)
        return Base(defaults, sweeps)

    def _included(self, key: Scalar, node: Node) -> list[Base]:
        items = node.items if isinstance(node, Sequence) else (node,)
        found = []
        for item in items or (key,):
            if item is key or not isinstance(item, Scalar) or yaml_flavour(item) == "null":
                mark = key.mark if isinstance(item, Scalar) else item.mark
                self.sink.add(mark, "'include' wants the path of a file, or a list of paths")
            elif self._includes is None:
                self.sink.add(item.mark, "only a file can include others")
            else:
                base = self._includes(item.text, item.mark, self.sink)
                found.extend([] if base is None else [base])
        return found

    def _sweeps(self, key: Scalar, node: Node) -> dict[str, Sweep]:
        if not isinstance(node, Mapping) or not node.pairs:
            self.sink.add(
                key.mark, "'sweeps' wants names with sweeps: sweeps: {archs: {arch: [sm_80]}}"
            )
            return {}
        reader = LayerReader(self.sink, {})
        return {name.text: reader.sweep_mapping(name, value) for name, value in node.pairs}

    def _defaults(self, key: Scalar, node: Node, sweeps: dict[str, Sweep]) -> Layer:
        if not isinstance(node, Mapping):
            self.sink.add(key.mark, "'defaults' wants a mapping, such as {dtype: fp16, layout: nt}")
            return Layer()
        layer = LayerReader(self.sink, sweeps).layer(node)
        if NAME in layer.plain:
            mark = next((k.mark for k, _ in node.pairs if k.text == NAME), node.mark)
            self.sink.add(mark, f"a {NAME} belongs to one kernel, not to 'defaults'")
        return layer

    def _kernels(self, key: Scalar, node: Node, base: Base) -> list[tuple[SpecEntry, Mark]]:
        if isinstance(node, Mapping):
            self.sink.add(
                key.mark, "'kernels' is a mapping; write a list, each kernel beginning with '- '"
            )
            return []
        if isinstance(node, Scalar) and yaml_flavour(node) != "null" and node.text:
            self.sink.add(
                key.mark, "'kernels' is one value; write a list, each kernel beginning with '- '"
            )
            return []
        if not isinstance(node, Sequence) or not node.items:
            self.sink.add(key.mark, "'kernels' is empty; there is nothing to generate")
            return []
        found: list[tuple[SpecEntry, Mark]] = []
        reader = LayerReader(self.sink, base.sweeps)
        for item in node.items:
            if isinstance(item, Mapping) and item.pairs:
                found.extend(self._kernel(item, reader.layer(item), base.defaults))
            else:
                what = describe(item) if not isinstance(item, Mapping) else "an empty mapping"
                self.sink.add(
                    item.mark,
                    f"{what} is no kernel; give a mapping such as {{m: 1024, n: 1024, k: 1024}}",
                )
        self._judge_exclusions()
        return found

    def _kernel(self, node: Mapping, own: Layer, defaults: Layer) -> list[tuple[SpecEntry, Mark]]:
        layer = own.over(defaults)
        sweep = layer.sweep
        mark = node.pairs[0][0].mark if node.mark.end_line > node.mark.line else node.mark
        if self.total + sweep.count > MAX_KERNELS:
            self._too_many(sweep, sweep.mark or mark)
            return []
        self.total += sweep.count
        found, left_out = [], 0
        for combination in sweep.combinations():
            values = {**layer.plain, **combination}
            if self._left_out(values, sweep):
                left_out += 1
                continue
            spec = build(values, mark, self.sink)
            if spec is not None:
                line, column = mark.line + 1, mark.column + 1
                require = tuple(layer.require.values())
                places = self._places(values, node.mark)
                entry = SpecEntry(spec, self.name, line, column, require, places)
                found.append((entry, mark))
        if left_out == sweep.count:
            self.sink.add(sweep.mark or mark, "every kernel of the sweep is left out; keep one")
        return found

    def _places(self, values: dict[str, Given], own: Mark) -> dict[str, tuple[int, int]]:
        """Where values stand that are a kernel's own, and not those of defaults."""
        begin, end = (own.line, own.column), (own.end_line, own.end_column)
        return {
            spec_name(name): (given.mark.line + 1, given.mark.column + 1)
            for name, given in values.items()
            if given.sink is self.sink and begin <= (given.mark.line, given.mark.column) < end
        }

    def _left_out(self, values: dict[str, Given], sweep: Sweep) -> bool:
        """Whether an exclusion matches; notes which ones ever do."""
        out = False
        for exclusion in sweep.exclusions:
            matches = exclusion.matches(values)
            self._exclusions[id(exclusion)] = exclusion
            if matches:
                self._used.add(id(exclusion))
            out = out or matches
        return out

    def _judge_exclusions(self) -> None:
        """An exclusion of this file that leaves nothing out is a slip of its writer."""
        for key, exclusion in self._exclusions.items():
            if key not in self._used and exclusion.sink is self.sink:
                self.sink.add(
                    exclusion.mark, "no kernel is left out by this; correct it or drop it"
                )

    def _too_many(self, sweep: Sweep, mark: Mark) -> None:
        made = f"{sweep.count:,} kernels ({sweep})" if sweep.axes else "one kernel more"
        self.sink.add(
            mark, f"{made}, and a file may ask for {MAX_KERNELS:,}; split it into several files"
        )
