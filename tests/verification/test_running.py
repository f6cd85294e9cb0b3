"""Many jobs: order, processes, samples, exit codes; JUnit XML and annotations of outcomes."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree as ET

import pytest

from deepgemm_codegen.errors import EnvironmentLackError, InputError
from deepgemm_codegen.harness import CheckResult, Verdict
from deepgemm_codegen.spec import GemmSpec
from deepgemm_codegen.verification import (
    Job,
    Options,
    Outcome,
    exit_code,
    running,
    sample,
    verify_all,
)
from deepgemm_codegen.verification.annotations import annotation
from deepgemm_codegen.verification.junit import junit_xml

JOBS = [
    Job(GemmSpec.from_fields({"m": m, "n": 8, "k": 8, "label": f"k{m}"}), "k.yaml", m + 2, 5)
    for m in range(1, 41)
]
FAST = Options(on="emulator", effort=0.01, checks=frozenset({"exact"}))


def test_a_sample_is_drawn_by_seed_and_keeps_the_order() -> None:
    first, same, other = sample(JOBS, 7, 1), sample(JOBS, 7, 1), sample(JOBS, 7, 2)
    assert first == same != other
    assert [job.line for job in first] == sorted(job.line for job in first)
    assert len(set(first)) == 7
    assert sample(JOBS, 40, 1) == sample(JOBS, 99, 1) == JOBS


def test_outcomes_come_in_order_whoever_finds_them() -> None:
    jobs = JOBS[:3]
    alone = list(verify_all(jobs, FAST))
    shared = list(verify_all(jobs, FAST, processes=2))
    assert [outcome.job for outcome in shared] == jobs
    assert {outcome.status for outcome in shared} == {"passed"}
    assert [outcome.verdict for outcome in alone] == [outcome.verdict for outcome in shared]


@pytest.mark.parametrize(("count", "processes", "within"), [(1, 4, 4), (3, 4, 4), (2, 1, 1)])
def test_few_kernels_are_shared_and_many_are_spread(
    count: int, processes: int, within: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    def judged(job: Job, options: Options, progress: Any = None) -> Outcome:
        del progress
        seen.append(options.jobs)
        return Outcome(job, "k", "passed")

    monkeypatch.setattr(running, "judge", judged)
    assert len(list(verify_all(JOBS[:count], FAST, processes))) == count
    assert seen == [within] * count


def test_what_the_machine_lacks_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def judged(job: Job, *_: Any) -> Outcome:
        lack = job is JOBS[2]
        code = InputError.exit_code if job is JOBS[0] else EnvironmentLackError.exit_code
        return Outcome(job, "k", "error", message="nothing is here", exit_code=code, lack=lack)

    monkeypatch.setattr(running, "judge", judged)
    found = verify_all(JOBS, FAST)
    assert next(found).exit_code == 2
    assert next(found).exit_code == 3  # of this kernel alone
    with pytest.raises(EnvironmentLackError, match="nothing is here"):
        next(found)


def outcome(status: Any, code: int = 0, **fields: Any) -> Outcome:
    return Outcome(JOBS[0], "k1_sm_80", status, exit_code=code, **fields)


@pytest.mark.parametrize(
    ("found", "code"),
    [
        ([], 0),
        ([outcome("passed")], 0),
        ([outcome("passed"), outcome("failed")], 1),
        ([outcome("passed"), outcome("unjudged")], 4),
        ([outcome("failed"), outcome("unjudged")], 1),
        ([outcome("failed"), outcome("error", 2), outcome("unjudged")], 2),
        ([outcome("error", 2), outcome("error", 70)], 70),
    ],
)
def test_exit_codes(found: list[Outcome], code: int) -> None:
    assert exit_code(found) == code


RIGHT = Verdict("k1", "emulator", (CheckResult("exact", passed=True, problem="m=1"),), 1, 1)
WRONG = Verdict(
    "k1", "emulator",
    (CheckResult("exact", passed=False, problem="m<1 & \x1b]", faults=("race: a\n  at b",)),), 1, 1,
)  # fmt: skip


def test_junit() -> None:
    found = [
        Outcome(JOBS[0], "right", "passed", RIGHT, seconds=1.25),
        Outcome(JOBS[1], "wrong", "failed", WRONG, seconds=0.5),
        Outcome(Job(JOBS[2].spec), "broken", "error", message="no 100 %", exit_code=70),
        Outcome(Job(JOBS[3].spec, "b.yaml", 9), "late", "unjudged"),
    ]
    text = junit_xml(found, {"seed": "3"})
    assert text.startswith('<?xml version="1.0" encoding="utf-8"?>\n<testsuites ')
    root = ET.fromstring(text)
    assert root.attrib == {
        "name": "deepgemm_codegen verify",
        "tests": "4", "failures": "1", "errors": "1", "skipped": "1", "time": "1.750",
    }  # fmt: skip
    assert [suite.attrib["name"] for suite in root] == ["k.yaml", "command line", "b.yaml"]
    seed = root[0].find("properties/property")
    assert seed is not None
    assert seed.attrib == {"name": "seed", "value": "3"}
    cases = {case.attrib["name"]: case for case in root.iter("testcase")}
    assert cases["right"].attrib == {
        "classname": "k.yaml", "name": "right", "file": "k.yaml", "line": "3", "time": "1.250",
    }  # fmt: skip
    output = cases["right"].find("system-out")
    assert output is not None
    assert (output.text or "").startswith("PASS  k1")
    failure = cases["wrong"].find("failure")
    assert failure is not None
    assert failure.attrib["message"].startswith("FAIL  k1  emulator  exact FAILED")
    # What XML cannot hold is replaced; the rest stays, line by line.
    assert "exact (m<1 & \ufffd]):\n    race: a\n      at b" in (failure.text or "")
    error = cases["broken"].find("error")
    assert error is not None
    assert error.attrib == {"type": "exit code 70", "message": "no 100 %"}
    assert "file" not in cases["broken"].attrib
    assert cases["late"].find("skipped") is not None


@pytest.mark.parametrize(
    ("found", "line"),
    [
        (Outcome(JOBS[0], "k", "passed", RIGHT), ""),
        (
            Outcome(JOBS[0], "k", "failed", WRONG),
            (
                "::error file=k.yaml,line=3,col=5::FAIL  k1  emulator  exact FAILED, the one block,"
                " 1 input set%0Aexact (m<1 & \x1b]):%0Arace: a%0Aat b"
            ),
        ),
        (
            Outcome(JOBS[0], "k", "unjudged"),
            "::warning file=k.yaml,line=3,col=5::k: not judged for want of time",
        ),
        (
            Outcome(Job(JOBS[0].spec), "k", "error", message="50 %, no\nmore"),
            "::error::k: 50 %25, no%0Amore",
        ),
        (
            Outcome(Job(JOBS[0].spec, "a,b:c.yaml", 1, 1), "k", "error", message="x"),
            "::error file=a%2Cb%3Ac.yaml,line=1,col=1::k: x",
        ),
    ],
)
def test_annotations(found: Outcome, line: str) -> None:
    assert annotation(found) == line
