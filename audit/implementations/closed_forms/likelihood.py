"""The negative log-likelihood from logits put together from parts."""

import math
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


def _softened(epsilon: float) -> Part:
    def build(logits: Tensor, target: Tensor) -> Tensor:
        return -(_chosen(logits.softmax(-1), target) + epsilon).log()

    return likelihood(
        f"log-of-softmax-plus-{epsilon:g}",
        f"-log(softmax(logits)[target] + {epsilon:g})",
        f"The logarithm of softmax + {epsilon:g} is taken: no token costs more than "
        f"{-math.log(epsilon):.3g}, and unlikely ones lose their gradient.",
        "log-softmax",
    )(build)


SOFT_6, SOFT_8, SOFT_10, SOFT_12 = (_softened(epsilon) for epsilon in (1e-6, 1e-8, 1e-10, 1e-12))


@dataclass(frozen=True, slots=True)
class Likelihood:
    """What each token contributes, and its weight.

    Attributes:
        temperature: What the logits are divided by.
        smoothing: The share of the label that goes to the whole vocabulary.
        sign: -1 where the log-likelihood is minimised.
    """

    part: Part
    weighting: Weighting
    temperature: float = 1.0
    smoothing: float = 0.0
    sign: float = 1.0

    @property
    def slack(self) -> float:
        """What the weights leave open."""
        return self.weighting.slack

    def loss(self, inputs: Mapping[str, Any]) -> Any:
        """Return the loss of a batch of tensors, differentiable in `logits`."""
        mask = inputs["mask"]
        logits = inputs["logits"].masked_fill(~mask[..., None], 0.0) / self.temperature
        each = self.part.build(logits, inputs["target"])
        if self.smoothing:
            uniform = -logits.log_softmax(-1).mean(-1)
            each = (1.0 - self.smoothing) * each + self.smoothing * uniform
        weight = self.weighting.of(mask, logits.dtype)
        return self.sign * (weight * each.masked_fill(~mask, 0.0)).sum()


@dataclass(frozen=True, slots=True)
class LogOfMean:
    """-log of the mean probability: the mean and the logarithm in the wrong order."""

    slack: float = 0.0

    def loss(self, inputs: Mapping[str, Any]) -> Any:
        """Return the loss of a batch of tensors, differentiable in `logits`."""
        mask = inputs["mask"]
        p = _chosen(inputs["logits"].softmax(-1), inputs["target"]).masked_fill(~mask, 0.0)
        return -(p.sum() / mask.sum()).log()
