"""From a plan to CUDA C++ text, by the templates of ``templates/`` and `template_engine`."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from deepgemm_codegen.errors import InternalError
from deepgemm_codegen.plan import as_program
from deepgemm_codegen.render.file_text import file_text_of
from deepgemm_codegen.render.kernel_text import text_of
from deepgemm_codegen.resources import data_folder

if TYPE_CHECKING:
    from deepgemm_codegen.plan import KernelPlan, Program
    from deepgemm_codegen.render.template_cache import TemplateCache
    from deepgemm_codegen.render.template_engine import Engine

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


@cache
def environment() -> Engine:
    """The one engine of all templates."""
    import jinja2  # noqa: PLC0415  --help and the YAML commands need no template engine

    from deepgemm_codegen.render.template_engine import Engine  # noqa: PLC0415

    return Engine(jinja2.FileSystemLoader(data_folder("templates")), template_cache_in_use())


def template_cache_in_use() -> TemplateCache | None:
    """Compiled templates kept between runs, so that a cold start does not compile them again."""
    from deepgemm_codegen.render import template_engine  # noqa: PLC0415  imports jinja2
    from deepgemm_codegen.render.template_cache import template_cache  # noqa: PLC0415  the same

    return template_cache(template_engine.__file__)


def render_program(program: Program) -> str:
    """The generated ``.cu`` of a program, all its kernels and their launcher.

    The same program gives the same bytes on every machine.

    Raises:
        InternalError: a template used something the plan does not have.
    """
    import jinja2  # noqa: PLC0415

    try:
        source = environment().get_template(TEMPLATE).render(names_of(program))
    except (jinja2.TemplateError, AttributeError) as error:
        raise InternalError(f"template {_place_of(error)}: {error}") from error
    return source.rstrip("\n") + "\n"


def _place_of(error: Exception) -> str:
    """``parts/steps.cu.j2:12``: the innermost line of a template that an error passed."""
    place, trace = TEMPLATE, error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file.endswith(".j2"):
            place = f"{file.rpartition('templates/')[2]}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


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
