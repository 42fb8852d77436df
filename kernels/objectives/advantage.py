"""Group-relative advantages (GRPO, arXiv 2402.03300; centred only: Dr. GRPO, arXiv 2503.20783).

    A_i = (r_i - mean r) / (std r + epsilon)

A group whose rewards are all equal carries no signal: it gives exact zeros and is flagged.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rlvraudit.kernels.arrays import (
    Array,
    InvalidInputError,
    integer,
    namespace,
    number,
    promote,
    refuse_dtype,
    refuse_where,
)
from rlvraudit.kernels.objective import objective


@dataclass(frozen=True, slots=True)
class Advantages:
    """The advantages of each group's members, `[..., G]`, and which groups carry no signal."""

    advantages: Array
    zero_variance: Array


def group_advantages(
    rewards: Array, *, scale: str = "std", ddof: int = 0, epsilon: float = 1e-4
) -> Advantages:
    """Return the advantages in the compute dtype, and a flag for each group.

    Args:
        rewards: One group, `[G]`, or several of one size, `[..., G]`.
        scale: "std", or "none" for centring only.
        ddof: 0 or 1, of the standard deviation.
        epsilon: Added to the standard deviation; not negative.

    Raises:
        InvalidInputError: A reward is not finite, a group is empty or, with ddof 1, has one
            member, or a parameter is out of range.
    """
    if scale not in SCALES:
        raise InvalidInputError("scale", repr(scale), f"one of {list(SCALES)}")
    epsilon = number(epsilon, "epsilon", 0.0)
    freedom = integer(ddof, "ddof", 0)
    r = _rewards(rewards)
    xp = namespace(r)
    constant = xp.all(r == r[..., :1], axis=-1, keepdims=True)
    zeros = xp.zeros_like(r)
    # Equal rewards that are no dyadic fractions have a mean that is off by rounding.
    centred = xp.where(constant, zeros, r - xp.sum(r / r.shape[-1], axis=-1, keepdims=True))
    scaled = SCALES[scale](centred, freedom, epsilon)
    return Advantages(xp.where(constant, zeros, scaled), constant[..., 0])


def _rewards(rewards: Array) -> Array:
    refuse_dtype(rewards, "real floating", "rewards")
    if rewards.ndim == 0 or 0 in rewards.shape:
        raise InvalidInputError("rewards", f"of shape {tuple(rewards.shape)}", "a group of rewards")
    r = promote(rewards)
    refuse_where(~namespace(r).isfinite(r), r, "rewards", "a finite reward")
    return r


def _by_deviation(centred: Array, ddof: int, epsilon: float) -> Array:
    members = centred.shape[-1]
    if ddof > 1 or ddof >= members:
        raise InvalidInputError("ddof", str(ddof), f"0 or 1, less than the group's {members}")
    xp = namespace(centred)
    # Squares are taken of numbers near 1: those of the rewards could overflow or vanish.
    peak = xp.max(xp.abs(centred), axis=-1, keepdims=True)
    peak = xp.where(peak > 0, peak, xp.ones_like(peak))
    unit = centred / peak
    deviation = peak * xp.sqrt(xp.sum(unit * unit, axis=-1, keepdims=True) / (members - ddof))
    floor = xp.where(deviation > 0, deviation, xp.ones_like(deviation))
    return centred / (floor + epsilon)


def _centred_only(centred: Array, ddof: int, epsilon: float) -> Array:
    return centred


SCALES: dict[str, Callable[[Array, int, float], Array]] = {
    "std": _by_deviation,
    "none": _centred_only,
}


@objective("grpo.advantages", source="GRPO, arXiv 2402.03300; Dr. GRPO, arXiv 2503.20783")
def grpo_advantages(
    rewards: Array, *, scale: str, ddof: int, epsilon: float
) -> Mapping[str, Array]:
    """The advantages of one group, and whether it has no variance."""
    group = group_advantages(rewards, scale=scale, ddof=ddof, epsilon=epsilon)
    return {"advantages": group.advantages, "zero_variance": group.zero_variance}
