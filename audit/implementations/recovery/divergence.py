"""Which KL estimator a loss holds: its value and gradient over d, at weight 1 where it has one.

Advantages are 0, so that the policy term is silent; differences go up to 2 and beyond, because
estimators agree to second order near 0.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rlvraudit.audit.implementations.closed_forms import parts
from rlvraudit.audit.implementations.closed_forms.part import Part
from rlvraudit.audit.implementations.closed_forms.surrogate import Penalty
from rlvraudit.audit.implementations.closed_forms.weighting import Weighting
from rlvraudit.audit.implementations.recovery.bench import (
    Bench,
    Floats,
    ProbeError,
    batch,
    close,
    mask_of,
    nice,
)
from rlvraudit.audit.implementations.recovery.weights import fit, measure

D = np.array([-2.0, -1.3, -0.6, -0.1, 0.1, 0.5, 1.1, 2.0])
FAR = np.array([-30.0, -22.0, -16.0, -12.0, 12.0, 16.0, 22.0, 30.0])
UNIT = Weighting((0, 0, 0, 0, 0))


@dataclass(frozen=True, slots=True)
class Curve:
    """A one-token KL term over d: its value, and its gradient."""

    d: Floats
    value: Floats
    gradient: Floats


def curve(bench: Bench, d: Floats = D, x: float = 0.0) -> Curve:
    """Return the KL term of a one-token trajectory, without its policy term."""
    mask = mask_of([1])
    seen = [bench.run(batch(mask, x, 0.0, step)) for step in d]
    failed = next((o.error for o in seen if o.error), "")
    if failed:
        raise ProbeError(failed)
    return Curve(
        d,
        np.array([float(o.value) for o in seen]),
        np.array([o.gradient.sum() if o.gradient.size else np.nan for o in seen]),
    )


def recover_penalty(bench: Bench) -> Penalty | Curve | None:
    """Return the KL term, the curve where no estimator gives it, or None where it is absent."""
    seen = curve(bench)
    if close(seen.value, 0.0 * seen.value, 1e-15) and close(seen.gradient, 0.0 * seen.value, 1e-15):
        return None
    for part in parts("estimator").values():
        beta = _weight(part, seen, bench)
        if beta is not None:
            return Penalty(beta, part, _weighting(bench, part, beta))
    return seen


def _weight(part: Part, seen: Curve, bench: Bench) -> float | None:
    """Return the factor by which an estimator gives the curve, also away from ratio 1."""
    value, gradient = _estimate(part, seen.d, 0.0)
    beta = float(seen.value @ value) / float(value @ value)
    allowed = bench.tolerance * max(1.0, abs(beta))
    if not close(seen.value, beta * value, allowed) or not close(
        seen.gradient, beta * gradient, allowed
    ):
        return None
    off = curve(bench, x=-0.7)
    value, gradient = _estimate(part, off.d, -0.7)
    fits = close(off.value, beta * value, allowed) and close(off.gradient, beta * gradient, allowed)
    return nice(beta, bench.tolerance) if fits and beta else None


def _estimate(part: Part, d: Floats, x: float) -> tuple[Floats, Floats]:
    """Return value and derivative of an estimator at every d, at one log-ratio."""
    import torch

    policy = torch.tensor(d, dtype=torch.float64, requires_grad=True)
    ratio = (policy - policy.detach() + x).exp()
    estimate = part.build(policy, ratio)
    value = estimate.detach().numpy()
    if not estimate.requires_grad:
        return value, np.zeros_like(d)
    (gradient,) = torch.autograd.grad(estimate.sum(), policy)
    return value, gradient.numpy()


def _weighting(bench: Bench, part: Part, beta: float) -> Weighting:
    """Return how the KL term is aggregated, 1 token of 1 row having weight `beta`."""
    step = 0.5
    per_token = float(_estimate(part, np.array([step]), 0.0)[0][0]) * beta
    constant = float(_estimate(part, np.array([0.0]), 0.0)[0][0]) * beta

    def weigh(mask: NDArray[np.bool_], row: int) -> float:
        here = (np.arange(len(mask)) == row)[:, None] * step
        without = bench.value(batch(mask, 0.0, 0.0, 0.0)) if constant else 0.0
        return (bench.value(batch(mask, 0.0, 0.0, here)) - without) / (per_token - constant)

    return fit(measure(weigh), bench.tolerance) or UNIT


def clamps(bench: Bench, penalty: Penalty) -> tuple[str, ...]:
    """Return in words where the estimate is clamped: its input, its output."""
    seen = curve(bench, FAR)
    value, _ = _estimate(penalty.estimator, seen.d, 0.0)
    if close(seen.value, penalty.beta * value, 1e-6):
        return ()
    top = seen.value / penalty.beta
    found = []
    if close(top[0], top[1], 1e-9):
        as_input = _input_clamp(penalty.estimator, top[0])
        out = f"value clamped at {nice(float(top[0]), 1e-6):g}"
        found.append(out if as_input is None else f"d clamped at {as_input:g}")
        flat = close(seen.gradient[:2], np.zeros(2), 1e-12)
        found.append("no gradient there" if flat else "the gradient goes on there")
    return tuple(found)


def _input_clamp(part: Part, value: float) -> float | None:
    for limit in (-10.0, -20.0):
        if close(_estimate(part, np.array([limit]), 0.0)[0][0], value, 1e-9):
            return limit
    return None


def same_weighting(penalty: Penalty, weighting: Weighting) -> Penalty:
    """Return the penalty with a one-token weight that the policy term's constant explains."""
    if penalty.weighting.exponents != weighting.exponents:
        return penalty
    factor = weighting.constant / penalty.weighting.constant
    return replace(penalty, weighting=weighting, beta=penalty.beta / factor)
