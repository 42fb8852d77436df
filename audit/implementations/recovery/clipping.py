"""Where a surrogate clips: the ratio of a one-token trajectory, scanned for its kinks.

With one token all ratio levels agree, so that value / -(A w) is a function of the ratio alone:
what it saturates at are the bounds, whatever else the loss does.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

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
    """What the scan shows: the ratio it is a function of, the rule, the bounds, dual clip.

    `clamp` is where the ratio itself ends, for either sign of A.
    """

    base: str
    rule: str
    low: float = -INFINITE
    high: float = INFINITE
    dual: float = INFINITE
    clamp: tuple[float, float] = (-INFINITE, INFINITE)


BASES: dict[str, Callable[[Floats], Floats]] = {
    "one": np.ones_like,
    "ratio": np.exp,
    "reversed": lambda x: np.exp(-x),
    "linear": lambda x: 1.0 + x,
    "logarithm": lambda x: x,
    "squared": lambda x: np.exp(2.0 * x),
}
"""What a ratio may be as a function of logp_policy - logp_old."""


def scan(bench: Bench, token: Token, x: Floats = GRID) -> Scan:
    """Return J / A over the log-ratios."""
    mask = mask_of([1])
    silent = bench.value(batch(mask, 0.0, 0.0, level=-1.0))

    def term(log_ratio: float, sign: float) -> float:
        inputs = batch(mask, log_ratio, sign, level=-1.0)
        unit = token.weight * (inputs["logp_policy"].item() if token.times_logp else 1.0)
        return (silent - bench.value(inputs)) / (unit * sign)

    rows = [[term(step, sign) for step in x] for sign in (1.0, -1.0)]
    return Scan(x, np.array(rows[0]), np.array(rows[1]))


def kinks(seen: Scan, tolerance: float) -> Kinks | None:
    """Return the rule and bounds that give the scan exactly, or None where none does."""
    for base, function in BASES.items():
        ratio = function(seen.x)
        for rule, read in RULES.items():
            found = read(ratio, seen)
            if found is None:
                continue
            exact = Kinks(base, rule, **found)
            for kept in (_rounded(exact, tolerance), exact):
                if _gives(kept, ratio, seen, 10.0 * tolerance):
                    return kept
    return None


def _gives(found: Kinks, ratio: Floats, seen: Scan, tolerance: float) -> bool:
    positive, negative = PREDICTED[found.rule](np.clip(ratio, *found.clamp), found)
    return close(seen.positive, positive, tolerance) and close(seen.negative, negative, tolerance)


def _rounded(found: Kinks, tolerance: float) -> Kinks:
    def short(bound: float) -> float:
        return 1.0 - nice(1.0 - bound, tolerance) if np.isfinite(bound) else bound

    dual = nice(found.dual, tolerance) if np.isfinite(found.dual) else INFINITE
    return replace(found, low=short(found.low), high=short(found.high), dual=dual)


Read = Callable[[Floats, Scan], dict[str, Any] | None]


def _end(values: float, ratio: float, unbounded: float) -> float:
    """Return where a branch ends, `unbounded` where that is simply the end of the scan."""
    return unbounded if np.isclose(values, ratio, rtol=1e-2, atol=0.0) else float(values)


def _clipped(ratio: Floats, seen: Scan) -> dict[str, Any]:
    return {
        "high": _end(seen.positive.max(), ratio.max(), INFINITE),
        "low": _end(seen.negative.min(), ratio.min(), -INFINITE),
        "dual": _end(seen.negative.max(), ratio.max(), INFINITE),
    }


def _clamped(ratio: Floats, seen: Scan) -> dict[str, Any] | None:
    clamp = (float(seen.positive.min()), float(seen.negative.max()))
    alike = np.allclose(seen.positive, seen.negative, rtol=1e-9, atol=0.0)
    if alike or not 0.0 < clamp[0] < clamp[1]:
        return None
    high = _end(seen.positive.max(), clamp[1], INFINITE)
    return {"clamp": clamp, "high": high, "low": _end(seen.negative.min(), clamp[0], -INFINITE)}


def _clip_only(ratio: Floats, seen: Scan) -> dict[str, Any]:
    return {"low": float(seen.positive.min()), "high": float(seen.positive.max())}


def _optimistic(ratio: Floats, seen: Scan) -> dict[str, Any]:
    return {"low": float(seen.positive.min()), "high": float(seen.negative.max())}


def _dual_on_positive(ratio: Floats, seen: Scan) -> dict[str, Any]:
    return {"low": float(seen.negative.min()), "high": np.nan, "dual": float(seen.positive.max())}


def _dual_reversed(ratio: Floats, seen: Scan) -> dict[str, Any] | None:
    dual, high = float(seen.negative.min()), float(seen.positive.max())
    return {"low": np.nan, "high": high, "dual": dual} if dual > 1.0 else None


def _minimum_of_ratios(ratio: Floats, seen: Scan) -> dict[str, Any] | None:
    high = float(seen.positive.max())
    return {"high": high} if high < ratio.max() else None


def _positive_only(ratio: Floats, seen: Scan) -> dict[str, Any] | None:
    return None if seen.negative.any() else {"high": float(seen.positive.max()), "low": np.nan}


def _outside_dropped(ratio: Floats, seen: Scan) -> dict[str, Any] | None:
    inside = seen.positive != 0.0
    if inside.all() or not inside.any():
        return None
    return {"low": float(ratio[inside].min()), "high": float(ratio[inside].max())}


RULES: dict[str, Read] = {
    "dual-clip-reversed": _dual_reversed,
    "minimum-of-ratios": _minimum_of_ratios,
    "negative-advantages-ignored": _positive_only,
    "clipped": _clipped,
    "log-ratio-clamped": _clamped,
    "clip-without-min": _clip_only,
    "maximum-for-minimum": _optimistic,
    "dual-clip-on-positive": _dual_on_positive,
    "outside-dropped": _outside_dropped,
}
"""How each rule's bounds are read off; those that others could pass for come first."""

