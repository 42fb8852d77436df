"""TAR's replay over packed trajectories, laid end to end: NumPy, FP64, in memory that is fixed.

The same loss as `replay.replay_nll`, for files of any size: chunks that fit the cache, and the
exponential only where a token is suppressed. Sums are kept times 2**-64, so that none overflows.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvraudit.kernels.arrays import InvalidInputError, number, refuse_shape, refuse_where
from rlvraudit.kernels.objectives.replay import DENOMINATOR_EPSILON, suppression

Floats = NDArray[np.float64]
CHUNK = 1 << 16
"""Tokens at a time: half a megabyte in FP64, which a second-level cache holds."""
SCALE = 2.0**-64


@dataclass(frozen=True, slots=True)
class PackedReplay:
    """The replay loss and the gate of each trajectory, `[B]`."""

    loss: float
    gate: Floats


@dataclass(frozen=True, slots=True)
class Chunk:
    """A run of tokens and the trajectories that it touches: where each one's tokens begin."""

    tokens: slice
    trajectories: slice
    starts: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums over each trajectory's tokens, `[B]`, all but `weight` times `SCALE`."""

    delta: Floats
    weight: Floats
    weighted_nll: Floats


def packed_replay(
    logp_policy: NDArray[Any],
    logp_base: NDArray[Any],
    lengths: NDArray[Any],
    *,
    denominator_epsilon: float = DENOMINATOR_EPSILON,
    out: Floats | None = None,
) -> PackedReplay:
    """Return L_rep and the gates of trajectories that are packed one after the other.

    Args:
        logp_policy: Log-probabilities of the active tokens under the current policy, `[N]`.
        logp_base: The same under the frozen base policy, `[N]`.
        lengths: Active tokens of each trajectory, `[B]` integers, at least 1; their sum is N.
        denominator_epsilon: Positive.
        out: Where the token weights go, `[N]` FP64, if they are wanted.

    Raises:
        InvalidInputError: A shape does not fit, a length is below 1, or a log-probability is
            positive or not finite.
    """
    epsilon = number(denominator_epsilon, "denominator_epsilon", 0.0, open_low=True)
    ends = _ends(logp_policy, logp_base, lengths)
    if out is not None:
        refuse_shape(out, logp_policy.shape, "out")
    sums = Sums(*np.zeros((3, len(lengths))))
    excess, weight = np.empty((2, min(CHUNK, logp_policy.size)))
    for chunk in _chunks(ends):
        size = chunk.tokens.stop - chunk.tokens.start
        w = weight[:size] if out is None else out[chunk.tokens]
        _add(sums, chunk, logp_policy[chunk.tokens], logp_base[chunk.tokens], (excess[:size], w))
        if out is not None:
            np.abs(w, out=w)
    gate: Floats = suppression(sums.delta / lengths / SCALE)
    replayed = sums.weighted_nll / (epsilon + sums.weight) / SCALE
    return PackedReplay(float(np.sum(gate * replayed / len(lengths))), gate)


def _ends(
    logp_policy: NDArray[Any], logp_base: NDArray[Any], lengths: NDArray[Any]
) -> NDArray[np.int64]:
    if lengths.ndim != 1 or lengths.size == 0 or lengths.dtype.kind not in "iu":
        found = f"{lengths.dtype} of shape {lengths.shape}"
        raise InvalidInputError("lengths", found, "integers of shape [B], at least one")
    refuse_where(lengths < 1, lengths, "lengths", "at least one active token")
    ends = np.cumsum(lengths, dtype=np.int64)
    refuse_shape(logp_policy, (int(ends[-1]),), "logp_policy")
    refuse_shape(logp_base, (int(ends[-1]),), "logp_base")
    return ends


def _chunks(ends: NDArray[np.int64]) -> Iterator[Chunk]:
    for start in range(0, int(ends[-1]), CHUNK):
        stop = min(start + CHUNK, int(ends[-1]))
        first = int(np.searchsorted(ends, start, "right"))
        last = int(np.searchsorted(ends, stop, "left"))
        starts = np.concatenate([[0], ends[first:last] - start])
        yield Chunk(slice(start, stop), slice(first, last + 1), starts)


def _add(
    sums: Sums,
    chunk: Chunk,
    policy: NDArray[Any],
    base: NDArray[Any],
    buffers: tuple[Floats, Floats],
) -> None:
    """Add a chunk's tokens to the sums; leave -w_t in the second buffer.

    The signs are those that need no pass over the data: -delta, and expm1(-delta) = -w.
    """
    excess, negative_weight = buffers
    here, offset = chunk.trajectories, chunk.tokens.start
    _refuse(policy, "logp_policy", offset)
    _refuse(base, "logp_base", offset)
    np.subtract(policy, base, out=excess, dtype=np.float64)
    sums.delta[here] -= _scaled_sums(excess, chunk.starts)
    suppressed = np.flatnonzero(excess < 0)
    below = np.take(excess, suppressed)
    negative_weight.fill(0.0)
    negative_weight[suppressed] = np.expm1(below, out=below)
    sums.weight[here] -= np.add.reduceat(negative_weight, chunk.starts)
    np.multiply(negative_weight, policy, out=excess, dtype=np.float64)
    sums.weighted_nll[here] += _scaled_sums(excess, chunk.starts)


def _refuse(logp: NDArray[Any], argument: str, offset: int) -> None:
    """Refuse the first value that is positive or not finite; the extremes tell if there is one."""
    if np.min(logp) > -np.inf and np.max(logp) <= 0:
        return
    at = int(np.flatnonzero(~(np.isfinite(logp) & (logp <= 0)))[0])
    expected = "a finite log-probability, at most 0"
    raise InvalidInputError(argument, f"{float(logp[at]):g}", expected, (offset + at,))


@np.errstate(over="ignore", invalid="ignore")
def _scaled_sums(values: Floats, starts: NDArray[np.int64]) -> Floats:
    """Return the sums of the segments times `SCALE`, which is applied first if they overflow."""
    total = np.add.reduceat(values, starts)
    if np.all(np.isfinite(total)):
        return np.multiply(total, SCALE)
    return np.add.reduceat(values * SCALE, starts)
