"""``cache``: what is kept between runs, and how to be rid of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from deepgemm_codegen.cli.flags import Command, SectionedOption, level_flags, take_console
from deepgemm_codegen.cli.streams import print_data

if TYPE_CHECKING:
    from deepgemm_codegen.render.template_cache import TemplateCache
    from deepgemm_codegen.toolchain import Cache, CacheInfo

__all__ = ["COMMAND"]

_FORMAT = "1.0"

SHOWN = 20
"""Kernels that are listed, the ones used last; ``-v`` and ``--json`` list all."""


def _cache(*, action: str, as_json: bool, **values: Any) -> int:
    from deepgemm_codegen.render import template_cache_in_use  # noqa: PLC0415
    from deepgemm_codegen.toolchain import Cache  # noqa: PLC0415

    console = take_console(values)
    most = None if console.level > 0 else SHOWN
    kernels, templates = Cache.from_env(), template_cache_in_use()
    if action == "clear":
        removed = kernels.clear()
        compiled = templates.empty() if templates else 0
        if as_json:
            fields = {"format": _FORMAT, "kernels": removed, "templates": compiled}
            print_data(json.dumps(fields, indent=2) + "\n")
        else:
            console.say(f"removed {removed} kernels and {compiled} compiled templates")
        return 0
    if as_json:
        print_data(_as_json(kernels, templates))
    else:
        print_data(_as_text(kernels.info(), templates, most))
    return 0


def _as_text(info: CacheInfo, templates: TemplateCache | None, most: int | None) -> str:
    if info.folder is None:
        return "no folder: there is no home to keep one in; set DGEMM_CACHE_DIR to have one\n"
    count, size = templates.usage() if templates else (0, 0)
    used, limit = _kilobytes(info.size_bytes), _kilobytes(info.limit_bytes)
    keeps = "" if info.keeps else ", which cannot be written: nothing is kept"
    lines = [
        f"folder     {info.folder}{keeps}",
        f"kernels    {len(info.entries)}, {used} of at most {limit}",
        f"templates  {count}, {_kilobytes(size)}",
    ]
    listed = info.entries[:most]
    lines.extend(f"  {_kilobytes(entry.size_bytes):>9}  {entry.label}" for entry in listed)
    if len(listed) < len(info.entries):
        lines.append(f"  and {len(info.entries) - len(listed)} used before; -v lists all")
    return "\n".join(lines) + "\n"


def _kilobytes(size: int) -> str:
    return f"{(size + 1023) // 1024} KiB"


def _as_json(cache: Cache, templates: TemplateCache | None) -> str:
    info = cache.info()
    count, size = templates.usage() if templates else (0, 0)
    fields = {
        "format": _FORMAT,
        "folder": None if info.folder is None else str(info.folder),
        "size_bytes": info.size_bytes,
        "limit_bytes": info.limit_bytes,
        "templates": {"count": count, "size_bytes": size},
        "kernels": [
            {"key": entry.key, "label": entry.label, "size_bytes": entry.size_bytes}
            for entry in info.entries
        ],
    }
    return json.dumps(fields, indent=2) + "\n"


COMMAND = Command(
    "cache",
    params=[
        click.Argument(["action"], type=click.Choice(["info", "clear"]), metavar="info|clear"),
        SectionedOption(["--json", "as_json"], is_flag=True, help="the answer as JSON on stdout"),
        *level_flags(),
    ],
    callback=_cache,
    help="Shows or empties the cache of compiled kernels and templates. DGEMM_CACHE_DIR names"
    " its folder.",
    examples=("deepgemm_codegen cache info", "deepgemm_codegen cache clear"),
)
