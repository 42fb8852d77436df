"""Which aggregation a surrogate uses: the weight of each row, read off its value on policy.

On policy every ratio is 1 and every KL estimate 0, whatever else a loss does. With an advantage
for one row alone, what is left is that row's weight; over batches of several shapes its logarithm
is linear in those of B, T_b, N, T and L, and the coefficients are the denominators.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rlvraudit.audit.implementations.closed_forms.weighting import PUBLISHED, Exponents, Weighting
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
SINGLE = 3e-8
"""What a weight in float32 may be off by, in units of the tolerance's own fourfold."""
Rows = Callable[[NDArray[np.bool_], int], float]


@dataclass(frozen=True, slots=True)
class RowWeights:
    """For each shape its mask and the weight of each row's sum over tokens."""

    masks: tuple[NDArray[np.bool_], ...]
    rows: tuple[Floats, ...]


def row_weights(
    bench: Bench, x: float = 0.0, level: float | None = None, sign: float = 1.0
) -> RowWeights:
    """Return the weight of each row in -loss, at one log-ratio and sign of A for all tokens.

    Raises:
        ProbeError: The implementation raises on a batch that every objective accepts.
    """
    silent: dict[tuple[int, ...], float] = {}

    def weigh(mask: NDArray[np.bool_], row: int) -> float:
        one = sign * (np.arange(len(mask)) == row)
        if mask.shape not in silent:
            silent[mask.shape] = bench.value(batch(mask, x, 0.0, level=level))
        return sign * (silent[mask.shape] - bench.value(batch(mask, x, one, level=level)))

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
    free = np.round(2.0 * solution[:5]) / 2.0
    for allowed in (tolerance, max(tolerance, SINGLE)):
        for exponents in dict.fromkeys([_as_tuple(free), *PUBLISHED]):
            found = _with_constant(exponents, counted, weight, allowed)
            if found is not None:
                return replace(found, rounded=allowed > tolerance)
    return None


def _with_constant(
    exponents: Exponents, counted: Floats, weight: Floats, tolerance: float
) -> Weighting | None:
    """Return the monomial with these exponents if some constant and epsilon give the weights."""
    bare = np.prod(counted ** np.array(exponents), axis=1)
    rough = float(np.median(weight / bare))
    for constant in dict.fromkeys((1.0, nice(rough, 3e-5), 1.0 / nice(1.0 / rough, 3e-4), rough)):
        found = Weighting(exponents, constant)
        found = replace(found, epsilon=_epsilon(found, counted, weight))
        if constant and _matches(found, counted, weight, tolerance):
            return found
    return None


def _counts(weights: RowWeights) -> tuple[Floats, Floats]:
    counted, found = [], []
    for mask, rows in zip(weights.masks, weights.rows, strict=True):
        lengths = mask.sum(axis=1)
        for length, row in zip(lengths, rows, strict=True):
            counted.append([len(mask), length, lengths.sum(), mask.shape[1], lengths.max()])
            found.append(row / length)
    return np.array(counted, np.float64), np.array(found)


def _as_tuple(exponents: Floats) -> Exponents:
    b, t, n, w, longest = (float(e) for e in exponents)
    return b, t, n, w, longest


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
    return float(f"{typical:.1e}") if steady and 1e-12 < typical < 2.5 else 0.0


def _matches(weighting: Weighting, counted: Floats, weight: Floats, tolerance: float) -> bool:
    exponents = np.array(weighting.exponents)
    place = max((i for i, e in enumerate(weighting.exponents) if e == -1), default=0)
    added = counted.copy()
    added[:, place] += weighting.epsilon
    predicted = weighting.constant * np.prod(added**exponents, axis=1)
    # Two denominators may hold a small epsilon; which of them does is not asked.
    allowed = tolerance + (2.0 * weighting.epsilon if weighting.epsilon < 1e-4 else 0.0)
    return bool(np.all(np.abs(weight / predicted - 1.0) <= 4.0 * allowed))


def chunked(weights: RowWeights, tolerance: float) -> int | None:
    """Return of how many rows each micro-batch is whose token means are averaged."""
    for size in (2, 3):
        for by_rows in (False, True):
            predicted = [_mean_of_means(mask, size, by_rows) for mask in weights.masks]
            pairs = zip(weights.rows, predicted, strict=True)
            if all(close(rows, guess, 10 * tolerance) for rows, guess in pairs):
                return size
    return None


def _mean_of_means(mask: NDArray[np.bool_], size: int, by_rows: bool) -> Floats:
    lengths = mask.sum(axis=1).astype(float)
    parts = [lengths[i : i + size] for i in range(0, len(lengths), size)]
    shares = [len(part) / len(lengths) if by_rows else 1.0 / len(parts) for part in parts]
    return np.concatenate([s * p / p.sum() for s, p in zip(shares, parts, strict=True)])
