import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlvraudit.kernels.arrays import InvalidInputError
from rlvraudit.kernels.objectives.prototypes import audit_selection, farthest_point

# On a circle, at these degrees: distances are 1 - cos of the differences.
DEGREES = np.array([0.0, 100.0, 190.0, 95.0, 350.0])
CIRCLE = np.stack([np.cos(np.radians(DEGREES)), np.sin(np.radians(DEGREES))], axis=1)
ALL = np.ones(5, np.bool_)


def test_the_farthest_candidate_of_a_circle_comes_next() -> None:
    # From 0: farthest is 190 (170 away). Then 95: min(95, 95); 100: min(100, 90) = 90.
    result = farthest_point(CIRCLE, ALL)
    assert result.indices == (0, 2, 3)
    distances = [1 - math.cos(math.radians(170)), 1 - math.cos(math.radians(95))]
    assert math.isnan(result.distances[0])
    np.testing.assert_allclose(result.distances[1:], distances, rtol=1e-12)


def test_incorrect_candidates_are_never_read() -> None:
    correct = np.array([False, True, True, False, True])
    wild = CIRCLE.copy()
    wild[0], wild[3] = np.nan, 0.0
    assert farthest_point(wild, correct).indices == (1, 4, 2)


def test_without_a_correct_candidate_there_is_no_bank() -> None:
    result = farthest_point(np.full((3, 2), np.nan), np.zeros(3, np.bool_))
    assert result.indices == ()
    assert result.distances.shape == (0,)


def test_there_are_no_more_prototypes_than_correct_candidates() -> None:
    assert farthest_point(CIRCLE, np.array([True, False, False, False, True])).indices == (0, 4)


def test_exact_ties_go_to_the_lowest_index_whatever_the_scale_of_the_vectors() -> None:
    scaled = np.eye(4) * np.array([[1.0], [3.0], [1 / 3], [1e-3]])
    assert farthest_point(scaled, np.ones(4, np.bool_)).indices == (0, 1, 2)
    copies = np.array([[1.0, 2.0, 3.0], [0.1, 0.7, 0.3], [0.3, 2.1, 0.9], [7.0, 49.0, 21.0]])
    assert farthest_point(copies, np.ones(4, np.bool_), 2).indices == (0, 1)


@given(st.integers(0, 2**32), st.sampled_from([np.float32, np.float64]))
def test_the_scale_of_each_vector_does_not_matter_up_to_the_range_of_its_dtype(
    seed: int, dtype: Any
) -> None:
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(6, 5)).astype(dtype)
    tiny, huge = (1e-30, 1e30) if dtype == np.float32 else (1e-200, 1e200)
    scales = rng.choice([tiny, 1.0, huge], (6, 1)).astype(dtype)
    correct = np.ones(6, np.bool_)
    scaled = farthest_point(vectors * scales, correct)
    assert scaled.indices == farthest_point(vectors, correct).indices


def test_distances_come_back_in_the_compute_dtype() -> None:
    assert farthest_point(CIRCLE.astype(np.float16), ALL).distances.dtype == np.float32
    assert farthest_point(torch.tensor(CIRCLE), torch.tensor(ALL)).distances.dtype == torch.float64


def test_another_start_can_be_asked_for() -> None:
    assert farthest_point(CIRCLE, ALL, start=1).indices[0] == 1


@pytest.mark.parametrize(
    ("dtype", "row", "message"),
    [
        (np.float64, [0.0, 0.0], r"embeddings\[1, 0\] is 0; expected a vector that is not zero"),
        (np.float64, [1.0, np.nan], r"embeddings\[1, 1\] is nan"),
        (np.float64, [np.inf, 1.0], r"embeddings\[1, 0\] is inf"),
        (np.float64, [1.5e308, 1.5e308], r"embeddings\[1, 0\].*norm does not overflow"),
        (np.float32, [3e38, 3e38], r"embeddings\[1, 0\].*norm does not overflow"),
    ],
)
def test_a_correct_candidate_without_a_direction_is_refused(
    dtype: Any, row: list[float], message: str
) -> None:
    vectors = CIRCLE.astype(dtype)
    vectors[1] = row
    with pytest.raises(InvalidInputError, match=message):
        farthest_point(vectors, ALL)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": 0}, "k is 0"),
        ({"k": 1.5}, "k is 1.5"),
        ({"start": 9}, "start is 9"),
        ({"start": "last"}, "start is 'last'"),
        ({"correct": np.ones(4, np.bool_)}, "correct is of shape"),
        ({"correct": np.ones(5)}, "correct is an array of float64"),
        ({"embeddings": np.ones(5)}, "embeddings is of shape"),
        ({"embeddings": np.ones((5, 0))}, "embeddings is of shape"),
        ({"embeddings": np.ones((5, 2), np.int64)}, "embeddings is an array of int64"),
    ],
)
def test_other_bad_arguments_are_refused_by_name(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        farthest_point(**{"embeddings": CIRCLE, "correct": ALL, **change})


def test_an_audit_accepts_any_start_and_says_which() -> None:
    for start in range(5):
        chosen = farthest_point(CIRCLE, ALL, start=start).indices
        audit = audit_selection(CIRCLE, ALL, chosen)
        assert audit.misfits == ()
        assert audit.start == ("first" if start == 0 else f"index {start}")


def test_an_audit_accepts_another_tie_rule() -> None:
    assert audit_selection(np.eye(4), np.ones(4, np.bool_), [0, 3, 1]).misfits == ()


@pytest.mark.parametrize(
    ("indices", "position", "reason"),
    [
        ([0, 3, 2], 1, "its distance is 1.08715574, the largest one 1.98480775"),
        ([0, 2], 2, "2 prototypes are recorded; 3 can be chosen"),
        ([], 0, "0 prototypes are recorded"),
        ([0, 2, 2], 2, "it was chosen before"),
        ([0, 2, 7], 2, "no correct candidate"),
        ([0, 2, -1], 2, "no correct candidate"),
    ],
)
def test_an_audit_says_where_a_selection_is_not_greedy(
    indices: list[int], position: int, reason: str
) -> None:
    (misfit,) = audit_selection(CIRCLE, ALL, indices).misfits
    assert misfit.position == position
    assert reason in misfit.reason


def test_an_audit_finds_an_incorrect_candidate_in_the_bank() -> None:
    correct = np.array([True, True, False, True, True])
    misfits = audit_selection(CIRCLE, correct, [0, 2, 3]).misfits
    assert [m.index for m in misfits] == [2]


def test_an_audit_of_no_bank_for_no_correct_candidate_is_sound() -> None:
    audit = audit_selection(CIRCLE, np.zeros(5, np.bool_), [])
    assert (audit.start, audit.misfits) == ("none", ())
