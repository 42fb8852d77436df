import numpy as np
import pytest

from rlvraudit.audit.implementations.judgement import judge, judge_floats


def ratio(computed: float, true: float, bound: float, dtype: str = "float32") -> float:
    return judge_floats("x", np.asarray(computed), np.asarray(true), bound, dtype).worst


def test_the_error_is_measured_in_bounds() -> None:
    assert ratio(1.5, 1.0, 0.25) == 2.0
    assert ratio(1.0, 1.0, 0.0) == 0.0


@pytest.mark.parametrize(
    ("computed", "true", "bound"),
    [
        (1e-300, 0.0, 0.0),
        (float("nan"), 1.0, 1.0),
        (float("inf"), 1.0, 1.0),
        (1.0, 2.0, float("inf")),
        (1.0, 2.0, float("nan")),
        (float("-inf"), 1e39, 1e30),
        (float("inf"), 3.4e38, 1.0),
    ],
)
def test_what_is_not_right_is_never_within_an_unbounded_or_missing_bound(
    computed: float, true: float, bound: float
) -> None:
    assert ratio(computed, true, bound) == float("inf")


def test_an_overflow_is_right_where_the_truth_is_outside_the_range() -> None:
    assert ratio(float("inf"), 1e39, 1e30) == 0.0
    assert ratio(float("-inf"), -7e4, 1.0, "float16") == 0.0


def test_outputs_are_judged_by_what_their_leaves_are() -> None:
    computed = {
        "a": np.array([np.nan, 0.5]),
        "indices": np.array([1, 3]),
        "flag": np.asarray(False),
    }
    right = {"a": [None, "0.5"], "indices": [1, 3], "flag": False}
    assert judge(computed, right, {"a": 1e-9}, "float64").passed
    for wrong in ({"a": [None, "0.6"]}, {"indices": [1, 2]}, {"flag": True}, {"a": ["0.5"]}):
        judgement = judge(computed, {**right, **wrong}, {"a": 1e-9}, "float64")
        assert not judgement.passed
        assert judgement.fault.startswith(next(iter(wrong)))


def test_an_output_without_a_bound_or_of_integers_is_no_floating_point_number() -> None:
    assert not judge({"a": np.asarray(1)}, {"a": "1.0"}, {"a": 1.0}, "float64").passed
    assert not judge({"a": np.asarray(1.0)}, {"a": "1.0"}, {}, "float64").passed


def test_decimals_beyond_the_range_of_doubles_are_read_as_their_limits() -> None:
    bounds = {"a": 1e-300}
    assert judge({"a": np.asarray(0.0)}, {"a": "6.3e-43429"}, bounds, "float64").passed
    assert judge({"a": np.asarray(np.inf)}, {"a": "6.3e43429"}, bounds, "float64").passed


def test_a_fault_names_the_place_both_values_and_the_bound() -> None:
    judgement = judge_floats(
        "grad_x", np.array([[1.0, 2.0]]), np.array([[1.0, 2.5]]), 1e-3, "float64"
    )
    assert judgement.fault == "grad_x[0, 1] is 2, expected 2.5, bound 0.001"
