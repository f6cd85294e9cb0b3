"""The facts files of architectures: what each key is, in which unit, and between which bounds.

`FACTS` is the one table of the keys. `read_facts` holds a file against it, so that what `arch`
makes of the file needs no second look, and a mistake is told by file, line and key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from deepgemm_codegen.dtypes import DTYPES, FP32
from deepgemm_codegen.errors import InputError, nearest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["FACTS", "Fact", "read_facts"]


@dataclass(frozen=True, slots=True)
class Fact:
    """One key of a facts file.

    Attributes:
        meaning: what it says, for people.
        kind: ``number``, ``switch``, ``text``, ``rates`` (a number for each operand type), or
            ``table`` and ``list`` of a table with the keys of `inner`.
        unit: of the number.
        low, high: the least and the largest number.
        step: what the number is a multiple of.
        words: the numbers or words that alone are taken, where there are few.
        optional: whether it may be left out.
        inner: keys of a table.
    """

    meaning: str
    kind: str = "number"
    unit: str = ""
    low: int = 1
    high: int = 1 << 20
    step: int = 1
    words: tuple[int | str, ...] = ()
    optional: bool = False
    inner: Mapping[str, Fact] | None = None

    @property
    def written(self) -> str:
        """What may be written, in words."""
        if self.words:
            return " or ".join(map(str, self.words))
        if self.kind == "number":
            multiple = f", a multiple of {self.step}" if self.step > 1 else ""
            return f"a whole number from {self.low} to {self.high}{multiple}"
        return _WRITTEN[self.kind]


_WRITTEN = {
    "switch": "true or false",
    "text": "text in one line",
    "rates": "a table of operand types, each with a whole number above 0",
    "table": "a table",
    "list": "a list of tables, one at least",
}

MULTIPLIED = tuple(name for name, dtype in DTYPES.items() if dtype.accumulator and dtype != FP32)
"""Operand types that a matrix instruction may have."""

_FLOPS = Fact(
    "work of a multiprocessor through mma.sync, by operand type; a type that is missing has no"
    " hardware",
    "rates",
    unit="FLOP a clock",
)

_GPU = {
    "name": Fact("the name, as its vendor writes it", "text"),
    "sms": Fact("multiprocessors", high=4096),
    "l2_mb": Fact("L2 cache", unit="MB", high=4096),
    "memory_gbs": Fact("memory bandwidth", unit="GB/s", high=100_000),
    "clock_mhz": Fact("boost clock that the cost model reckons with", unit="MHz", high=10_000),
    "mma_flops_per_clock": Fact(
        "as outside, of the types in which this GPU differs",
        "rates",
        unit=_FLOPS.unit,
        optional=True,
    ),
}

_L2_RATE = Fact(
    "what the L2 sustains to each multiprocessor when all read", unit="bytes a clock", high=4096
)

_WGMMA = {
    "suffix": Fact("the suffix that opens it", "text", words=("a",)),
    "flops_per_clock": Fact("as `mma_flops_per_clock`, through wgmma", "rates", _FLOPS.unit),
    "l2_bytes_per_clock": Fact("as outside, through TMA", unit=_L2_RATE.unit, high=4096),
}

FACTS: dict[str, Fact] = {
    "gpus": Fact("GPUs of the architecture; the first is the default", "list", inner=_GPU),
    "shared_per_block_kb": Fact(
        "largest dynamic shared memory of a block", unit="KiB", low=16, high=1024
    ),
    "shared_per_sm_kb": Fact(
        "shared memory of a multiprocessor; a block's with its reserve fits",
        unit="KiB",
        low=16,
        high=1024,
    ),
    "shared_reserved_kb": Fact(
        "of which the driver keeps for itself, a block", unit="KiB", low=0, high=16
    ),
    "threads_per_sm": Fact("resident threads of a multiprocessor", low=1024, high=8192, step=32),
    "blocks_per_sm": Fact("resident blocks of a multiprocessor", high=32),
    "registers_per_sm": Fact(
        "32-bit registers of a multiprocessor", low=32_768, high=1 << 20, step=256
    ),
    "mma_bytes": Fact(
        "bytes of k that an mma.sync multiplies: 32 for m16n8k16 and m16n8k32, 16 for m16n8k8 and"
        " m8n8k16",
        unit="bytes",
        words=(16, 32),
    ),
    "fp8_sum_bits": Fact(
        "fraction bits that the tensor cores keep of fp8 sums; without it 23, all of fp32",
        unit="bits",
        high=23,
        optional=True,
    ),
    "cp_async": Fact("whether global memory is copied to shared memory asynchronously", "switch"),
    "fma_per_clock": Fact(
        "fp32 multiply-adds of a multiprocessor on its CUDA cores", unit="FMA a clock", high=4096
    ),
    "mma_flops_per_clock": _FLOPS,
    "l2_bytes_per_clock": _L2_RATE,
    "wgmma": Fact("what a suffix opens; sm_90 alone has it", "table", inner=_WGMMA, optional=True),
    "plain_note": Fact(
        "a line for people who ask for the target without a suffix", "text", optional=True
    ),
}
"""Every key of a facts file."""

_NARROW, _NARROW_TYPES = 16, ("fp16", "int8", "uint8")
"""Bytes of k of the older instructions, and the operand types that they have."""

_DOCS = "docs/reference.md lists the keys"


def read_facts(path: Path) -> dict[str, Any]:
    """The facts of a file, every key as `FACTS` has it.

    Raises:
        InputError: no YAML, a key that is missing, unknown or there twice, a value of another type
            or out of its bounds, or values that do not go together; it has the file's line.
    """
    import yaml  # noqa: PLC0415  costs milliseconds that --help need not pay

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    where = f"configs/arch/{path.name}"
    try:
        reading = loader(path.read_text(encoding="utf-8"))
        root = reading.get_single_node()
        lines: dict[str, int] = {}
        if root is not None:
            _note_lines(root, "", lines, where)
        facts: Any = None if root is None else reading.construct_document(root)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        cause = " ".join(str(error).split())
        raise InputError(f"{where}: no YAML: {cause}; mend it") from error
    reader = _Reader(where, lines)
    reader.table("", facts, FACTS)
    reader.check_together(facts, path.stem)
    found: dict[str, Any] = facts
    return found


def _note_lines(node: Any, key: str, lines: dict[str, int], where: str) -> None:
    """Writes down the line of every key, such as ``gpus[1].sms``, under it."""
    lines.setdefault(key, node.start_mark.line + 1)
    if node.id == "sequence":
        for place, item in enumerate(node.value):
            _note_lines(item, f"{key}[{place}]", lines, where)
    elif node.id == "mapping":
        for name, value in node.value:
            inner = _joined(key, str(name.value))
            if inner in lines:
                raise InputError(
                    f"{where}:{name.start_mark.line + 1}: {inner} stands in line {lines[inner]}"
                    " already; leave one of them out"
                )
            lines[inner] = name.start_mark.line + 1
            _note_lines(value, inner, lines, where)


def _joined(outer: str, name: str) -> str:
    return f"{outer}.{name}" if outer else name


@dataclass(frozen=True, slots=True)
class _Reader:
    """Holds the values of one file against the table.

    Attributes:
        where: the file, as errors name it.
        lines: of its keys.
    """

    where: str
    lines: Mapping[str, int]

    def _fail(self, key: str, text: str) -> NoReturn:
        line = f":{self.lines[key]}" if key in self.lines else ""
        raise InputError(f"{self.where}{line}: {text}")

    def _wrong(self, key: str, value: object, fact: Fact) -> NoReturn:
        shown = str(value)
        if isinstance(value, dict | list):
            shown = "a list" if isinstance(value, list) else "a table"
        elif value is None or isinstance(value, bool):
            shown = {None: "nothing", True: "true", False: "false"}[value]
        unit = f" ({fact.unit})" if fact.unit else ""
        self._fail(key, f"{key} = {shown}: give {fact.written}{unit}: {fact.meaning}")

    def table(self, key: str, value: object, known: Mapping[str, Fact]) -> None:
        """A table has every key that it must, and no other."""
        if not isinstance(value, dict):
            told = f"{key} is no table" if key else "the file is no table of keys"
            self._fail(key, f"{told}; it has {', '.join(known)} ({_DOCS})")
        for name in value:
            if name not in known:
                inner = _joined(key, str(name))
                close = nearest(str(name), list(known))
                self._fail(inner, f"unknown key '{inner}'{close}; known: {', '.join(known)}")
        for name, fact in known.items():
            inner = _joined(key, name)
            if name in value:
                self.value(inner, value[name], fact)
            elif not fact.optional:
                unit = f" ({fact.unit})" if fact.unit else ""
                self._fail(
                    key,
                    f"{inner} is missing; give {fact.written}{unit}: {fact.meaning}",
                )

    def value(self, key: str, value: object, fact: Fact) -> None:
        """A value is of its key's type, and within its bounds."""
        if fact.kind == "rates":
            self._rates(key, value, fact)
        elif fact.kind == "table":
            self.table(key, value, fact.inner or {})
        elif not _fits(value, fact):
            self._wrong(key, value, fact)
        elif isinstance(value, list):
            for place, item in enumerate(value):
                self.table(f"{key}[{place}]", item, fact.inner or {})

    def _rates(self, key: str, value: object, fact: Fact) -> None:
        if not isinstance(value, dict) or not value:
            self._wrong(key, value, fact)
        for name, rate in value.items():
            inner = _joined(key, str(name))
            if name not in MULTIPLIED:
                close = nearest(str(name), list(MULTIPLIED))
                self._fail(
                    inner, f"{inner}: no operand type{close}; known: {', '.join(MULTIPLIED)}"
                )
            if not _whole(rate, fact):
                limit = f"a whole number from {fact.low} to {fact.high} ({fact.unit})"
                self._fail(inner, f"{inner} = {rate}: give {limit}")

    def check_together(self, facts: Mapping[str, Any], name: str) -> None:
        """What the values must be to each other."""
        block, own = facts["shared_per_block_kb"], facts["shared_reserved_kb"]
        whole = facts["shared_per_sm_kb"]
        if block + own > whole:
            self._fail(
                "shared_per_block_kb",
                f"shared_per_block_kb = {block}: with shared_reserved_kb = {own} it is more than"
                f" shared_per_sm_kb = {whole}; the largest is {whole - own}",
            )
        blocks, threads = facts["blocks_per_sm"], facts["threads_per_sm"]
        if blocks * 32 > threads:
            self._fail(
                "blocks_per_sm",
                f"blocks_per_sm = {blocks}: of 32 threads each, they are more than threads_per_sm ="
                f" {threads}; the largest is {threads // 32}",
            )
        names = [gpu["name"] for gpu in facts["gpus"]]
        for place, gpu in enumerate(names):
            if gpu in names[:place]:
                self._fail(f"gpus[{place}].name", f"gpus: two are named {gpu}; leave out one")
            for dtype in facts["gpus"][place].get("mma_flops_per_clock", ()):
                if dtype not in facts["mma_flops_per_clock"]:
                    key = f"gpus[{place}].mma_flops_per_clock.{dtype}"
                    self._fail(key, f"{key}: mma_flops_per_clock has no {dtype}; give it there")
        for dtype in facts["mma_flops_per_clock"]:
            if facts["mma_bytes"] == _NARROW and dtype not in _NARROW_TYPES:
                self._fail(
                    f"mma_flops_per_clock.{dtype}",
                    f"mma_flops_per_clock.{dtype}: with mma_bytes = 16 there is no instruction for"
                    f" it, only for {', '.join(_NARROW_TYPES)}; leave it out, or give mma_bytes 32",
                )
        if "wgmma" in facts and name != "sm_90":
            self._fail("wgmma", f"wgmma: {name} has no such instruction, only sm_90; leave it out")


def _fits(value: object, fact: Fact) -> bool:
    """Whether a value that is no table is of a key's type, and within its bounds."""
    if fact.words:
        return not isinstance(value, bool) and value in fact.words
    if fact.kind == "number":
        return _whole(value, fact)
    if fact.kind == "text":
        return isinstance(value, str) and bool(value.strip()) and value.isprintable()
    wanted = bool if fact.kind == "switch" else list
    return isinstance(value, wanted) and value != []


def _whole(value: object, fact: Fact) -> bool:
    if isinstance(value, bool) or not isinstance(value, int):
        return False
    return fact.low <= value <= fact.high and value % fact.step == 0
