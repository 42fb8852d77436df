"""Negative log-likelihood from logits: alignment, normaliser, aggregation."""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rlvraudit.audit.implementations.card import Entry, Example, Fault, Finding
from rlvraudit.audit.implementations.closed_forms import parts
from rlvraudit.audit.implementations.closed_forms.likelihood import Likelihood, LogOfMean
from rlvraudit.audit.implementations.closed_forms.weighting import PUBLISHED, Weighting
from rlvraudit.audit.implementations.families.family import Declared, Family, Recovery
from rlvraudit.audit.implementations.recovery.bench import (
    Bench,
    Floats,
    Inputs,
    mask_of,
    nice,
    spread,
)
from rlvraudit.audit.implementations.recovery.declared import mismatches
from rlvraudit.audit.implementations.recovery.evaluate import differs, evaluate
from rlvraudit.audit.implementations.recovery.examples import smallest
from rlvraudit.audit.implementations.recovery.structure import HOLED, positions
from rlvraudit.audit.implementations.recovery.verdicts import weighting_faults
from rlvraudit.audit.implementations.recovery.weights import fit, measure

VOCABULARY = 5
SURE = 200.0
"""A logit beside which the others have probability 0 in FP64."""
SIZES = ([1], [2], [1, 1], [1, 2], [3, 2])


def recover_likelihood(bench: Bench, declared: Declared) -> Recovery:
    """Return what an NLL computes, and what of it is wrong or not as declared."""
    faults = list(positions(bench, _inputs(HOLES, _some_logits()), "logits"))
    form = _assemble(bench)
    right = Likelihood(
        parts("likelihood")["log-softmax"],
        _right_weighting(form, declared),
    )
    if form is not None or not faults:
        faults.extend(_faults(bench, form))
    known = {} if form is None else {"aggregation": form.weighting.name}
    if not faults:
        faults.extend([*mismatches(declared.parameters, declared.called, known), *_extreme(bench)])
    example = smallest(bench, right, _small()) if faults and not declared.light else None
    return Recovery(
        objective="nll.from_logits" if form else "",
        finding=Finding(
            tuple(_entries(form)),
            tuple(f if f.example else replace(f, example=example) for f in faults),
        ),
        form=form,
        right=right,
        batches=_batches(),
        variable="logits",
        numbers=known,
        normaliser=form.weighting.normaliser if form and not form.part.fault else None,
    )


TOKEN_MEAN = Weighting((0, 0, -1, 0, 0))


def _right_weighting(form: Likelihood | None, declared: Declared) -> Weighting:
    wanted = {**declared.called, **declared.parameters}.get("aggregation")
    for exponents, name in PUBLISHED.items():
        if name == wanted:
            return Weighting(exponents)
    known = form is not None and form.weighting.exponents in PUBLISHED
    return form.weighting if form is not None and known else TOKEN_MEAN


HOLES = np.array(HOLED)


def _some_logits() -> Floats:
    return spread((*HOLES.shape, VOCABULARY), -1.0, 1.0, 3)


def _extreme(bench: Bench) -> Iterator[Fault]:
    """Yield whether logits that overflow the exponential give a result that is not finite."""
    mask = mask_of([2, 1])
    logits = np.zeros((*mask.shape, VOCABULARY))
    logits[..., 2] = 1000.0
    inputs = _inputs(mask, logits)
    expected = evaluate(Likelihood(parts("likelihood")["log-softmax"], TOKEN_MEAN), inputs)
    seen = bench.run(inputs)
    if seen.error or seen.finite:
        return
    yield Fault(
        "overflow",
        "Logits of 1000 give no finite result: the maximum is not subtracted before the "
        "exponential.",
        Example(inputs, expected, seen, f"value {float(seen.value):g}"),
        "overflow",
    )


def _inputs(mask: NDArray[np.bool_], logits: NDArray[np.float64]) -> Inputs:
    target = (np.arange(mask.size).reshape(mask.shape) * 3 + 1) % VOCABULARY
    return {
        "logits": np.where(mask[..., None], logits, 0.0),
        "target": np.where(mask, target, 0),
        "mask": mask,
    }


def _certain(mask: NDArray[np.bool_], spared: int | None, at: int | None = None) -> Inputs:
    """Return a batch whose targets are certain, but for one row, which is uniform.

    `at` makes another token than the target certain.
    """
    inputs = _inputs(mask, np.zeros((*mask.shape, VOCABULARY)))
    chosen = inputs["target"] if at is None else (inputs["target"] + at) % VOCABULARY
    logits = np.eye(VOCABULARY)[chosen] * SURE
    if spared is not None:
        logits[spared] = 0.0
    inputs["logits"] = np.where(mask[..., None], logits, 0.0)
    return inputs


