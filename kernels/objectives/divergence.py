"""KL divergence of the policy from a reference: per-token estimators and the full vocabulary.

    k1 = d,  k2 = d^2 / 2,  k3 = expm1(-d) + d,  d = logp_policy - logp_reference
    KL = sum_v p_v (log p_v - log q_v)

Each is averaged over the active tokens of the batch. Estimators: Schulman 2020, "Approximating
KL divergence".
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from rlvraudit.kernels.arrays import (
    Array,
    InvalidInputError,
    masked_logp,
    namespace,
    stop_gradient,
    token_counts,
)
from rlvraudit.kernels.objective import objective
from rlvraudit.kernels.objectives.likelihood import active_rows, log_softmax, masked_logits


@dataclass(frozen=True, slots=True)
class Divergence:
    """A mean divergence and its gradient with respect to the policy, in the input's dtype."""

    value: Array
    gradient: Array


def _k1(d: Array) -> tuple[Array, Array]:
    return d, namespace(d).ones_like(d)


def _k2(d: Array) -> tuple[Array, Array]:
    return d * d / 2, d


def _k3(d: Array) -> tuple[Array, Array]:
    excess = namespace(d).expm1(-d)
    return excess + d, -excess


ESTIMATORS: dict[str, Callable[[Array], tuple[Array, Array]]] = {"k1": _k1, "k2": _k2, "k3": _k3}
"""By name: each token's estimate and its derivative with respect to d."""


@np.errstate(over="ignore")
def estimate_kl(
    logp_policy: Array, logp_reference: Array, mask: Array, *, estimator: str
) -> Divergence:
    """Return the mean of an estimator over active tokens, and its gradient.

    Args:
        logp_policy: Log-probabilities of the sampled tokens under the current policy, `[B, T]`.
        logp_reference: The same under the reference; a constant.
        mask: Active tokens, `[B, T]` bool.
        estimator: A key of `ESTIMATORS`.

    Raises:
        InvalidInputError: The estimator is unknown, or an input must be refused; see
            `masked_logp` and `token_counts`.
    """
    if estimator not in ESTIMATORS:
        raise InvalidInputError("estimator", repr(estimator), f"one of {list(ESTIMATORS)}")
    token_counts(mask)
    reference = masked_logp(stop_gradient(logp_reference), mask, "logp_reference")
    d = masked_logp(logp_policy, mask, "logp_policy") - reference
    xp = namespace(d)
    term, slope = ESTIMATORS[estimator](d)
    tokens, zeros = active_rows(mask, d), xp.zeros_like(d)
    value = xp.sum(xp.where(mask, term / tokens, zeros))
    gradient = xp.where(mask, stop_gradient(slope) / tokens, zeros)
    return Divergence(value, xp.astype(gradient, logp_policy.dtype, copy=False))


def full_kl(logits_policy: Array, logits_reference: Array, mask: Array) -> Divergence:
    """Return the mean over active tokens of KL(policy || reference), and its gradient.

    dKL / dlogits_v = p_v ( (log p_v - log q_v) - KL ), divided by the number of active tokens.

    Args:
        logits_policy: `[..., V]`.
        logits_reference: `[..., V]`; a constant.
        mask: Active tokens, `[...]` bool.

    Raises:
        InvalidInputError: See `likelihood.masked_logits`.
    """
    logp = log_softmax(masked_logits(logits_policy, mask, "logits_policy"))
    reference = masked_logits(stop_gradient(logits_reference), mask, "logits_reference")
    if reference.shape != logp.shape:
        raise InvalidInputError(
            "logits_reference", f"of shape {tuple(reference.shape)}", f"shape {tuple(logp.shape)}"
        )
    xp = namespace(logp)
    zeros = xp.zeros_like(logp)
    p = xp.exp(logp)
    # A token of probability 0 contributes nothing, whatever the logarithms of the quotient.
    difference = xp.where(p > 0, logp - log_softmax(reference), zeros)
    rows = active_rows(mask, logp)
    kl = xp.sum(p * difference, axis=-1, keepdims=True)
    value = xp.sum(xp.where(mask[..., None], kl, xp.zeros_like(kl)) / rows)
    slope = stop_gradient(p) * (stop_gradient(difference) - stop_gradient(kl)) / rows
    gradient = xp.where(mask[..., None], slope, zeros)
    return Divergence(value, xp.astype(gradient, logits_policy.dtype, copy=False))


def _estimate(logp_policy: Array, logp_reference: Array, mask: Array, *, estimator: str) -> Array:
    return estimate_kl(logp_policy, logp_reference, mask, estimator=estimator).value


def _estimate_chain(
    logp_policy: Array, logp_reference: Array, mask: Array, *, estimator: str
) -> Mapping[str, Array]:
    """The gradient, with k3's slope as 1 - exp(-d): the derivatives of its two terms."""
    kl = estimate_kl(logp_policy, logp_reference, mask, estimator=estimator)
    if estimator != "k3":
        return {"grad_logp_policy": kl.gradient}
    d = masked_logp(logp_policy, mask, "logp_policy")
    d = d - masked_logp(logp_reference, mask, "logp_reference")
    xp = namespace(d)
    tokens = active_rows(mask, d)
    slope = 1.0 / tokens - (xp.expm1(-d) + 1.0) / tokens
    return {"grad_logp_policy": xp.where(mask, slope, xp.zeros_like(slope))}


def _full(logits_policy: Array, logits_reference: Array, mask: Array) -> Array:
    return full_kl(logits_policy, logits_reference, mask).value


@objective(
    "kl.estimate",
    source="k1, k2, k3: Schulman 2020",
    forward=_estimate,
    wrt="logp_policy",
    chain=_estimate_chain,
)
def kl_estimate(
    logp_policy: Array, logp_reference: Array, mask: Array, *, estimator: str
) -> Mapping[str, Array]:
    """The mean estimate over active tokens, and its gradient."""
    kl = estimate_kl(logp_policy, logp_reference, mask, estimator=estimator)
    return {"value": kl.value, "grad_logp_policy": kl.gradient}


@objective(
    "kl.full",
    source="KL(policy || reference) over the vocabulary",
    forward=_full,
    wrt="logits_policy",
)
def kl_full(logits_policy: Array, logits_reference: Array, mask: Array) -> Mapping[str, Array]:
    """The mean divergence over active tokens, and its gradient."""
    kl = full_kl(logits_policy, logits_reference, mask)
    return {"value": kl.value, "grad_logits_policy": kl.gradient}
