"""Negative log-likelihood from logits: alignment, normaliser, aggregation."""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rlvraudit.audit.implementations.card import Entry, Fault, Finding
from rlvraudit.audit.implementations.closed_forms import parts
from rlvraudit.audit.implementations.closed_forms.likelihood import Likelihood
from rlvraudit.audit.implementations.closed_forms.weighting import NORMED, PUBLISHED, Weighting
from rlvraudit.audit.implementations.families.family import Declared, Family, Recovery
from rlvraudit.audit.implementations.families.surrogate import mismatches
from rlvraudit.audit.implementations.recovery.bench import Bench, Inputs, mask_of, spread
from rlvraudit.audit.implementations.recovery.evaluate import differs
from rlvraudit.audit.implementations.recovery.examples import smallest
from rlvraudit.audit.implementations.recovery.surrogate import instead
from rlvraudit.audit.implementations.recovery.weights import fit, measure

VOCABULARY = 5
SURE = 200.0
"""A logit beside which the others have probability 0 in FP64."""
SIZES = ([1], [2], [1, 1], [1, 2], [3, 2])


def recover_likelihood(bench: Bench, declared: Declared) -> Recovery:
    """Return what an NLL computes, and what of it is wrong or not as declared."""
    weighting = fit(measure(lambda mask, row: _row_weight(bench, mask, row)), bench.tolerance)
    form = _assemble(bench, weighting)
    right = Likelihood(
        parts("likelihood")["log-softmax"] if form is None else instead(form.part),
        form.weighting if form and form.weighting.exponents in PUBLISHED else TOKEN_MEAN,
    )
    faults = list(_faults(form))
    known = {} if form is None else {"aggregation": form.weighting.name}
    if not faults:
        faults.extend(mismatches(declared, known))
    example = smallest(bench, right, _small()) if faults else None
    return Recovery(
        objective="nll.from_logits" if form else "",
        finding=Finding(
            tuple(_entries(form)), tuple(replace(fault, example=example) for fault in faults)
        ),
        form=form,
        right=right,
        batches=_batches(),
        variable="logits",
        numbers=known,
        normaliser=_normaliser(form),
    )


TOKEN_MEAN = Weighting((0, 0, -1, 0))


def _normaliser(form: Likelihood | None) -> str | None:
    if form is None or form.part.fault or form.weighting.exponents not in PUBLISHED:
        return None
    rows, _, total, _ = form.weighting.exponents
    return "tokens" if total else "trajectories" if rows else ""


def _inputs(mask: NDArray[np.bool_], logits: NDArray[np.float64]) -> Inputs:
    target = (np.arange(mask.size).reshape(mask.shape) * 3 + 1) % VOCABULARY
    return {
        "logits": np.where(mask[..., None], logits, 0.0),
        "target": np.where(mask, target, 0),
        "mask": mask,
    }


def _row_weight(bench: Bench, mask: NDArray[np.bool_], row: int) -> float:
    """Return a row's weight: with every other token certain, and its own uniform."""
    inputs = _inputs(mask, np.zeros((*mask.shape, VOCABULARY)))
    certain = np.eye(VOCABULARY)[inputs["target"]] * SURE
    certain[row] = 0.0
    inputs["logits"] = np.where(mask[..., None], certain, 0.0)
    return bench.value(inputs) / math.log(VOCABULARY)


def _batches() -> dict[str, Inputs]:
    holed = mask_of([5, 3, 4, 1], 6)
    holed[0, 2] = holed[2, 1] = False
    square = mask_of([VOCABULARY] * VOCABULARY)
    return {
        "holed": _inputs(holed, spread((*holed.shape, VOCABULARY), -3.0, 3.0)),
        "square": _inputs(square, spread((*square.shape, VOCABULARY), -2.0, 2.0, 7)),
        "short": _inputs(mask_of([1, 3, 2]), spread((3, 3, VOCABULARY), -4.0, 4.0, 5)),
    }


def _assemble(bench: Bench, weighting: Weighting | None) -> Likelihood | None:
    batches = _batches().values()
    for known in dict.fromkeys((weighting or TOKEN_MEAN, TOKEN_MEAN)):
        for part in parts("likelihood").values():
            form = Likelihood(part, known, 4.0 * known.epsilon)
            if not any(differs(bench, form, inputs) for inputs in batches):
                return form
    return None


def _faults(form: Likelihood | None) -> Iterator[Fault]:
    if form is None:
        yield Fault("unexplained", "Value and gradient are not those of any NLL known here.")
        return
    if form.part.fault:
        yield Fault(form.part.name, form.part.fault)
    weighting = form.weighting
    if weighting.exponents[3]:
        yield Fault(
            "padding-in-denominator",
            f"Each token's weight is {weighting.formula}: the mean runs over padded positions too.",
        )
    elif weighting.exponents not in PUBLISHED:
        yield Fault("wrong-denominator", f"Each token's weight is {weighting.formula}.")
    elif weighting.constant != 1.0 and PUBLISHED[weighting.exponents] not in NORMED:
        yield Fault("constant-factor", f"The loss is {weighting.constant:.6g} times the NLL.")


def _small() -> Iterator[Inputs]:
    for lengths in SIZES:
        mask = mask_of(lengths)
        yield _inputs(mask, np.round(spread((*mask.shape, VOCABULARY), -2.0, 2.0), 1))


def _entries(form: Likelihood | None) -> Iterator[Entry]:
    if form is None:
        yield Entry("likelihood", "none of the forms known here", True)
        return
    yield Entry("likelihood", form.part.words, bool(form.part.fault))
    odd = form.weighting.exponents not in PUBLISHED
    yield Entry("aggregation", form.weighting.name, odd)


def sample(tokens: int, seed: int) -> Inputs:
    """Return a batch of logits."""
    draw = np.random.default_rng(seed)
    mask = mask_of([*draw.integers(1, tokens + 1, 7), tokens])
    return _inputs(mask, draw.normal(0.0, 2.0, (*mask.shape, VOCABULARY)))


LIKELIHOOD = Family(
    "likelihood", ("nll.from_logits",), ("logits", "target"), recover_likelihood, sample
)
