"""One kernel from spec to outcome: requirements, kinds of check, costs, time."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from deepgemm_codegen.checks import CHECKS, DEFAULT_CHECKS, Requirement, Settings
from deepgemm_codegen.errors import EnvironmentLackError, InputError, ToolError
from deepgemm_codegen.harness import format_verdict
from deepgemm_codegen.harness.memory_costs import cost_lines
from deepgemm_codegen.spec import GemmSpec
from deepgemm_codegen.toolchain import build_cubin
from deepgemm_codegen.verification import Job, Options, Outcome, judge, speed
from deepgemm_codegen.verification.report import as_json

if TYPE_CHECKING:
    from pathlib import Path

SMALL = GemmSpec.from_fields({"m": 64, "n": 48, "k": 32})
EMULATOR = Options(on="emulator", effort=0.1)
BARE = replace(EMULATOR, checks=frozenset({"require"}))


def outcome_of(*require: Requirement, options: Options = BARE) -> Outcome:
    return judge(Job(SMALL, "k.yaml", 3, 5, require), options)


def told(outcome: Outcome) -> str:
    assert outcome.verdict is not None
    return "\n".join(format_verdict(outcome.verdict))


def test_registers() -> None:
    outcome = outcome_of(Requirement("max_registers", 255), Requirement("max_registers", 16))
    assert outcome.status == "failed"
    assert outcome.verdict is not None
    met, missed = outcome.verdict.demands
    assert (met.passed, missed.passed) == (True, False)
    assert "not run  1 of 2 requirements met" in told(outcome)
    assert f"\n  max_registers: 16: not met: {missed.found}" in told(outcome)
    assert missed.found.endswith(" registers per thread")


def test_a_verdict_of_nothing_says_why() -> None:
    """Only requirements are asked for, and nothing is required."""
    outcome = outcome_of(options=BARE)
    assert outcome.status == "failed"
    assert "  note: nothing was judged: of require nothing applies here" in told(outcome)


@pytest.mark.parametrize("spilled", [0, 8])
def test_spills(spilled: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def built(*arguments: Any, **options: Any) -> Any:
        found = build_cubin(*arguments, **options)
        usage = {
            name: replace(each, spill_store_bytes=spilled, spill_load_bytes=2 * spilled)
            for name, each in found.resources.items()
        }
        return replace(found, resources=usage)

    monkeypatch.setattr("deepgemm_codegen.toolchain.build_cubin", built)
    for options in (BARE, replace(BARE, checks=frozenset({"spills"}))):
        outcome = outcome_of(Requirement("no_spills", 1), options=options)
        assert outcome.status == ("failed" if spilled else "passed")
        assert outcome.verdict is not None
        (demand,) = outcome.verdict.demands
        assert demand.found == (
            f"{spilled} bytes of registers stored to memory and {2 * spilled} loaded, a thread"
        )


def test_what_defaults_require_can_be_taken_back() -> None:
    options = replace(EMULATOR, checks=frozenset({"exact", "require"}))
    outcome = outcome_of(Requirement("no_spills", 0), options=options)
    assert outcome.status == "passed"
    assert outcome.verdict is not None
    assert outcome.verdict.demands == ()


@pytest.mark.parametrize("broken", [False, True])
def test_bank_conflicts(broken: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from deepgemm_codegen.render import render_program  # noqa: PLC0415  before it is replaced

    def rendered(program: Any) -> str:
        source = render_program(program)
        changed = source.replace("within ^ (within >> 3 & (SWIZZLE - 16))", "within")
        assert changed != source
        return changed if broken else source

    monkeypatch.setattr("deepgemm_codegen.render.render_program", rendered)
    outcome = outcome_of(Requirement("bank_conflicts", 0))
    assert outcome.status == ("failed" if broken else "passed")
    assert not outcome.reported
    if broken:
        assert "bank_conflicts: 0: not met: " in told(outcome)
        assert ", at line" in told(outcome)
    # As a check of every kernel, whatever the file requires; not twice where it does.
    options = replace(BARE, checks=frozenset({"conflicts", "require"}))
    again = outcome_of(Requirement("bank_conflicts", 0), options=options)
    assert again.verdict is not None
    assert [demand.passed for demand in again.verdict.demands] == [not broken]
    if broken:
        lenient = outcome_of(Requirement("bank_conflicts", 10**6))
        assert lenient.status == "passed"


def test_speed_is_not_judged_on_the_emulator() -> None:
    outcome = outcome_of(Requirement("min_ratio_vs_cublas", 0.9), Requirement("max_registers", 255))
    assert outcome.status == "passed"
    assert (
        "  min_ratio_vs_cublas: 0.9: not judged: the emulator knows no time; judge it on a GPU"
        in told(outcome)
    )


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        (0.95, "passed", ""),
        (0.85, "failed", "min_ratio_vs_cublas: 0.9: not met: 0.850 of cuBLAS's speed"),
        (EnvironmentLackError("no GPU is here"), "passed", "not judged: no GPU is here"),
        (ToolError("the build failed"), "failed", "not met: the build failed"),
    ],
)
def test_speed(answer: Any, status: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def ratio(job: Job, seed: int) -> float:
        assert (job.where, seed) == ("k.yaml:3", 7)
        if isinstance(answer, Exception):
            raise answer
        return float(answer)

    monkeypatch.setattr(speed, "ratio_to_cublas", ratio)
    options = replace(BARE, on="auto", seed=7)
    outcome = outcome_of(
        Requirement("min_ratio_vs_cublas", 0.9), Requirement("max_registers", 255), options=options
    )
    assert outcome.status == status
    assert words in told(outcome)


def test_requirements_may_be_left_out() -> None:
    options = replace(EMULATOR, checks=DEFAULT_CHECKS - {"require"})
    outcome = outcome_of(Requirement("max_registers", 16), options=options)
    assert outcome.status == "passed"


@pytest.mark.parametrize(
    ("checks", "names"),
    [
        ({"exact"}, ["exact"]),
        ({"random"}, ["random"]),
        ({"hostile"}, ["hostile"]),
        ({"races"}, ["races"]),
        ({"exact", "random", "races"}, ["exact", "random"]),
    ],
)
def test_kinds_of_check(checks: set[str], names: list[str]) -> None:
    outcome = outcome_of(options=replace(EMULATOR, checks=frozenset(checks)))
    assert outcome.status == "passed"
    assert outcome.verdict is not None
    assert list(dict.fromkeys(check.name for check in outcome.verdict.checks)) == names


@pytest.mark.parametrize(
    ("checks", "found"),
    [({"races"}, "race"), ({"exact", "races"}, "race"), ({"exact", "random", "hostile"}, "")],
)
def test_a_missing_barrier_is_for_races_to_find(
    checks: set[str], found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deepgemm_codegen.render import render_program  # noqa: PLC0415  before it is replaced

    def rendered(program: Any) -> str:
        source = render_program(program)
        assert "__syncwarp();" in source
        return source.replace("__syncwarp();", ";")

    monkeypatch.setattr("deepgemm_codegen.render.render_program", rendered)
    outcome = outcome_of(options=replace(EMULATOR, checks=frozenset(checks)))
    # The numbers come out right: only the order of events tells.
    assert outcome.status == ("failed" if found else "passed")
    assert found in told(outcome)
    if found:
        # Findings name the line of the generated source.
        assert ".cu:" in told(outcome)


def test_wrong_numbers_are_not_for_races_to_find(monkeypatch: pytest.MonkeyPatch) -> None:
    from deepgemm_codegen.render import render_program  # noqa: PLC0415  before it is replaced

    def rendered(program: Any) -> str:
        return render_program(program).replace("__fmul_rn(alpha, value[v])", "value[v] + alpha")

    monkeypatch.setattr("deepgemm_codegen.render.render_program", rendered)
    races = outcome_of(options=replace(EMULATOR, checks=frozenset({"races"})))
    assert races.status == "passed"
    assert outcome_of(options=EMULATOR).status == "failed"


def test_no_time() -> None:
    before = replace(EMULATOR, deadline=time.monotonic() - 1)
    outcome = outcome_of(options=before)
    assert (outcome.status, outcome.verdict, outcome.exit_code) == ("unjudged", None, 0)


def test_time_that_ends_between_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def clock() -> float:
        now[0] += 1.0
        return now[0]

    monkeypatch.setattr(time, "monotonic", clock)
    # The job asks twice (at its begin and its end), each launch once.
    outcome = outcome_of(options=replace(EMULATOR, deadline=3.5))
    assert outcome.status == "unjudged"
    assert outcome.verdict is not None
    assert len(outcome.verdict.checks) == 2
    assert told(outcome).startswith("STOP  ")
    assert f"{outcome.verdict.unjudged} launches not judged for want of time" in told(outcome)
    assert as_json(outcome)["passed"] is False


def test_an_error_is_an_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise ToolError("NVRTC rejects it")

    monkeypatch.setattr("deepgemm_codegen.toolchain.build_cubin", broken)
    outcome = outcome_of()
    assert (outcome.status, outcome.message, outcome.exit_code) == ("error", "NVRTC rejects it", 70)
    assert as_json(outcome) == {
        "source": "k.yaml:3",
        "name": outcome.name,
        "status": "error",
        "passed": False,
        "error": "NVRTC rejects it",
    }


def test_a_compile_out_of_time_concerns_one_kernel(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DGEMM_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("DGEMM_COMPILATION_TIMEOUT_MS", "1")
    outcome = judge(Job(SMALL), EMULATOR)
    assert (outcome.status, outcome.exit_code, outcome.lack) == ("error", 3, False)
    assert "did not compile" in outcome.message


def test_what_is_too_much_for_the_emulator_concerns_one_kernel() -> None:
    deep = GemmSpec.from_fields({"m": 64, "n": 64, "k": 2147482624})
    outcome = judge(Job(deep), EMULATOR)
    assert (outcome.status, outcome.exit_code, outcome.lack) == ("error", 3, False)
    assert "one block alone would take about" in outcome.message


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"m": 2000000, "n": 4000000, "k": 16},
            "m=2000000 n=4000000 k=16 alpha=1: d takes 14,901 GiB, which",
        ),
        (
            {"m": 30000, "n": 30000, "k": 16384, "split_k": 4},
            "m=30000 n=30000 k=16384 alpha=1: the workspace's region partials takes 13 GiB, which",
        ),
    ],
)
def test_what_does_not_fit_into_memory_is_named(
    fields: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a word of the sizes, as numpy tells it, nobody knew what to change."""
    real = np.zeros

    def small(shape: Any, *rest: Any, **more: Any) -> Any:
        if np.prod(shape, dtype=np.int64) >= 1 << 31:
            raise MemoryError
        return real(shape, *rest, **more)

    monkeypatch.setattr("numpy.zeros", small)
    outcome = judge(Job(GemmSpec.from_fields(fields)), EMULATOR)
    assert (outcome.status, outcome.exit_code, outcome.lack) == ("error", 3, False)
    assert outcome.message.startswith(message)
    assert outcome.message.endswith("the emulator keeps its place in memory; verify smaller sizes")


