import numpy as np
import pytest
import torch

from rlvraudit.kernels.arrays import (
    InvalidInputError,
    compute_dtype,
    integer,
    masked_logp,
    number,
    promote,
    stop_gradient,
    token_counts,
)

MASK = np.array([[True, False], [True, True]])


def test_half_precisions_are_computed_in_single_and_others_in_themselves() -> None:
    assert compute_dtype(np.zeros(1, np.float16)) == np.float32
    assert compute_dtype(torch.zeros(1, dtype=torch.bfloat16)) == torch.float32
    assert promote(torch.zeros(1, dtype=torch.float16)).dtype == torch.float32
    assert compute_dtype(np.zeros(1, np.float32)) == np.float32
    assert compute_dtype(torch.zeros(1, dtype=torch.float64)) == torch.float64


@pytest.mark.parametrize("garbage", [np.nan, np.inf, -np.inf, 3.0])
def test_an_inactive_position_is_replaced_before_it_is_read(garbage: float) -> None:
    logp = np.array([[-1.0, garbage], [-2.0, -3.0]])
    np.testing.assert_array_equal(masked_logp(logp, MASK, "x"), [[-1.0, 0.0], [-2.0, -3.0]])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e-9])
def test_an_active_value_that_is_no_log_probability_is_refused_with_its_place(bad: float) -> None:
    logp = np.array([[-1.0, 0.0], [-2.0, bad]])
    with pytest.raises(InvalidInputError, match=r"^logp_base\[1, 1\] is ") as error:
        masked_logp(logp, MASK, "logp_base")
    assert (error.value.argument, error.value.at) == ("logp_base", (1, 1))


def test_a_log_probability_of_exactly_zero_is_accepted() -> None:
    np.testing.assert_array_equal(masked_logp(np.zeros((2, 2)), MASK, "x"), np.zeros((2, 2)))


@pytest.mark.parametrize(
    ("logp", "mask", "message"),
    [
        (np.zeros((2, 3)), MASK, r"logp is of shape \(2, 3\); expected shape \(2, 2\)"),
        (np.zeros((2, 2), np.int64), MASK, "logp is an array of int64"),
        ([[0.0, 0.0], [0.0, 0.0]], MASK, "logp is a list"),
        (np.zeros((2, 2)), MASK.astype(np.int64), "mask is an array of int64"),
        (np.zeros((2, 2)), MASK.astype(np.float64), "mask is an array of float64"),
    ],
)
def test_wrong_shapes_and_dtypes_are_refused_not_broadcast(
    logp: object, mask: object, message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        masked_logp(logp, mask, "logp")


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (np.array([[True], [False]]), r"mask\[1\] is 0; expected at least one active token"),
        (np.zeros((0, 2), np.bool_), "a batch without trajectories"),
        (np.array([True]), r"mask is of shape \(1,\)"),
        (np.zeros((1, 0), np.bool_), r"mask\[0\] is 0"),
    ],
)
def test_a_mask_without_active_tokens_is_refused(mask: object, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        token_counts(mask)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -0.1, "0.2", None, True, 1.0])
def test_a_parameter_outside_its_range_is_refused_by_name(bad: object) -> None:
    with pytest.raises(InvalidInputError, match="clip_low"):
        number(bad, "clip_low", 0.0, 1.0)


def test_a_number_becomes_a_plain_float_so_that_it_widens_no_array() -> None:
    assert type(number(np.float64(0.5), "x", 0.0)) is float
    with pytest.raises(InvalidInputError, match="x is 0"):
        number(0.0, "x", 0.0, open_low=True)


@pytest.mark.parametrize("bad", [2.5, 0, -1, float("nan"), "3", False])
def test_what_is_no_whole_number_is_refused(bad: object) -> None:
    with pytest.raises(InvalidInputError, match="length"):
        integer(bad, "length", 1)
    assert integer(np.asarray(3), "length", 1) == 3


def test_stop_gradient_cuts_the_graph_of_torch_and_leaves_numpy_alone() -> None:
    x = torch.ones(1, requires_grad=True)
    assert not stop_gradient(x).requires_grad
    array = np.ones(1)
    assert stop_gradient(array) is array
