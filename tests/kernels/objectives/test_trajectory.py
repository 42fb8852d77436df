import math

import numpy as np
import pytest

from rlvraudit.kernels.arrays import InvalidInputError
from rlvraudit.kernels.objectives import OBJECTIVES, trajectory

MASK = np.array([[True, False, True, True]])
OLD = np.array([[-1.0, np.nan, -2.0, -3.0]])
NEW = np.array([[-0.5, 7.0, -2.3, -3.0]])


def test_the_ratio_is_the_geometric_mean_of_the_prefix_and_skips_holes() -> None:
    # Log-ratios of active tokens: 0.5, -0.3, 0; means of prefixes 0.5, 0.1, 0.2/3.
    expected = [[math.exp(0.5), 0.0, math.exp(0.1), math.exp(0.2 / 3)]]
    ratio = trajectory.prefix_ratio(NEW, OLD, MASK)
    np.testing.assert_allclose(ratio, expected, rtol=1e-14)


def test_on_policy_every_ratio_is_exactly_one() -> None:
    ratio = trajectory.prefix_ratio(OLD, OLD, MASK)
    np.testing.assert_array_equal(ratio, [[1.0, 0.0, 1.0, 1.0]])


def test_extreme_ratios_overflow_to_infinity_and_never_to_nan() -> None:
    large = -1.7e308
    new = np.array([[-1.0, -1.0, large, large]])
    old = np.array([[large, large, -1.0, -1.0]])
    ratio = trajectory.prefix_ratio(new, old, np.ones((1, 4), np.bool_))
    # Prefix means: L, L, L/3, 0: the last one is lost in rounding of L, but finite.
    assert np.isinf(ratio[0, :3]).all()
    assert not np.isnan(ratio).any()


def test_the_clip_width_runs_from_its_maximum_to_its_minimum() -> None:
    # T = 4: t = 1 gives eps_max, t = 4 gives eps_min, t = 2 (1/sqrt 2 - 1/2) / (1/2) of the way.
    t = np.array([1.0, 2.0, 4.0])
    width = trajectory.clip_width(t, np.full(3, 4.0), 0.1, 0.3)
    expected = [0.3, 0.1 + 0.2 * (1 / math.sqrt(2) - 0.5) / 0.5, 0.1]
    np.testing.assert_allclose(width, expected, rtol=1e-15)


def test_a_single_token_has_the_widest_clip() -> None:
    assert OBJECTIVES["tapo.clip_width"].evaluate(1, clip_min=0.1, clip_max=0.3)[
        "clip_width"
    ].tolist() == pytest.approx([0.3])


@pytest.mark.parametrize(
    ("clip_min", "clip_max", "argument"),
    [
        (-0.1, 0.2, "clip_min"),
        (0.3, 0.2, "clip_min"),
        (0.1, 1.0, "clip_max"),
        (float("nan"), 0.2, "clip_min"),
        (0.1, float("inf"), "clip_max"),
    ],
)
def test_widths_outside_their_order_are_refused(
    clip_min: float, clip_max: float, argument: str
) -> None:
    with pytest.raises(InvalidInputError, match=argument):
        OBJECTIVES["tapo.clip_width"].evaluate(4, clip_min=clip_min, clip_max=clip_max)


@pytest.mark.parametrize("length", [0, -3, 2.5, float("nan"), "four"])
def test_a_length_that_is_no_positive_integer_is_refused(length: object) -> None:
    with pytest.raises(InvalidInputError, match="length"):
        OBJECTIVES["tapo.clip_width"].evaluate(length, clip_min=0.1, clip_max=0.2)
