"""Aggregation modes: the weight that each token's term has in a loss over a batch.

    token-mean                 sum over all active tokens / their number
    seq-mean-token-mean        mean over trajectories of the mean over tokens      (GRPO)
    seq-mean-token-sum         mean over trajectories of the sum over tokens
    seq-mean-token-sum-norm    the same divided by a constant `norm`               (Dr. GRPO)

A loss is linear in its tokens' terms, so a mode is its weights, and the weights are all that a
gradient needs of it.
"""

from collections.abc import Callable
from typing import Any

from rlvraudit.kernels.arrays import Array, InvalidInputError, namespace, number


def _token_mean(counts: Array, norm: Any) -> Array:
    return 1.0 / namespace(counts).sum(counts)


def _sequence_mean_token_mean(counts: Array, norm: Any) -> Array:
    return 1.0 / (counts * counts.shape[0])


def _sequence_mean_token_sum(counts: Array, norm: Any) -> Array:
    return 1.0 / (namespace(counts).ones_like(counts) * counts.shape[0])


def _sequence_mean_token_sum_norm(counts: Array, norm: Any) -> Array:
    if norm is None:
        raise InvalidInputError("norm", "missing", "a positive number")
    return _sequence_mean_token_sum(counts, None) / number(norm, "norm", 0.0, open_low=True)


AGGREGATIONS: dict[str, Callable[[Array, Any], Array]] = {
    "token-mean": _token_mean,
    "seq-mean-token-mean": _sequence_mean_token_mean,
    "seq-mean-token-sum": _sequence_mean_token_sum,
    "seq-mean-token-sum-norm": _sequence_mean_token_sum_norm,
}


def weight_per_token(
    mask: Array, counts: Array, aggregation: str, norm: float | None = None
) -> Array:
    """Return the weight of each token's term, `[B, T]`, exactly 0 at inactive positions.

    Args:
        mask: Active tokens, `[B, T]` bool.
        counts: Active tokens of each trajectory, `[B]`, in the compute dtype.
        aggregation: A key of `AGGREGATIONS`.
        norm: The constant of seq-mean-token-sum-norm; other modes do without.

    Raises:
        InvalidInputError: The mode is unknown, or its norm missing or not positive.
    """
    if aggregation not in AGGREGATIONS:
        raise InvalidInputError("aggregation", repr(aggregation), f"one of {list(AGGREGATIONS)}")
    xp = namespace(counts)
    weight = xp.reshape(AGGREGATIONS[aggregation](counts, norm), (-1, 1))
    return xp.where(mask, weight, xp.zeros_like(weight))
