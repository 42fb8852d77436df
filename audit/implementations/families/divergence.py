"""KL estimates alone: kl.estimate, the mean of an estimator over active tokens."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rlvraudit.audit.implementations.card import Entry, Fault, Finding
from rlvraudit.audit.implementations.closed_forms import parts
from rlvraudit.audit.implementations.closed_forms.surrogate import Penalty
from rlvraudit.audit.implementations.closed_forms.weighting import PUBLISHED, Weighting
from rlvraudit.audit.implementations.families.family import Declared, Family, Recovery
from rlvraudit.audit.implementations.recovery.batches import holed_mask
from rlvraudit.audit.implementations.recovery.bench import Bench, Inputs, batch, mask_of, spread
from rlvraudit.audit.implementations.recovery.declared import mismatches
from rlvraudit.audit.implementations.recovery.divergence import Curve, clamps, recover_penalty
from rlvraudit.audit.implementations.recovery.evaluate import differs
from rlvraudit.audit.implementations.recovery.examples import smallest
from rlvraudit.audit.implementations.recovery.surrogate import instead
from rlvraudit.audit.implementations.recovery.verdicts import weighting_faults

SIZES = ([1], [2], [1, 1], [1, 2], [3, 1])
TOKEN_MEAN = Weighting((0, 0, -1, 0, 0))


@dataclass(frozen=True, slots=True)
class Estimate:
    """A KL term alone."""

    penalty: Penalty

    @property
    def slack(self) -> float:
        """What the weights leave open."""
        return self.penalty.weighting.slack

    def loss(self, inputs: Mapping[str, Any]) -> Any:
        """Return the estimate of a batch of tensors, differentiable in `logp_policy`."""
        policy, mask = inputs["logp_policy"], inputs["mask"]
        d = (policy - inputs["logp_reference"]).masked_fill(~mask, 0.0)
        x = d * 0.0 if "logp_old" not in inputs else policy - inputs["logp_old"]
        ratio = x.masked_fill(~mask, 0.0).exp()
        weight = self.penalty.weighting.of(mask, policy.dtype)
        return self.penalty.beta * (weight * self.penalty.estimator.build(d, ratio)).sum()


def recover_estimate(bench: Bench, declared: Declared) -> Recovery:
    """Return which estimator a function computes, and what of it is wrong or not as declared."""
    penalty = recover_penalty(bench)
    form = Estimate(penalty) if isinstance(penalty, Penalty) else None
    batches = _batches(bench)
    holds = form is not None and not any(differs(bench, form, b) for b in batches.values())
    right = _right(form, declared)
    faults = list(_faults(penalty, holds))
    known = {"estimator": form.penalty.estimator.name} if form else {}
    if not faults:
        faults.extend(mismatches(declared.parameters, declared.called, known))
    example = smallest(bench, right, _small()) if faults and not declared.light else None
    return Recovery(
        objective="kl.estimate" if form else "",
        finding=Finding(
            tuple(_entries(bench, penalty)),
            tuple(replace(fault, example=example) for fault in faults),
        ),
        form=form if holds else None,
        right=right,
        batches=batches,
        numbers=known,
        normaliser=form.penalty.weighting.normaliser if form else None,
    )


def _right(form: Estimate | None, declared: Declared) -> Estimate:
    wanted = str(declared.parameters.get("estimator", "k3"))
    name = wanted if wanted in parts("estimator") else "k3"
    if form is None:
        return Estimate(Penalty(1.0, parts("estimator")[name], TOKEN_MEAN))
    estimator = instead(form.penalty.estimator)
    if "estimator" in declared.parameters:
        estimator = parts("estimator")[name]
    weighting = form.penalty.weighting
    if weighting.exponents not in PUBLISHED:
        weighting = TOKEN_MEAN
    return Estimate(Penalty(1.0, estimator, weighting))


def _faults(penalty: Penalty | Curve | None, holds: bool) -> Iterator[Fault]:
    if penalty is None:
        yield Fault("kl-zero", "Value and gradient are 0 whatever the reference.")
    elif isinstance(penalty, Curve):
        yield Fault("kl-unknown", "It is none of the published estimators.")
    else:
        yield from _penalty_faults(penalty)
        if not holds and not list(_penalty_faults(penalty)):
            yield Fault("unexplained", "On whole batches it is no mean of that estimator.")


def _penalty_faults(penalty: Penalty) -> Iterator[Fault]:
    if penalty.estimator.fault:
        yield Fault(penalty.estimator.name, penalty.estimator.fault)
    if penalty.beta < 0:
        yield Fault("kl-sign", "The sign is wrong: the estimate is the negative of a divergence.")
    elif penalty.beta == 2.0 and penalty.estimator.name.startswith("k2"):
        yield Fault("kl-not-halved", "k2 is not halved: it is d^2, twice the estimate.")
    elif penalty.beta != 1.0:
        yield Fault("constant-factor", f"It is {penalty.beta:.6g} times the estimate.")
    yield from weighting_faults(penalty.weighting)


def _batches(bench: Bench) -> dict[str, Inputs]:
    holed, full = holed_mask(), mask_of([4, 4, 4, 4])
    return {
        "holed": batch(holed, 0.0, 0.0, spread(holed.shape, -2.0, 2.0, 3)),
        "square": batch(full, spread(full.shape, -0.5, 0.5), 0.0, spread(full.shape, -2.0, 2.0, 9)),
        "short": batch(mask_of([1, 3, 2]), 0.0, 0.0, spread((3, 3), -1.5, 1.5, 5)),
    }


def _small() -> Iterator[Inputs]:
    for lengths in SIZES:
        mask = mask_of(lengths)
        for d in ([0.5, -0.3], [-0.7], [1.5, -2.0]):
            yield batch(mask, 0.0, 0.0, np.resize(d, mask.shape), -1.0)


def _entries(bench: Bench, penalty: Penalty | Curve | None) -> Iterator[Entry]:
    if not isinstance(penalty, Penalty):
        yield Entry("estimator", "none" if penalty is None else "not one known here", True)
        return
    yield Entry("estimator", penalty.estimator.words, bool(penalty.estimator.fault))
    yield Entry("clamps", "; ".join(clamps(bench, penalty)) or "none up to |d| = 30")
    odd = penalty.weighting.exponents not in PUBLISHED
    words = penalty.weighting.name
    if penalty.weighting.epsilon:
        words = f"{words}, denominator + {penalty.weighting.epsilon:g}"
    yield Entry("aggregation", words, odd)


ROWS = 20


def sample(tokens: int, seed: int) -> Inputs:
    """Return a batch with a policy that has moved from its reference."""
    draw = np.random.default_rng(seed)
    mask = mask_of([*draw.integers(1, tokens + 1, ROWS - 1), tokens])
    return batch(mask, 0.0, 0.0, draw.normal(0.0, 0.4, mask.shape))


DIVERGENCE = Family(
    "divergence",
    ("kl.estimate",),
    ("logp_policy", "logp_reference"),
    ("logp_old", "mask"),
    recover_estimate,
    sample,
    {"estimator": ("k1", "k2", "k3")},
)
