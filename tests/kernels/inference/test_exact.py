"""McNemar and the sign-flip test against SciPy, brute force and closed forms."""

import itertools
import math
import operator
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binomtest

from rlvraudit.kernels.arrays import InvalidInputError
from rlvraudit.kernels.inference import exact
from rlvraudit.kernels.inference.exact import as_fraction, half_binomial, mcnemar, sign_flip


def brute_force(differences: list[Fraction]) -> float:
    """Try all signs, in whole steps of the common denominator."""
    unit = math.lcm(*(d.denominator for d in differences))
    steps = [int(d * unit) for d in differences]
    patterns = itertools.product((1, -1), repeat=len(steps))
    sums = [abs(sum(map(operator.mul, pattern, steps))) for pattern in patterns]
    return float(sum(total >= abs(sum(steps)) for total in sums) / len(sums))


@pytest.mark.parametrize(
    ("won", "lost"), [(0, 1), (3, 3), (7, 3), (19, 7), (23, 12), (112, 62), (360, 76), (600, 510)]
)
def test_mcnemar_is_the_binomial_test_of_the_discordant_items(won: int, lost: int) -> None:
    expected = binomtest(won, won + lost, 0.5).pvalue
    assert mcnemar(won, lost).p_value == pytest.approx(expected, rel=1e-10, abs=0)
    assert mcnemar(won, lost) == mcnemar(lost, won)


def test_mcnemar_of_wins_only_is_a_power_of_two() -> None:
    # P(X = 0) = 2^-8, doubled for two sides: 2^-7; mid-p takes half of it away.
    assert mcnemar(8, 0).p_value == 2**-7
    assert mcnemar(8, 0).mid_p == 2**-8


def test_mcnemar_without_discordant_items_is_one() -> None:
    assert (mcnemar(0, 0).p_value, mcnemar(0, 0).mid_p) == (1, 1)


def test_mcnemar_of_a_draw_is_one_and_so_is_its_mid_p() -> None:
    # 2 P(X <= 3) = 1 + P(X = 3), so mid-p is exactly 1 and p is capped.
    assert (mcnemar(3, 3).p_value, mcnemar(3, 3).mid_p) == (1, 1)


@pytest.mark.parametrize(("won", "lost"), [(1100, 980), (5200, 4800), (1000, 30), (30_500, 29_500)])
def test_mcnemar_of_many_discordant_items_neither_overflows_nor_cancels(
    won: int, lost: int
) -> None:
    # Exact integers: the lower tail over 2^m.
    m, term, tail = won + lost, 1, 0
    for k in range(min(won, lost) + 1):
        tail += term
        term = term * (m - k) // (k + 1)
    expected = float(Fraction(2 * tail, 2**m))
    assert mcnemar(won, lost).p_value == pytest.approx(expected, rel=1e-10, abs=0)


def test_mcnemar_of_a_billion_items_stays_small() -> None:
    # b - c is 2 standard deviations: z = 2, p = 0.0455.
    half, spread = 500_000_000, 31_623
    found = mcnemar(half + spread, half - spread).p_value
    assert found == pytest.approx(math.erfc(math.sqrt(2)), rel=1e-3, abs=0)


def test_mcnemar_beyond_the_doubles_underflows_and_does_not_fail() -> None:
    assert mcnemar(5000, 0).p_value == 0


@pytest.mark.parametrize("counts", [(-1, 2), (2, -1), (1.0, 2), (True, 2)])
def test_counts_that_are_none_are_refused(counts: tuple[int, int]) -> None:
    with pytest.raises(InvalidInputError, match="_only is"):
        mcnemar(*counts)


@pytest.mark.parametrize("trials", [0, 1, 2, 7, 60, 1500])
def test_binomial_weights_are_those_of_exact_integers(trials: int) -> None:
    first, weights = half_binomial(trials)
    expected = [
        float(Fraction(math.comb(trials, first + i), 2**trials)) for i in range(weights.size)
    ]
    assert weights == pytest.approx(expected, rel=1e-12, abs=1e-300)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("unit", [1, 2, 3, 5, 8, 10, 100])
