"""pass@k against vectors, exact integers and the biased estimators that it is not."""

import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from rlvraudit.fixtures import ROOT
from rlvraudit.kernels.arrays import InvalidInputError
from rlvraudit.kernels.inference.pass_at_k import pass_at_k

CASES = json.loads((ROOT / "vectors" / "pass_at_k.json").read_text("utf-8"))["cases"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["comment"])
def test_vectors(case: dict[str, Any]) -> None:
    if case["result"] == "invalid":
        with pytest.raises(InvalidInputError):
            pass_at_k(**case["inputs"])
        return
    expected = float(case["expected"]["value"])
    assert pass_at_k(**case["inputs"]) == pytest.approx(expected, rel=1e-14, abs=0)


@pytest.mark.parametrize("n", [1, 2, 5, 16, 65, 257])
def test_every_count_agrees_with_exact_binomials(n: int) -> None:
    for k in {1, 2, n // 2 or 1, n}:
        if k > n:
            continue
        for c in range(n + 1):
            misses = Fraction(math.comb(n - c, k), math.comb(n, k))
            assert pass_at_k(n, c, k) == pytest.approx(float(1 - misses), rel=1e-13, abs=0)


def test_one_correct_in_a_billion_does_not_cancel() -> None:
    assert pass_at_k(10**9, 1, 1) == pytest.approx(1e-9, rel=1e-14, abs=0)


def test_it_is_not_the_estimate_with_replacement() -> None:
    # One of four, k = 2: 1 - C(3,2)/C(4,2) = 1/2, not 1 - (3/4)^2 = 0.4375.
    assert pass_at_k(4, 1, 2) == pytest.approx(0.5, rel=1e-15, abs=0)


def test_pass_at_one_is_the_mean() -> None:
    assert pass_at_k(7, 3, 1) == pytest.approx(3 / 7, rel=1e-15, abs=0)


def test_numpy_integers_are_integers() -> None:
    n, c, k = np.array([8, 3, 8])
    assert pass_at_k(n, c, k) == 1.0


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ((2, 0, 5), "k is 5; expected at most n = 2"),
        ((4, 5, 1), "c is 5"),
        ((4, 2, 0), "k is 0"),
        ((0, 0, 1), "n is 0"),
        ((4, -1, 1), "c is -1"),
        ((4.0, 1, 1), "n is 4.0"),
        ((4, True, 1), "c is True"),
    ],
)
def test_counts_from_which_it_cannot_be_estimated_are_refused(
    counts: tuple[int, int, int], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        pass_at_k(*counts)
