"""Plans that disagree with themselves: every rule finds its place in some golden kernel."""

from __future__ import annotations

import pytest

from deepgemm_codegen.render import render_program
from tests.mutation.plan_operators import PLAN_OPERATORS, RULES, PlanMutant, plan_mutants_of
from tests.rendering.plans import GOLDEN


def mutants(name: str) -> list[PlanMutant]:
    program = GOLDEN[name]
    return list(plan_mutants_of(program, render_program(program)))


@pytest.mark.parametrize(
    ("name", "rule"), [(name, rule) for name, rules in RULES.items() for rule in rules], ids=str
)
def test_every_rule_is_of_use(name: str, rule: object) -> None:
    told = f"{rule.old} became {rule.new}"  # type: ignore[attr-defined]
    kernels = ("aligned_nt", "wgmma_tails_tn", "wgmma_slab_nt")
    assert any(m.operator == name and m.what == told for k in kernels for m in mutants(k))


def test_one_place_has_the_other_number() -> None:
    program = GOLDEN["aligned_nt"]
    source = render_program(program)
    for mutant in mutants("aligned_nt"):
        assert mutant.program is program
        lines = mutant.source.splitlines()
        calls = [line for line in lines if "_mutant<" in line or "_mutant(" in line]
        declared = [line for line in calls if "__device__" in line]
        (call,) = [line for line in calls if "__device__" not in line]
        assert len(declared) == 1
        assert call.replace("_mutant", "") == source.splitlines()[mutant.row - 1]
    sides = {m.row for m in mutants("aligned_nt") if "within" in m.what}
    assert len(sides) == 4, "the writer and the reader of each operand"


def test_the_host_tells_another_box() -> None:
    program = GOLDEN["wgmma_nt"]
    found = [m for m in mutants("wgmma_nt") if m.row == 0]
    names = {map_.name for map_ in program.product.tensor_maps}
    assert {m.what.partition(":")[0] for m in found} == names
    for mutant in found:
        assert mutant.source == render_program(program)
        told = mutant.program.product.tensor_maps
        assert told != program.product.tensor_maps
        assert mutant.program.product.body == program.product.body
    assert {m.operator for m in found} == {"box size", "map swizzle"}


def test_what_says_nothing_is_left_out() -> None:
    # K-major operands: nobody reads the leading stride.
    assert not any("LEADING" in m.what for m in mutants("wgmma_nt"))
    assert sum("LEADING" in m.what for m in mutants("wgmma_tails_tn")) == 2
    # A kernel without a swizzle has no side.
    assert not any(m.operator == "swizzle on one side" for m in mutants("bandwidth_nt"))


def test_every_operator_has_its_own_name_and_a_meaning() -> None:
    names = [operator.name for operator in PLAN_OPERATORS]
    assert len(set(names)) == len(names)
    assert all(operator.meaning for operator in PLAN_OPERATORS)
