"""Batches of thousands: few sources are held, and each kernel is a module of its own."""

from __future__ import annotations

import tracemalloc
import weakref
from typing import TYPE_CHECKING

from deepgemm_codegen.batch import Outcome, generate

from .conftest import HEADER, LISTS, files, program_of, some

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from deepgemm_codegen.plan import Program
    from deepgemm_codegen.spec import GemmSpec

    from .conftest import Make

    Fake = Callable[[Make], None]


class _Text(str):
    """A source that a weak reference can point at."""

    __slots__ = ("__weakref__",)


def test_y20_ten_thousand_kernels_hold_few_sources(tmp_path: Path, fake: Fake) -> None:
    living: weakref.WeakSet[_Text] = weakref.WeakSet()
    most = count = 0

    def make(spec: GemmSpec) -> tuple[Program, str]:
        nonlocal most
        source = _Text(f"{HEADER}// {spec}")
        living.add(source)
        most = max(most, len(living))
        return program_of(spec), source

    def progress(outcome: Outcome) -> None:
        nonlocal count
        count += outcome.status == "new"

    fake(make)
    report = generate(some(10_000), "out", check=True, progress=progress)
    assert count == len(report.named("new")) == 10_000 + len(LISTS)
    assert most <= 2


def test_y20_memory_is_that_of_the_records(tmp_path: Path, fake: Fake) -> None:
    """Sources of 200 kB: all of them would be 200 MB."""
    body = HEADER + "x" * 200_000
    fake(lambda spec: (program_of(spec), f"{body}{spec.m}"))
    entries = some(1000)
    tracemalloc.start()
    try:
        generate(entries, "out", check=True)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 10 * 2**20


def test_y20_separate_modules(tmp_path: Path, fake: Fake) -> None:
    generate(some(1500), "out")
    kernels = {name: data for name, data in files(tmp_path / "out").items() if name not in LISTS}
    assert len(kernels) == 1500
    assert max(map(len, kernels.values())) < 200  # one kernel each
