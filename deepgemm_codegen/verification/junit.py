"""Outcomes as JUnit XML: a suite a kernel file, a case a kernel."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from deepgemm_codegen.harness import format_verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from deepgemm_codegen.verification.job import Outcome

__all__ = ["junit_xml"]

_COMMAND_LINE = "command line"
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(outcomes: Sequence[Outcome], properties: Mapping[str, str]) -> str:
    """The document.

    Args:
        outcomes: in order.
        properties: what the run was given, such as its seed.
    """
    root = Element("testsuites", {"name": "deepgemm_codegen verify", **_counts(outcomes)})
    suites: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        suites.setdefault(outcome.job.file or _COMMAND_LINE, []).append(outcome)
    for file, members in suites.items():
        suite = SubElement(root, "testsuite", {"name": _text(file), **_counts(members)})
        given = SubElement(suite, "properties")
        for name, value in properties.items():
            SubElement(given, "property", {"name": name, "value": _text(value)})
        for outcome in members:
            _case(suite, file, outcome)
    indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{tostring(root, encoding="unicode")}\n'


def _counts(outcomes: Sequence[Outcome]) -> dict[str, str]:
    statuses = [outcome.status for outcome in outcomes]
    return {
        "tests": str(len(outcomes)),
        "failures": str(statuses.count("failed")),
        "errors": str(statuses.count("error")),
        "skipped": str(statuses.count("unjudged")),
        "time": f"{sum(outcome.seconds for outcome in outcomes):.3f}",
    }


def _case(suite: Element, file: str, outcome: Outcome) -> None:
    fields = {"classname": _text(file), "name": outcome.name, "time": f"{outcome.seconds:.3f}"}
    if outcome.job.file:
        fields |= {"file": _text(file), "line": str(outcome.job.line)}
    case = SubElement(suite, "testcase", fields)
    lines = [] if outcome.verdict is None else format_verdict(outcome.verdict)
    if outcome.status == "failed":
        failure = SubElement(case, "failure", {"type": "wrong", "message": _text(lines[0])})
        failure.text = _text("\n".join(lines))
    elif outcome.status == "error":
        kind = f"exit code {outcome.exit_code}"
        SubElement(case, "error", {"type": kind, "message": _text(outcome.message)})
    elif outcome.status == "unjudged":
        SubElement(case, "skipped", {"message": "not judged for want of time"})
    if lines and outcome.status != "failed":
        SubElement(case, "system-out").text = _text("\n".join(lines))


def _text(text: str) -> str:
    """The text without what XML cannot hold."""
    return _FORBIDDEN.sub("\ufffd", text)
