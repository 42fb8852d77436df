"""The negative log-likelihood from logits put together from parts."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from rlvraudit.audit.implementations.closed_forms.part import Part, Tensor, part
from rlvraudit.audit.implementations.closed_forms.weighting import Weighting

likelihood = partial(part, "likelihood")


def _chosen(values: Tensor, target: Tensor) -> Tensor:
    return values.gather(-1, target[..., None])[..., 0]


@likelihood("log-softmax", "-log softmax(logits)[target]")
def right(logits: Tensor, target: Tensor) -> Tensor:
    """Cross entropy."""
    return -_chosen(logits.log_softmax(-1), target)


@likelihood(
    "target-shifted",
    "-log softmax(logits)[next target]",
    "Logits and targets are one position apart: position t is compared with target t + 1.",
    "log-softmax",
)
def next_target(logits: Tensor, target: Tensor) -> Tensor:
    """Shifted once more."""
    return right.build(logits, target.roll(-1, 1))


@likelihood(
    "target-shifted-back",
    "-log softmax(logits)[previous target]",
    "Logits and targets are one position apart: position t is compared with target t - 1.",
    "log-softmax",
)
def previous_target(logits: Tensor, target: Tensor) -> Tensor:
    """Shifted the other way."""
    return right.build(logits, target.roll(1, 1))


@likelihood(
    "softmax-wrong-axis",
    "-log softmax over positions",
    "The softmax runs over positions, not over the vocabulary.",
    "log-softmax",
)
def wrong_axis(logits: Tensor, target: Tensor) -> Tensor:
    """Softmax over T."""
    return -_chosen(logits.log_softmax(1), target)


@likelihood(
    "softmax-over-rows",
    "-log softmax over trajectories",
    "The softmax runs over trajectories, not over the vocabulary.",
    "log-softmax",
)
def over_rows(logits: Tensor, target: Tensor) -> Tensor:
    """Softmax over B."""
    return -_chosen(logits.log_softmax(0), target)


@likelihood(
    "probability-for-log-probability",
    "-softmax(logits)[target]",
    "The probability stands where its logarithm should.",
    "log-softmax",
)
def probability(logits: Tensor, target: Tensor) -> Tensor:
    """No logarithm."""
    return -_chosen(logits.softmax(-1), target)


@likelihood(
    "normaliser-missing",
    "-logits[target]",
    "The logarithm of the normaliser is missing: logits are taken for log-probabilities.",
    "log-softmax",
)
def unnormalised(logits: Tensor, target: Tensor) -> Tensor:
    """No softmax."""
    return -_chosen(logits, target)


@likelihood(
    "softmax-twice",
    "-log softmax(softmax(logits))[target]",
    "The softmax is taken twice.",
    "log-softmax",
)
def twice(logits: Tensor, target: Tensor) -> Tensor:
    """Softmax of probabilities."""
    return right.build(logits.softmax(-1), target)


@likelihood(
    "normaliser-detached",
    "-log softmax(logits)[target], normaliser detached",
    "The normaliser is detached: the gradient is -1 at the target and 0 elsewhere.",
    "log-softmax",
)
def detached(logits: Tensor, target: Tensor) -> Tensor:
    """The right value, half the gradient."""
    return logits.logsumexp(-1).detach() - _chosen(logits, target)


@likelihood(
    "target-shift-of-mask",
    "-log softmax(logits)[target] at the next position",
    "The mask is off by one: position t counts where t + 1 is active.",
    "log-softmax",
)
def mask_back(logits: Tensor, target: Tensor) -> Tensor:
    """Mask shifted left: the loss of t - 1 under the mask of t."""
    return right.build(logits, target).roll(1, 1)


@likelihood(
    "mask-shifted",
    "-log softmax(logits)[target] at the previous position",
    "The mask is off by one: position t counts where t - 1 is active.",
    "log-softmax",
)
def mask_forth(logits: Tensor, target: Tensor) -> Tensor:
    """Mask shifted right: the loss of t + 1 under the mask of t."""
    return right.build(logits, target).roll(-1, 1)


@dataclass(frozen=True, slots=True)
class Likelihood:
    """What each token contributes, and its weight."""

    part: Part
    weighting: Weighting
    slack: float = 0.0

    def loss(self, inputs: Mapping[str, Any]) -> Any:
        """Return the loss of a batch of tensors, differentiable in `logits`."""
        logits, mask = inputs["logits"], inputs["mask"]
        each = self.part.build(logits, inputs["target"])
        return (self.weighting.of(mask, logits.dtype) * each.masked_fill(~mask, 0.0)).sum()
