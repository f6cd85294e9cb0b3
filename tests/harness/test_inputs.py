from __future__ import annotations

import numpy as np

from deepgemm_codegen.harness.inputs import (
    Constant,
    Given,
    Nans,
    Normal,
    SmallIntegers,
    exact_limit,
)

RECORDED_INTEGERS = [5.0, 1.0, -7.0, 4.0, -3.0, 5.0]
RECORDED_NORMALS = [1.4529438018798828, 0.3988981246948242, -1.0210800170898438]

ROWS, COLUMNS = np.arange(300)[:, None], np.arange(200)[None, :]


def test_the_values_of_a_seed_never_change() -> None:
    # Literal, so that a change of the generator is seen: recorded verdicts name only the seed.
    assert SmallIntegers(7, 8).at(0, ROWS[:1], COLUMNS[:, :6], np)[0].tolist() == RECORDED_INTEGERS
    assert Normal(7).at(0, ROWS[:1], COLUMNS[:, :3], np)[0].tolist() == RECORDED_NORMALS


def test_small_integers_cover_their_range_evenly() -> None:
    drawn = SmallIntegers(1, 3).at(0, ROWS, COLUMNS, np)
    counts = {value: int((drawn == value).sum()) for value in range(-3, 4)}
    assert sum(counts.values()) == drawn.size
    assert max(counts.values()) < 1.05 * min(counts.values())


def test_normal_values_have_deviation_one_and_full_significands() -> None:
    drawn = Normal(1).at(0, ROWS, COLUMNS, np).astype(np.float64)
    assert abs(drawn.mean()) < 0.02
    assert abs(drawn.std() - 1) < 0.02
    significand = np.frexp(drawn)[0] * 2.0**12
    assert (significand != np.rint(significand)).mean() > 0.9


def test_rows_columns_and_batches_differ() -> None:
    drawn = Normal(1).at(np.arange(2)[:, None, None], ROWS, COLUMNS, np)
    assert np.unique(drawn).size > 0.4 * drawn.size
    assert abs(np.corrcoef(drawn[0, :-1].ravel(), drawn[0, 1:].ravel())[0, 1]) < 0.02
    assert abs(np.corrcoef(drawn[0, :, :-1].ravel(), drawn[0, :, 1:].ravel())[0, 1]) < 0.02
    assert abs(np.corrcoef(drawn[0].ravel(), drawn[1].ravel())[0, 1]) < 0.02


def test_a_piece_has_the_values_of_the_whole() -> None:
    whole = Normal(5).at(2, ROWS, COLUMNS, np)
    piece = Normal(5).at(2, ROWS[50:60], COLUMNS[:, 7:9], np)
    assert (whole[50:60, 7:9] == piece).all()


def test_constants_and_given_values_broadcast() -> None:
    assert Constant(2.5).at(0, ROWS, COLUMNS, np).shape == (300, 200)
    given = Given(((1.0, 2.0), (3.0, 4.0))).at(0, ROWS[:3], COLUMNS[:, :3], np)
    assert given.tolist() == [[1, 2, 1], [3, 4, 3], [1, 2, 1]]


def test_nans_stand_at_the_start_of_their_rows() -> None:
    drawn = Nans(Constant(1.0), rows=(4, 0)).at(0, ROWS, COLUMNS, np)
    assert np.argwhere(np.isnan(drawn)).tolist() == [[4, 0]]
    drawn = Nans(Constant(1.0), rows=(299, 2)).at(0, ROWS, COLUMNS, np)
    assert np.argwhere(np.isnan(drawn)).tolist() == [[row, 0] for row in range(1, 300, 2)]
    drawn = Nans(Constant(1.0), columns=(5, 3)).at(0, ROWS, COLUMNS, np)
    assert np.argwhere(np.isnan(drawn)).tolist() == [[0, column] for column in range(2, 200, 3)]


def test_every_partial_sum_of_exact_inputs_is_a_whole_number_below_2_to_the_24() -> None:
    for k in (0, 1, 64, 1000, 4096, 10**5, 10**6):
        assert k * exact_limit(k) ** 2 < 2**24
