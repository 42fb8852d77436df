"""Wrong variants of TAR's replay: what is detached, what the mean runs over, what rounds away."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvraudit.audit.implementations.variants.variant import variant

Floats = NDArray[np.float64]
Outputs = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Batch:
    """The batch in FP64, 0 at inactive positions, and the gates and weights of the paper."""

    mask: NDArray[np.bool_]
    policy: Floats
    delta: Floats
    gate: Floats
    weights: Floats


def _batch(logp_policy: Any, logp_base: Any, mask: Any) -> Batch:
    policy = np.where(mask, np.asarray(logp_policy, np.float64), 0.0)
    delta = np.where(mask, np.asarray(logp_base, np.float64), 0.0) - policy
    mean = delta.sum(axis=1, keepdims=True) / mask.sum(axis=1, keepdims=True)
    return Batch(mask, policy, delta, _phi(mean), _phi(delta))


def _phi(z: Floats) -> Floats:
    return -np.expm1(-np.maximum(z, 0.0))


def _loss(
    batch: Batch, gate: Floats, weights: Floats, epsilon: float, trajectories: float
) -> Outputs:
    share = weights / (epsilon + weights.sum(axis=1, keepdims=True))
    coefficient = np.where(batch.mask, gate * share / trajectories, 0.0)
    return {"loss": np.sum(coefficient * -batch.policy), "grad_logp_policy": -coefficient}


def _as_paper(batch: Batch, epsilon: float) -> tuple[Outputs, Floats]:
    """Return the right outputs, and sum w + epsilon."""
    outputs = _loss(batch, batch.gate, batch.weights, epsilon, len(batch.mask))
    return outputs, epsilon + batch.weights.sum(axis=1, keepdims=True)


@variant(
    "tar.gate.constant", "tar.gate", "The gate is 1 for every trajectory: constant SFT, no gate."
)
def constant_gate(logp_policy: Any, logp_base: Any, mask: Any) -> Outputs:
    """Every gate is 1."""
    return {"gate": np.ones(len(mask))}


@variant("tar.gate.sum", "tar.gate", "The gate takes the sum over tokens, not their mean.")
def summed_gate(logp_policy: Any, logp_base: Any, mask: Any) -> Outputs:
    """The difference is not divided by the length."""
    return {"gate": _phi(_batch(logp_policy, logp_base, mask).delta.sum(axis=1))}


@variant(
    "tar.gate.padding",
    "tar.gate",
    "The gate's mean divides by the padded length: it counts padding.",
)
def padded_gate(logp_policy: Any, logp_base: Any, mask: Any) -> Outputs:
    """The difference is divided by T, not by T_b."""
    return {"gate": _phi(_batch(logp_policy, logp_base, mask).delta.mean(axis=1))}


@variant(
    "tar.token_weights.constant",
    "tar.token_weights",
    "The weight is 1 for every token: constant SFT, no token weights.",
)
def constant_weights(logp_policy: Any, logp_base: Any, mask: Any) -> Outputs:
    """Every weight is 1."""
    return {"token_weights": np.where(mask, 1.0, 0.0)}


@variant(
    "tar.replay_nll.constant-sft",
    "tar.replay_nll",
    "It equals constant SFT: gate and token weights are 1 throughout.",
)
def constant_sft(
    logp_policy: Any, logp_base: Any, mask: Any, *, denominator_epsilon: float = 1e-8
) -> Outputs:
    """Plain SFT on the bank."""
    batch = _batch(logp_policy, logp_base, mask)
    ones = np.where(mask, 1.0, 0.0)
    return _loss(batch, np.ones((len(mask), 1)), ones, denominator_epsilon, len(mask))


@variant(
    "tar.replay_nll.plain-sft",
    "tar.replay_nll",
    "It equals plain SFT, the mean over trajectories of the mean NLL: no gate, no token weights.",
)
def plain_sft(
    logp_policy: Any, logp_base: Any, mask: Any, *, denominator_epsilon: float = 1e-8
) -> Outputs:
    """SFT as it is usually written, without the epsilon."""
    batch = _batch(logp_policy, logp_base, mask)
    return _loss(batch, np.ones((len(mask), 1)), np.where(mask, 1.0, 0.0), 0.0, len(mask))


@variant(
    "tar.replay_nll.weights-constant",
    "tar.replay_nll",
    "The token weights are 1 throughout; the gate is right.",
)
def gated_sft(
    logp_policy: Any, logp_base: Any, mask: Any, *, denominator_epsilon: float = 1e-8
) -> Outputs:
    """Gated, but every token counts alike."""
    batch = _batch(logp_policy, logp_base, mask)
    ones = np.where(mask, 1.0, 0.0)
    return _loss(batch, batch.gate, ones, denominator_epsilon, len(mask))


@variant(
    "tar.replay_nll.gate-attached",
    "tar.replay_nll",
    "The gate is not detached: the gradient flows through it.",
)
def attached_gate(
    logp_policy: Any, logp_base: Any, mask: Any, *, denominator_epsilon: float = 1e-8
) -> Outputs:
    """dg/dlogp_t = -exp(-mean delta) / T_b where the gate is open."""
    batch = _batch(logp_policy, logp_base, mask)
    outputs, total = _as_paper(batch, denominator_epsilon)
    nll = np.sum(batch.weights * -batch.policy, axis=1, keepdims=True) / total
    slope = np.where(batch.gate > 0, (batch.gate - 1.0) / mask.sum(axis=1, keepdims=True), 0.0)
    extra = np.where(mask, slope * nll / len(mask), 0.0)
    return {**outputs, "grad_logp_policy": outputs["grad_logp_policy"] + extra}


@variant(
    "tar.replay_nll.weights-attached",
    "tar.replay_nll",
    "The token weights are not detached: the gradient flows through them.",
)
def attached_weights(
    logp_policy: Any, logp_base: Any, mask: Any, *, denominator_epsilon: float = 1e-8
) -> Outputs:
    """dw_t/dlogp_t = -exp(-delta_t) where the weight is not 0."""
    batch = _batch(logp_policy, logp_base, mask)
    outputs, total = _as_paper(batch, denominator_epsilon)
    mean = np.sum(batch.weights * -batch.policy, axis=1, keepdims=True) / total
    slope = np.where(batch.weights > 0, batch.weights - 1.0, 0.0)
    extra = batch.gate * slope * (-batch.policy - mean) / total / len(mask)
    return {**outputs, "grad_logp_policy": outputs["grad_logp_policy"] + extra}


@variant(
    "tar.replay_nll.active-mean",
    "tar.replay_nll",
    "It equals the mean over active trajectories only; zero-gate trajectories count too.",
)
def active_mean(
    logp_policy: Any, logp_base: Any, mask: Any, *, denominator_epsilon: float = 1e-8
) -> Outputs:
    """Renormalised over the trajectories whose gate is open."""
    batch = _batch(logp_policy, logp_base, mask)
    active = max(1, int(np.sum(batch.gate > 0)))
    return _loss(batch, batch.gate, batch.weights, denominator_epsilon, active)


@variant(
    "tar.replay_nll.fp16-epsilon",
    "tar.replay_nll",
    "The denominator's epsilon was lost: 1e-8 is 0 in FP16.",
)
def lost_epsilon(
    logp_policy: Any, logp_base: Any, mask: Any, *, denominator_epsilon: float = 1e-8
) -> Outputs:
    """0 / 0 where every weight is 0."""
    batch = _batch(logp_policy, logp_base, mask)
    epsilon = float(np.float16(denominator_epsilon))
    return _loss(batch, batch.gate, batch.weights, epsilon, len(mask))


@variant(
    "tar.replay_nll.nan-times-zero",
    "tar.replay_nll",
    "Padding is multiplied by 0, not left out: NaN * 0 is NaN.",
)
def multiplied_mask(
    logp_policy: Any, logp_base: Any, mask: Any, *, denominator_epsilon: float = 1e-8
) -> Outputs:
    """The mask is applied by multiplication."""
    m = np.asarray(mask, np.float64)
    policy = np.asarray(logp_policy, np.float64)
    delta = (np.asarray(logp_base, np.float64) - policy) * m
    mean = delta.sum(axis=1, keepdims=True) / m.sum(axis=1, keepdims=True)
    weights = _phi(delta) * m
    share = weights / (denominator_epsilon + weights.sum(axis=1, keepdims=True))
    coefficient = _phi(mean) * share / len(m)
    return {"loss": np.sum(coefficient * -policy * m), "grad_logp_policy": -coefficient}
