"""One kernel's values to a `GemmSpec`, with every refusal at the value that caused it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.errors import InputError
from deepgemm_codegen.spec import GemmSpec
from deepgemm_codegen.specfile.fields import NAME

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from deepgemm_codegen.specfile.problems import Mark, Sink
    from deepgemm_codegen.specfile.values import Given

__all__ = ["build", "culprit", "spec_name"]

_REQUIRED = ("m", "n", "k")

_OF_TYPES = ("dtype", "align_", "ldc", "zero_point_", "scale_", "accumulate")
"""How fields begin that look wrong beside other types than they were written for."""


def build(values: Mapping[str, Given], mark: Mark, sink: Sink) -> GemmSpec | None:
    """The spec that the values of one kernel make, or None when something was refused.

    A spec stops at its first fault. To find the next ones, the value at fault is taken out,
    with all that depend on it, and the rest is tried again.

    Args:
        values: the fields under their YAML names; one without text was refused before.
        mark: the kernel's place, for what no single value is to blame for.
        sink: takes the problems of the kernel's file; a value has its own.
    """
    texts = {
        spec_name(name): given.text for name, given in values.items() if given.text is not None
    }
    places = {spec_name(name): given for name, given in values.items()}
    product = "op" not in values or values["op"].text == "product"
    required = _REQUIRED if product else ("m", "n")
    wrong = [name for name in required if name not in values]
    if wrong:
        names = " and ".join(filter(None, (", ".join(wrong[:-1]), wrong[-1])))
        verb = "is" if len(wrong) == 1 else "are"
        sink.add(mark, f"{names} {verb} missing; give a whole number, dynamic, or dynamic:MAX")
    wrong.extend(name for name in places if name not in texts)
    refused = set(wrong)
    for name in wrong:
        _take_out(texts, name)
    while True:
        try:
            spec = GemmSpec.from_fields(texts)
            load_arch(spec.arch, spec.gpu, spec.sms)
        except InputError as error:
            message = re.sub(r"--(\w+)=(\w+)", r"\1: \2", str(error))
            name = culprit(message, texts)
            if name in places:
                places[name].sink.add(places[name].mark, message)
            else:
                sink.add(mark, message)
            if name in refused or name not in texts:
                return None
            refused.add(name)
            _take_out(texts, name)
        else:
            return None if refused else spec


def spec_name(name: str) -> str:
    """A spec's name of a field of kernel files."""
    return "label" if name == NAME else name


def culprit(message: str, given: Container[str]) -> str:
    """The given field that a message is about: it begins ``field = value`` or names a part."""
    words: list[str] = re.findall(r"(\w+) = ", message)
    names = [*words, *(word.split("_")[0] for word in words)]
    return next((name for name in names if name in given), "")


def _take_out(texts: dict[str, str], name: str) -> None:
    """Removes a value at fault, and those that would look wrong only for want of it."""
    if name in _REQUIRED and (name != "k" or texts.get("op") != "epilogue"):
        texts[name] = "1"
        return
    related = [name]
    if name == "op":
        texts.setdefault("k", "1")
    elif name.startswith("dtype"):
        related += [n for n in texts if n.startswith(_OF_TYPES)]
    elif name.startswith("scale_"):
        related += ["scale_a", "scale_b"]
    elif name in ("layout", "layout_d"):
        related += ["lda", "ldb", "ldc", "ldd"]
    elif name == "arch":
        related += ["gpu"]
    for each in related:
        texts.pop(each, None)
