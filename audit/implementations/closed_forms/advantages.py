"""Group-relative advantages put together from parts: what is subtracted, what it is divided by.

Rewards are `[N, G]`, a group in every row; statistics keep the last axis.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from rlvraudit.audit.implementations.closed_forms.part import Part, Tensor, part

baseline = partial(part, "baseline")
scale = partial(part, "scale")


def _others(r: Tensor) -> Tensor:
    """Return the mean of the other members of the group."""
    return (r.sum(-1, keepdim=True) - r) / max(r.shape[-1] - 1, 1)


@baseline("mean", "group mean")
def mean(r: Tensor) -> Tensor:
    """GRPO's."""
    return r - r.mean(-1, keepdim=True)


@baseline("leave-one-out", "leave-one-out mean")
def leave_one_out(r: Tensor) -> Tensor:
    """RLOO's."""
    return r - _others(r)


@baseline(
    "not-centred",
    "none",
    "No mean is subtracted: the advantages are not relative to the group.",
    "mean",
)
def no_baseline(r: Tensor) -> Tensor:
    """REINFORCE."""
    return r


@baseline(
    "one-group-for-all",
    "mean of all groups",
    "All groups are taken as one: the mean runs over the whole batch.",
    "mean",
)
def batch_mean(r: Tensor) -> Tensor:
    """One baseline for all."""
    return r - r.mean()


@baseline(
    "mean-over-groups",
    "mean of the same member over groups",
    "The mean runs over the wrong axis: over groups, not over the members of a group.",
    "mean",
)
def wrong_axis(r: Tensor) -> Tensor:
    """The other axis."""
    return r - r.mean(0, keepdim=True)


@baseline(
    "leave-one-out-over-all",
    "sum of the others over G",
    "The sum of the other rewards is divided by G, not by G - 1.",
    "leave-one-out",
)
def biased_leave_one_out(r: Tensor) -> Tensor:
    """Divided by one too many."""
    return r - (r.sum(-1, keepdim=True) - r) / r.shape[-1]


@baseline("baseline-is-median", "group median", "The median is subtracted, not the mean.", "mean")
def median(r: Tensor) -> Tensor:
    """Another location."""
    return r - r.quantile(0.5, -1, keepdim=True)


@baseline(
    "baseline-is-maximum", "group maximum", "The best reward is subtracted, not the mean.", "mean"
)
def maximum(r: Tensor) -> Tensor:
    """Another location."""
    return r - r.amax(-1, keepdim=True)


@scale("unscaled", "none")
def unscaled(r: Tensor) -> Tensor:
    """Dr. GRPO."""
    return r.new_zeros(())


@scale("std, ddof 0", "standard deviation, ddof 0")
def population(r: Tensor) -> Tensor:
    """Divided by G."""
    return r.std(-1, keepdim=True, correction=0)


@scale("std, ddof 1", "standard deviation, ddof 1")
def sample(r: Tensor) -> Tensor:
    """Divided by G - 1."""
    return r.std(-1, keepdim=True, correction=1)


@scale("std of the others", "leave-one-out standard deviation, ddof 1")
def others(r: Tensor) -> Tensor:
    """That of the other members."""
    import torch

    members = range(r.shape[-1])
    rest = [r[..., [j for j in members if j != i]].std(-1, correction=1) for i in members]
    return torch.stack(rest, -1)


@scale("std of the batch, ddof 1", "standard deviation of all groups, ddof 1")
def batch_sample(r: Tensor) -> Tensor:
    """One scale for all (a published option)."""
    return r.std(correction=1)


@scale("std of the batch, ddof 0", "standard deviation of all groups, ddof 0")
def batch_population(r: Tensor) -> Tensor:
    """One scale for all (a published option)."""
    return r.std(correction=0)


@scale(
    "divided-by-variance",
    "variance",
    "The variance stands where the standard deviation should.",
    "std, ddof 1",
)
def variance(r: Tensor) -> Tensor:
    """No root."""
    return r.var(-1, keepdim=True, correction=1)


@scale(
    "divided-by-population-variance",
    "variance, ddof 0",
    "The variance stands where the standard deviation should.",
    "std, ddof 0",
)
def population_variance(r: Tensor) -> Tensor:
    """No root."""
    return r.var(-1, keepdim=True, correction=0)


@scale(
    "std-over-groups",
    "standard deviation of the same member over groups",
    "The standard deviation runs over the wrong axis.",
    "std, ddof 1",
)
def std_wrong_axis(r: Tensor) -> Tensor:
    """The other axis."""
    return r.std(0, keepdim=True, correction=1)


@scale(
    "divided-by-range",
    "range of the group",
    "The range stands where the deviation should.",
    "std, ddof 1",
)
def spread(r: Tensor) -> Tensor:
    """Another scale."""
    return r.amax(-1, keepdim=True) - r.amin(-1, keepdim=True)


@scale(
    "population-std-over-groups",
    "standard deviation of the same member over groups, ddof 0",
    "The standard deviation runs over the wrong axis.",
    "std, ddof 0",
)
def population_wrong_axis(r: Tensor) -> Tensor:
    """The other axis."""
    return r.std(0, keepdim=True, correction=0)


@dataclass(frozen=True, slots=True)
class Advantages:
    """Baseline, scale, epsilon, and whether the epsilon stands inside the root.

    `limit` is what the advantages are clamped to; `sign` is -1 where they are turned round;
    `guarded` leaves members undivided whose scale is 0.
    """

    baseline: Part
    scale: Part
    epsilon: float
    inside: bool = False
    limit: float = float("inf")
    sign: float = 1.0
    guarded: bool = False
    slack: float = 0.0

    def loss(self, inputs: Mapping[str, Any]) -> Any:
        """Return the advantages of groups in rows, exactly 0 in a group without variance."""
        r = inputs["rewards"]
        constant = (r == r[..., :1]).all(-1, keepdim=True)
        return self.plain(r).masked_fill(constant & (not self.baseline.fault), 0.0)

    def plain(self, r: Any) -> Any:
        """Return the advantages as the formula gives them."""
        return self.sign * self._formula(r).clamp(-self.limit, self.limit)

    def _formula(self, r: Any) -> Any:
        centred = self.baseline.build(r)
        if self.scale.name == "unscaled":
            return centred
        deviation = self.scale.build(r)
        if self.guarded:
            return centred / (deviation + self.epsilon).where(deviation > 0, deviation * 0 + 1)
        if self.inside:
            return centred / (deviation**2 + self.epsilon).sqrt()
        return centred / (deviation + self.epsilon)
