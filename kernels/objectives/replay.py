"""TAR: trajectory-adaptive replay of what the policy suppresses (arXiv 2610.24236).

    delta_t = logp_base_t - logp_policy_t
    phi(z)  = max(1 - exp(-z), 0)
    g       = phi( (1/T_b) sum_t delta_t )       one gate per trajectory, in [0, 1)
    w_t     = phi(delta_t)                       one weight per active token
    L_rep   = (1/B) sum_b sg[g_b] ( sum_t sg[w_t] (-logp_policy_t) ) / (1e-8 + sum_t sg[w_t])

The mean runs over every sampled trajectory, those with a zero gate included. The base policy
gets no gradient.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from rlvraudit.kernels.arrays import (
    Array,
    masked_logp,
    namespace,
    number,
    stop_gradient,
    token_counts,
)
from rlvraudit.kernels.objective import objective

DENOMINATOR_EPSILON = 1e-8
PAPER = "TAR, arXiv 2610.24236"


@dataclass(frozen=True, slots=True)
class Replay:
    """The replay loss, its gradient in the input's dtype, and the detached parts of both."""

    loss: Array
    grad_logp_policy: Array
    gate: Array
    token_weights: Array


def suppression(z: Array) -> Array:
    """Return phi(z) = max(1 - exp(-z), 0), as -expm1(-max(z, 0)): exact to rounding near 0."""
    xp = namespace(z)
    return -xp.expm1(-xp.maximum(z, xp.zeros_like(z)))


def gate(logp_policy: Array, logp_base: Array, mask: Array) -> Array:
    """Return the gate g of each trajectory, `[B]`, in the compute dtype.

    Args:
        logp_policy: Log-probabilities of the sampled tokens under the current policy, `[B, T]`.
        logp_base: The same under the frozen base policy.
        mask: Active tokens, `[B, T]` bool.

    Raises:
        InvalidInputError: An input must be refused; see `masked_logp` and `token_counts`.
    """
    counts = token_counts(mask)
    delta = _delta(logp_policy, logp_base, mask)
    xp = namespace(delta)
    # Each term is divided, not their sum, which could overflow to inf - inf.
    share = delta / xp.reshape(xp.astype(counts, delta.dtype), (-1, 1))
    return suppression(xp.sum(share, axis=1))


def token_weights(logp_policy: Array, logp_base: Array, mask: Array) -> Array:
    """Return the weight w of each token, `[B, T]`, in the compute dtype, 0 where inactive.

    Args and errors are those of `gate`.
    """
    token_counts(mask)
    return suppression(_delta(logp_policy, logp_base, mask))


def replay_nll(
    logp_policy: Array,
    logp_base: Array,
    mask: Array,
    *,
    denominator_epsilon: float = DENOMINATOR_EPSILON,
) -> Replay:
    """Return the replay loss L_rep and its gradient -g w_t / (B (1e-8 + sum w)).

    The loss is differentiable with respect to `logp_policy`. It is linear there: gate and
    weights are constants. They are normalised before they meet the log-probabilities, so that
    no intermediate is larger than the result.

    Args and errors are those of `gate`; `denominator_epsilon` is positive.
    """
    epsilon = number(denominator_epsilon, "denominator_epsilon", 0.0, open_low=True)
    constant = stop_gradient(logp_policy), stop_gradient(logp_base), mask
    g, w = gate(*constant), token_weights(*constant)
    policy = masked_logp(logp_policy, mask, "logp_policy")
    xp = namespace(policy)
    share = w / (epsilon + xp.sum(w, axis=1, keepdims=True))
    coefficient = xp.reshape(g, (-1, 1)) * share / mask.shape[0]
    gradient = xp.astype(-coefficient, logp_policy.dtype, copy=False)
    return Replay(xp.sum(coefficient * -policy), gradient, g, w)


def _delta(logp_policy: Array, logp_base: Array, mask: Array) -> Array:
    policy = masked_logp(logp_policy, mask, "logp_policy")
    return masked_logp(logp_base, mask, "logp_base") - policy


@objective("tar.gate", source=f"{PAPER}: g = phi(mean delta)")
def tar_gate(logp_policy: Array, logp_base: Array, mask: Array) -> Mapping[str, Array]:
    """One gate per trajectory."""
    return {"gate": gate(logp_policy, logp_base, mask)}


@objective("tar.token_weights", source=f"{PAPER}: w_t = phi(delta_t)")
def tar_token_weights(logp_policy: Array, logp_base: Array, mask: Array) -> Mapping[str, Array]:
    """One weight per token."""
    return {"token_weights": token_weights(logp_policy, logp_base, mask)}


def _replay_loss(logp_policy: Array, logp_base: Array, mask: Array, **epsilon: float) -> Array:
    return replay_nll(logp_policy, logp_base, mask, **epsilon).loss


@objective("tar.replay_nll", source=f"{PAPER}: L_rep", forward=_replay_loss, wrt="logp_policy")
def tar_replay_nll(
    logp_policy: Array,
    logp_base: Array,
    mask: Array,
    *,
    denominator_epsilon: float = DENOMINATOR_EPSILON,
) -> Mapping[str, Array]:
    """The replay loss and its gradient."""
    replay = replay_nll(logp_policy, logp_base, mask, denominator_epsilon=denominator_epsilon)
    return {"loss": replay.loss, "grad_logp_policy": replay.grad_logp_policy}
