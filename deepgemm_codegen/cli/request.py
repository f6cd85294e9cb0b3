"""What the user asks for, gathered from flags, environment, kernel file and defaults.

A flag beats the environment, the environment beats a kernel file, a file beats the default; each
value remembers where it came from.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from deepgemm_codegen.cli.flags import flag_of
from deepgemm_codegen.errors import InputError, nearest
from deepgemm_codegen.numbers import MAX_DIMENSION, check_range, whole_number
from deepgemm_codegen.spec import GemmSpec
from deepgemm_codegen.spec.overrides import OVERRIDES, override_value
from deepgemm_codegen.spec.text import FIELDS, FREE_TEXT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from deepgemm_codegen.cli.streams import Console
    from deepgemm_codegen.specfile import SpecEntry

__all__ = [
    "Request",
    "Setting",
    "environment_settings",
    "gather",
    "requests_for",
    "requests_of",
    "take_flags",
]

_PREFETCH = "DGEMM_PREFETCH_DEPTH"
_SPLIT_K = "DGEMM_DYNAMIC_SPLIT_K"
_OTHER_VARIABLES = ("DGEMM_CACHE_DIR", "DGEMM_COMPILATION_TIMEOUT_MS")

_MAY_BE_EMPTY = ("epilogue", *FREE_TEXT)
"""Fields that a flag may empty again, where a file fills them."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One value from the environment.

    Attributes:
        value: the field's text.
        variable: ``NAME=TEXT`` as it stands in the environment.
    """

    value: str
    variable: str


@dataclass(frozen=True, slots=True)
class Request:
    """A spec, and where each of its values came from.

    Attributes:
        spec: what to generate.
        origins: field to ``flag --tile-m``, ``environment DGEMM_TILE_M``, ``FILE:LINE`` or
            ``default``.
        where: the kernel file's place, or empty.
        entry: what the kernel file has there, or None.
    """

    spec: GemmSpec
    origins: Mapping[str, str]
    where: str = ""
    entry: SpecEntry | None = None

    def place_of(self, refusal: str) -> str:
        """Where a refusal of the tree is told of: at a value, or the kernel; else empty."""
        return self.entry.place_of(refusal) if self.entry is not None else self.where


def take_flags(values: dict[str, str | None]) -> dict[str, str]:
    """The spec's flags that were given, taken out of a command's parameters."""
    given = {}
    for name in (*FIELDS, *OVERRIDES):
        value = values.pop(name, None)
        if value is not None:
            given[name] = value
    return given


def environment_settings(env: Mapping[str, str], console: Console) -> dict[str, Setting]:
    """The overrides that the environment sets, by field name.

    A misspelt ``DGEMM_`` variable is named on stderr, since nothing else would tell.

    Raises:
        InputError: a value that its override does not take, or two that disagree.
    """
    found: dict[str, Setting] = {}
    for name in OVERRIDES:
        variable = f"DGEMM_{name.upper()}"
        text = env.get(variable, "").strip()
        if text:
            value = override_value(name, text, variable)
            found[name] = Setting(str(value), f"{variable}={text}")
    text = env.get(_PREFETCH, "").strip()
    if text:
        depth = whole_number(text, _PREFETCH)
        check_range(depth, _PREFETCH, 0, MAX_DIMENSION - 1)
        setting = Setting(str(depth + 1), f"{_PREFETCH}={text}")
        _add(found, "stages", setting, "; the prefetch depth is one less than the stages:")
    text = env.get(_SPLIT_K, "").strip()
    if text:
        value = override_value("split_k_from", text, _SPLIT_K)
        _add(found, "split_k_from", Setting(str(value), f"{_SPLIT_K}={text}"), ":")
    known = [f"DGEMM_{name.upper()}" for name in OVERRIDES]
    known += [_PREFETCH, _SPLIT_K, *_OTHER_VARIABLES]
    for variable in sorted(env):
        if variable.startswith("DGEMM_") and variable not in known:
            console.problem(f"warning: {variable} sets nothing{nearest_variable(variable, known)}")
    return found


def _add(found: dict[str, Setting], name: str, setting: Setting, why: str) -> None:
    """Adds what a variable of another name than the field's sets.

    Raises:
        InputError: the field's own variable says otherwise.
    """
    twin = found.setdefault(name, setting)
    if twin.value != setting.value:
        raise InputError(f"{twin.variable} and {setting.variable} disagree{why} unset one of them")


def nearest_variable(variable: str, known: list[str]) -> str:
    """The suffix that names the closest variable; `nearest` folds case the other way."""
    return (
        nearest(variable, [name.lower() for name in known])
        .upper()
        .replace("DID YOU MEAN", "did you mean")
    )


def gather(
    flags: Mapping[str, str],
    settings: Mapping[str, Setting],
    console: Console,
    *,
    base: GemmSpec | None = None,
    where: str = "",
    again: bool = False,
) -> Request:
    """One spec from all the places a value can come from.

    Args:
        flags: what the command line gives.
        settings: what the environment gives.
        console: where used environment values are noted.
        base: the spec of a kernel file, or None.
        where: its place, ``FILE:LINE``.
        again: whether an earlier kernel has noted what the environment sets.

    Raises:
        InputError: as `GemmSpec.from_fields`.
    """
    values = dict(base.to_fields()) if base is not None else {}
    origins = dict.fromkeys(values, where)
    for name, setting in settings.items():
        if name in flags:
            continue
        if name in values or not again:
            before = f", in place of {values[name]} from {where}" if name in values else ""
            what = f"{name} = {setting.value} from the environment ({setting.variable})"
            console.note(what + before)
        values[name] = setting.value
        origins[name] = f"environment {setting.variable.partition('=')[0]}"
    for name, value in flags.items():
        swallowed = value.startswith("--") and name not in FREE_TEXT  # the flag behind it
        if swallowed or (not value.strip() and name not in _MAY_BE_EMPTY):
            raise InputError(f"{flag_of(name)} has no value; give it one, or leave it out")
        values[name] = value
        origins[name] = f"flag {flag_of(name)}"
    spec = GemmSpec.from_fields(values)
    return Request(spec, origins, where)


def requests_of(
    files: Sequence[str],
    flags: Mapping[str, str],
    settings: Mapping[str, Setting],
    console: Console,
) -> list[tuple[SpecEntry, Request]]:
    """Every kernel that some kernel files ask for, with flags and environment laid over it.

    What these make equal is one.

    Raises:
        InputError: whatever is wrong with the files, or with a kernel after the flags; it names
            the place.
    """
    from deepgemm_codegen.specfile import read_all  # noqa: PLC0415  flags alone need no YAML

    asked: list[tuple[SpecEntry, Request]] = []
    for read in read_all(files):
        own = {name: at for name, at in read.places.items() if name not in {*flags, *settings}}
        entry = replace(read, places=own)
        try:
            request = gather(
                flags, settings, console, base=entry.spec, where=entry.where, again=bool(asked)
            )
        except InputError as error:
            raise InputError(f"{entry.place_of(str(error))}: {error}") from error
        asked.append((entry, request))
    return _once(asked, console)


def _once(
    asked: Sequence[tuple[SpecEntry, Request]], console: Console
) -> list[tuple[SpecEntry, Request]]:
    """Each spec once: a flag that overrides what a file sweeps makes some equal."""
    first: dict[GemmSpec, Request] = {}
    found = [pair for pair in asked if first.setdefault(pair[1].spec, pair[1]) is pair[1]]
    if left := len(asked) - len(found):
        console.note(f"{left} of {len(asked)} kernels are asked for twice under these flags")
    return found


def requests_for(
    files: Sequence[str], flags: Mapping[str, str], env: Mapping[str, str], console: Console
) -> list[Request]:
    """The kernels of some files, or without files the one that the flags describe.

    Raises:
        InputError: as `requests_of` and `gather`; neither files nor flags.
    """
    if not files and not flags:
        raise InputError("nothing is asked for; give kernel files, or --m, --n and --k")
    settings = environment_settings(env, console)
    if files:
        asked = requests_of(files, flags, settings, console)
        return [replace(request, entry=entry) for entry, request in asked]
    return [gather(flags, settings, console)]
