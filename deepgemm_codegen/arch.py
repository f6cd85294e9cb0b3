"""Facts about architectures and the GPUs that implement them.

The facts live in ``configs/arch/*.yaml``, one file an architecture, each with its sources;
`arch_facts` holds them against the table of their keys. A decision asks this module and never a
device.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from deepgemm_codegen.arch_facts import read_facts
from deepgemm_codegen.errors import InputError, nearest
from deepgemm_codegen.numbers import MAX_DIMENSION, check_range, whole_number
from deepgemm_codegen.resources import data_folder

__all__ = [
    "DEPENDENT_FROM",
    "Arch",
    "Gpu",
    "canonical_arch",
    "known_architectures",
    "known_targets",
    "load_arch",
    "parse_arch",
]


DEPENDENT_FROM = 90
"""First architecture with programmatic dependent launch (CUDA programming guide)."""

Rates = tuple[tuple[str, int], ...]
"""(operand type, FLOP a clock) of one instruction, in the order of the facts file."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU model.

    Attributes:
        name: as its vendor writes it.
        sms: multiprocessors.
        l2_mb: L2 cache, MB.
        memory_gbs: memory bandwidth, GB/s.
        clock_mhz: boost clock that the cost model reckons with, MHz.
        mma_flops_per_clock: see `Arch`, of the types in which it differs from the file's others.
    """

    name: str
    sms: int
    l2_mb: int
    memory_gbs: int
    clock_mhz: int
    mma_flops_per_clock: Rates = ()


@dataclass(frozen=True, slots=True)
class Arch:
    """What the tree needs to know about a target.

    Attributes:
        name: ``sm_80``, the name the compilers take.
        number: 80, compared as an integer.
        suffix: ``""``, ``a`` or ``f`` as the user wrote it.
        gpu: the GPU whose facts are used.
        gpus: every GPU the file knows; the first is the default.
        shared_per_block: largest dynamic shared memory of a block, bytes.
        shared_per_sm: shared memory of a multiprocessor, bytes.
        shared_reserved: bytes a block that the driver keeps for itself.
        threads_per_sm: resident threads of a multiprocessor.
        blocks_per_sm: resident blocks of a multiprocessor.
        registers_per_sm: 32-bit registers of a multiprocessor.
        mma_bytes: bytes of k that an mma.sync multiplies at a time.
        mma_flops_per_clock: FLOP a multiprocessor does a clock through mma.sync, by operand type;
            a type that is not there has no hardware.
        fp8_sum_bits: fraction bits of fp8 sums that the tensor cores keep; 23 are all of fp32.
        cp_async: whether global memory is copied to shared memory asynchronously.
        fma_per_clock: fp32 multiply-adds a multiprocessor does a clock on its CUDA cores.
        l2_bytes_per_clock: bytes a clock that the L2 sustains to each multiprocessor when all
            of them read.
        wgmma_flops_per_clock: as for mma.sync, through wgmma; empty where this target has none.
        wgmma_l2_bytes_per_clock: as above, through TMA; 0 likewise.
        note: a line for people when they ask for this target, or empty.
    """

    name: str
    number: int
    suffix: str
    gpu: Gpu
    gpus: tuple[Gpu, ...]
    shared_per_block: int
    shared_per_sm: int
    shared_reserved: int
    threads_per_sm: int
    blocks_per_sm: int
    registers_per_sm: int
    mma_bytes: int
    mma_flops_per_clock: Rates
    fp8_sum_bits: int
    cp_async: bool
    fma_per_clock: int
    l2_bytes_per_clock: int
    wgmma_flops_per_clock: Rates
    wgmma_l2_bytes_per_clock: int
    note: str = ""

    @property
    def wgmma(self) -> bool:
        """Whether the target has wgmma and TMA: sm_90 with the suffix ``a``."""
        return bool(self.wgmma_flops_per_clock)

    @property
    def dependent_launch(self) -> bool:
        """Whether a kernel may begin before the one before it in the stream has ended."""
        return self.number >= DEPENDENT_FROM

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Operand types that the target multiplies: in matrix instructions, and fp32."""
        rates = (*self.mma_flops_per_clock, *self.wgmma_flops_per_clock)
        return tuple(dict.fromkeys([*(name for name, _ in rates), "fp32"]))

    def mma_rate(self, dtype: str) -> int:
        """FLOP a multiprocessor does a clock through mma.sync; 0 without hardware."""
        return dict(self.mma_flops_per_clock).get(dtype, 0)

    def wgmma_rate(self, dtype: str) -> int:
        """FLOP a multiprocessor does a clock through wgmma; 0 without hardware."""
        return dict(self.wgmma_flops_per_clock).get(dtype, 0)


_ALIASES = {121: 120, 103: 100}
"""Targets without a file of facts that the code of their nearest family serves, with a note."""


def parse_arch(text: str) -> tuple[int, str]:
    """(number, suffix) of ``sm_90a``, ``90a``, ``compute_80``, ``8.9`` or ``12.0``.

    Raises:
        InputError: not an architecture's name.
    """
    word = str(text).strip().lower()
    match = re.fullmatch(r"(?:sm_?|compute_)?(?:(\d{2,3})|(\d{1,2})\.(\d))([af]?)", word)
    if match is None:
        known = known_targets()
        raise InputError(
            f"arch = {text}: not an architecture; known: {', '.join(known)}{nearest(word, known)}"
        )
    whole, major, minor, suffix = match.groups()
    return (int(whole) if whole else int(major) * 10 + int(minor)), suffix


