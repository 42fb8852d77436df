"""The batch: the order of its rows, its split into micro-batches, rows that are empty."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rlvraudit.audit.implementations.card import Entry, Fault, Finding
from rlvraudit.audit.implementations.families.family import Recovery
from rlvraudit.audit.implementations.implementation import Outcome
from rlvraudit.audit.implementations.recovery.bench import Bench, Inputs
from rlvraudit.audit.implementations.trials.trial import Trial, answered, changed

EPSILON = 1e-8
"""What masked means customarily add to a denominator: whole and parts differ by as much."""
SIZES: dict[str, Callable[[Any], float]] = {
    "tokens": lambda mask: float(mask.sum()),
    "trajectories": lambda mask: float(len(mask)),
    "": lambda mask: 1.0,
}
SCALES = {
    "tokens": "additive when weighted by tokens",
    "trajectories": "additive when weighted by trajectories",
    "": "additive",
}


def rows(inputs: Inputs, chosen: Any) -> Inputs:
    """Return some rows of a batch."""
    return {name: array[chosen] for name, array in inputs.items()}


def ask_order(bench: Bench, recovery: Recovery) -> Finding:
    """Return whether the order of rows matters."""
    for _, inputs, outcome in answered(bench, recovery):
        order = np.roll(np.arange(len(next(iter(inputs.values()))))[::-1], 1)
        gradient = outcome.gradient[order] if outcome.gradient.size else outcome.gradient
        value = outcome.value[order] if outcome.value.ndim else outcome.value
        fault = changed(
            bench,
            rows(inputs, order),
            replace(outcome, gradient=gradient, value=value),
            "depends-on-row-order",
            "Another order of the rows gives another result.",
        )
        if fault is not None:
            return Finding(faults=(fault,))
    return Finding()


def ask_split(bench: Bench, recovery: Recovery) -> Finding:
    """Return how the loss of a batch is put together from those of its micro-batches."""
    if recovery.variable == "rewards":
        return Finding()
    holding = set(SCALES)
    asked = False
    for _, inputs, outcome in answered(bench, recovery):
        mask = inputs["mask"]
        if len(mask) < 3:
            continue
        for at in range(1, len(mask)):
            halves = rows(inputs, slice(at)), rows(inputs, slice(at, None))
            parts = [bench.run(half) for half in halves]
            if any(part.error or not part.finite for part in parts):
                continue
            asked = True
            holding = {h for h in holding if _adds_up(bench, h, halves, parts, outcome)}
    if not asked:
        return Finding((Entry("micro-batches", "not seen"),))
    return _split_finding(recovery, holding)


def _adds_up(
    bench: Bench, scale: str, halves: Sequence[Inputs], parts: Sequence[Outcome], whole: Outcome
) -> bool:
    """Return whether weighted parts are the whole, in value and gradient."""
    counted = [SIZES[scale](half["mask"]) for half in halves]
    shares = [count / sum(counted) if scale else 1.0 for count in counted]
    value = sum(share * part.value for share, part in zip(shares, parts, strict=True))
    gradient = [share * part.gradient for share, part in zip(shares, parts, strict=True)]
    slack = 4.0 * EPSILON
    return bench.close(value, whole.value, slack) and bench.close(
        np.concatenate(gradient), whole.gradient, slack
    )


def _split_finding(recovery: Recovery, holding: set[str]) -> Finding:
    if recovery.normaliser is not None and recovery.normaliser in holding:
        return Finding((Entry("micro-batches", SCALES[recovery.normaliser]),))
    if recovery.normaliser is None and holding:
        return Finding((Entry("micro-batches", SCALES[min(holding)]),))
    fault = Fault(
        "depends-on-micro-batches",
        "The loss of a batch is not that of its micro-batches, weighted by its own normaliser: "
        "a trajectory's gradient depends on which others are beside it.",
    )
    faults = (fault,) if recovery.normaliser is not None else ()
    return Finding((Entry("micro-batches", "not additive", True),), faults)


def ask_empty(bench: Bench, recovery: Recovery) -> Finding:
    """Return what a trajectory without an active token does."""
    if recovery.variable == "rewards" or not bench.takes("mask"):
        return Finding()
    for _, inputs, outcome in answered(bench, recovery):
        mask = inputs["mask"]
        empty = {name: np.concatenate([array, array[:1]]) for name, array in inputs.items()}
        empty["mask"] = np.concatenate([mask, np.zeros((1, *mask.shape[1:]), dtype=bool)])
        seen = bench.run(empty)
        return Finding((Entry("empty rows", _empty_words(bench, seen, outcome, len(mask))),))
    return Finding()


def _empty_words(bench: Bench, now: Outcome, before: Outcome, count: int) -> str:
    if now.error:
        return "refused"
    if not np.isfinite(now.value).all():
        return "not a number"
    if bench.close(now.value, before.value):
        return "left out"
    if bench.close(now.value, before.value * count / (count + 1)):
        return "counted as trajectories"
    return "change the result otherwise"


ORDER = Trial("row order", "the order of the rows", ask_order)
SPLIT = Trial("micro-batches", "the split into micro-batches", ask_split)
EMPTY = Trial("empty rows", "trajectories without an active token", ask_empty)
