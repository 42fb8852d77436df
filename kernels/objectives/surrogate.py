"""The clipped surrogates: GRPO, GSPO and TAPO, with loss = -J.

    J     = aggregate( min( r_t A, clip(r_t, low_t, high_t) A ) )
    GRPO    r_t = exp(logp_policy_t - logp_old_t)                      clip_low, clip_high
    GSPO    r_t = sg[s] pi_t / sg[pi_t],  s = exp( mean_t (logp_policy_t - logp_old_t) )
    TAPO    r_t = sg[R_t] pi_t / sg[pi_t],  R_t of the prefix          1 - eps_t, 1 + eps_t

With an advantage per token GSPO is GSPO-token. In all three the gradient of r_t reaches only
logp_policy_t, and dr_t / dlogp_policy_t = r_t: no 1/t, nothing across positions. Hence

    dloss / dlogp_policy_t = -A r_t weight_t, and 0 where A > 0 and r_t > high_t, or A < 0 and
                             r_t < low_t.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any

import numpy as np

from rlvraudit.kernels.aggregate import weight_per_token
from rlvraudit.kernels.arrays import (
    Array,
    masked,
    masked_logp,
    namespace,
    number,
    refuse_dtype,
    refuse_shape,
    stop_gradient,
    token_counts,
)
from rlvraudit.kernels.objective import objective
from rlvraudit.kernels.objectives.trajectory import clip_width, positions, prefix_log_ratio


@dataclass(frozen=True, slots=True)
class Surrogate:
    """A loss, differentiable, its closed-form gradient in the input's dtype, and how it arose.

    `ratio` and `clipped` are `[B, T]`; at inactive positions they are 0 and false.
    """

    loss: Array
    grad_logp_policy: Array
    ratio: Array
    clipped: Array


@dataclass(frozen=True, slots=True)
class Tokens:
    """A validated batch in its compute dtype, 0 at inactive positions."""

    policy: Array
    log_ratio: Array
    advantages: Array
    mask: Array
    counts: Array


def tokens(logp_policy: Array, logp_old: Array, advantages: Array, mask: Array) -> Tokens:
    """Return the batch validated and masked.

    Args:
        logp_policy: Log-probabilities of the sampled tokens under the current policy, `[B, T]`.
        logp_old: The same under the policy that sampled them; a constant.
        advantages: One per trajectory, `[B]`, or one per token, `[B, T]`; a constant.
        mask: Active tokens, `[B, T]` bool.

    Raises:
        InvalidInputError: A shape or dtype is wrong, a trajectory has no active token, an active
            log-probability is positive or not finite, an active advantage is not finite.
    """
    counts = token_counts(mask)
    policy = masked_logp(logp_policy, mask, "logp_policy")
    old = masked_logp(stop_gradient(logp_old), mask, "logp_old")
    xp = namespace(policy)
    return Tokens(
        policy,
        policy - old,
        _advantage_per_token(stop_gradient(advantages), mask),
        mask,
        xp.astype(counts, policy.dtype),
    )


def _advantage_per_token(advantages: Array, mask: Array) -> Array:
    refuse_dtype(advantages, "real floating", "advantages")
    if advantages.ndim == 2:
        return masked(advantages, mask, "advantages")
    refuse_shape(advantages, (mask.shape[0],), "advantages")
    every = namespace(mask).ones_like(mask[:, 0])
    xp = namespace(advantages)
    per_trajectory = xp.reshape(masked(advantages, every, "advantages"), (-1, 1))
    return xp.where(mask, per_trajectory, xp.zeros_like(per_trajectory))


@np.errstate(over="ignore")
def clipped_surrogate(
    batch: Tokens, log_ratio: Array, low: Array, high: Array, weight: Array
) -> Surrogate:
    """Return -sum weight min(r A, clip(r, low, high) A), r = exp(log_ratio), and its gradient.

    The minimum is written as what it equals, a choice between r and one bound. Chosen before
    the exponential is taken, a ratio that overflows where it is clipped, or where A = 0, leaves
    no inf * 0 in value or gradient.

    Args:
        batch: The validated batch.
        log_ratio: log r, `[B, T]`, with gradient 1 with respect to the token's own `logp_policy`.
        low: The lower bound of the ratio, `[B, T]`.
        high: The upper bound of the ratio, `[B, T]`.
        weight: The weight of each token's term, `[B, T]`.
    """
    xp = namespace(log_ratio)
    advantages = batch.advantages
    zeros = xp.zeros_like(log_ratio)
    ratio = xp.exp(stop_gradient(log_ratio))
    clipped = ((advantages > 0) & (ratio > high)) | ((advantages < 0) & (ratio < low))
    passes = batch.mask & ~clipped & (advantages != 0)
    coefficient = weight * advantages
    through = xp.exp(xp.where(passes, log_ratio, zeros))
    bound = xp.where(advantages > 0, high, low)
    gradient = xp.where(passes, -coefficient * stop_gradient(through), zeros)
    return Surrogate(
        -xp.sum(coefficient * xp.where(passes, through, bound)),
        gradient,
        xp.where(batch.mask, ratio, zeros),
        batch.mask & clipped,
    )


def grpo(
    logp_policy: Array,
    logp_old: Array,
    advantages: Array,
    mask: Array,
    *,
    clip_low: float,
    clip_high: float,
    aggregation: str,
    norm: float | None = None,
) -> Surrogate:
    """Return GRPO's loss: the ratio of each token, clipped to [1 - clip_low, 1 + clip_high].

    Args and errors beyond those of `tokens`:
        clip_low: In [0, 1).
        clip_high: Not negative.
        aggregation: A key of `aggregate.AGGREGATIONS`.
        norm: The constant of seq-mean-token-sum-norm.
    """
    batch = tokens(logp_policy, logp_old, advantages, mask)
    low, high = _bounds(batch.log_ratio, clip_low, clip_high)
    weight = weight_per_token(mask, batch.counts, aggregation, norm)
    return _as_input(clipped_surrogate(batch, batch.log_ratio, low, high, weight), logp_policy)


def gspo(
    logp_policy: Array,
    logp_old: Array,
    advantages: Array,
    mask: Array,
    *,
    clip_low: float,
    clip_high: float,
) -> Surrogate:
    """Return GSPO's loss: the geometric mean of the whole sequence's ratios, at every token.

    Args and errors are those of `grpo`; the aggregation is seq-mean-token-mean.
    """
    batch = tokens(logp_policy, logp_old, advantages, mask)
    xp = namespace(batch.policy)
    mean = xp.sum(batch.log_ratio / xp.reshape(batch.counts, (-1, 1)), axis=1, keepdims=True)
    whole = xp.where(mask, mean, xp.zeros_like(batch.log_ratio))
    low, high = _bounds(whole, clip_low, clip_high)
    weight = weight_per_token(mask, batch.counts, "seq-mean-token-mean")
    return _as_input(
        clipped_surrogate(batch, _carried(whole, batch.policy), low, high, weight), logp_policy
    )


def tapo(
    logp_policy: Array,
    logp_old: Array,
    advantages: Array,
    mask: Array,
    *,
    clip_min: float,
    clip_max: float,
    aggregation: str,
    norm: float | None = None,
) -> Surrogate:
    """Return TAPO's loss: the detached prefix ratio, clipped to 1 +- eps_t.

    Args and errors beyond those of `grpo`:
        clip_min: eps_min; 0 <= clip_min <= clip_max < 1.
        clip_max: eps_max.
    """
    batch = tokens(logp_policy, logp_old, advantages, mask)
    prefix = prefix_log_ratio(batch.log_ratio, mask, batch.counts)
    t = positions(mask, prefix)
    length = namespace(prefix).reshape(batch.counts, (-1, 1))
    width = clip_width(t, length, clip_min, clip_max)
    weight = weight_per_token(mask, batch.counts, aggregation, norm)
    return _as_input(
        clipped_surrogate(batch, _carried(prefix, batch.policy), 1.0 - width, 1.0 + width, weight),
        logp_policy,
    )


def _carried(log_ratio: Array, policy: Array) -> Array:
    """Return log( sg[r] pi / sg[pi] ): the value of log r, the gradient of the token's own logp."""
    return stop_gradient(log_ratio) + (policy - stop_gradient(policy))


