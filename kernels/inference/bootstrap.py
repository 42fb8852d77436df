"""The paired item bootstrap: percentile interval and p-value from seeded resamples of items.

The definition fixes the index stream, `default_rng(seed).integers(0, n, size=(resamples, n))`,
so results can be compared bit for bit with any plain NumPy implementation. Drawing it in chunks
of rows consumes the generator in the same order: the result doesn't depend on the chunk size.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlvraudit.kernels.inference.draws import IndexStream
from rlvraudit.kernels.inference.estimate import (
    Floats,
    open_unit,
    paired_differences,
    whole_number,
)

SEED, RESAMPLES, CONFIDENCE = 1273, 10_000, 0.95
CHUNK = 1 << 17
"""Indices drawn at a time: a megabyte, which the second-level cache of a small core holds."""
TIE = 1e-9
"""Relative slack in "at least as far from the centre", so that rounding breaks no tie."""
FINEST = 12
"""Lattices down to 2**-12 are summed as integers: averages of up to 4,096 rollouts."""


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """A paired difference with its percentile interval and p-values, all from one distribution.

    `p_value` doubles the smaller share of resampled means on either side of zero; `p_centred`
    is the share that lie as far from the difference as zero does. Both count the observed
    sample, hence never 0.
    """

    difference: float
    ci_low: float
    ci_high: float
    p_value: float
    p_centred: float
    n_items: int


def paired_bootstrap(
    baseline: ArrayLike,
    treatment: ArrayLike,
    *,
    seed: int = SEED,
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
) -> Bootstrap:
    """Return the paired difference `treatment - baseline` with its bootstrap interval.

    Args:
        baseline: One score per item, `[n]`, in the order that the draws index.
        treatment: The same items, `[n]`.
        seed: Seed of `numpy.random.default_rng`.
        resamples: Number of resamples B.
        confidence: Coverage of the percentile interval (linear interpolation).

    Raises:
        InvalidInputError: No item, lengths that differ, a score that is not finite, a seed that
            is not a non-negative integer, no resample, a confidence outside (0, 1).
    """
    differences = paired_differences(baseline, treatment)
    seed, resamples = whole_number(seed, "seed", 0), whole_number(resamples, "resamples", 1)
    confidence = open_unit(confidence, "confidence")
    (means,) = resampled_means([differences], IndexStream(seed), resamples)
    return summarise(means, float(differences.mean()), differences.size, confidence)


def summarise(means: Floats, observed: float, n_items: int, confidence: float) -> Bootstrap:
    """Return what the resampled `means` of `n_items` say about the `observed` difference."""
    low, high = np.quantile(means, percentiles(confidence))
    return Bootstrap(
        observed,
        float(low),
        float(high),
        _doubled_share(means),
        _centred_share(means, observed),
        n_items,
    )


def percentiles(confidence: float) -> tuple[float, float]:
    """Return the two probabilities of the interval, rounded once: 0.95 gives 0.025 and 0.975."""
    tail = (1 - Fraction(repr(confidence))) / 2
    return float(tail), float(1 - tail)


def resampled_means(vectors: Sequence[Floats], stream: IndexStream, resamples: int) -> list[Floats]:
    """Return the mean of each resample, `[resamples]`, of each vector of differences, `[n]`.

    All vectors see the same draws, which cost more than all the rest. With the stream of
    g = default_rng(seed), each result is bit for bit
    `vector[g.integers(0, n, (resamples, n))].mean(axis=1)`. Memory holds a chunk of indices, or
    one resample of them where that is more.
    """
    n = vectors[0].size
    rows = max(1, CHUNK // n)
    lattices = [_lattice(vector) for vector in vectors]
    buffers = {v.dtype: np.empty(min(rows, resamples) * n, v.dtype) for v, _ in lattices}
    sums = np.empty((len(vectors), resamples))
    for start in range(0, resamples, rows):
        index = stream.draw(n, min(rows, resamples - start) * n)
        for (values, _), row in zip(lattices, sums, strict=True):
            block = buffers[values.dtype][: index.size]
            # Every index is inside; "clip" only spares NumPy the copy that "raise" makes.
            np.take(values, index, out=block, mode="clip")
            part = row[start : start + rows]
            np.add.reduce(block.reshape(-1, n), axis=1, dtype=values.dtype, out=part)
    return [row * step / n for (_, step), row in zip(lattices, sums, strict=True)]


def _lattice(differences: Floats) -> tuple[NDArray[Any], float]:
    """Return small integers and a power of two whose products are `differences`.

    Sums of such integers are exact in any order, and quicker to gather. Values on no such
    lattice come back as they are, with step 1.
    """
    room = np.iinfo(np.int32).max // differences.size
    for bits in range(FINEST + 1):
        scaled = np.ldexp(differences, bits)
        if np.abs(scaled).max() > room:
            break
        if np.array_equal(scaled, np.rint(scaled)):
            return scaled.astype(np.int32), 2.0**-bits
    return differences, 1.0


def _doubled_share(means: Floats) -> float:
    smaller = min(np.count_nonzero(means <= 0), np.count_nonzero(means >= 0))
    return min(1.0, 2.0 * (int(smaller) + 1) / (means.size + 1))


def _centred_share(means: Floats, observed: float) -> float:
    far = np.abs(means - observed) >= abs(observed) * (1.0 - TIE)
    return (int(np.count_nonzero(far)) + 1) / (means.size + 1)
