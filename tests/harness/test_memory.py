from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from deepgemm_codegen.dtypes import BF16, E4M3, FP16, FP32, INT8
from deepgemm_codegen.harness import memory
from deepgemm_codegen.harness.inputs import Inputs, Normal
from deepgemm_codegen.harness.matrix import Matrix, Region
from deepgemm_codegen.harness.memory import Paged, fill, read_region, stray_writes
from deepgemm_codegen.harness.numbers import bits_dtype, decode, poison

INPUTS = Inputs("random", {"a": Normal(3), "d": Normal(4)})


def filled(matrix: Any, inputs: Any = INPUTS) -> Any:
    target = np.empty(matrix.elements, bits_dtype(matrix.dtype))
    fill(matrix, inputs, target, np)
    return target


@pytest.mark.parametrize("transposed", [False, True])
def test_the_same_element_has_the_same_value_in_every_layout(transposed: Any) -> None:
    matrix = Matrix("a", FP16, 2, 30, 20, 41, 2, transposed=transposed)
    dense = Matrix("a", FP16, 2, 30, 20, 20, 2)
    region = Region(1, 0, 30, 0, 20)
    here = read_region(matrix, filled(matrix), region, np)
    assert (here == read_region(dense, filled(dense), region, np)).all()


def test_padding_is_poison() -> None:
    matrix = Matrix("a", FP32, 2, 3, 4, 7, 4)
    bits = filled(matrix)
    outside = [i for i in range(matrix.elements) if not matrix.logical(i)[3]]
    assert (bits[outside] == poison(FP32)).all()
    assert np.isnan(decode(bits, FP32, np)).sum() == len(outside)


@pytest.mark.parametrize("dtype", [FP16, BF16, FP32, E4M3, INT8])
@pytest.mark.parametrize("step", [1, 37, 1000])
def test_pages_hold_what_the_whole_would(dtype: Any, step: Any) -> None:
    matrix = Matrix("a", dtype, 2, 50, 60, 77, dtype.bytes)
    whole = filled(matrix).view(np.uint8)
    paged = Paged(matrix, INPUTS, step)
    assert paged.nbytes == whole.size
    rng = np.random.default_rng(step)
    for width in (1, 2, 4, 8, 16):
        for aligned in (True, False):
            offsets = rng.integers(0, whole.size - width, 200)
            if aligned:
                offsets = offsets // width * width
            wanted = whole[offsets[:, None] + np.arange(width)]
            assert (paged.read(offsets, width) == wanted).all()


def test_a_huge_operand_costs_the_pages_that_are_read() -> None:
    matrix = Matrix("a", FP16, 1, 2**20, 2**12, 2**12, 16)
    paged = Paged(matrix, INPUTS, 1)
    last = np.array([matrix.elements * 2 - 16])
    assert paged.read(last, 16).shape == (1, 16)
    assert paged.pages <= memory.AHEAD


@pytest.mark.parametrize("transposed", [False, True])
def test_a_write_outside_the_regions_is_found(transposed: Any) -> None:
    matrix = Matrix("d", FP16, 2, 30, 20, 41, 2, transposed=transposed)
    regions = (Region(0, 0, 16, 0, 20), Region(1, 8, 30, 4, 8))
    bits = filled(matrix, None)
    for region in regions:
        bits[matrix.flat(*region.indices(np))] = 0
    assert stray_writes(matrix, bits, regions, np, poison(FP16)) == []
    for batch, row, column in ((0, 16, 3), (1, 7, 4), (1, 8, 8)):
        touched = bits.copy()
        touched[matrix.flat(batch, row, column)] = 0
        found = stray_writes(matrix, touched, regions, np, poison(FP16))
        assert found == [matrix.flat(batch, row, column)]


def test_a_write_into_the_padding_is_found_when_all_of_d_may_be_written() -> None:
    matrix = Matrix("d", FP16, 1, 6, 5, 8, 2)
    bits = filled(matrix, None)
    bits[matrix.flat(*Region(0, 0, 6, 0, 5).indices(np))] = 0
    assert stray_writes(matrix, bits, None, np, poison(FP16)) == []
    bits[8 * 2 + 5] = 0
    assert stray_writes(matrix, bits, None, np, poison(FP16)) == [8 * 2 + 5]


def test_a_huge_d_is_looked_at_round_its_tiles(monkeypatch: Any) -> None:
    monkeypatch.setattr(memory, "HUGE", 1000)
    matrix = Matrix("d", FP16, 1, 400, 400, 400, 2)
    bits = np.zeros(matrix.elements, np.uint16)
    regions = (Region(0, 64, 128, 64, 128), Region(0, 128, 192, 64, 128))
    for region in regions:
        bits[matrix.flat(*region.indices(np))] = 7
    assert stray_writes(matrix, bits, regions, np, 0) == []
    bits[matrix.flat(0, 150, 128)] = 7
    assert matrix.flat(0, 150, 128) in stray_writes(matrix, bits, regions, np, 0)