def _bounds(log_ratio: Array, clip_low: float, clip_high: float) -> tuple[Array, Array]:
    ones = namespace(log_ratio).ones_like(log_ratio)
    low = number(clip_low, "clip_low", 0.0, 1.0)
    return ones - low, ones + number(clip_high, "clip_high", 0.0)


def _as_input(surrogate: Surrogate, logp_policy: Array) -> Surrogate:
    xp = namespace(logp_policy)
    with np.errstate(over="ignore"):
        gradient = xp.astype(surrogate.grad_logp_policy, logp_policy.dtype, copy=False)
    return Surrogate(surrogate.loss, gradient, surrogate.ratio, surrogate.clipped)


def _outputs(loss: Callable[..., Surrogate]) -> Callable[..., Mapping[str, Array]]:
    @wraps(loss)
    def evaluate(*args: Any, **kwargs: Any) -> Mapping[str, Array]:
        surrogate = loss(*args, **kwargs)
        return {"loss": surrogate.loss, "grad_logp_policy": surrogate.grad_logp_policy}

    return evaluate


def _value(loss: Callable[..., Surrogate]) -> Callable[..., Array]:
    return lambda *args, **kwargs: loss(*args, **kwargs).loss


GRPO = objective(
    "grpo.surrogate",
    source="GRPO, arXiv 2402.03300; bounds apart as in DAPO, arXiv 2503.14476",
    forward=_value(grpo),
    wrt="logp_policy",
)(_outputs(grpo))

GSPO = objective(
    "gspo.surrogate",
    source="GSPO and GSPO-token, arXiv 2507.18071",
    forward=_value(gspo),
    wrt="logp_policy",
)(_outputs(gspo))

TAPO = objective(
    "tapo.surrogate",
    source="TAPO, arXiv 2610.13020: J, Eq. 15 for the gradient",
    forward=_value(tapo),
    wrt="logp_policy",
)(_outputs(tapo))
