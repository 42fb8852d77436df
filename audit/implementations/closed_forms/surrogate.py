"""A clipped surrogate put together from parts: loss = -sum w J + beta sum w KL.

The parts are published conventions or known faults; with those of a paper it is that paper's
objective, which a test holds against the reference in `kernels`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rlvraudit.audit.implementations.closed_forms.part import Part
from rlvraudit.audit.implementations.closed_forms.ratios import counts, positions
from rlvraudit.audit.implementations.closed_forms.rules import Bounds
from rlvraudit.audit.implementations.closed_forms.weighting import Weighting

INFINITE = float("inf")
Span = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Width:
    """How far the ratio may lie from 1, below and above: at the last token, and at the first.

    In between it falls with t as TAPO has it; fixed where both are equal. `alone` is what a
    one-token trajectory gets: 1 the first number, 0 the last. `counted` says what positions and
    lengths count: active "tokens", all "columns", or tokens against those of the "longest" row.
    """

    low: Span
    high: Span
    alone: float = 1.0
    counted: str = "tokens"

    @property
    def fixed(self) -> bool:
        """Whether the width does not depend on the position."""
        return self.low[0] == self.low[1] and self.high[0] == self.high[1]

    def bounds(self, mask: Any, dtype: Any, dual: float) -> Bounds:
        """Return the bounds of the ratio at every token."""
        t, length = positions(mask), counts(mask)
        if self.counted == "longest":
            length = length.max().expand(length.shape)
        if self.counted == "columns":
            t = mask.new_ones(mask.shape).cumsum(1).double()
            length = length.new_full(length.shape, float(mask.shape[1]))
        tail = length.clamp(min=2.0) ** -0.5
        fraction = (t**-0.5 - tail) / (1.0 - tail)
        fraction = fraction.where(length > 1, fraction.new_full((), self.alone))
        low, high = (_between(span, fraction) for span in (self.low, self.high))
        return Bounds((1.0 - low).to(dtype), (1.0 + high).to(dtype), dual)


def _between(span: Span, fraction: Any) -> Any:
    last, first = span
    return fraction * 0.0 + last if last == first else last + (first - last) * fraction


@dataclass(frozen=True, slots=True)
class Penalty:
    """The KL term: its weight, estimator and aggregation."""

    beta: float
    estimator: Part
    weighting: Weighting


@dataclass(frozen=True, slots=True)
class Surrogate:
    """The parts of a surrogate; `sign` is -1 where it is maximised instead.

    `clamp` is where the ratio itself ends, whatever the advantage.
    """

    ratio: Part
    rule: Part
    width: Width
    weighting: Weighting
    dual: float = INFINITE
    sign: float = 1.0
    penalty: Penalty | None = None
    clamp: Span = (-INFINITE, INFINITE)

    @property
    def slack(self) -> float:
        """What the weights leave open."""
        return self.weighting.slack + (self.penalty.weighting.slack if self.penalty else 0.0)

    def loss(self, inputs: Mapping[str, Any]) -> Any:
        """Return the loss of a batch of tensors, differentiable in `logp_policy`."""
        policy, mask = inputs["logp_policy"], inputs["mask"]
        old = inputs.get("logp_old", policy.detach())
        one = policy.new_ones(())
        ratio = self.ratio.build(policy, old, mask).where(mask, one).clamp(*self.clamp)
        advantages = inputs["advantages"]
        if advantages.ndim == 1:
            advantages = advantages.reshape(-1, 1)
        advantages = advantages.expand(mask.shape)
        bounds = self.width.bounds(mask, policy.dtype, self.dual)
        term = self.rule.build(ratio, advantages, bounds, policy).where(mask, 0.0 * one)
        terms = self.weighting.of(mask, policy.dtype) * term
        gain = terms.sum() if terms.ndim == 2 else terms.sum((1, 2)).min()
        loss = -self.sign * gain
        return loss if self.penalty is None else loss + _kl(self.penalty, inputs, ratio)


def _kl(penalty: Penalty, inputs: Mapping[str, Any], ratio: Any) -> Any:
    policy, mask = inputs["logp_policy"], inputs["mask"]
    d = (policy - inputs["logp_reference"]).masked_fill(~mask, 0.0)
    weight = penalty.weighting.of(mask, policy.dtype)
    return penalty.beta * (weight * penalty.estimator.build(d, ratio)).sum()
