"""Where a surrogate clips: the ratio of a one-token trajectory, scanned for its kinks.

With one token all ratio levels agree, so that value / -(A w) is a function of the ratio alone:
what it saturates at are the bounds, whatever else the loss does.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rlvraudit.audit.implementations.recovery.bench import (
    Bench,
    Floats,
    batch,
    close,
    mask_of,
    nice,
)

INFINITE = float("inf")
STEPS = (1e-4, 3e-3, 0.02, 0.05, 0.11, 0.19, 0.3, 0.45, 0.7, 1.0, 1.6, 2.5, 4.0, 6.0, 8.0)
GRID = np.array([*(-step for step in reversed(STEPS)), 0.0, *STEPS])
FAR = np.array([9.0, 11.0, 15.0, 19.0, 22.0, 30.0])


@dataclass(frozen=True, slots=True)
class Token:
    """How a one-token trajectory is measured: its weight, and logp_policy where that is fixed.

    `times_logp` says that J is proportional to logp_policy itself, not to its ratio alone.
    """

    weight: float
    times_logp: bool = False


@dataclass(frozen=True, slots=True)
class Scan:
    """The term J / A of a one-token trajectory over the log-ratio, for both signs of A."""

    x: Floats
    positive: Floats
    negative: Floats


@dataclass(frozen=True, slots=True)
class Kinks:
    """What the scan shows: the ratio it is a function of, the rule, the bounds, dual clip."""

    base: str
    rule: str
    low: float
    high: float
    dual: float


BASES: dict[str, Callable[[Floats], Floats]] = {
    "ratio": np.exp,
    "one": np.ones_like,
    "reversed": lambda x: np.exp(-x),
    "linear": lambda x: 1.0 + x,
    "logarithm": lambda x: x,
    "squared": lambda x: np.exp(2.0 * x),
}
"""What a ratio may be as a function of logp_policy - logp_old."""


def scan(bench: Bench, token: Token, x: Floats = GRID) -> Scan:
    """Return J / A over the log-ratios."""
    mask = mask_of([1])

    def term(log_ratio: float, sign: float) -> float:
        inputs = batch(mask, log_ratio, sign, level=-1.0)
        silent = bench.value(batch(mask, log_ratio, 0.0, level=-1.0))
        unit = token.weight * (inputs["logp_policy"].item() if token.times_logp else 1.0)
        return (silent - bench.value(inputs)) / (unit * sign)

    rows = [[term(step, sign) for step in x] for sign in (1.0, -1.0)]
    return Scan(x, np.array(rows[0]), np.array(rows[1]))


def kinks(seen: Scan, tolerance: float) -> Kinks | None:
    """Return the rule and bounds that give the scan exactly, or None where none does."""
    for base, function in BASES.items():
        ratio = function(seen.x)
        for rule, read in RULES.items():
            found = read(base, ratio, seen)
            predicted = PREDICTED[rule](ratio, found)
            if close(seen.positive, predicted[0], 4 * tolerance) and close(
                seen.negative, predicted[1], 4 * tolerance
            ):
                return _rounded(found, tolerance)
    return None


def _rounded(found: Kinks, tolerance: float) -> Kinks:
    low, high = (1.0 - nice(1.0 - found.low, tolerance), 1.0 + nice(found.high - 1.0, tolerance))
    dual = nice(found.dual, tolerance) if np.isfinite(found.dual) else INFINITE
    return Kinks(found.base, found.rule, low, high, dual)


def _saturated(values: Floats, extreme: float, ratio: Floats, limit: float) -> float:
    """Return where `values` end if that is not simply where the ratio ends."""
    return limit if np.isclose(extreme, ratio, rtol=1e-6, atol=0).any() else extreme


def _clipped(base: str, ratio: Floats, seen: Scan) -> Kinks:
    high = _saturated(seen.positive, float(seen.positive.max()), ratio.max(), INFINITE)
    low = _saturated(seen.negative, float(seen.negative.min()), ratio.min(), -INFINITE)
    dual = _saturated(seen.negative, float(seen.negative.max()), ratio.max(), INFINITE)
    return Kinks(base, "clipped", low, high, dual)


def _clip_only(base: str, ratio: Floats, seen: Scan) -> Kinks:
    return Kinks(
        base, "clip-without-min", float(seen.positive.min()), float(seen.positive.max()), INFINITE
    )


def _optimistic(base: str, ratio: Floats, seen: Scan) -> Kinks:
    return Kinks(
        base,
        "maximum-for-minimum",
        float(seen.positive.min()),
        float(seen.negative.max()),
        INFINITE,
    )


def _dual_on_positive(base: str, ratio: Floats, seen: Scan) -> Kinks:
    dual = float(seen.positive.max())
    return Kinks(base, "dual-clip-on-positive", float(seen.negative.min()), np.nan, dual)


RULES: dict[str, Callable[[str, Floats, Scan], Kinks]] = {
    "clipped": _clipped,
    "clip-without-min": _clip_only,
    "maximum-for-minimum": _optimistic,
    "dual-clip-on-positive": _dual_on_positive,
}


def _clipped_values(ratio: Floats, k: Kinks) -> tuple[Floats, Floats]:
    return np.minimum(ratio, k.high), np.minimum(np.maximum(ratio, k.low), k.dual)


def _clip_only_values(ratio: Floats, k: Kinks) -> tuple[Floats, Floats]:
    both = np.clip(ratio, k.low, k.high)
    return both, both


def _optimistic_values(ratio: Floats, k: Kinks) -> tuple[Floats, Floats]:
    return np.maximum(ratio, k.low), np.minimum(ratio, k.high)


def _dual_on_positive_values(ratio: Floats, k: Kinks) -> tuple[Floats, Floats]:
    return np.full_like(ratio, k.dual), np.minimum(np.maximum(ratio, k.low), k.dual)


PREDICTED: dict[str, Callable[[Floats, Kinks], tuple[Floats, Floats]]] = {
    "clipped": _clipped_values,
    "clip-without-min": _clip_only_values,
    "maximum-for-minimum": _optimistic_values,
    "dual-clip-on-positive": _dual_on_positive_values,
}


def log_ratio_clamp(bench: Bench, token: Token) -> float:
    """Return where the log-ratio itself is clamped, infinite where nowhere up to 30."""
    seen = scan(bench, token, FAR)
    top = float(np.log(max(seen.negative[-1], 1e-300)))
    flat = close(seen.negative[-1], seen.negative[-2], 1e-9)
    return nice(top, 1e-6) if flat and top > 9.0 else INFINITE
