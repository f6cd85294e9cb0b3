"""One mapping of fields to values: single ones, groups written flat, and what is swept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepgemm_codegen.errors import nearest
from deepgemm_codegen.specfile.fields import GROUPS, HELP, HINTS, KERNEL_KEYS, NAME, example
from deepgemm_codegen.specfile.nodes import Mapping, Scalar, Sequence
from deepgemm_codegen.specfile.require import REQUIRE, read_require
from deepgemm_codegen.specfile.sweep import EMPTY, Axis, Exclusion, Sweep, canonical
from deepgemm_codegen.specfile.values import Given, convert, shorten, yaml_flavour

if TYPE_CHECKING:
    from collections.abc import Mapping as Dict

    from deepgemm_codegen.checks import Requirement
    from deepgemm_codegen.specfile.nodes import Node
    from deepgemm_codegen.specfile.problems import Mark, Sink

__all__ = ["Layer", "LayerReader"]

_EXAMPLE = "sweep: {arch: [sm_80, sm_90]}"


class Layer:
    """The fields of ``defaults`` or of one kernel: single values, what is swept, what is required.

    A requirement is no field: it makes no other kernel, and cannot be swept.
    """

    __slots__ = ("plain", "require", "sweep")

    def __init__(
        self,
        plain: Dict[str, Given] | None = None,
        sweep: Sweep = EMPTY,
        require: Dict[str, Requirement] | None = None,
    ) -> None:
        self.plain: dict[str, Given] = dict(plain or {})
        self.sweep = sweep
        self.require: dict[str, Requirement] = dict(require or {})

    def over(self, base: Layer) -> Layer:
        """This layer laid over another, whose fields it replaces, swept or not."""
        swept = self.sweep.names
        plain = {name: given for name, given in base.plain.items() if name not in swept}
        return Layer(
            {**plain, **self.plain},
            self.sweep.over(base.sweep, self.plain),
            {**base.require, **self.require},
        )


class LayerReader:
    """Reads mappings of one file.

    Attributes:
        sink: takes the file's problems.
        named: the sweeps that may be used by name.
    """

    def __init__(self, sink: Sink, named: dict[str, Sweep]) -> None:
        self.sink = sink
        self.named = named

    def layer(self, node: Mapping) -> Layer:
        """The fields of a mapping."""
        layer = Layer()
        lines: dict[str, int] = {}
        for key, value in node.pairs:
            if key.text == "sweep":
                layer.sweep = self._sweep(key, value, lines)
            elif key.text == REQUIRE:
                layer.require = read_require(key, value, self.sink)
            elif key.text in GROUPS:
                self._group(key, value, layer, lines)
            elif key.text in HELP:
                if self._once(key.mark, key.text, lines):
                    layer.plain[key.text] = self._value(key.text, key, value)
            else:
                self._unknown(key, list(KERNEL_KEYS))
        return layer

    def sweep_mapping(self, key: Scalar, node: Node) -> Sweep:
        """A sweep that is written out, under the name that ``key`` gives it."""
        return self._mapping(key, node, {}, key.text)

    def _value(self, name: str, key: Scalar, value: Node) -> Given:
        if isinstance(value, Scalar) and not value.text and value.plain:
            value = Scalar(key.mark, "", plain=True)  # a null has no place of its own
        return convert(name, value, self.sink)

    def _once(self, mark: Mark, name: str, lines: dict[str, int]) -> bool:
        """Whether the field is new to its mapping, in whichever form it was written."""
        if name not in lines:
            lines[name] = mark.line + 1
            return True
        self.sink.add(mark, f"{name} is given twice; line {lines[name]} gives it already")
        return False

    def _group(self, key: Scalar, node: Node, layer: Layer, lines: dict[str, int]) -> None:
        letters = GROUPS[key.text]
        if not isinstance(node, Mapping) or not node.pairs:
            values = ", ".join(f"{letter}: {example(name)}" for letter, name in letters.items())
            self.sink.add(key.mark, f"'{key.text}' wants a mapping: {key.text}: {{{values}}}")
            return
        for letter, value in node.pairs:
            name = letters.get(letter.text)
            if name is None:
                known = ", ".join(letters)
                self.sink.add(
                    letter.mark,
                    f"unknown key '{shorten(letter.text)}' in '{key.text}'; known: {known}",
                )
            elif self._once(letter.mark, name, lines):
                layer.plain[name] = self._value(name, letter, value)

    # -- sweeps --

    def _sweep(self, key: Scalar, node: Node, lines: dict[str, int]) -> Sweep:
        """The value of ``sweep``: a mapping, the name of a sweep, or a list of both."""
        parts = node.items if isinstance(node, Sequence) else (node,)
        if not parts:
            self.sink.add(key.mark, f"'sweep' is empty; write {_EXAMPLE}, or leave it out")
        axes: list[Axis] = []
        exclusions: list[Exclusion] = []
        for part in parts:
            if isinstance(part, Scalar) and part.text and yaml_flavour(part) != "null":
                found = self._by_name(part, lines)
            else:
                found = self._mapping(key, part, lines, "sweep")
            axes.extend(found.axes)
            exclusions.extend(found.exclusions)
        return Sweep(tuple(axes), tuple(exclusions), key.mark)

    def _by_name(self, word: Scalar, lines: dict[str, int]) -> Sweep:
        found = self.named.get(word.text)
        if found is None:
            known = ", ".join(self.named)
            remedy = nearest(word.text, list(self.named)) or (
                f"; known: {known}" if known else "; define it under 'sweeps'"
            )
            self.sink.add(word.mark, f"no sweep is named '{shorten(word.text)}'{remedy}")
            return EMPTY
        taken = [name for name in sorted(found.names) if not self._once(word.mark, name, lines)]
        return EMPTY if taken else found

    def _mapping(self, key: Scalar, node: Node, lines: dict[str, int], name: str) -> Sweep:
        if not isinstance(node, Mapping) or not node.pairs:
            self.sink.add(
                key.mark if not isinstance(node, (Mapping, Sequence)) else node.mark,
                f"'{shorten(name)}' wants fields with lists: {_EXAMPLE}",
            )
            return EMPTY
        axes: list[Axis] = []
        exclusions: list[Exclusion] = []
        for axis, values in node.pairs:
            if axis.text == "zip":
                axes.extend(self._zips(axis, values, lines))
            elif axis.text == "exclude":
                exclusions.extend(self._exclusions(axis, values))
            elif self._sweepable(axis, lines):
                rows = tuple((given,) for given in self._column(axis.text, axis, values))
                axes.append(Axis((axis.text,), rows))
        return Sweep(tuple(axes), tuple(exclusions))

    def _sweepable(self, axis: Scalar, lines: dict[str, int]) -> bool:
        name = axis.text
        if name in GROUPS:
            flat = ", ".join(GROUPS[name].values())
            self.sink.add(axis.mark, f"'{name}' is a group; sweep its fields: {flat}")
        elif name == NAME:
            self.sink.add(axis.mark, "a name cannot be swept; the swept values tell kernels apart")
        elif name not in HELP:
            self._unknown(axis, [*HELP, "zip", "exclude"])
        else:
            return self._once(axis.mark, name, lines)
        return False

    def _column(self, name: str, key: Scalar, node: Node, *, repeats: bool = False) -> list[Given]:
        """The values of one swept field; a repeated one is refused unless a zip may have it."""
        if not isinstance(node, Sequence) or not node.items:
            self.sink.add(key.mark, f"a swept field wants a list of values: {name}: [.., ..]")
            return [Given(None, key.mark, self.sink)]
        found: list[Given] = []
        seen: set[str] = set()
        for item in node.items:
            value = self._value(name, key, item)
            if value.text is not None and value.text in seen and not repeats:
                self.sink.add(value.mark, f"{name} is swept over {value.text} twice; give it once")
                continue
            if value.text is not None:
                seen.add(value.text)
            found.append(value)
        return found

    def _zips(self, key: Scalar, node: Node, lines: dict[str, int]) -> list[Axis]:
        """``zip``: fields whose lists go together, or a list of such mappings."""
        parts = node.items if isinstance(node, Sequence) else (node,)
        found: list[Axis] = []
        for part in parts or (key,):
            if not isinstance(part, Mapping) or not part.pairs:
                self.sink.add(
                    key.mark, "'zip' wants fields with lists of one length: zip: {n: [..], k: [..]}"
                )
                continue
            columns = {
                axis.text: (axis, self._column(axis.text, axis, values, repeats=True))
                for axis, values in part.pairs
                if self._sweepable(axis, lines)
            }
            if not columns:
                continue
            lengths = {name: len(values) for name, (_, values) in columns.items()}
            if len(set(lengths.values())) > 1:
                told = ", ".join(f"{name} has {length}" for name, length in lengths.items())
                self.sink.add(key.mark, f"lists of a zip have one length, and here {told}")
                continue
            found.append(self._zip(columns))
        return found

    def _zip(self, columns: dict[str, tuple[Scalar, list[Given]]]) -> Axis:
        rows: dict[tuple[str | None, ...], tuple[Given, ...]] = {}
        for row in zip(*(values for _, values in columns.values()), strict=True):
            texts = tuple(given.text for given in row)
            if texts in rows and None not in texts:
                words = ", ".join(f"{n} {t}" for n, t in zip(columns, texts, strict=True))
                self.sink.add(row[0].mark, f"the zip has {words} twice; give it once")
            rows[texts] = row
        return Axis(tuple(columns), tuple(rows.values()))

    def _exclusions(self, key: Scalar, node: Node) -> list[Exclusion]:
        """``exclude``: a mapping of fields to a value or a list of values, or a list of them."""
        parts = node.items if isinstance(node, Sequence) else (node,)
        found: list[Exclusion] = []
        for part in parts:
            if not isinstance(part, Mapping) or not part.pairs:
                self.sink.add(
                    key.mark,
                    "'exclude' wants a list of combinations: exclude: [{arch: sm_80, m: [1, 2]}]",
                )
                continue
            wanted: dict[str, frozenset[str]] = {}
            whole = True
            for field, value in part.pairs:
                if field.text not in HELP or field.text == NAME:
                    self._unknown(field, [name for name in HELP if name != NAME])
                    whole = False
                    continue
                items: tuple[Node, ...] = (value,)
                if isinstance(value, Sequence) and field.text != "epilogue":
                    items = value.items
                if not items:
                    self.sink.add(field.mark, f"{field.text} has no values; give one, or a list")
                    whole = False
                given = [self._value(field.text, field, item) for item in items]
                texts = [each.text for each in given if each.text is not None]
                whole = whole and len(texts) == len(items)
                wanted[field.text] = frozenset(canonical(field.text, text) for text in texts)
            if whole:
                found.append(Exclusion(wanted, part.mark, self.sink))
        return found

    def _unknown(self, key: Scalar, known: list[str]) -> None:
        hint = HINTS.get(key.text.lower())
        close = nearest(key.text, [*known, "label"])
        if "'label'" in close:  # the spec's word for it, which flags use
            hint = HINTS["label"]
        word, colon, value = key.text.partition(":")
        if colon and value and word in known:  # {m:64}: YAML ends a key at a colon and a space
            hint = f"write {word}: {value}, with a space behind the colon"
        remedy = f"; {hint}" if hint else close or f"; known: {', '.join(known)}"
        self.sink.add(key.mark, f"unknown key '{shorten(key.text)}'{remedy}")
