"""Parts of TAR's replay loss: gate, token weights, and the mean over both.

delta_t = logp_base_t - logp_policy_t,  phi(z) = max(1 - exp(-z), 0)
"""

from functools import partial

from rlvraudit.audit.implementations.closed_forms.part import Tensor, part

gate = partial(part, "gate")
weight = partial(part, "token weight")
mean = partial(part, "replay mean")


def _phi(z: Tensor) -> Tensor:
    return -((-z.clamp(min=0)).expm1())


def _average(delta: Tensor, mask: Tensor) -> Tensor:
    return delta.sum(1, keepdim=True) / mask.sum(1, keepdim=True).clamp(min=1)


@gate("gate", "phi of the mean difference, detached")
def right_gate(delta: Tensor, mask: Tensor) -> Tensor:
    """TAR's."""
    return _phi(_average(delta, mask)).detach()


@gate(
    "gate-attached",
    "phi of the mean difference, not detached",
    "The gate is not detached: the gradient flows through it.",
    "gate",
)
def attached_gate(delta: Tensor, mask: Tensor) -> Tensor:
    """The right value, a gradient too many."""
    return _phi(_average(delta, mask))


@gate("gate-constant", "1", "The gate is 1 for every trajectory: there is none.", "gate")
def constant_gate(delta: Tensor, mask: Tensor) -> Tensor:
    """No gate."""
    return delta.new_ones((delta.shape[0], 1))


@gate(
    "gate-sum",
    "phi of the summed difference",
    "The gate takes the sum over tokens, not their mean.",
    "gate",
)
def summed_gate(delta: Tensor, mask: Tensor) -> Tensor:
    """No division by the length."""
    return _phi(delta.sum(1, keepdim=True)).detach()


@gate(
    "gate-over-padding",
    "phi of the difference over the padded width",
    "The gate's mean divides by the padded length: it counts padding.",
    "gate",
)
def padded_gate(delta: Tensor, mask: Tensor) -> Tensor:
    """Divided by T, not by T_b."""
    return _phi(delta.mean(1, keepdim=True)).detach()


@gate(
    "gate-of-batch",
    "phi of the mean difference of the batch",
    "One gate is computed for the whole batch: trajectories are mixed.",
    "gate",
)
def batch_gate(delta: Tensor, mask: Tensor) -> Tensor:
    """One gate for all."""
    return _phi(delta.sum() / mask.sum()).detach() * constant_gate.build(delta, mask)


@gate(
    "gate-mean-of-weights",
    "mean of phi",
    "The gate is the mean of phi over tokens, not phi of the mean difference.",
    "gate",
)
def mean_of_weights(delta: Tensor, mask: Tensor) -> Tensor:
    """The mean outside."""
    return _average(_phi(delta), mask).detach()


@gate(
    "gate-not-clamped",
    "1 - exp(-mean difference)",
    "The gate is not clamped at 0: a policy that is more likely than the base is pushed away.",
    "gate",
)
def open_gate(delta: Tensor, mask: Tensor) -> Tensor:
    """No maximum."""
    return -((-_average(delta, mask)).expm1()).detach()


@gate(
    "gate-linear",
    "max(mean difference, 0)",
    "The gate is the mean difference itself: 1 - exp(-z) is missing, and it is not bounded by 1.",
    "gate",
)
def linear_gate(delta: Tensor, mask: Tensor) -> Tensor:
    """First order only."""
    return _average(delta, mask).clamp(min=0).detach()


@gate(
    "gate-reversed",
    "phi of policy minus base",
    "The gate's difference has the wrong sign: it opens where the policy is more likely.",
    "gate",
)
def reversed_gate(delta: Tensor, mask: Tensor) -> Tensor:
    """Policy minus base."""
    return _phi(_average(-delta, mask)).detach()


@weight("token-weight", "phi of the difference, detached")
def right_weight(delta: Tensor) -> Tensor:
    """TAR's."""
    return _phi(delta).detach()


@weight(
    "weights-attached",
    "phi of the difference, not detached",
    "The token weights are not detached: the gradient flows through them.",
    "token-weight",
)
def attached_weight(delta: Tensor) -> Tensor:
    """The right value, a gradient too many."""
    return _phi(delta)


