"""Clip rules of a surrogate: each token's term of J, from ratio, advantage and bounds.

A rule that gives `[2, B, T]` has two sums, of which the smaller counts. Bounds are those of the
ratio, `[B, T]`; infinite where there is none. `dual` caps what a negative advantage can cost:
max(min(r A, clip(r) A), dual A).
"""

from dataclasses import dataclass
from functools import partial

from rlvraudit.audit.implementations.closed_forms.part import Tensor, part

rule = partial(part, "rule")


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of the ratio at every token, and of dual clip."""

    low: Tensor
    high: Tensor
    dual: float = float("inf")


def _clip(r: Tensor, bounds: Bounds) -> Tensor:
    return r.clamp(min=bounds.low, max=bounds.high)


@rule("clipped", "min(r A, clip(r) A)")
def clipped(r: Tensor, a: Tensor, bounds: Bounds, policy: Tensor) -> Tensor:
    """PPO's pessimistic bound, with dual clip where there is one."""
    import torch

    term = torch.minimum(r * a, _clip(r, bounds) * a)
    if bounds.dual == float("inf"):
        return term
    return torch.where(a < 0, torch.maximum(term, bounds.dual * a), term)


@rule("log-probability", "sg[clip(r)] A logp (CISPO)")
def cispo(r: Tensor, a: Tensor, bounds: Bounds, policy: Tensor) -> Tensor:
    """The clipped ratio is a weight of the log-probability; nothing loses its gradient."""
    return _clip(r, bounds).detach() * a * policy


@rule(
    "clip-without-min",
    "clip(r) A",
    "The ratio is clipped on both sides whatever the sign of A: the minimum with r A is missing.",
    "clipped",
)
def clip_only(r: Tensor, a: Tensor, bounds: Bounds, policy: Tensor) -> Tensor:
    """No minimum."""
    return _clip(r, bounds) * a


@rule(
    "maximum-for-minimum",
    "max(r A, clip(r) A)",
    "The maximum of r A and clip(r) A is taken, not the minimum: the bound is optimistic, and "
    "clips where the paper does not.",
    "clipped",
)
def optimistic(r: Tensor, a: Tensor, bounds: Bounds, policy: Tensor) -> Tensor:
    """The inequality is reversed."""
    import torch

    return torch.maximum(r * a, _clip(r, bounds) * a)


@rule(
    "straight-through-clip",
    "min(r A, clip(r) A), gradient of r A",
    "The clip passes the gradient straight through: clipped tokens keep theirs.",
    "clipped",
)
def straight_through(r: Tensor, a: Tensor, bounds: Bounds, policy: Tensor) -> Tensor:
    """The right value, the gradient of the unclipped term."""
    return clipped.build(r, a, bounds, policy).detach() + (r * a - (r * a).detach())


@rule(
    "gradient-where-clipped",
    "min(r A, clip(r) A), gradient only where clipped",
    "The gradient flows where the ratio is clipped, and not where it is free: the condition is "
    "reversed.",
    "clipped",
)
def reversed_gradient(r: Tensor, a: Tensor, bounds: Bounds, policy: Tensor) -> Tensor:
    """The right value, the gradient of the others."""
    value = clipped.build(r, a, bounds, policy)
    rest = r * a - value
    return value.detach() + rest - rest.detach()


@rule(
    "gradient-inside-bounds-only",
    "min(r A, clip(r) A), gradient inside the bounds only",
    "Tokens outside the bounds lose their gradient whatever the sign of A: those that the minimum "
    "leaves free should keep it.",
    "clipped",
)
def inside_only(r: Tensor, a: Tensor, bounds: Bounds, policy: Tensor) -> Tensor:
    """The right value, the gradient of clip(r) A."""
    both = _clip(r, bounds) * a
    return clipped.build(r, a, bounds, policy).detach() + both - both.detach()


@rule(
    "dual-clip-on-positive",
    "dual clip for positive advantages too",
    "Dual clip is applied to positive advantages as well: they get the constant instead of the "
    "ratio.",
    "clipped",
)
def dual_everywhere(r: Tensor, a: Tensor, bounds: Bounds, policy: Tensor) -> Tensor:
    """max(., dual A) whatever the sign."""
    import torch

    term = torch.minimum(r * a, _clip(r, bounds) * a)
    return torch.maximum(term, bounds.dual * a)


@rule(
    "minimum-of-means",
    "min of the two means",
    "The minimum is taken of the two means over the batch, not of each token's two terms.",
    "clipped",
)
def after_the_mean(r: Tensor, a: Tensor, bounds: Bounds, policy: Tensor) -> Tensor:
    """Both terms; the caller adds each up."""
    import torch

    return torch.stack([r * a, _clip(r, bounds) * a])


@rule(
    "outside-dropped",
    "r A inside the bounds, 0 outside",
    "Tokens outside the bounds are dropped whatever the sign of A: value and gradient are 0 there.",
    "clipped",
)
def outside_dropped(r: Tensor, a: Tensor, bounds: Bounds, policy: Tensor) -> Tensor:
    """A mask in the place of a clip."""
    inside = (r >= bounds.low) & (r <= bounds.high)
    return (r * a).masked_fill(~inside, 0.0)


@rule(
    "minimum-of-ratios",
    "min(r, clip(r)) A",
    "The smaller ratio is multiplied by A: right for A > 0 only. For A < 0 the lower bound is "
    "missing and the upper one holds what should be free.",
    "clipped",
)
def sign_forgotten(r: Tensor, a: Tensor, bounds: Bounds, policy: Tensor) -> Tensor:
    """The minimum before A."""
    import torch

    return torch.minimum(r, _clip(r, bounds)) * a


@rule(
    "dual-clip-reversed",
    "dual clip from the wrong side",
    "Dual clip bounds the term of a negative advantage from above, not from below.",
    "clipped",
)
def dual_reversed(r: Tensor, a: Tensor, bounds: Bounds, policy: Tensor) -> Tensor:
    """min(., dual A) where A < 0."""
    import torch

    term = torch.minimum(r * a, _clip(r, bounds) * a)
    return torch.where(a < 0, torch.minimum(term, bounds.dual * a), term)


@rule(
    "negative-advantages-ignored",
    "min(r A, clip(r) A) for A > 0 alone",
    "Negative advantages are ignored: their trajectories have no gradient.",
    "clipped",
)
def positive_only(r: Tensor, a: Tensor, bounds: Bounds, policy: Tensor) -> Tensor:
    """max(A, 0)."""
    return clipped.build(r, a.clamp(min=0), bounds, policy)


@rule(
    "clipped-log-probability",
    "sg[min(r A, clip(r) A)] logp",
    "The ratio is detached and the log-probability carries the gradient: clipped tokens keep "
    "theirs.",
    "clipped",
)
def detached_surrogate(r: Tensor, a: Tensor, bounds: Bounds, policy: Tensor) -> Tensor:
    """The surrogate as a weight of logp."""
    return clipped.build(r, a, bounds, policy).detach() * policy
