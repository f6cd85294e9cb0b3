"""From a plan to CUDA C++: templates print, and a ``_text`` file each has the words they need.

`rendering` puts a file together; `kernel_text` has the words of one kernel and `file_text` those
that all kernels of a file share; `template_engine` is Jinja2, strict, and `template_cache` keeps
compiled templates between runs.
"""

from __future__ import annotations

from deepgemm_codegen.render.rendering import (
    TEMPLATE,
    environment,
    names_of,
    render_kernel,
    render_program,
    template_cache_in_use,
)

__all__ = [
    "TEMPLATE",
    "environment",
    "names_of",
    "render_kernel",
    "render_program",
    "template_cache_in_use",
]