def canonical_arch(text: str) -> str:
    """``sm_90a`` for every spelling that `parse_arch` takes, so that equal specs compare equal."""
    number, suffix = parse_arch(text)
    return f"sm_{number}{suffix}"


@cache
def known_architectures() -> list[str]:
    """Names of all architectures with a facts file, oldest first.

    Raises:
        InputError: a file whose name is none.
    """
    names = [path.stem for path in (data_folder("configs") / "arch").glob("*.yaml")]
    for name in names:
        if re.fullmatch(r"sm_[1-9][0-9]{1,2}", name) is None:
            raise InputError(
                f"configs/arch/{name}.yaml: no architecture's name; call it sm_ and the number,"
                " such as sm_90.yaml"
            )
    return sorted(names, key=lambda name: int(name[3:]))


@cache
def known_targets() -> list[str]:
    """Every target that has code of its own: the architectures, and those that a suffix opens."""
    found = []
    for name in known_architectures():
        found.append(name)
        wgmma = (_facts(int(name[3:])) or {}).get("wgmma")
        if wgmma:
            found.append(f"{name}{wgmma['suffix']}")
    return found


@cache
def _facts(number: int) -> dict[str, Any] | None:
    path = data_folder("configs") / "arch" / f"sm_{number}.yaml"
    return read_facts(path) if path.is_file() else None


@cache
def load_arch(text: str, gpu: str = "", sms: int = 0) -> Arch:
    """The facts of an architecture.

    Args:
        text: the architecture, in any form `parse_arch` takes.
        gpu: one of the file's GPUs (some words of its name will do); empty for the default.
        sms: multiprocessor count in place of the GPU's; 0 keeps it.

    Raises:
        InputError: unknown architecture or GPU, a count that is none, or a file of facts with a
            mistake in it.
    """
    number, suffix = parse_arch(text)
    served = number if _facts(number) else _ALIASES.get(number, number)
    facts = _facts(served)
    if facts is None:
        known = known_architectures()
        close = min(known, key=lambda name: abs(int(name[3:]) - number))
        raise InputError(
            f"arch = {text}: no facts for sm_{number}; known: {', '.join(known_targets())}"
            f" (the nearest is '{close}')"
        )
    gpus = tuple(Gpu(**{**entry, "mma_flops_per_clock": _rates(entry)}) for entry in facts["gpus"])
    chosen = _choose_gpu(gpus, gpu, f"sm_{served}")
    if sms := whole_number(sms, "sms"):
        check_range(sms, "sms", 0, MAX_DIMENSION)
        chosen = replace(chosen, sms=sms)
    notes = []
    if served != number:
        notes.append(f"sm_{number} is served by the code of sm_{served}, its nearest family")
    if suffix == "" and "plain_note" in facts:
        notes.append(facts["plain_note"])
    wgmma = facts.get("wgmma", {})
    if wgmma and wgmma["suffix"] != suffix:
        wgmma = {}
    if suffix and not wgmma:
        notes.append(f"nothing here needs the suffix '{suffix}'; the code is plain sm_{served}")
    return Arch(
        name=f"sm_{served}",
        number=served,
        suffix=suffix,
        gpu=chosen,
        gpus=gpus,
        shared_per_block=facts["shared_per_block_kb"] * 1024,
        shared_per_sm=facts["shared_per_sm_kb"] * 1024,
        shared_reserved=facts["shared_reserved_kb"] * 1024,
        threads_per_sm=facts["threads_per_sm"],
        blocks_per_sm=facts["blocks_per_sm"],
        registers_per_sm=facts["registers_per_sm"],
        mma_bytes=facts["mma_bytes"],
        mma_flops_per_clock=tuple(
            {**dict(_rates(facts)), **dict(chosen.mma_flops_per_clock)}.items()
        ),
        fp8_sum_bits=facts.get("fp8_sum_bits", 23),
        cp_async=facts["cp_async"],
        fma_per_clock=facts["fma_per_clock"],
        l2_bytes_per_clock=facts["l2_bytes_per_clock"],
        wgmma_flops_per_clock=tuple(wgmma.get("flops_per_clock", {}).items()),
        wgmma_l2_bytes_per_clock=wgmma.get("l2_bytes_per_clock", 0),
        note="; ".join(notes),
    )


def _rates(facts: dict[str, Any]) -> Rates:
    """What a file, or a GPU in it, says of mma.sync."""
    return tuple(facts.get("mma_flops_per_clock", {}).items())


def _choose_gpu(gpus: tuple[Gpu, ...], wanted: str, arch: str) -> Gpu:
    if not wanted:
        return gpus[0]
    for gpu in gpus:
        if _means(wanted, gpu):
            return gpu
    known = [gpu.name for gpu in gpus]
    if elsewhere := _targets_of(wanted):
        raise InputError(
            f"gpu = {wanted}: no {arch} GPU; give arch {' or '.join(elsewhere)}, or one of"
            f" {', '.join(known)}"
        )
    raise InputError(
        f"gpu = {wanted}: not a known {arch} GPU; known: {', '.join(known)}"
        f"{nearest(wanted, known)}; or give --sms=COUNT"
    )


def _targets_of(gpu: str) -> list[str]:
    """The targets of which some GPU has that in its name."""
    return [
        target
        for target in known_targets()
        if any(_means(gpu, each) for each in load_arch(target).gpus)
    ]


def _means(wanted: str, gpu: Gpu) -> bool:
    """Whether a name is a GPU's, or some whole words of it: an A10 is no A100."""
    return f" {' '.join(wanted.lower().split())} " in f" {gpu.name.lower()} "