def _row_weight(bench: Bench, mask: NDArray[np.bool_], row: int) -> float:
    """Return a row's weight: what it adds when every other token is certain."""
    certain, single = (bench.value(_certain(m, None)) for m in (mask, mask_of([1])))
    # A smoothed label makes even a certain token cost something.
    return (bench.value(_certain(mask, row)) - certain) / (math.log(VOCABULARY) - single)


def _batches() -> dict[str, Inputs]:
    holed = mask_of([5, 3, 4, 1], 6)
    holed[0, 2] = holed[2, 1] = False
    square = mask_of([VOCABULARY] * VOCABULARY)
    return {
        "holed": _inputs(holed, spread((*holed.shape, VOCABULARY), -3.0, 3.0)),
        "square": _inputs(square, spread((*square.shape, VOCABULARY), -2.0, 2.0, 7)),
        "short": _inputs(mask_of([1, 3, 2]), spread((3, 3, VOCABULARY), -4.0, 4.0, 5)),
    }


def _assemble(bench: Bench) -> Likelihood | None:
    batches = _batches().values()
    for form in _candidates(bench):
        if not any(differs(bench, form, inputs) for inputs in batches):
            return form
    return None


def _candidates(bench: Bench) -> Iterator[Likelihood]:
    """Yield forms with numbers read off where tokens are certain, faults last."""
    seen = measure(lambda mask, row: _row_weight(bench, mask, row))
    sign = -1.0 if bench.value(_certain(mask_of([1]), None, 1)) < 0 else 1.0
    seen = replace(seen, rows=tuple(sign * rows for rows in seen.rows))
    smoothing, temperature = _smoothing(bench), _temperature(bench)
    known = [fit(seen, bench.tolerance), *(Weighting(e) for e in PUBLISHED)]
    for weighting in dict.fromkeys(w for w in known if w is not None):
        yield Likelihood(parts("likelihood")["log-softmax"], weighting, sign=sign)
    for weighting in dict.fromkeys(w for w in known if w is not None):
        for part in parts("likelihood").values():
            yield Likelihood(part, weighting, sign=sign)
        right = parts("likelihood")["log-softmax"]
        yield Likelihood(right, weighting, temperature, sign=sign)
        yield Likelihood(right, weighting, smoothing=smoothing, sign=sign)


def _smoothing(bench: Bench) -> float:
    """Return the share of the label that goes elsewhere: what a certain token still costs."""
    return nice(
        bench.value(_certain(mask_of([1]), None)) / SURE * VOCABULARY / (VOCABULARY - 1), 1e-9
    )


def _temperature(bench: Bench) -> float:
    """Return what logits are divided by: SURE over the cost of the wrong certain token."""
    cost = abs(bench.value(_certain(mask_of([1]), None, 1)))
    return nice(SURE / cost, 1e-9) if cost else 1.0


def _faults(bench: Bench, form: Likelihood | None) -> Iterator[Fault]:
    if form is None:
        mean = not any(differs(bench, LogOfMean(), b) for b in _batches().values())
        yield LOG_OF_MEAN if mean else UNEXPLAINED
        return
    if form.part.fault:
        yield Fault(form.part.name, form.part.fault)
    if form.sign < 0:
        yield Fault("sign-flipped", "The sign is wrong: the log-likelihood is minimised.")
    if form.temperature != 1.0:
        yield Fault("logits-scaled", f"The logits are divided by {form.temperature:g} first.")
    if form.smoothing:
        yield Fault("labels-smoothed", f"The labels are smoothed by {form.smoothing:g}.")
    yield from weighting_faults(form.weighting)


LOG_OF_MEAN = Fault(
    "log-of-mean", "The logarithm is taken of the mean probability, not the mean of logarithms."
)
UNEXPLAINED = Fault("unexplained", "Value and gradient are not those of any NLL known here.")


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


ROWS = 20


def sample(tokens: int, seed: int) -> Inputs:
    """Return a batch of logits."""
    draw = np.random.default_rng(seed)
    mask = mask_of([*draw.integers(1, tokens + 1, ROWS - 1), tokens])
    return _inputs(mask, draw.normal(0.0, 2.0, (*mask.shape, VOCABULARY)))


LIKELIHOOD = Family(
    "likelihood",
    ("nll.from_logits",),
    ("logits", "target"),
    ("mask",),
    recover_likelihood,
    sample,
)
