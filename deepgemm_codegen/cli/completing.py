"""What a shell offers behind a flag or an argument."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import click

    Completer = Callable[[click.Context, click.Parameter, str], list[str]]

__all__ = ["complete_field", "complete_kernel", "complete_words"]


def complete_words(words: Callable[[], Iterable[str]]) -> Completer:
    """A completer over words that are looked up when they are asked for."""

    def complete(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
        return [word for word in words() if word.startswith(begun)]

    return complete


def complete_field(name: str) -> Completer | None:
    """The completer of a spec's field; None where any value may stand."""
    if name == "epilogue":
        return _steps
    lookup = {"arch": _architectures, "gpu": _gpus}.get(name)
    if lookup is not None:
        return complete_words(lookup)
    from deepgemm_codegen.specfile.fields import CHOICES  # noqa: PLC0415

    if name.startswith("dtype"):
        return complete_words(_dtypes)
    if name in CHOICES:
        return complete_words(lambda: CHOICES[name])
    if name in ("m", "n", "k"):
        return complete_words(lambda: ("dynamic", "dynamic:"))
    return None


def _architectures() -> Iterable[str]:
    from deepgemm_codegen.arch import known_targets  # noqa: PLC0415

    return known_targets()


def _gpus() -> Iterable[str]:
    from deepgemm_codegen.arch import known_architectures, load_arch  # noqa: PLC0415

    return [gpu.name for arch in known_architectures() for gpu in load_arch(arch).gpus]


def _dtypes() -> Iterable[str]:
    from deepgemm_codegen.dtypes import DTYPES  # noqa: PLC0415

    return DTYPES


def _steps(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
    """Steps, the last of a list between commas."""
    from deepgemm_codegen.epilogue import STEPS  # noqa: PLC0415

    before, comma, last = begun.rpartition(",")
    return [f"{before}{comma}{step}" for step in STEPS if step.startswith(last)]


def complete_kernel(context: click.Context, _: click.Parameter, begun: str) -> list[str]:
    """Kernels of the folder that ``--in`` names."""
    from deepgemm_codegen.batch.manifest import read_manifest  # noqa: PLC0415
    from deepgemm_codegen.errors import CodegenError  # noqa: PLC0415

    try:
        kernels = read_manifest(context.params.get("folder") or "generated").kernels
    except CodegenError:
        return []
    return [name for each in kernels if (name := str(each["name"])).startswith(begun)]