@weight("weights-constant", "1", "The token weights are 1 throughout.", "token-weight")
def constant_weight(delta: Tensor) -> Tensor:
    """Every token counts alike."""
    return delta.new_ones(delta.shape)


@weight(
    "weights-not-clamped",
    "1 - exp(-difference)",
    "The token weights are not clamped at 0.",
    "token-weight",
)
def open_weight(delta: Tensor) -> Tensor:
    """No maximum."""
    return -((-delta).expm1()).detach()


@weight(
    "weights-linear",
    "max(difference, 0)",
    "The token weights are the difference itself: 1 - exp(-z) is missing.",
    "token-weight",
)
def linear_weight(delta: Tensor) -> Tensor:
    """First order only."""
    return delta.clamp(min=0).detach()


@weight(
    "weights-reversed",
    "phi of policy minus base",
    "The token weights' difference has the wrong sign.",
    "token-weight",
)
def reversed_weight(delta: Tensor) -> Tensor:
    """Policy minus base."""
    return _phi(-delta).detach()


@mean("replay-mean", "mean over trajectories of g sum(w nll) / (eps + sum w)")
def right_mean(g: Tensor, w: Tensor, nll: Tensor, epsilon: float) -> Tensor:
    """TAR's."""
    share = w / (epsilon + w.sum(1, keepdim=True))
    return (g * share * nll).sum() / nll.shape[0]


@mean(
    "active-mean",
    "mean over trajectories with an open gate",
    "It equals the mean over active trajectories only; zero-gate trajectories count too.",
    "replay-mean",
)
def active_mean(g: Tensor, w: Tensor, nll: Tensor, epsilon: float) -> Tensor:
    """Renormalised."""
    active = (g > 0).sum().clamp(min=1)
    return right_mean.build(g, w, nll, epsilon) * nll.shape[0] / active


@mean(
    "gate-normalised",
    "mean over trajectories weighted by the gate",
    "The gates are divided by their sum: zero-gate trajectories drop out.",
    "replay-mean",
)
def gate_normalised(g: Tensor, w: Tensor, nll: Tensor, epsilon: float) -> Tensor:
    """Renormalised by the gates."""
    return right_mean.build(g, w, nll, epsilon) * nll.shape[0] / (epsilon + g.sum())


@mean(
    "sum-over-trajectories",
    "sum over trajectories",
    "The trajectories are added up, not averaged: 1/B is missing.",
    "replay-mean",
)
def summed(g: Tensor, w: Tensor, nll: Tensor, epsilon: float) -> Tensor:
    """No division by B."""
    return right_mean.build(g, w, nll, epsilon) * nll.shape[0]


@mean(
    "weights-of-batch",
    "sum over the batch / sum of all weights",
    "The weights are normalised over the batch, not within each trajectory.",
    "replay-mean",
)
def over_batch(g: Tensor, w: Tensor, nll: Tensor, epsilon: float) -> Tensor:
    """One denominator for all."""
    return (g * w * nll).sum() / (epsilon + w.sum())


@mean(
    "token-mean-of-replay",
    "sum over the batch / number of tokens",
    "The weights are not normalised: the loss is divided by the number of tokens.",
    "replay-mean",
)
def per_token(g: Tensor, w: Tensor, nll: Tensor, epsilon: float) -> Tensor:
    """Divided by N."""
    return (g * w * nll).sum() / (nll != 0).sum()


@mean(
    "weights-not-normalised",
    "mean over trajectories of g sum(w nll)",
    "The token weights are not divided by their sum.",
    "replay-mean",
)
def unnormalised(g: Tensor, w: Tensor, nll: Tensor, epsilon: float) -> Tensor:
    """No denominator."""
    return (g * w * nll).sum() / nll.shape[0]


@mean(
    "weights-over-length",
    "mean over trajectories of g mean(w nll)",
    "The token weights are divided by the length, not by their sum.",
    "replay-mean",
)
def over_length(g: Tensor, w: Tensor, nll: Tensor, epsilon: float) -> Tensor:
    """Divided by T_b."""
    length = (nll != 0).sum(1, keepdim=True).clamp(min=1)
    return (g * w * nll / length).sum() / nll.shape[0]
