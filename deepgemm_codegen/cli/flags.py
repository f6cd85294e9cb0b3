"""The flags, made from the tables of `deepgemm_codegen.spec`, and help in sections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from deepgemm_codegen import __version__
from deepgemm_codegen.cli.streams import Console, print_data
from deepgemm_codegen.errors import nearest
from deepgemm_codegen.spec.block_scales import SCALE_WORDS
from deepgemm_codegen.spec.overrides import OVERRIDE_WORDS, OVERRIDES
from deepgemm_codegen.spec.text import FIELDS

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "PATH",
    "Command",
    "LazyGroup",
    "SectionedOption",
    "default_of",
    "files_argument",
    "flag_of",
    "level_flags",
    "spec_flags",
    "take_console",
    "version_flag",
]

PATH = click.Path(readable=False)
"""A path that a shell completes and that nothing is asked of here."""

_DEFAULTS = {
    "op": "product",
    "batch": "1",
    "dtype": "fp16",
    "layout": "nn",
    "layout_d": "n",
    "launch": "plain",
    "arch": "sm_80",
    **{f"align_{operand}": "16" for operand in "abcd"},
}
"""Defaults worth showing; `GemmSpec` holds the rest."""

_METAVARS = {
    "op": "product|epilogue",
    "m": "SIZE",
    "n": "SIZE",
    "k": "SIZE",
    "layout": "nn|nt|tn|tt",
    "layout_d": "n|t",
    "accumulate": "promoted|fast",
    "launch": "HOW",
    "zero_point_a": "POINT",
    "zero_point_b": "POINT",
    **{f"scale_{letter}": word for letter, word in SCALE_WORDS.items()},
    "epilogue": "STEPS",
    "arch": "ARCH",
    "gpu": "NAME",
    "label": "TEXT",
    **{f"stride_{operand}": "STRIDE" for operand in "abcd"},
    **{f"align_{operand}": "BYTES" for operand in "abcd"},
    **{name: "TYPE" for name in FIELDS if name.startswith("dtype")},
}

_SECTIONS = dict.fromkeys(("arch", "gpu", "sms", "launch", "label"), "Target")


_TAKEN_OVER = (
    "Decisions to take over (the tree works around them; --tile-m is also DGEMM_TILE_M in the"
    " environment)"
)


def default_of(name: str) -> str:
    """What a field is when it is not given; empty where that needs no word."""
    return _DEFAULTS.get(name, "")


def flag_of(name: str) -> str:
    """``--tile-m`` for ``tile_m``."""
    return f"--{name.replace('_', '-')}"


class SectionedOption(click.Option):
    """An option that stands under a heading of its own in the help."""

    def __init__(self, *args: Any, section: str = "Other", **kwargs: Any) -> None:
        self.section = section
        super().__init__(*args, **kwargs)


def spec_flags() -> list[click.Parameter]:
    """One flag a field of a spec, and one a decision that the user may take over."""
    fields: list[click.Parameter] = [
        SectionedOption(
            [flag_of(name), name],
            metavar=_METAVARS.get(name, "NUMBER"),
            help=text + (f"  [default: {_DEFAULTS[name]}]" if name in _DEFAULTS else ""),
            section=_SECTIONS.get(name, "Problem"),
            shell_complete=_completer_of(name),
        )
        for name, text in FIELDS.items()
    ]
    fields.extend(
        SectionedOption(
            [flag_of(name), name],
            metavar="|".join(OVERRIDE_WORDS.get(name, ("NUMBER",))),
            help=text,
            section=_TAKEN_OVER,
            shell_complete=_completer_of(name),
        )
        for name, text in OVERRIDES.items()
    )
    return fields


def _completer_of(name: str) -> Any:
    """Looks the field's completer up when a shell asks, which is rare."""

    def complete(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
        from deepgemm_codegen.cli.completing import complete_field  # noqa: PLC0415

        found = complete_field(name)
        return found(context, parameter, begun) if found else []

    return complete


def level_flags() -> list[click.Parameter]:
    """``-q``, ``-v`` and ``-h``, which every command has."""
    return [
        SectionedOption(
            ["-q", "--quiet"], is_flag=True, help="print no notes; errors and warnings stay"
        ),
        SectionedOption(["-v", "--verbose"], is_flag=True, help="print more notes"),
        SectionedOption(
            ["-h", "--help"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_print_help,
            help="show this and exit",
        ),
    ]


def files_argument(*, required: bool) -> click.Parameter:
    """Kernel files, any number of them."""
    metavar = "FILE..." if required else "[FILE]..."
    return click.Argument(["files"], nargs=-1, required=required, metavar=metavar, type=PATH)


def version_flag() -> click.Parameter:
    """``--version``."""
    return SectionedOption(
        ["--version"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_print_version,
        help="show the version and exit",
    )


def take_console(values: dict[str, Any]) -> Console:
    """The console that ``-q`` and ``-v`` ask for; removes both from ``values``.

    A level given before the command's name counts where the command has none.
    """
    quiet, verbose = values.pop("quiet", False), values.pop("verbose", False)
    if quiet and verbose:
        raise click.UsageError("-q and -v exclude each other; give one of them")
    level = -1 if quiet else 1 if verbose else 0
    context = click.get_current_context(silent=True)
    outer = context.find_root().obj if context is not None else None
    return Console(level or outer or 0)


def _print_help(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        print_data(context.get_help() + "\n")
        context.exit()


def _print_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        print_data(f"deepgemm_codegen {__version__}\n")
        context.exit()


class Command(click.Command):
    """A command whose help shows options by section, then examples."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **kwargs: Any) -> None:
        self.examples = tuple(examples)
        kwargs.setdefault("add_help_option", False)
        kwargs["context_settings"] = {
            "max_content_width": 100,
            "token_normalize_func": _with_dashes,  # --tile_m is --tile-m
        }
        super().__init__(*args, **kwargs)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Reads the words. Of a flag that is given twice the last counts; of steps all should."""
        order = self.make_parser(ctx).parse_args(args=list(args))[2]
        if sum(param.name == "epilogue" for param in order) > 1:
            raise click.UsageError(
                "--epilogue is given twice; give it once, with all steps: bias,relu", ctx
            )
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes each section's options under its heading, in the order they were declared."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, SectionedOption):
                sections.setdefault(parameter.section, []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records, col_max=28)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the examples."""
        del ctx
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write(f"  {example}\n")


def _with_dashes(name: str) -> str:
    return name.replace("_", "-") if name.startswith("--") or "_" in name else name


class LazyGroup(Command, click.Group):
    """A group that imports a command's module only when it is called.

    Attributes:
        lazy: name to (module, one-line help); the module has ``COMMAND``.
    """

    def __init__(self, *args: Any, lazy: dict[str, tuple[str, str]], **kwargs: Any) -> None:
        self.lazy = lazy
        super().__init__(*args, **kwargs)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, in the order of the table."""
        del ctx
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports the command's module."""
        del ctx
        entry = self.lazy.get(cmd_name)
        if entry is None:
            return None
        from importlib import import_module  # noqa: PLC0415

        command: click.Command = import_module(entry[0]).COMMAND
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Looks the command up; an unknown one gets the closest name."""
        if args[0] not in self.lazy:
            known = ", ".join(self.lazy)
            raise click.UsageError(
                f"no such command '{args[0]}'{nearest(args[0], list(self.lazy))};"
                f" the commands are {known}",
                ctx,
            )
        return args[0], self.get_command(ctx, args[0]), args[1:]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists the commands without importing them."""
        del ctx
        with formatter.section("Commands (each has its own --help)"):
            formatter.write_dl([(name, text) for name, (_, text) in self.lazy.items()])

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options, then the commands."""
        Command.format_options(self, ctx, formatter)
        if self.lazy:
            self.format_commands(ctx, formatter)
