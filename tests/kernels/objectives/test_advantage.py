import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlvraudit.kernels.arrays import InvalidInputError
from rlvraudit.kernels.objectives.advantage import group_advantages


def test_advantages_equal_a_derivation_by_hand() -> None:
    # Rewards 1, 0, 0, 1: mean 1/2, population deviation 1/2, sample deviation 1/sqrt(3).
    rewards = np.array([1.0, 0.0, 0.0, 1.0])
    signs = np.array([1.0, -1.0, -1.0, 1.0])
    for ddof, deviation in ((0, 0.5), (1, math.sqrt(1 / 3))):
        result = group_advantages(rewards, ddof=ddof, epsilon=1e-4)
        np.testing.assert_allclose(result.advantages, 0.5 * signs / (deviation + 1e-4), rtol=1e-14)
        assert not result.zero_variance
    centred = group_advantages(rewards, scale="none")
    np.testing.assert_allclose(centred.advantages, 0.5 * signs, rtol=1e-15)


@pytest.mark.parametrize("reward", [0.0, 1.0, 0.1, -0.7, 1 / 3, 1e-30, 3e30])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("scale", ["std", "none"])
@pytest.mark.parametrize("epsilon", [0.0, 1e-4])
def test_a_zero_variance_group_gives_exact_zeros_and_is_flagged(
    reward: float, dtype: Any, scale: str, epsilon: float
) -> None:
    if dtype == np.float16 and reward > 1e4:
        reward = 6e4
    for members in (1, 3, 7, 10):
        rewards = np.full(members, reward, dtype)
        result = group_advantages(rewards, scale=scale, epsilon=epsilon)
        np.testing.assert_array_equal(result.advantages, np.zeros(members))
        assert bool(result.zero_variance)


def test_the_smallest_difference_of_rewards_is_not_taken_for_none() -> None:
    rewards = np.array([0.1, np.nextafter(0.1, 1.0)])
    assert not group_advantages(rewards).zero_variance


@given(st.integers(0, 2**32), st.sampled_from([1e-200, 1.0, 1e200]))
def test_rewards_as_large_as_squares_that_overflow_are_scaled_right(
    seed: int, scale: float
) -> None:
    rewards = np.random.default_rng(seed).normal(size=8)
    plain = group_advantages(rewards, epsilon=0.0).advantages
    scaled = group_advantages(rewards * scale, epsilon=0.0).advantages
    np.testing.assert_allclose(scaled, plain, rtol=1e-10)


def test_several_groups_at_once_equal_each_alone() -> None:
    rewards = np.array([[1.0, 0.0, 1.0], [0.3, 0.3, 0.3]])
    both = group_advantages(rewards, ddof=1)
    for row, flag, reward in zip(both.advantages, both.zero_variance, rewards, strict=True):
        alone = group_advantages(reward, ddof=1)
        np.testing.assert_array_equal(row, alone.advantages)
        assert flag == alone.zero_variance
    assert both.zero_variance.tolist() == [False, True]


def test_half_precision_is_computed_in_single() -> None:
    result = group_advantages(torch.tensor([1.0, 0.0], dtype=torch.bfloat16))
    assert result.advantages.dtype == torch.float32


@pytest.mark.parametrize(
    ("rewards", "params", "message"),
    [
        ([1.0, np.nan], {}, r"rewards\[1\] is nan"),
        ([np.inf, 1.0], {}, r"rewards\[0\] is inf"),
        ([], {}, "rewards is of shape"),
        ([1.0], {"ddof": 1}, "ddof is 1"),
        ([1.0, 0.0], {"ddof": 2}, "ddof is 2"),
        ([1.0, 0.0, 1.0], {"ddof": 2}, "ddof is 2"),
        ([1.0, 0.0], {"ddof": -1}, "ddof is -1"),
        ([1.0, 0.0], {"ddof": 0.5}, "ddof is 0.5"),
        ([1.0, 0.0], {"epsilon": -1e-4}, "epsilon is -0.0001"),
        ([1.0, 0.0], {"epsilon": np.nan}, "epsilon is nan"),
        ([1.0, 0.0], {"scale": "mad"}, "scale is 'mad'"),
    ],
)
def test_bad_input_is_refused_by_name(
    rewards: list[float], params: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        group_advantages(np.array(rewards), **params)


def test_rewards_that_are_integers_or_a_single_number_are_refused() -> None:
    for rewards in (np.array([1, 0]), np.asarray(1.0), [1.0, 0.0]):
        with pytest.raises(InvalidInputError, match="rewards"):
            group_advantages(rewards)
