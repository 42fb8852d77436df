"""KL estimators of a penalty, `[B, T]`, from d = logp_policy - logp_reference, and their gradients.

Each takes `d`, which carries the gradient; `r`, the importance ratio, which does so too where it
has one; and returns each token's estimate.
"""

from functools import partial

from rlvraudit.audit.implementations.closed_forms.part import Tensor, part

estimator = partial(part, "estimator")


def _k3(d: Tensor) -> Tensor:
    return (-d).expm1() + d


def _value_of(value: Tensor, gradient: Tensor) -> Tensor:
    """Return the value of one, the gradient of the other."""
    return value.detach() + gradient - gradient.detach()


@estimator("k1", "k1: d")
def k1(d: Tensor, r: Tensor) -> Tensor:
    """Unbiased, either sign."""
    return d


@estimator("abs", "|d|")
def absolute(d: Tensor, r: Tensor) -> Tensor:
    """Neither unbiased nor a bound."""
    return d.abs()


@estimator("k2", "k2: d^2 / 2")
def k2(d: Tensor, r: Tensor) -> Tensor:
    """Biased value, unbiased gradient."""
    return d * d / 2


@estimator("k3", "k3: exp(-d) - 1 + d")
def k3(d: Tensor, r: Tensor) -> Tensor:
    """Unbiased and not negative."""
    return _k3(d)


@estimator("k1, gradient of k2", "k1, gradient of k2 (straight through)")
def k1_straight(d: Tensor, r: Tensor) -> Tensor:
    """The gradient of k2."""
    return _value_of(d, k2.build(d, r))


@estimator("k3, gradient of k2", "k3, gradient of k2 (straight through, or x exp(logp - sg[logp]))")
def k3_straight(d: Tensor, r: Tensor) -> Tensor:
    """With the score-function term k3's gradient is 1 - exp(-d) + k3 = d, that of k2."""
    return _value_of(_k3(d), k2.build(d, r))


@estimator("k1, score function", "k1 x exp(logp - sg[logp])")
def k1_score(d: Tensor, r: Tensor) -> Tensor:
    """The score-function term as well."""
    return d * (d - d.detach()).exp()


@estimator("k2, score function", "k2 x exp(logp - sg[logp])")
def k2_score(d: Tensor, r: Tensor) -> Tensor:
    """The score-function term as well."""
    return k2.build(d, r) * (d - d.detach()).exp()


@estimator("k3, ratio", "k3 x ratio")
def k3_ratio(d: Tensor, r: Tensor) -> Tensor:
    """Corrected for the behaviour policy."""
    return _k3(d) * r


@estimator(
    "kl-reference-swapped",
    "exp(d) - 1 - d",
    "Policy and reference are swapped in k3: it estimates the KL of the other direction with the "
    "wrong weights.",
    "k3",
)
def swapped(d: Tensor, r: Tensor) -> Tensor:
    """k3 of -d."""
    return _k3(-d)


@estimator(
    "kl-k1-reversed", "-d", "k1 has the wrong sign: it is logp_reference - logp_policy.", "k1"
)
def k1_reversed(d: Tensor, r: Tensor) -> Tensor:
    """k1 of -d."""
    return -d


@estimator(
    "kl-without-one",
    "exp(-d) + d",
    "k3 lacks its - 1: it is 1 where policy and reference agree.",
    "k3",
)
def without_one(d: Tensor, r: Tensor) -> Tensor:
    """Not zero at d = 0."""
    return (-d).exp() + d


@estimator(
    "kl-without-d",
    "exp(-d) - 1",
    "k3 lacks its + d: it is negative where the policy is more likely.",
    "k3",
)
def without_d(d: Tensor, r: Tensor) -> Tensor:
    """Biased."""
    return (-d).expm1()


@estimator(
    "kl-detached-k3",
    "k3, detached",
    "The KL term is detached: it changes the loss and moves nothing.",
    "k3",
)
def k3_detached(d: Tensor, r: Tensor) -> Tensor:
    """The right value, no gradient."""
    return _k3(d).detach()


@estimator(
    "kl-detached-k2",
    "k2, detached",
    "The KL term is detached: it changes the loss and moves nothing.",
    "k2",
)
def k2_detached(d: Tensor, r: Tensor) -> Tensor:
    """The right value, no gradient."""
    return (d * d / 2).detach()


@estimator(
    "kl-detached-k1",
    "k1, detached",
    "The KL term is detached: it changes the loss and moves nothing.",
    "k1",
)
def k1_detached(d: Tensor, r: Tensor) -> Tensor:
    """The right value, no gradient."""
    return d.detach()


@estimator(
    "kl-exponential-detached",
    "k3, exp(-d) detached",
    "Half of k3 is detached: the gradient is 1 whatever the reference.",
    "k3",
)
def half_detached(d: Tensor, r: Tensor) -> Tensor:
    """Only d carries the gradient."""
    return (-d).expm1().detach() + d
