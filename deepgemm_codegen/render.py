"""From a plan to CUDA C++ text, by the templates of ``templates/``.

The environment is strict: an undefined name, a value that is neither text nor a whole number, or
a missing file stops the rendering; nothing is printed by accident.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from deepgemm_codegen.errors import InternalError
from deepgemm_codegen.file_text import file_text_of
from deepgemm_codegen.plan import as_program
from deepgemm_codegen.printing import text_of
from deepgemm_codegen.resources import data_folder

if TYPE_CHECKING:
    import jinja2

    from deepgemm_codegen.plan import KernelPlan, Program
    from deepgemm_codegen.template_cache import TemplateCache

__all__ = [
    "TEMPLATE",
    "environment",
    "names_of",
    "render_kernel",
    "render_program",
    "template_cache_in_use",
]

TEMPLATE = "file.cu.j2"
"""The file's template, below ``templates/``; it includes all others."""


def _printable(value: object) -> object:
    """Lets only text and whole numbers through; True, None and 1e-05 would print as Python."""
    if type(value) is str or type(value) is int:  # nearly always, some two hundred times a file
        return value
    import jinja2  # noqa: PLC0415

    if isinstance(value, jinja2.Undefined):
        return value  # raises when it is turned into text, and names what is missing
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise InternalError(f"a template prints {value!r}, which is neither text nor an integer")
    return value


def _deepen(text: str, columns: int) -> str:
    """`text` indented further (less, where negative), blank and preprocessor lines apart."""
    lines = text.split("\n")
    if columns < 0:
        return "\n".join(line[-columns:] if line[:1] == " " else line for line in lines)
    margin = " " * columns
    return "\n".join(f"{margin}{line}" if line and line[0] != "#" else line for line in lines)


@cache
def environment() -> jinja2.Environment:
    """The one strict Jinja environment."""
    import jinja2  # noqa: PLC0415  --help and the YAML commands need no template engine

    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(data_folder("templates")),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701  the output is CUDA C++
        finalize=_printable,
        bytecode_cache=template_cache_in_use(),
        auto_reload=False,
    )
    made.filters["deepen"] = _deepen
    return made


def template_cache_in_use() -> TemplateCache | None:
    """Compiled templates kept between runs, so that a cold start does not compile them again."""
    from deepgemm_codegen.template_cache import template_cache  # noqa: PLC0415  imports jinja2

    return template_cache(__file__)


def render_program(program: Program) -> str:
    """The generated ``.cu`` of a program, all its kernels and their launcher.

    The same program gives the same bytes on every machine.

    Raises:
        InternalError: a template used something the plan does not have.
    """
    import jinja2  # noqa: PLC0415

    try:
        template = environment().get_template(TEMPLATE)
        source = template.render(**names_of(program))
    except jinja2.TemplateError as error:
        where = getattr(error, "filename", None) or TEMPLATE
        line = getattr(error, "lineno", None)
        raise InternalError(f"template {where}:{line or '?'}: {error}") from error
    return source.rstrip("\n") + "\n"


def render_kernel(plan: KernelPlan) -> str:
    """The generated ``.cu`` of a kernel that is a program by itself; see `render_program`."""
    return render_program(as_program(plan))


def names_of(program: Program) -> dict[str, Any]:
    """What the file's template is given: the program, and the words for it and its kernels."""
    return {
        "program": program,
        "file": file_text_of(program),
        "kernels": [(plan, text_of(plan)) for plan in program.kernels],
    }