def test_sign_flips_on_a_lattice_agree_with_brute_force(seed: int, unit: int) -> None:
    steps = np.random.default_rng(seed).integers(-unit, unit + 1, 11)
    differences = [Fraction(int(s), unit) for s in steps]
    found = sign_flip([float(d) for d in differences])
    assert found.p_value == pytest.approx(brute_force(differences), rel=1e-12, abs=0)
    assert found.nonzero == np.count_nonzero(steps)
    assert found.method == "exact"


def test_ties_are_decided_as_the_decimals_say() -> None:
    # 0.1 + 0.2 - 0.3 is 5.6e-17 in floats; 12 of the 16 patterns are as far as the observed.
    assert sign_flip([0.1, 0.2, -0.3, 0.3]).p_value == 0.75


def test_differences_of_rounded_thirds_and_fifths_are_still_a_lattice() -> None:
    # 0.6 - 0.4 is 0.19999999999999996, 1 - 1/3 is 0.6666666666666667.
    found = sign_flip([0.6 - 0.4, 0.4 - 0.6, 0.2, 1 - 1 / 3, 1 / 3, -2 / 3])
    exactly = [Fraction(1, 5), Fraction(-1, 5), Fraction(1, 5)]
    exactly += [Fraction(2, 3), Fraction(1, 3), Fraction(-2, 3)]
    assert found.method == "exact"
    assert found.p_value == brute_force(exactly)


def test_a_decimal_is_taken_by_its_digits_and_not_rounded_to_something_simpler() -> None:
    assert as_fraction(0.1) == Fraction(1, 10)
    assert as_fraction(0.333) == Fraction(333, 1000)
    assert as_fraction(1 / 3) == Fraction(1, 3)
    assert as_fraction(0.123456789012) == Fraction(123456789012, 10**12)
    assert as_fraction(math.pi) == Fraction(repr(math.pi))


def test_binary_sign_flips_are_mcnemar() -> None:
    differences = [1] * 360 + [-1] * 76 + [0] * 883
    found, expected = sign_flip(differences), mcnemar(360, 76)
    assert found.p_value == pytest.approx(expected.p_value, rel=1e-10, abs=0)


def test_small_tails_keep_their_relative_accuracy() -> None:
    # 200 equal wins of 1/8 and 100 of 2/8: only the two extreme patterns are as far.
    found = sign_flip([0.125] * 200 + [0.25] * 100)
    assert found.p_value == pytest.approx(2.0**-299, rel=1e-9, abs=0)
    assert found.p_value == pytest.approx(found.attainable, rel=1e-9, abs=0)


def test_five_wins_and_no_losses_are_never_significant() -> None:
    found = sign_flip([1] * 5 + [0] * 25)
    assert (found.p_value, found.nonzero, found.attainable) == (0.0625, 5, 0.0625)


def test_all_ties_have_p_of_one() -> None:
    assert sign_flip([0, 0, 0]).p_value == 1
    assert sign_flip([0, 0, 0]).attainable == 1


def test_without_a_lattice_few_differences_are_enumerated() -> None:
    differences = np.random.default_rng(1).normal(size=12).tolist()
    found = sign_flip(differences)
    assert found.method == "enumeration"
    assert found.p_value == brute_force([Fraction(d) for d in differences])


def test_without_a_lattice_many_differences_are_drawn_and_p_is_never_zero() -> None:
    differences = np.abs(np.random.default_rng(1).normal(size=60)) + 1.0
    found = sign_flip(differences, resamples=999)
    assert found.method == "monte-carlo"
    assert found.p_value == 1 / 1000


def test_drawn_p_values_agree_with_the_exact_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = np.random.default_rng(4).integers(-3, 5, 40) / 8
    expected = sign_flip(steps).p_value
    monkeypatch.setattr(exact, "POINTS", 0)
    found = sign_flip(steps, resamples=20_000)
    assert found.method == "monte-carlo"
    # Three standard errors of a share of 20,000 draws.
    assert found.p_value == pytest.approx(expected, rel=0, abs=3 * math.sqrt(0.25 / 20_000))


@pytest.mark.parametrize(
    ("differences", "message"),
    [([], "differences is empty"), ([1.0, float("nan")], r"differences\[1\] is nan")],
)
def test_bad_differences_are_refused(differences: list[float], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        sign_flip(differences)