Predict = Callable[[Floats, Kinks], tuple[Floats, Floats]]


def _clipped_values(r: Floats, k: Kinks) -> tuple[Floats, Floats]:
    return np.minimum(r, k.high), np.minimum(np.maximum(r, k.low), k.dual)


def _both(r: Floats, k: Kinks) -> tuple[Floats, Floats]:
    both = np.clip(r, k.low, k.high)
    return both, both


def _dropped(r: Floats, k: Kinks) -> tuple[Floats, Floats]:
    both = np.where((r >= k.low * (1 - 1e-12)) & (r <= k.high * (1 + 1e-12)), r, 0.0)
    return both, both


PREDICTED: dict[str, Predict] = {
    "clipped": _clipped_values,
    "log-ratio-clamped": _clipped_values,
    "clip-without-min": _both,
    "outside-dropped": _dropped,
    "minimum-of-ratios": lambda r, k: (np.minimum(r, k.high), np.minimum(r, k.high)),
    "negative-advantages-ignored": lambda r, k: (np.minimum(r, k.high), 0.0 * r),
    "maximum-for-minimum": lambda r, k: (np.maximum(r, k.low), np.minimum(r, k.high)),
    "dual-clip-reversed": lambda r, k: (np.minimum(r, k.high), np.maximum(r, k.dual)),
    "dual-clip-on-positive": lambda r, k: (
        np.full_like(r, k.dual),
        np.minimum(np.maximum(r, k.low), k.dual),
    ),
}


def log_ratio_clamp(bench: Bench, token: Token) -> float:
    """Return where the log-ratio itself is clamped, infinite where nowhere up to 30."""
    seen = scan(bench, token, FAR)
    top = float(np.log(max(seen.negative[-1], 1e-300)))
    flat = close(seen.negative[-1], seen.negative[-2], 1e-9)
    return nice(top, 1e-6) if flat and top > 9.0 else INFINITE
