"""TAPO's trajectory ratio and length-aware clip width (arXiv 2610.13020).

    R_t   = exp( (1/t) sum_{i<=t} (logp_policy_i - logp_old_i) )
    eps_t = eps_min + (eps_max - eps_min) (t^-1/2 - T_b^-1/2) / (1 - T_b^-1/2)

t counts the active tokens of a trajectory from 1: holes are skipped. Where T_b = 1 the paper is
silent; eps_1 = eps_max here, because that is eps_1 of every longer trajectory.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from rlvraudit.kernels.arrays import (
    Array,
    InvalidInputError,
    integer,
    masked_logp,
    namespace,
    number,
    token_counts,
)
from rlvraudit.kernels.objective import objective

PAPER = "TAPO, arXiv 2610.13020"


def positions(mask: Array, like: Array) -> Array:
    """Return t, `[B, T]`, in the dtype of `like`; 1 at inactive positions, which have no t."""
    counted = namespace(mask)
    t = counted.cumulative_sum(counted.astype(mask, counted.int64), axis=1)
    xp = namespace(like)
    wide = xp.astype(t, like.dtype)
    return xp.where(mask, wide, xp.ones_like(wide))


def prefix_log_ratio(log_ratio: Array, mask: Array, counts: Array) -> Array:
    """Return log R_t, `[B, T]`: the mean of the log-ratios up to and including t.

    Args:
        log_ratio: logp_policy - logp_old, `[B, T]`, 0 at inactive positions.
        mask: Active tokens, `[B, T]` bool.
        counts: Active tokens of each trajectory, `[B]`, in the dtype of `log_ratio`.
    """
    xp = namespace(log_ratio)
    length = xp.reshape(counts, (-1, 1))
    # Divided by T_b before they are added: a running sum could overflow to inf - inf.
    running = xp.cumulative_sum(log_ratio / length, axis=1)
    mean = running * (length / positions(mask, log_ratio))
    return xp.where(mask, mean, xp.zeros_like(mean))


@np.errstate(over="ignore")
def prefix_ratio(logp_policy: Array, logp_old: Array, mask: Array) -> Array:
    """Return R_t, `[B, T]`, in the compute dtype, 0 at inactive positions.

    Args:
        logp_policy: Log-probabilities of the sampled tokens under the current policy, `[B, T]`.
        logp_old: The same under the policy that sampled them.
        mask: Active tokens, `[B, T]` bool.

    Raises:
        InvalidInputError: An input must be refused; see `masked_logp` and `token_counts`.
    """
    counts = token_counts(mask)
    policy = masked_logp(logp_policy, mask, "logp_policy")
    log_ratio = policy - masked_logp(logp_old, mask, "logp_old")
    xp = namespace(log_ratio)
    mean = prefix_log_ratio(log_ratio, mask, xp.astype(counts, log_ratio.dtype))
    return xp.where(mask, xp.exp(mean), xp.zeros_like(mean))


def clip_width(t: Array, length: Array, clip_min: float, clip_max: float) -> Array:
    """Return eps_t at position `t` of a trajectory of `length` tokens, elementwise.

    Raises:
        InvalidInputError: Unless 0 <= clip_min <= clip_max < 1.
    """
    low = number(clip_min, "clip_min", 0.0, 1.0)
    high = number(clip_max, "clip_max", 0.0, 1.0)
    if low > high:
        raise InvalidInputError("clip_min", f"{low:g}", f"at most clip_max, {high:g}")
    xp = namespace(t)
    longer = xp.where(length > 1, length, xp.ones_like(length) + 1)
    tail = 1.0 / xp.sqrt(longer)
    fraction = (1.0 / xp.sqrt(t) - tail) / (1.0 - tail)
    fraction = xp.where(length > 1, fraction, xp.ones_like(fraction))
    return low + (xp.ones_like(fraction) * high - low) * fraction


@objective("tapo.prefix_ratio", source=f"{PAPER}: R_t")
def tapo_prefix_ratio(logp_policy: Array, logp_old: Array, mask: Array) -> Mapping[str, Array]:
    """The geometric mean of the prefix ratios."""
    return {"prefix_ratio": prefix_ratio(logp_policy, logp_old, mask)}


@objective("tapo.clip_width", source=f"{PAPER}: eps_t")
def tapo_clip_width(length: Any, *, clip_min: float, clip_max: float) -> Mapping[str, Array]:
    """The clip widths of one trajectory of `length` tokens, `[length]`, in FP64."""
    tokens = integer(length, "length", 1)
    xp = namespace(length) if hasattr(length, "dtype") else np
    device = getattr(length, "device", None)
    t = xp.astype(xp.arange(1, tokens + 1, device=device), xp.float64)
    return {"clip_width": clip_width(t, xp.ones_like(t) * tokens, clip_min, clip_max)}