def test_what_the_machine_lacks_concerns_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: Any, **__: Any) -> Any:
        raise EnvironmentLackError("NVRTC is missing")

    monkeypatch.setattr("deepgemm_codegen.toolchain.build_cubin", missing)
    outcome = outcome_of()
    assert (outcome.status, outcome.exit_code, outcome.lack) == ("error", 3, True)


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ValueError("no 1"), 70, "internal error: ValueError: no 1"),
        (
            MemoryError("24 GiB"),
            3,
            f"{SMALL}: the machine's memory does not hold it (24 GiB); verify smaller sizes",
        ),
    ],
)
def test_no_kernel_takes_the_others_with_it(
    error: Exception, code: int, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr("deepgemm_codegen.toolchain.build_cubin", broken)
    outcome = outcome_of()
    assert (outcome.exit_code, outcome.message, outcome.lack) == (code, message, False)


def test_costs() -> None:
    outcome = outcome_of(options=replace(BARE, costs=True))
    assert outcome.costs is not None
    memory = as_json(outcome)["memory"]
    assert set(memory) == {"blocks", "grid", "shared", "global"}
    lines = cost_lines(outcome.costs, outcome.source)
    assert lines[0].endswith("on the emulator: no bank conflict")
    # Every line of the table holds its line of the source.
    text = outcome.source.splitlines()
    for line in memory["shared"]:
        row = next(row for row in lines if row.lstrip().startswith(f"{line['line']} "))
        assert " ".join(text[line["line"] - 1].split())[:40] in row


@pytest.mark.parametrize(
    "fields",
    [
        {"k": 512},
        pytest.param({"arch": "sm_90a", "k": 512, "n": 1024}, marks=pytest.mark.full),
    ],
)
def test_processes_share_the_launches_of_one_kernel(fields: dict[str, Any]) -> None:
    spec = GemmSpec.from_fields({"m": 1024, "n": 512, "k": 64, "layout": "nt", **fields})
    alone = judge(Job(spec), replace(EMULATOR, effort=0.3))
    progress: list[tuple[int, int]] = []
    shared = judge(Job(spec), replace(EMULATOR, effort=0.3, jobs=2), lambda *n: progress.append(n))
    assert alone.verdict is not None
    assert shared.verdict is not None
    assert shared.verdict == alone.verdict
    assert progress[-1] == (len(progress), len(progress))
    assert len(progress) >= len(shared.verdict.checks)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"seed": -1}, "seed = -1: give a whole number from 0 to 4294967295"),
        ({"seed": 2**32}, "seed = 4294967296: give a whole number from 0 to 4294967295"),
        ({"seed": 1.5}, "seed = 1.5: give a whole number from 0 to 4294967295"),
        ({"effort": 0}, "effort = 0: give a number from 0.01 to 1000.0"),
        ({"effort": float("nan")}, "effort = nan: give a number from 0.01 to 1000.0"),
        ({"effort": float("inf")}, "effort = inf: give a number from 0.01 to 1000.0"),
        ({"effort": "1"}, "effort = 1: give a number from 0.01 to 1000.0"),
        (
            {"checks": frozenset({"exakt"})},
            f"checks: no check is called 'exakt'; known: {', '.join(CHECKS)}",
        ),
    ],
)
@pytest.mark.parametrize("what", [Options, Settings])
def test_what_nothing_can_be_judged_by(
    what: type[Options | Settings], given: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError) as caught:
        what(**given)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"checks": "exact"}, "checks = exact: give a set of some of exact, random, hostile, "),
        ({"checks": None}, "checks = None: give a set of some of exact, random, hostile, "),
        ({"deadline": "soon"}, "deadline = soon: give a time of time.monotonic, or inf"),
        ({"jobs": 0}, "jobs = 0: give a whole number from 1 on"),
        ({"jobs": 1.5}, "jobs = 1.5: give a whole number from 1 on"),
    ],
)
def test_settings_of_other_types(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        Settings(**given)
    assert str(caught.value).startswith(message)
