"""The draw, records, explanations and the page."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from tests.mutation.explanations import Explanation, groups, read
from tests.mutation.kernels import Specimen, draw, family_of, golden, traits_of
from tests.mutation.operators import OPERATORS
from tests.mutation.plan_operators import PLAN_OPERATORS
from tests.mutation.report import page, share_killed
from tests.mutation.score import Fate, Record
from tests.rendering.plans import GOLDEN

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
FAMILIES = {
    "bandwidth",
    "mma_sync",
    "mma_sync, split-K",
    "simt",
    "wgmma",
    "wgmma, split-K",
    "wgmma, cluster-K",
    "wgmma, whole rows",
    "rows",
    "repack and product",
    "zero points and product",
    "product and row scales",
    "product and norm",
    "wgmma, scaled by block",
    "mma_sync, scaled by block",
}
WAIT = Fate("wait dropped", "dropped: wait", 40, 30, "wait();  // for nothing", same_code=False)
SAME = replace(WAIT, same_code=True)


def record(name: str = "k", *fates: Fate) -> Record:
    return Record("mma_sync", name, "m=1", "a.yaml", 1.5, {"wait dropped": {"race": 3}}, [*fates])


def test_the_score_leaves_out_only_what_is_the_same_code() -> None:
    assert share_killed([record()]) == 1.0
    assert share_killed([record("k", WAIT, SAME)]) == 0.75
    assert Record.of_json(json.loads(json.dumps(record("k", WAIT, SAME).as_json()))) == record(
        "k", WAIT, SAME
    )


def explained(most: int = 1) -> Explanation:
    return Explanation(
        ("mma_sync",), ("wait dropped",), (WAIT.text,), most, "nothing to wait for", "here"
    )


def test_an_explanation_covers_its_line_and_no_more_mutants_than_it_says() -> None:
    (group,) = groups([record("a", WAIT), record("b", WAIT, SAME)], [explained()])
    assert group.explanation == explained()
    assert [name for name, _ in group.fates] == ["a", "b"]
    (group,) = groups([record("a", WAIT, replace(WAIT, line=41))], [explained()])
    assert group.explanation is None
    (group,) = groups([record("a", WAIT, replace(WAIT, line=41))], [explained(2)])
    assert group.explanation is not None
    (group,) = groups([record("a", replace(WAIT, text="another();"))], [explained()])
    assert group.explanation is None


def test_the_page_names_what_is_not_explained() -> None:
    records = [record("a", WAIT, SAME)]
    told_page = page(records, groups(records, []), "python score.py")
    assert "75.0 % killed: 3 of 4 mutants of 1 kernels, 1 set aside" in told_page
    assert (
        "| wait dropped | a wait for copies, products or a phase is gone | 3 | 1 | 1 |" in told_page
    )
    assert "| race | 3 |" in told_page
    assert "**unexplained**" in told_page
    told_page = page(records, groups(records, [explained()]), "python score.py")
    assert "here: nothing to wait for" in told_page
    assert "unexplained" not in told_page


def test_explanations_are_of_operators_and_unique() -> None:
    names = {o.name for o in OPERATORS} | {o.name for o in PLAN_OPERATORS}
    found = read()
    assert {operator for e in found for operator in e.operators} <= names
    assert {e.kind for e in found} <= {"equivalent", "here", "hole"}
    keys = [key for e in found for key in product(e.families or ("",), e.operators, e.lines)]
    assert len(set(keys)) == len(keys)
    assert all(e.why and e.most > 0 for e in found)
    assert all(line == line.strip() for e in found for line in e.lines)


def test_a_draw_has_what_matters_and_is_the_same_for_a_seed() -> None:
    pool = golden()
    chosen = draw(3, 0, pool)
    assert [s.program.name for s in chosen] == [s.program.name for s in draw(3, 0, pool[::-1])]
    others = {tuple(s.program.name for s in draw(6, seed, pool)) for seed in range(5)}
    assert len(others) > 1
    families = {s.family for s in pool}
    assert families >= FAMILIES - {"wgmma, split-K"}  # whose k is too long
    for family in families:
        mine = [s for s in chosen if s.family == family]
        assert len(mine) == min(3, sum(s.family == family for s in pool))
    traits = frozenset().union(*(traits_of(s.program) for s in draw(10, 0, pool)))
    assert {"tail m", "tail n", "tail k", "odd slices", "even slices"} <= traits


def test_the_committed_score_is_enough_and_explained() -> None:
    score = json.loads((RESULTS / "mutation_score.json").read_text())
    records = [Record.of_json(fields) for fields in score["kernels"]]
    assert share_killed(records) >= 0.97
    of_family = Counter(one.family for one in records)
    assert set(of_family) == FAMILIES
    assert set(of_family.values()) == {10}
    found = groups(records, read())
    assert [g for g in found if g.explanation is None] == []
    told = (RESULTS / "mutation_score.md").read_text()
    assert told == page(records, found, score["command"])


@pytest.mark.full
def test_the_draw_from_the_shipped_kernels() -> None:
    chosen = draw(10, 0)
    assert {s.family for s in chosen} == FAMILIES
    for family in FAMILIES:
        mine = [s for s in chosen if s.family == family]
        traits = frozenset().union(*(traits_of(s.program) for s in mine))
        if family != "rows":  # which sum no products
            assert {"odd slices", "even slices"} <= traits, family
        assert len(mine) == 10, family


def test_a_program_tells_its_family() -> None:
    assert family_of(GOLDEN["simt_nt"]) == "simt"
    assert family_of(GOLDEN["split_k_wgmma_nt"]) == "wgmma, split-K"
    assert family_of(GOLDEN["wgmma_gather_nt"]) == "wgmma, cluster-K"
    assert family_of(GOLDEN["wgmma_cluster_rows_nt"]) == "wgmma, whole rows"
    assert family_of(GOLDEN["repack_split_k_dynamic_nn"]) == "repack and product"
    assert family_of(GOLDEN["norm_split_k_nn"]) == "product and norm"
    assert all(isinstance(s, Specimen) and s.source for s in golden())
