"""A benchmark's report as text: a plain table, the same one in colour for a terminal, and JSON."""

from __future__ import annotations

import json
from math import isnan
from typing import TYPE_CHECKING, Any

from deepgemm_codegen.harness.bench_data import CUBLAS, CUBLASLT, FUSED, PLAIN, WRITING

if TYPE_CHECKING:
    from deepgemm_codegen.harness.bench_data import Group, Report, Row
    from deepgemm_codegen.harness.bench_stats import Timing, Work

__all__ = [
    "FORMAT",
    "as_json",
    "cells",
    "columns",
    "group_lines",
    "head_lines",
    "note_lines",
    "plain",
]

FORMAT = "1.4"
"""Of the JSON: additions raise the minor, removals the major."""

_LEFT = 3
"""Columns that are set flush left: names."""


def plain(report: Report) -> str:
    """The whole report as plain text: head, table, groups, notes."""
    rows = [columns(report), *(cells(report, row) for row in report.rows)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [_aligned(rows[0], widths)]
    lines.append("  ".join("-" * width for width in widths))
    lines.extend(_aligned(row, widths) for row in rows[1:])
    parts = [head_lines(report), lines, group_lines(report), note_lines(report)]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def _aligned(row: tuple[str, ...], widths: list[int]) -> str:
    padded = (
        cell.ljust(width) if i < _LEFT else cell.rjust(width)
        for i, (cell, width) in enumerate(zip(row, widths, strict=True))
    )
    return "  ".join(padded).rstrip()


def columns(report: Report) -> tuple[str, ...]:
    """The table's head."""
    names = ("kernel", "type", "plan", "us", "spread", "TFLOP/s", "GB/s", "of ceiling")
    return (*names, *(text for name in report.rivals for text in (f"{name} us", "ratio")))


def cells(report: Report, row: Row) -> tuple[str, ...]:
    """One line of the table; a dash where there is no figure."""
    name = " ".join(filter(None, (row.label, row.shape, row.steps)))
    plan = row.choice
    if row.built_for:
        plan += f" {row.built_for}"
    fraction = report.fraction(row)
    if row.timing is None or fraction is None:
        figures = ("-",) * 5
    else:
        figures = (
            _us(row.timing.median_us),
            f"{row.timing.spread:.1%}",
            _short(row.timing.tflops(row.work)),
            _short(row.timing.gbs(row.work)),
            f"{fraction:.0%}",
        )
    rivals = []
    for rival in report.rivals:
        timing = next((r.timing for r in row.rivals if r.name == rival), None)
        ratio = row.ratio(rival)
        rivals.append("-" if timing is None else _us(timing.median_us))
        rivals.append("-" if ratio is None else f"{ratio:.3f}")
    return (name, row.kind, plan or "-", *figures, *rivals)


def _us(value: float) -> str:
    return f"{value:.2f}" if value < 100 else f"{value:.1f}"


def _short(value: float) -> str:
    """Three digits or so: 0.5, 12.3, 763."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def head_lines(report: Report) -> list[str]:
    """What was measured on, and the ceilings."""
    machine, ceilings = report.machine, report.ceilings
    lines = [f"{machine.gpu}, {machine.arch}, {machine.sms} multiprocessors"]
    if machine.software:
        lines.append("; ".join(f"{name} {version}" for name, version in machine.software))
    figures = [("memory", f"{ceilings.gbs:.0f} GB/s")]
    if ceilings.write_gbs:
        figures = [
            ("memory", f"{ceilings.gbs:.0f} GB/s read"),
            ("writing", f"{ceilings.write_gbs:.0f} GB/s written"),
        ]
    figures += [(unit, f"{unit} {rate:.0f} TFLOP/s") for unit, rate in ceilings.tflops.items()]
    reasons = dict(ceilings.reasons)
    texts = [
        text
        if name in ceilings.measured
        else f"{text} ({': '.join(filter(None, ('data sheet', reasons.get(name, ''))))})"
        for name, text in figures
    ]
    lines.append(f"ceilings: {', '.join(texts)}")
    return lines


def group_lines(report: Report) -> list[str]:
    """Geometric means of the ratios, a line a group.

    cublasLt's own epilogue and our own plain product are compared by epilogue, with the least
    ratio to the latter, and the libraries' plain products by shape.
    """
    if not report.rivals:
        return []
    lines = []
    for group in report.groups:
        means = ", ".join(
            f"{name} {mean:.3f}"
            for name, mean in group.ratios
            if not isnan(mean) and (name == group.rival if group.rival else name != FUSED)
        )
        if group.rival == PLAIN and group.count > 1:
            means += f", least {group.least:.3f}"
        if means:
            kernels = "kernel" if group.count == 1 else "kernels"
            lines.append(f"geometric mean, {group.name}, {group.count} {kernels}: {means}")
    return lines


def note_lines(report: Report) -> list[str]:
    """What the figures do not say: each remark once, with the kernels that it is about."""
    about: dict[str, list[str]] = {}
    for row in report.rows:
        remarks = list(row.notes)
        if row.message:
            remarks.append(row.message)
        for rival in row.rivals:
            if rival.timing is None:
                remarks.append(f"{rival.name}: {rival.note}")
            elif rival.name == CUBLAS and rival.note:
                remarks.append(rival.note)
            elif rival.name == FUSED and ";" in rival.note:  # behind the algorithm's rank
                remarks.append(f"{FUSED}:{rival.note.partition(';')[2]}")
            elif rival.name == PLAIN and rival.note != row.choice:  # it is not the kernel's plan
                remarks.append(f"{PLAIN}: planned as {rival.note}")
        for remark in remarks:
            about.setdefault(remark, []).append(
                row.label or " ".join(filter(None, (row.shape, row.kind, row.steps)))
            )
    lines = [f"{_named(names, len(report.rows))}: {remark}" for remark, names in about.items()]
    if report.rivals:
        lines.append(_legend(report.rivals))
    return lines


def _legend(rivals: tuple[str, ...]) -> str:
    """What the columns beside the kernel's own are."""
    legend = (
        f"ratio: the library's time over the kernel's, above 1 is faster; {CUBLAS} is its"
        f" default algorithm, {CUBLASLT} the best of its top eight heuristics"
    )
    if FUSED in rivals:
        legend += f", both of the plain product; {FUSED} computes what the kernel does"
    if PLAIN in rivals:
        legend += (
            f"; {PLAIN} is our own kernel without the steps, so that 0.960 says that they take 4 %"
            " of the kernel's time"
        )
    if WRITING in rivals:
        legend += f"; {WRITING} is a kernel that writes D's bytes and nothing else"
    return legend


def _named(names: list[str], total: int) -> str:
    names = list(dict.fromkeys(names))
    if len(names) == total > 1:
        return "all"
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def as_json(report: Report, **fields: Any) -> str:
    """The report as JSON, indented.

    Args:
        report: what to write.
        fields: more top-level fields, such as ``exit_code``.
    """
    machine, ceilings = report.machine, report.ceilings
    document = {
        "format": FORMAT,
        **fields,
        "against": report.against,
        "machine": {
            "gpu": machine.gpu,
            "arch": machine.arch,
            "sms": machine.sms,
            "memory_mib": machine.memory_mib,
            "software": dict(machine.software),
        },
        "ceilings": {
            "gbs": ceilings.gbs,
            "write_gbs": ceilings.write_gbs or None,
            "tflops": ceilings.tflops,
            "measured": list(ceilings.measured),
        },
        "kernels": [_row_json(report, row) for row in report.rows],
        "groups": [_group_json(group) for group in report.groups],
    }
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def _group_json(group: Group) -> dict[str, Any]:
    return {
        "name": group.name,
        "count": group.count,
        "fused": group.rival == FUSED,
        "rival": group.rival or None,
        "geometric_mean": {n: None if isnan(r) else r for n, r in group.ratios},
        "least": None if isnan(group.least) else group.least,
    }


def _row_json(report: Report, row: Row) -> dict[str, Any]:
    registers, spilled = row.resources
    return {
        "name": row.name,
        "spec": row.spec,
        "source": row.where,
        "group": row.group,
        "plan": row.choice,
        "built_for": row.built_for,
        "instruction": row.unit,
        "registers": registers,
        "spilled_bytes": spilled,
        "flop": row.work.flop,
        "bytes": row.work.bytes,
        "written": row.work.written,
        "sets": row.sets,
        "launches": row.launches,
        **_timing_json(row.timing, row.work),
        "of_ceiling": report.fraction(row),
        "against": {
            rival.name: {
                **_timing_json(rival.timing, row.work),
                "ratio": row.ratio(rival.name),
                "note": rival.note,
            }
            for rival in row.rivals
        },
        "notes": list(row.notes),
        "error": row.message,
        "exit_code": row.exit_code,
    }


def _timing_json(timing: Timing | None, work: Work) -> dict[str, Any]:
    if timing is None:
        return {"us": None, "least_us": None, "most_us": None, "tflops": None, "gbs": None}
    return {
        "us": timing.median_us,
        "least_us": timing.least_us,
        "most_us": timing.most_us,
        "tflops": timing.tflops(work),
        "gbs": timing.gbs(work),
    }
