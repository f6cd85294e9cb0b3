"""The tree of one file to specs: ``defaults``, ``kernels`` and ``sweep``."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from deepgemm_codegen.errors import nearest
from deepgemm_codegen.specfile.build import build
from deepgemm_codegen.specfile.fields import GROUPS, HELP, HINTS, KERNEL_KEYS, NAME
from deepgemm_codegen.specfile.nodes import Mapping, Mark, Node, Scalar, Sequence
from deepgemm_codegen.specfile.values import Given, convert, describe, shorten, yaml_flavour

if TYPE_CHECKING:
    from deepgemm_codegen.spec import GemmSpec
    from deepgemm_codegen.specfile.problems import Sink

__all__ = ["MAX_KERNELS", "FileReader", "SpecEntry"]

MAX_KERNELS = 20_000
"""Kernels of one file, sweeps multiplied out."""


@dataclass(frozen=True, slots=True)
class SpecEntry:
    """One kernel that a file asks for.

    Attributes:
        spec: what to generate.
        file: the path as the caller gave it; empty for a spec from elsewhere.
        line, column: where the kernel begins, one-based; all kernels of a sweep share it.
    """

    spec: GemmSpec
    file: str = ""
    line: int = 0
    column: int = 0

    @property
    def name(self) -> str:
        """The label, or empty."""
        return self.spec.label

    @property
    def where(self) -> str:
        """``file:line``, or ``command line``."""
        return f"{self.file}:{self.line}" if self.file else "command line"


class Layer:
    """The fields of ``defaults`` or of one kernel: single values, and axes to sweep."""

    __slots__ = ("axes", "plain", "sweep_mark")

    def __init__(self) -> None:
        self.plain: dict[str, Given] = {}
        self.axes: dict[str, list[Given]] = {}
        self.sweep_mark: Mark | None = None


class FileReader:
    """Reads the tree of one file."""

    def __init__(self, name: str, sink: Sink) -> None:
        self.name = name
        self.sink = sink
        self.total = 0

    def read(self, root: Node) -> list[tuple[SpecEntry, Mark]]:
        """The file's kernels, each with the mark that problems about it point at."""
        if not isinstance(root, Mapping):
            if isinstance(root, Scalar) and yaml_flavour(root) == "null":
                self.sink.add(None, "the file is empty; give a list of kernels under 'kernels:'")
            elif isinstance(root, Sequence):
                self.sink.add(root.mark, "the list of kernels stands under a key: 'kernels:'")
            else:
                self.sink.add(root.mark, "this is no kernel file; give 'kernels:' and a list")
            return []
        sections: dict[str, tuple[Scalar, Node]] = {}
        strange = False
        for key, value in root.pairs:
            if key.text in ("defaults", "kernels"):
                sections[key.text] = (key, value)
                continue
            strange = True
            remedy = nearest(key.text, ["defaults", "kernels"])
            if not remedy and key.text in KERNEL_KEYS:
                remedy = "; fields stand in 'defaults' or in a kernel of 'kernels'"
            self.sink.add(
                key.mark,
                f"unknown key '{shorten(key.text)}'{remedy or '; known: defaults, kernels'}",
            )
        defaults = self._defaults(sections)
        if "kernels" not in sections:
            if not strange:
                self.sink.add(root.mark, "'kernels' is missing; there is nothing to generate")
            return []
        return self._kernels(*sections["kernels"], defaults)

    def _defaults(self, sections: dict[str, tuple[Scalar, Node]]) -> Layer:
        if "defaults" not in sections:
            return Layer()
        key, node = sections["defaults"]
        if not isinstance(node, Mapping):
            self.sink.add(key.mark, "'defaults' wants a mapping, such as {dtype: fp16, layout: nt}")
            return Layer()
        layer = self._layer(node)
        if NAME in layer.plain:
            self.sink.add(
                self._key_mark(node, NAME), f"a {NAME} belongs to one kernel, not to 'defaults'"
            )
        return layer

    @staticmethod
    def _key_mark(node: Mapping, name: str) -> Mark:
        return next((key.mark for key, _ in node.pairs if key.text == name), node.mark)

    def _kernels(self, key: Scalar, node: Node, defaults: Layer) -> list[tuple[SpecEntry, Mark]]:
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
        for item in node.items:
            if isinstance(item, Mapping) and item.pairs:
                found.extend(self._kernel(item, defaults))
            else:
                what = describe(item) if not isinstance(item, Mapping) else "an empty mapping"
                self.sink.add(
                    item.mark,
                    f"{what} is no kernel; give a mapping such as {{m: 1024, n: 1024, k: 1024}}",
                )
        return found

    def _kernel(self, node: Mapping, defaults: Layer) -> list[tuple[SpecEntry, Mark]]:
        own = self._layer(node)
        plain = {**defaults.plain, **own.plain}
        axes = {**defaults.axes, **own.axes}
        for name in own.plain:
            axes.pop(name, None)
        mark = node.pairs[0][0].mark if node.mark.end_line > node.mark.line else node.mark
        count = prod(len(axis) for axis in axes.values())
        if self.total + count > MAX_KERNELS:
            self._too_many(axes, own.sweep_mark or defaults.sweep_mark or mark, count)
            return []
        self.total += count
        found = []
        for combination in product(*axes.values()):
            values = {**plain, **dict(zip(axes, combination, strict=True))}
            spec = build(values, mark, self.sink)
            if spec is not None:
                found.append((SpecEntry(spec, self.name, mark.line + 1, mark.column + 1), mark))
        return found

    def _too_many(self, axes: dict[str, list[Given]], mark: Mark, count: int) -> None:
        sizes = " x ".join(f"{len(axis)} {name}" for name, axis in axes.items())
        made = f"{count:,} kernels ({sizes})" if axes else "one kernel more"
        self.sink.add(
            mark, f"{made}, and a file may ask for {MAX_KERNELS:,}; split it into several files"
        )

    def _layer(self, node: Mapping) -> Layer:
        """The fields of a mapping; groups written flat, sweeps apart."""
        layer = Layer()
        lines: dict[str, int] = {}
        for key, value in node.pairs:
            if key.text == "sweep":
                layer.sweep_mark = key.mark
                self._sweep(key, value, layer, lines)
            elif key.text in GROUPS:
                self._group(key, value, layer, lines)
            elif key.text in HELP:
                if self._once(key, key.text, lines):
                    layer.plain[key.text] = self._value(key.text, key, value)
            else:
                self._unknown(key, list(KERNEL_KEYS))
        return layer

    def _value(self, name: str, key: Scalar, value: Node) -> Given:
        if isinstance(value, Scalar) and not value.text and value.plain:
            value = Scalar(key.mark, "", plain=True)  # a null has no place of its own
        return convert(name, value, self.sink)

    def _once(self, key: Scalar, name: str, lines: dict[str, int]) -> bool:
        """Whether the field is new to its mapping, in whichever form it was written."""
        if name not in lines:
            lines[name] = key.mark.line + 1
            return True
        self.sink.add(key.mark, f"{name} is given twice; line {lines[name]} gives it already")
        return False

    def _group(self, key: Scalar, node: Node, layer: Layer, lines: dict[str, int]) -> None:
        letters = GROUPS[key.text]
        if not isinstance(node, Mapping) or not node.pairs:
            example = ", ".join(f"{letter}: 64" for letter in letters)
            self.sink.add(key.mark, f"'{key.text}' wants a mapping: {key.text}: {{{example}}}")
            return
        for letter, value in node.pairs:
            name = letters.get(letter.text)
            if name is None:
                known = ", ".join(letters)
                self.sink.add(
                    letter.mark,
                    f"unknown key '{shorten(letter.text)}' in '{key.text}'; known: {known}",
                )
            elif self._once(letter, name, lines):
                layer.plain[name] = self._value(name, letter, value)

    def _sweep(self, key: Scalar, node: Node, layer: Layer, lines: dict[str, int]) -> None:
        if not isinstance(node, Mapping) or not node.pairs:
            self.sink.add(
                key.mark, "'sweep' wants fields with lists: sweep: {arch: [sm_80, sm_90]}"
            )
            return
        for axis, values in node.pairs:
            name = axis.text
            if name in GROUPS:
                flat = ", ".join(GROUPS[name].values())
                self.sink.add(axis.mark, f"'{name}' is a group; sweep its fields: {flat}")
            elif name == NAME:
                self.sink.add(
                    axis.mark, "a name cannot be swept; the swept values tell kernels apart"
                )
            elif name not in HELP:
                self._unknown(axis, list(HELP))
            elif self._once(axis, name, lines):
                layer.axes[name] = self._axis(name, axis, values)

    def _axis(self, name: str, key: Scalar, node: Node) -> list[Given]:
        refused = [Given(None, key.mark)]
        if not isinstance(node, Sequence) or not node.items:
            self.sink.add(key.mark, f"a swept field wants a list of values: {name}: [.., ..]")
            return refused
        found: list[Given] = []
        seen: set[str] = set()
        for item in node.items:
            value = self._value(name, key, item)
            if value.text is not None and value.text in seen:
                self.sink.add(value.mark, f"{name} is swept over {value.text} twice; give it once")
                continue
            if value.text is not None:
                seen.add(value.text)
            found.append(value)
        return found

    def _unknown(self, key: Scalar, known: list[str]) -> None:
        hint = HINTS.get(key.text.lower())
        close = nearest(key.text, [*known, "label"])
        if "'label'" in close:  # the spec's word for it, which flags use
            hint = HINTS["label"]
        remedy = f"; {hint}" if hint else close or f"; known: {', '.join(known)}"
        self.sink.add(key.mark, f"unknown key '{shorten(key.text)}'{remedy}")
