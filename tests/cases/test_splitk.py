"""Cases of kind splitk: partial sums, their place, and the epilogue that follows once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from deepgemm_codegen.decide import MmaSyncChoice, WgmmaChoice
from deepgemm_codegen.harness.inputs import Given
from tests.cases import planted as faults
from tests.cases.planted import planted
from tests.harness.support import SMALL, assert_right, launch, program_of

GATHERED = WgmmaChoice(64, 40, 1, 1, 2, 1, 1, 1, split_k=4, cluster_k=4)
"""Parts that the blocks of a cluster add up."""

WIDE = MmaSyncChoice(128, 128, 32, 2, 4, 3, 2, 8)


@planted(faults.text(r"= partials \+ unit", "= partials + (unit + 8)"), full=True)
def test_s02_partial_sums_stay_in_the_workspace() -> None:
    """Fault seen: partial sums behind the workspace's end."""
    assert_right("m=1024 n=1024 k=8192 layout=nt", replace(WIDE, split_k=8), effort=0.2)


@planted(faults.text(r"= partials \+ unit", "= partials + (unit + 2)"))
def test_s02_partial_sums_stay_in_the_workspace_in_small() -> None:
    """Fault seen: partial sums behind the workspace's end."""
    assert_right("m=72 n=40 k=256 layout=nt", replace(SMALL, split_k=8))


@planted(faults.text(r"(__fadd_rn\(total\[v\], sum\[v\]\))", r"relu(\1)"))
def test_s07_the_activation_follows_the_reduction() -> None:
    """Fault seen: relu of each part, 3 instead of 0."""
    program = program_of("m=16 n=8 k=64 epilogue=relu", replace(SMALL, split_k=2))
    row = [3.0 / 32] * 32 + [-5.0 / 32] * 32
    (d,) = launch(program, a=Given((tuple(row),)), b=1).d
    assert (d == 0).all()


@planted(faults.text(r"__fadd_rn\(total\[own\]\[v\], sum\[v\]\)",
                     "__fadd_rn(total[own][v], relu(sum[v]))"))  # fmt: skip
def test_s07_the_activation_follows_what_a_cluster_adds() -> None:
    """Fault seen: relu of each part, 3 instead of 0."""
    choice = replace(GATHERED, split_k=2, cluster_k=2)
    program = program_of("m=16 n=8 k=128 layout=nt epilogue=relu arch=sm_90a", choice)
    row = [3.0 / 64] * 64 + [-5.0 / 64] * 64
    (d,) = launch(program, a=Given((tuple(row),)), b=1).d
    assert (d == 0).all()


@planted(faults.text(r"(__fadd_rn\(total\[v\], sum\[v\]\))", r"add_bias(\1, float(column))"))
def test_s08_a_bias_is_added_once() -> None:
    """Fault seen: four times the bias."""
    program = program_of("m=16 n=40 k=256 epilogue=bias", replace(SMALL, split_k=4))
    (d,) = launch(program, a=0, b=1, bias0=Given((tuple(range(40)),))).d
    assert (d == np.arange(40)).all()


@planted(faults.text(r"(__fadd_rn\(total\[own\]\[v\], sum\[v\]\))", r"add_bias(\1, float(column))"))
def test_s08_a_bias_is_added_once_by_a_cluster() -> None:
    """Fault seen: four times the bias."""
    program = program_of("m=16 n=40 k=256 layout=nt epilogue=bias arch=sm_90a", GATHERED)
    (d,) = launch(program, a=0, b=1, bias0=Given((tuple(range(40)),))).d
    assert (d == np.arange(40)).all()


@pytest.mark.parametrize("parts", [3, 5])
def test_s12_k_is_no_multiple_of_a_clusters_parts(parts: int) -> None:
    choice = replace(GATHERED, split_k=parts, cluster_k=parts)
    program = program_of("m=16 n=16 k=1088 layout=nt dtype_d=fp32 arch=sm_90a", choice)
    (d,) = launch(program, a=1, b=1).d
    assert (d == 1088).all()


@pytest.mark.parametrize("tile_k", [32, 64, 128])
def test_s12_k_is_no_multiple_of_parts_or_slices(tile_k: int) -> None:
    choice = replace(SMALL, tile_k=tile_k, split_k=3, min_blocks=1)
    (d,) = launch(program_of("m=16 n=16 k=1088 dtype_d=fp32", choice), a=1, b=1).d
    assert (d == 1088).all()


@pytest.mark.parametrize("parts", [pytest.param(1, marks=pytest.mark.full), 16])
def test_s13_a_very_long_k_sums_in_fp32(parts: int) -> None:
    choice = MmaSyncChoice(64, 64, 128, 2, 2, 2, 1, 8, parts)
    program = program_of("m=64 n=64 k=262144 layout=nt", choice)
    (d,) = launch(program, a=2.0**-4, b=2.0**-4).d
    assert (d == 1024).all()
