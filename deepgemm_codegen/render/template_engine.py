"""The template engine: Jinja2, strict, and compiled for speed.

Strict: an undefined name, an attribute that is not there, a value that is neither text nor a whole
number, or a missing file stops the rendering; nothing is printed by accident.

A file takes some forty includes and five hundred attributes. jinja2 looks a template up anew at
each include, and hands its text through every template around it piece by piece; and it asks for an
attribute through a function that would take an item of that name as well. Here an included template
is looked up once and its text handed on whole, and an attribute is Python's own, so that a file
takes about half the time. Items are written as such: ``step.operands["bias"]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jinja2
from jinja2 import nodes
from jinja2.compiler import CodeGenerator
from jinja2.runtime import Context
from jinja2.utils import missing

from deepgemm_codegen.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, MutableMapping

    from jinja2.compiler import Frame

__all__ = ["Engine"]


def _printed(value: object) -> str:
    """Lets only text and whole numbers through; True, None and 1e-05 would print as Python.

    Most values, some two hundred a file, are text, and are printed without asking here.
    """
    if type(value) is int:
        return str(value)
    if isinstance(value, jinja2.Undefined):
        return str(value)  # raises, and names what is missing
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise InternalError(f"a template prints {value!r}, which is neither text nor an integer")
    return str(value)


def _deepen(text: str, columns: int) -> str:
    """`text` indented further (less, where negative), blank and preprocessor lines apart."""
    lines = text.split("\n")
    if columns < 0:
        return "\n".join(line[-columns:] if line[:1] == " " else line for line in lines)
    margin = " " * columns
    return "\n".join(f"{margin}{line}" if line and line[0] != "#" else line for line in lines)


class _Compiler(CodeGenerator):
    """See the module's docstring."""

    _asked = False
    """Whether the expression under way is asked if it is there at all."""

    def visit_Include(self, node: nodes.Include, frame: Frame) -> None:  # noqa: N802  jinja2's
        if node.ignore_missing or not node.with_context:
            super().visit_Include(node, frame)
            return
        self.writeline("yield " if frame.buffer is None else f"{frame.buffer}.append(", node)
        self.write("environment.included(")
        self.visit(node.template, frame)
        self.write(f", context, {self.dump_local_context(frame)})")
        self.write("" if frame.buffer is None else ")")

    def visit_Getattr(self, node: nodes.Getattr, frame: Frame) -> None:  # noqa: N802
        if self._asked:
            super().visit_Getattr(node, frame)
            return
        self.visit(node.node, frame)
        self.write(f".{node.attr}")

    def visit_Test(self, node: nodes.Test, frame: Frame) -> None:  # noqa: N802
        before, self._asked = self._asked, node.name == "defined"
        super().visit_Test(node, frame)
        self._asked = before

    def _output_child_pre(self, *_: object) -> None:
        self.write("(_v if type(_v := (")

    def _output_child_post(self, *_: object) -> None:
        self.write(")) is str else environment.printed(_v))")


class _Inner(Context):
    """What an included template may name; jinja2's own constructor asks the engine for much."""

    def __init__(self, engine: Engine, name: str, outer: Context, names: dict[str, Any]) -> None:
        self.environment, self.name = engine, name
        self.eval_ctx, self.blocks = outer.eval_ctx, outer.blocks
        self.globals_keys = outer.globals_keys
        self.vars, self.exported_vars = {}, set()
        self.parent = {**outer.parent, **outer.vars}
        for key, value in names.items():
            if value is not missing:
                self.parent[key] = value


class Engine(jinja2.Environment):
    """The one environment of all templates.

    Args:
        loader: finds a template's text by its path below ``templates/``.
        bytecode_cache: keeps compiled templates, or None.
    """

    code_generator_class = _Compiler

    def __init__(
        self, loader: jinja2.BaseLoader, bytecode_cache: jinja2.BytecodeCache | None = None
    ) -> None:
        super().__init__(
            loader=loader,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
            autoescape=False,
            finalize=_printed,
            bytecode_cache=bytecode_cache,
            auto_reload=False,
        )
        self.filters["deepen"] = _deepen
        self.printed = _printed
        self.loaded: dict[str, Callable[[Context], Iterator[str]]] = {}
        self.templates: dict[Any, jinja2.Template] = {}

    def overlay(self, *args: Any, **options: Any) -> Engine:
        """A copy with other options, as jinja2 has it; what it includes it loads anew."""
        made = super().overlay(*args, **options)
        made.loaded, made.templates = {}, {}
        return made

    def make_globals(self, d: MutableMapping[str, Any] | None) -> MutableMapping[str, Any]:
        """A template's global names as one dict: jinja2's chain of two is slow, and asked often."""
        return {**self.globals, **(d or {})}

    def get_template(self, name: Any, *args: Any, **options: Any) -> jinja2.Template:
        """As jinja2 has it, without a lock and a look at the loader each time."""
        known = self.templates.get(name)
        if known is None:
            known = self.templates[name] = super().get_template(name, *args, **options)
        return known

    def included(self, name: str, context: Context, names: dict[str, Any]) -> str:
        """The text of an included template.

        Args:
            name: its path.
            context: of the template around it.
            names: that are set there beside, in loops.
        """
        render = self.loaded.get(name)
        if render is None:
            render = self.loaded[name] = self.get_template(name).root_render_func
        return "".join(render(_Inner(self, name, context, names)))
