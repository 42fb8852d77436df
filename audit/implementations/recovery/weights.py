"""Which aggregation a surrogate uses: the weight of each row, read off its value on policy.

On policy every ratio is 1 and every KL estimate 0, whatever else a loss does. With an advantage
for one row alone, what is left is that row's weight; over batches of several shapes its logarithm
is linear in those of B, T_b, N and T, and the coefficients are the denominators.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlvraudit.audit.implementations.closed_forms.weighting import PUBLISHED, Weighting
from rlvraudit.audit.implementations.recovery.bench import (
    Bench,
    Floats,
    batch,
    close,
    mask_of,
    nice,
)

SHAPES = (
    ((3, 1, 2), 4),
    ((2, 5), 5),
    ((4, 3, 1, 2), 7),
    ((1,), 1),
    ((2, 2, 2, 3, 1), 3),
    ((6,), 8),
)
Rows = Callable[[NDArray[np.bool_], int], float]


@dataclass(frozen=True, slots=True)
class RowWeights:
    """For each shape its mask and the weight of each row's sum over tokens."""

    masks: tuple[NDArray[np.bool_], ...]
    rows: tuple[Floats, ...]


def row_weights(bench: Bench, x: float = 0.0, level: float | None = None) -> RowWeights:
    """Return the weight of each row in -loss, at one log-ratio for all tokens.

    Raises:
        ProbeError: The implementation raises on a batch that every objective accepts.
    """

    def weigh(mask: NDArray[np.bool_], row: int) -> float:
        one = (np.arange(len(mask)) == row).astype(float)
        with_signal = bench.value(batch(mask, x, one, level=level))
        return bench.value(batch(mask, x, 0.0, level=level)) - with_signal

    return measure(weigh)


def measure(weigh: Rows) -> RowWeights:
    """Return what `weigh` gives for every row of every shape."""
    masks = tuple(mask_of(lengths, width) for lengths, width in SHAPES)
    rows = tuple(np.array([weigh(mask, row) for row in range(len(mask))]) for mask in masks)
    return RowWeights(masks, rows)


def fit(weights: RowWeights, tolerance: float) -> Weighting | None:
    """Return the monomial that gives these weights, or None where none does."""
    counted, weight = _counts(weights)
    if not np.all(weight > 0):
        return None
    design = np.column_stack([np.log(counted), np.ones(len(counted))])
    solution, *_ = np.linalg.lstsq(design, np.log(weight), rcond=None)
    exponents = np.round(solution[:4])
    constant = float(np.exp(np.mean(np.log(weight) - np.log(counted) @ exponents)))
    found = Weighting(_as_tuple(exponents), nice(constant, max(tolerance, 3e-5)))
    epsilon = _epsilon(found, counted, weight)
    found = Weighting(found.exponents, found.constant, epsilon)
    # A denominator's epsilon is a convention; only what it does not explain is left.
    if found.name not in PUBLISHED.values():
        found = Weighting(found.exponents, nice(constant, tolerance), epsilon)
    return found if _matches(found, counted, weight, tolerance) else None


def _counts(weights: RowWeights) -> tuple[Floats, Floats]:
    counted, found = [], []
    for mask, rows in zip(weights.masks, weights.rows, strict=True):
        lengths = mask.sum(axis=1)
        for length, row in zip(lengths, rows, strict=True):
            counted.append([len(mask), length, lengths.sum(), mask.shape[1]])
            found.append(row / length)
    return np.array(counted, np.float64), np.array(found)


def _as_tuple(exponents: Floats) -> tuple[int, int, int, int]:
    a, b, c, d = (int(e) for e in exponents)
    return a, b, c, d


def _epsilon(weighting: Weighting, counted: Floats, weight: Floats) -> float:
    """Return what the denominator has beyond the count; 0 where that is rounding."""
    below = [i for i, exponent in enumerate(weighting.exponents) if exponent == -1]
    if not below:
        return 0.0
    # Of B T_b the epsilon is put beside T_b, as masked means have it.
    place = below[-1]
    others = np.delete(np.array(weighting.exponents), place)
    rest = np.prod(np.delete(counted, place, axis=1) ** others, axis=1) * weighting.constant
    extra = rest / weight - counted[:, place]
    typical = float(np.median(extra))
    steady = np.all(np.abs(extra - typical) <= 0.05 * abs(typical) + 1e-14 * counted[:, place])
    return float(f"{typical:.1e}") if steady and 1e-12 < typical < 1e-3 else 0.0


def _matches(weighting: Weighting, counted: Floats, weight: Floats, tolerance: float) -> bool:
    exponents = np.array(weighting.exponents)
    rounded = counted + weighting.epsilon * (exponents < 0)
    predicted = weighting.constant * np.prod(rounded**exponents, axis=1)
    # Two denominators may hold the epsilon; which of them does is not asked.
    allowed = tolerance + 2.0 * weighting.epsilon
    return bool(np.all(np.abs(weight / predicted - 1.0) <= 4.0 * allowed))


def chunked(weights: RowWeights, tolerance: float) -> int | None:
    """Return the number of rows of which each is a micro-batch whose token means are averaged."""
    for size in (2, 3):
        predicted = [_mean_of_means(mask, size) for mask in weights.masks]
        pairs = zip(weights.rows, predicted, strict=True)
        if all(close(rows, guess, 10 * tolerance) for rows, guess in pairs):
            return size
    return None


def _mean_of_means(mask: NDArray[np.bool_], size: int) -> Floats:
    lengths = mask.sum(axis=1).astype(float)
    parts = [lengths[i : i + size] for i in range(0, len(lengths), size)]
    return np.concatenate([part / part.sum() / len(parts) for part in parts])
