"""Exact companions of the bootstrap: McNemar and the sign-flip test, without any resampling.

Probabilities are sums of positive terms, so that small ones keep their relative accuracy down
to about 1e-300; what is smaller underflows to 0.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rlvraudit.kernels.inference.bootstrap import CHUNK, RESAMPLES, SEED, TIE
from rlvraudit.kernels.inference.estimate import Floats, finite_vector, whole_number

Integers = NDArray[np.int64]
Method = Literal["exact", "enumeration", "monte-carlo"]
ENUMERABLE = 20
"""Non-zero differences up to which all sign patterns are tried where there is no lattice."""
POINTS, WORK = 1 << 20, 1 << 31
"""A lattice is usable up to so many points, and so many multiplications."""
FEW_TRIALS = 1000
"""Binomials of no more trials than this come from exact integers, which takes a millisecond."""
FINE = 10**12
"""Decimals finer than this are taken for rounded fractions such as 1/3."""


@dataclass(frozen=True, slots=True)
class McNemar:
    """Two-sided p-value of the exact McNemar test, and its mid-p."""

    p_value: float
    mid_p: float


@dataclass(frozen=True, slots=True)
class SignFlip:
    """Two-sided p-value of the sign-flip test, and how it was found.

    `nonzero` differences allow no p-value below `attainable`, 2 ** (1 - nonzero).
    """

    p_value: float
    nonzero: int
    attainable: float
    method: Method


def mcnemar(treatment_only: int, baseline_only: int) -> McNemar:
    """Return p = min(1, 2 P(X <= min)) for X ~ Binomial(sum, 1/2), and mid-p (McNemar 1947).

    Args:
        treatment_only: Items that only the treatment solves.
        baseline_only: Items that only the baseline solves.

    Raises:
        InvalidInputError: A count is negative or not an integer.
    """
    b = whole_number(treatment_only, "treatment_only", 0)
    c = whole_number(baseline_only, "baseline_only", 0)
    first, weights = half_binomial(b + c)
    last = min(b, c) - first
    if last < 0:
        return McNemar(0.0, 0.0)
    doubled = 2.0 * float(weights[: last + 1].sum())
    return McNemar(min(1.0, doubled), min(1.0, doubled - float(weights[last])))


def half_binomial(trials: int) -> tuple[int, Floats]:
    """Return the weights of Binomial(trials, 1/2) that don't underflow, and where they begin.

    Weights of few trials are quotients of exact integers, rounded once. Those of many grow from
    the centre by the ratio of neighbours and are normalised at the end; beyond forty standard
    deviations nothing is left.
    """
    if trials <= FEW_TRIALS:
        counts = accumulate(range(trials), lambda c, k: c * (trials - k) // (k + 1), initial=1)
        return 0, np.array([count / 2**trials for count in counts])
    centre = trials // 2
    first = max(0, centre - 20 * math.isqrt(trials) - 20)
    below = np.arange(centre, first, -1, dtype=np.float64)
    above = np.arange(centre + 1, trials - first + 1, dtype=np.float64)
    down = np.cumprod(below / (trials - below + 1))
    up = np.cumprod((trials - above + 1) / above)
    weights = np.concatenate((down[::-1], [1.0], up))
    return first, weights / weights.sum()


def sign_flip(
    differences: Sequence[float | Fraction] | Floats,
    *,
    seed: int = SEED,
    resamples: int = RESAMPLES,
) -> SignFlip:
    """Return P(|sum s_i d_i| >= |sum d_i|) for independent signs s_i = +-1.

    Ties count, and are decided exactly on the lattice of the differences as their decimals say,
    whose distribution is the convolution of one binomial per magnitude. Without a usable
    lattice all sign patterns are tried, or `resamples` of them drawn, in which case the
    observed one counts too; sums are then compared with a relative slack of 1e-9.

    Args:
        differences: One per item, `[n]`: floats, or fractions where floats would round.
        seed: Seed of `numpy.random.default_rng`, used only for drawn patterns.
        resamples: Number of drawn patterns.

    Raises:
        InvalidInputError: No item, a value that is not finite, or a bad seed or count.
    """
    seed, resamples = whole_number(seed, "seed", 0), whole_number(resamples, "resamples", 1)
    fractions = [f for f in _fractions(differences) if f]
    nonzero = len(fractions)
    attainable = math.ldexp(1.0, 1 - nonzero) if nonzero else 1.0
    steps = _steps(fractions)
    if steps is not None:
        return SignFlip(_convolved(steps), nonzero, attainable, "exact")
    values = np.array([float(f) for f in fractions])
    if nonzero <= ENUMERABLE:
        return SignFlip(_enumerated(values), nonzero, attainable, "enumeration")
    p_value = _drawn(values, np.random.default_rng(seed), resamples)
    return SignFlip(p_value, nonzero, attainable, "monte-carlo")


def as_fraction(value: float) -> Fraction:
    """Return the number that the shortest decimal of `value` says.

    A decimal that needs full precision is what is left of a rounded fraction: the simple
    fraction within rounding error of it is taken instead, if there is one.
    """
    decimal = Fraction(repr(value))
    if decimal.denominator <= FINE:
        return decimal
    simple = decimal.limit_denominator(10_000)
    return simple if abs(simple - decimal) <= Fraction(2.0**-51) else decimal


def _fractions(differences: Sequence[float | Fraction] | Floats) -> list[Fraction]:
    finite_vector([float(d) for d in differences], "differences")
    return [d if isinstance(d, Fraction) else as_fraction(float(d)) for d in differences]


def _steps(fractions: Sequence[Fraction]) -> Integers | None:
    """Return the differences in units of their lattice, or None if that is too fine to use."""
    if not fractions:
        return np.zeros(0, np.int64)
    unit = math.lcm(*{f.denominator for f in fractions})
    whole = [f.numerator * (unit // f.denominator) for f in fractions]
    shared = math.gcd(*whole)
    points = sum(abs(w) for w in whole) // shared
    if points > POINTS or points * len(whole) > WORK:
        return None
    return np.array([w // shared for w in whole], np.int64)


def _convolved(steps: Integers) -> float:
    """Return the p-value from the distribution of the sum of the steps that come up positive."""
    observed, total = abs(int(steps.sum())), int(np.abs(steps).sum())
    if observed == 0:
        return 1.0
    weights = np.ones(1)
    for size, count in zip(*np.unique(np.abs(steps), return_counts=True), strict=True):
        weights = _spread(weights, int(size), _full_half_binomial(int(count)))
    return min(1.0, 2.0 * float(weights[(total + observed) // 2 :].sum()))


def _full_half_binomial(trials: int) -> Floats:
    """Return P(X = k) for X ~ Binomial(trials, 1/2) and k = 0, ..., trials."""
    first, weights = half_binomial(trials)
    return np.pad(weights, (first, first))


def _spread(weights: Floats, size: int, binomial: Floats) -> Floats:
    """Return the distribution of W + size * X: each residue class convolves by itself."""
    spread = np.zeros(weights.size + size * (binomial.size - 1))
    for residue in range(min(size, weights.size)):
        spread[residue::size][: len(range(residue, weights.size, size)) + binomial.size - 1] = (
            np.convolve(weights[residue::size], binomial)
        )
    return spread


def _enumerated(values: Floats) -> float:
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate((sums - value, sums + value))
    return float(np.count_nonzero(_as_far(sums, values)) / sums.size)


def _drawn(values: Floats, generator: np.random.Generator, resamples: int) -> float:
    far, rows = 0, max(1, CHUNK // values.size)
    for start in range(0, resamples, rows):
        shape = (min(rows, resamples - start), values.size)
        signs = 2.0 * generator.integers(0, 2, shape) - 1.0
        far += int(np.count_nonzero(_as_far(signs @ values, values)))
    return (far + 1) / (resamples + 1)


def _as_far(sums: Floats, values: Floats) -> NDArray[np.bool_]:
    far: NDArray[np.bool_] = np.abs(sums) >= abs(math.fsum(values)) * (1.0 - TIE)
    return far
