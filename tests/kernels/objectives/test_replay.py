import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlvraudit.kernels.arrays import InvalidInputError
from rlvraudit.kernels.objectives import replay

POLICY = np.array([[math.log(0.1), math.log(0.5)], [math.log(0.9), math.log(0.2)]])
BASE = np.array([[math.log(0.4), math.log(0.5)], [math.log(0.3), math.log(0.1)]])
MASK = np.ones((2, 2), np.bool_)


def test_gate_weights_and_loss_equal_a_derivation_by_hand() -> None:
    # Trajectory 0: delta = (log 4, 0), mean log 2, gate 1 - 1/2; weights (3/4, 0).
    # Trajectory 1: delta = (log 1/3, log 1/2), both negative: gate and weights 0.
    result = replay.replay_nll(POLICY, BASE, MASK)
    np.testing.assert_allclose(result.gate, [0.5, 0.0], rtol=1e-15)
    np.testing.assert_allclose(result.token_weights, [[0.75, 0.0], [0.0, 0.0]], rtol=1e-15)
    share = 0.75 / (0.75 + 1e-8)
    assert result.loss == pytest.approx(0.5 * 0.5 * share * math.log(10), rel=1e-15)
    gradient = [[-0.5 * 0.5 * share, 0.0], [0.0, 0.0]]
    np.testing.assert_allclose(result.grad_logp_policy, gradient, rtol=1e-15)


def test_the_mean_runs_over_trajectories_with_a_zero_gate_too() -> None:
    alone = replay.replay_nll(POLICY[:1], BASE[:1], MASK[:1])
    both = replay.replay_nll(POLICY, BASE, MASK)
    assert both.loss == pytest.approx(alone.loss / 2, rel=1e-15)


def test_no_suppression_means_no_replay_and_no_nan() -> None:
    for dtype in (np.float16, np.float32, np.float64):
        same = POLICY.astype(dtype)
        result = replay.replay_nll(same, same, MASK)
        assert float(result.loss) == 0.0
        assert not np.any(result.grad_logp_policy)


def test_the_denominators_epsilon_survives_half_precision() -> None:
    # delta = 2**-10 at one token: w is near 9.8e-4, and 1e-8 / w is 1e-5: FP32 sees it, FP16 not.
    policy = np.array([[-1.0 - 2.0**-10]], np.float16)
    base = np.array([[-1.0]], np.float16)
    result = replay.replay_nll(policy, base, np.array([[True]]))
    weight = -math.expm1(-(2.0**-10))
    expected = weight * (1.0 + 2.0**-10) * weight / (1e-8 + weight)
    assert float(result.loss) == pytest.approx(expected, rel=3e-6)
    assert result.loss.dtype == np.float32
    assert result.grad_logp_policy.dtype == np.float16


def test_tiny_weights_in_half_precision_do_not_divide_by_zero() -> None:
    zero = np.zeros((1, 2), np.float16)
    result = replay.replay_nll(zero, zero, np.ones((1, 2), np.bool_))
    assert float(result.loss) == 0.0


def test_a_hole_is_skipped_and_not_counted() -> None:
    holed = np.array([[True, False, True]])
    wide = np.array([[POLICY[0, 0], np.nan, POLICY[0, 1]]])
    base = np.array([[BASE[0, 0], 5.0, BASE[0, 1]]])
    result, plain = (
        replay.replay_nll(wide, base, holed),
        replay.replay_nll(POLICY[:1], BASE[:1], MASK[:1]),
    )
    assert result.loss == pytest.approx(plain.loss, rel=1e-15)
    assert result.grad_logp_policy[0, 1] == 0.0
    np.testing.assert_allclose(result.gate, plain.gate, rtol=1e-15)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_differences_as_large_as_the_dtype_holds_give_no_nan(dtype: Any) -> None:
    large = -0.9 * float(np.finfo(dtype).max)
    policy = np.array([[large, large, -1.0], [-1.0, -1.0, -1.0]], dtype)
    base = np.array([[-1.0, -1.0, large], [large, large, -1.0]], dtype)
    mask = np.ones((2, 3), np.bool_)
    result = replay.replay_nll(policy, base, mask)
    # Trajectory 0: delta = (L, L, -L), mean L/3, gate 1; weights (1, 1, 0): the NLL is L.
    np.testing.assert_array_equal(result.gate, [1.0, 0.0])
    assert float(result.loss) == pytest.approx(-large / 2, rel=1e-6)
    np.testing.assert_allclose(result.grad_logp_policy[0], [-0.25, -0.25, 0.0], rtol=1e-6)


@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(1, 5), st.integers(0, 3))
def test_padding_columns_and_the_order_of_rows_change_nothing(
    seed: int, rows: int, columns: int, extra: int
) -> None:
    rng = np.random.default_rng(seed)
    policy, base = -rng.exponential(size=(2, rows, columns))
    mask = rng.random((rows, columns)) < 0.7
    mask[:, 0] = True
    result = replay.replay_nll(policy, base, mask)
    order = rng.permutation(rows)
    garbage = np.full((rows, extra), np.nan)
    moved = replay.replay_nll(
        np.hstack([policy, garbage])[order],
        np.hstack([base, -garbage])[order],
        np.hstack([mask, np.zeros((rows, extra), np.bool_)])[order],
    )
    np.testing.assert_allclose(moved.loss, result.loss, rtol=1e-13, atol=1e-300)
    np.testing.assert_allclose(
        moved.grad_logp_policy[:, :columns], result.grad_logp_policy[order], rtol=1e-12
    )
    assert not np.any(moved.grad_logp_policy[:, columns:])


def test_the_base_policy_gets_no_gradient() -> None:
    policy = torch.tensor(POLICY, requires_grad=True)
    base = torch.tensor(BASE, requires_grad=True)
    replay.replay_nll(policy, base, torch.tensor(MASK)).loss.backward()
    assert base.grad is None
    assert policy.grad is not None
    assert policy.grad.any()


@pytest.mark.parametrize("epsilon", [0.0, -1e-8, float("nan"), float("inf"), "tiny", None])
def test_a_denominator_epsilon_that_is_not_positive_is_refused(epsilon: Any) -> None:
    with pytest.raises(InvalidInputError, match="denominator_epsilon"):
        replay.replay_nll(POLICY, BASE, MASK, denominator_epsilon=epsilon)


@pytest.mark.parametrize("argument", ["logp_policy", "logp_base"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 0.125])
def test_every_input_is_checked_at_active_positions(argument: str, bad: float) -> None:
    inputs: dict[str, Any] = {"logp_policy": POLICY.copy(), "logp_base": BASE.copy(), "mask": MASK}
    inputs[argument][1, 0] = bad
    for function in (replay.gate, replay.token_weights, replay.replay_nll):
        with pytest.raises(InvalidInputError, match=rf"^{argument}\[1, 0\] is "):
            function(**inputs)


@pytest.mark.parametrize("function", [replay.gate, replay.token_weights, replay.replay_nll])
def test_a_trajectory_without_an_active_token_is_refused(function: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"mask\[1\]"):
        function(POLICY, BASE, np.array([[True, True], [False, False]]))
