"""``require``: what a kernel file demands of its kernels beside right values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from deepgemm_codegen.checks import CHECKS, DEFAULT_CHECKS, REQUIREMENTS, Requirement, parse_checks
from deepgemm_codegen.errors import InputError
from deepgemm_codegen.specfile import SpecFileError, read, read_all

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from deepgemm_codegen.specfile import SpecEntry

    Entries = Callable[[str | bytes], list[SpecEntry]]

SIZES = "m: 8, n: 8, k: 8"


def test_a_kernel_keeps_what_it_does_not_name(entries: Entries) -> None:
    first, second, third = entries(f"""\
defaults: {{require: {{max_registers: 168, no_spills: true}}}}
kernels:
  - {{name: a, {SIZES}}}
  - {{name: b, {SIZES}, require: {{max_registers: 128, bank_conflicts: 0}}}}
  - {{name: c, {SIZES}, require: {{min_ratio_vs_cublas: 0.95, no_spills: false}}}}
""")
    common = (Requirement("max_registers", 168), Requirement("no_spills", 1))
    assert first.require == common
    assert second.require == (
        Requirement("max_registers", 128),
        Requirement("no_spills", 1),
        Requirement("bank_conflicts", 0),
    )
    assert [str(r) for r in third.require] == [
        "max_registers: 168",
        "no_spills: false",
        "min_ratio_vs_cublas: 0.95",
    ]


def test_it_is_no_part_of_the_spec(entries: Entries) -> None:
    (plain,) = entries(f"kernels: [{{{SIZES}}}]")
    (demanding,) = entries(f"kernels: [{{{SIZES}, require: {{no_spills: true}}}}]")
    assert plain.spec == demanding.spec
    with pytest.raises(SpecFileError, match="asks for the same kernel already"):
        entries(f"kernels: [{{{SIZES}}}, {{{SIZES}, require: {{no_spills: true}}}}]")


def test_all_kernels_of_a_sweep_have_it(entries: Entries) -> None:
    found = entries(
        f"kernels: [{{{SIZES}, require: {{bank_conflicts: 0}}, sweep: {{layout: [nn, nt]}}}}]"
    )
    assert [entry.require for entry in found] == [(Requirement("bank_conflicts", 0),)] * 2


def test_it_is_included(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("defaults: {require: {no_spills: true}}\n")
    path = tmp_path / "k.yaml"
    path.write_text(f"include: base.yaml\nkernels: [{{{SIZES}}}]\n")
    assert read(path)[0].require == (Requirement("no_spills", 1),)


REGISTERS = "give a whole number from 16 to 255"
KNOWN = ", ".join(REQUIREMENTS)


@pytest.mark.parametrize(
    ("text", "marked", "message"),
    [
        ("{max_register: 4}", "max_register", " (did you mean 'max_registers'?)"),
        ("{speed: 4}", "speed", f"unknown key 'speed' in 'require'; known: {KNOWN}"),
        ("{max_registers: 300}", "300", f"max_registers = 300; {REGISTERS}"),
        ("{max_registers: 08}", "08", f"max_registers = 08; {REGISTERS}"),
        ("{max_registers: [1]}", "[1]", f"max_registers is a list; {REGISTERS}"),
        ("{max_registers: }", "max_registers", f"no value; {REGISTERS}, or leave the key out"),
        ("{no_spills: yes}", "yes", "no_spills = yes; give true or false"),
        ("{no_spills: 1}", "1}", "no_spills = 1; give true or false"),
        ("{bank_conflicts: none}", "none", "give a whole number from 0 to 2147483647"),
        ("{min_ratio_vs_cublas: 95%}", "95", "give a number from 0.01 to 100, such as 0.95"),
        ("{min_ratio_vs_cublas: 1e0}", "1e0", "min_ratio_vs_cublas = 1e0; give a number"),
        ("{}", "require", "'require' wants a mapping: require: {no_spills: true, bank_"),
        ("strict", "require", "'require' wants a mapping: require: {no_spills: true, bank_"),
    ],
)
def test_what_is_refused_and_where(entries: Entries, text: str, marked: str, message: str) -> None:
    line = f"kernels: [{{{SIZES}, name: a, require: {text}}}]"
    with pytest.raises(SpecFileError) as caught:
        entries(line)
    (problem,) = caught.value.problems
    assert (problem.line, problem.column) == (1, line.index(marked, 30) + 1)
    assert message in problem.message


@pytest.mark.parametrize("name", REQUIREMENTS)
def test_a_requirement_outside_is_sent_inside(entries: Entries, name: str) -> None:
    with pytest.raises(SpecFileError, match=rf"'{name}'; it stands in 'require': {{{name}: ..}}"):
        entries(f"kernels: [{{{SIZES}, {name}: 1}}]")


def test_it_stands_where_kernels_are(tmp_path: Path) -> None:
    path = tmp_path / "k.yaml"
    path.write_text(f"require: {{no_spills: true}}\nkernels: [{{{SIZES}}}]\n")
    with pytest.raises(SpecFileError, match="fields stand in 'defaults' or in a kernel"):
        read_all([path])


def test_the_words_of_checks() -> None:
    assert parse_checks("exact, races") == {"exact", "races"}
    assert parse_checks("all") == frozenset(CHECKS)
    assert frozenset(CHECKS) > DEFAULT_CHECKS
    with pytest.raises(InputError, match=r"no check is called 'race' \(did you mean 'races'\?\)"):
        parse_checks("exact,race")
    with pytest.raises(InputError, match="--checks is empty; give some of exact, random"):
        parse_checks(" , ")
