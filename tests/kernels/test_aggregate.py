import numpy as np
import pytest

from rlvraudit.kernels.aggregate import AGGREGATIONS, weight_per_token
from rlvraudit.kernels.arrays import InvalidInputError

MASK = np.array([[True, True, True], [False, True, False]])
COUNTS = np.array([3.0, 1.0])


@pytest.mark.parametrize(
    ("mode", "norm", "first", "second"),
    [
        ("token-mean", None, 1 / 4, 1 / 4),  # four active tokens in all
        ("seq-mean-token-mean", None, 1 / 6, 1 / 2),  # 1 / (B T_b)
        ("seq-mean-token-sum", None, 1 / 2, 1 / 2),  # 1 / B
        ("seq-mean-token-sum-norm", 5.0, 1 / 10, 1 / 10),  # 1 / (B norm)
    ],
)
def test_each_mode_weighs_tokens_as_it_is_defined(
    mode: str, norm: float | None, first: float, second: float
) -> None:
    expected = [[first] * 3, [0.0, second, 0.0]]
    np.testing.assert_allclose(weight_per_token(MASK, COUNTS, mode, norm), expected, rtol=1e-15)


@pytest.mark.parametrize("norm", [None, 0.0, -1.0, float("nan"), float("inf"), "two"])
def test_a_norm_that_is_missing_or_not_positive_is_refused(norm: float | None) -> None:
    with pytest.raises(InvalidInputError, match="norm"):
        weight_per_token(MASK, COUNTS, "seq-mean-token-sum-norm", norm)


def test_an_unknown_mode_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidInputError, match=r"aggregation is 'mean'.*token-mean"):
        weight_per_token(MASK, COUNTS, "mean")


def test_the_modes_are_the_four_of_the_papers() -> None:
    assert len(AGGREGATIONS) == 4
