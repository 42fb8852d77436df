"""Whether the clip width depends on the position: what longer trajectories saturate at."""

from collections.abc import Sequence

import numpy as np

from rlvraudit.audit.implementations.closed_forms.surrogate import Span, Width
from rlvraudit.audit.implementations.closed_forms.weighting import Weighting
from rlvraudit.audit.implementations.recovery.bench import Bench, batch, close, mask_of, nice
from rlvraudit.audit.implementations.recovery.clipping import Kinks

FAR = 6.0
MIDDLE = (2**-0.5 - 3**-0.5) / (1.0 - 3**-0.5)
"""The share of the range that TAPO's width has at t = 2 of 3."""
LENGTHS = (2, 3, 5)


def recover_width(bench: Bench, weighting: Weighting, found: Kinks) -> Width | None:
    """Return the clip width, fixed or falling with t; None where it is neither."""
    if found.rule != "clipped":
        return _fixed(found, bench.tolerance)
    far = -FAR if found.base == "reversed" else FAR
    low_free, high_free = not np.isfinite(found.low), not np.isfinite(found.high)
    low = (1.0 - found.low,) * 3 if low_free else _sums(bench, weighting, -far, -1.0, -1.0)
    high = (found.high - 1.0,) * 3 if high_free else _sums(bench, weighting, far, 1.0, 1.0)
    tolerance = bench.tolerance + weighting.slack
    below = _span(low, 1.0 - found.low, tolerance)
    above = _span(high, found.high - 1.0, tolerance)
    if below is None or above is None:
        return None
    return Width(below, above, _alone(above, found.high - 1.0))


def _fixed(found: Kinks, tolerance: float) -> Width | None:
    """Return the width of bounds that do not depend on the position, where there are any."""
    low, high = 1.0 - found.low, found.high - 1.0
    if np.isnan(low) and np.isnan(high):
        return None
    low, high = (high if np.isnan(low) else low), (low if np.isnan(high) else high)
    below, above = (nice(v, tolerance) if np.isfinite(v) else v for v in (low, high))
    return Width((below, below), (above, above))


def _sums(
    bench: Bench, weighting: Weighting, x: float, advantage: float, sign: float
) -> tuple[float, ...]:
    """Return, for each length, the mean distance from 1 of the bounds of its tokens."""
    import torch

    means = []
    for length in LENGTHS:
        mask = mask_of([length])
        weight = weighting.of(torch.tensor(mask), torch.float64).sum().item()
        silent = bench.value(batch(mask, x, 0.0, level=-1.0))
        bound = (silent - bench.value(batch(mask, x, advantage, level=-1.0))) / (weight * advantage)
        means.append(sign * (bound - 1.0))
    return tuple(means)


def _span(means: Sequence[float], alone: float, tolerance: float) -> Span | None:
    """Return the width at the last and the first token, which give these means."""
    if not np.isfinite(means).all() or close(means, [alone] * 3, 10 * tolerance):
        return (nice(alone, tolerance), nice(alone, tolerance))
    both, three = 2.0 * means[0], 3.0 * means[1]
    middle = three - both
    # last + (first - last) * MIDDLE = middle, first + last = both
    first = (middle - both * (1.0 - MIDDLE)) / (2.0 * MIDDLE - 1.0)
    last, first = (nice(v, 10 * tolerance) for v in (both - first, first))
    if last == first:
        return None  # longer ones agree with each other, but not with a single token
    t = np.arange(1.0, 6.0)
    fraction = (t**-0.5 - 5**-0.5) / (1.0 - 5**-0.5)
    predicted = float(np.mean(last + (first - last) * fraction))
    return (last, first) if close(predicted, means[2], 20 * tolerance) else None


def _alone(span: Span, width: float) -> float:
    last, first = span
    return 1.0 if last == first else nice((width - last) / (first - last), 1e-6)
