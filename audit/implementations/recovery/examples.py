"""The smallest input on which a loss is not what it should be."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from rlvraudit.audit.implementations.card import Example
from rlvraudit.audit.implementations.implementation import Outcome
from rlvraudit.audit.implementations.recovery.batches import Zones
from rlvraudit.audit.implementations.recovery.bench import Bench, Floats, Inputs, batch, mask_of
from rlvraudit.audit.implementations.recovery.evaluate import Form, evaluate

SIZES = ([1], [2], [1, 1], [3], [1, 2], [2, 1], [2, 2], [4], [1, 3], [3, 2, 1])
HOLED = ([[True, False, True]], [[True, False, True, False], [True, True, True, True]])
FAR = (1.3, -1.3, -3.0)


def masks() -> Iterator[NDArray[np.bool_]]:
    """Yield small masks, ever larger, those with holes last."""
    for lengths in SIZES:
        yield mask_of(lengths)
    for mask in HOLED:
        yield np.array(mask)


def small(around: Zones) -> Iterator[Inputs]:
    """Yield small batches, ever larger, with one ratio in every zone of the clip and both signs."""
    inside, above, below = 0.1, around.high + around.reach, around.low - around.reach
    for mask in masks():
        for first in (-0.25, inside, above, below, *FAR):
            for scale in (1.0, -1.0, 0.0, 20.0):
                x = np.resize([first, inside, below, above], mask.shape)
                advantages = scale * np.resize([1.0, -1.0, 0.5], len(mask))
                d = np.resize([0.5, -0.3], mask.shape)
                yield batch(mask, np.round(x, 2), advantages, d, -1.0)


def smallest(bench: Bench, right: Form, tried: Iterator[Inputs]) -> Example | None:
    """Return the first of the batches on which the loss differs from its closed form."""
    for inputs in tried:
        found = compare(bench, right, inputs)
        if found is not None:
            return found
    return None


def compare(bench: Bench, right: Form, inputs: Inputs) -> Example | None:
    """Return what differs on a batch, or None where value and gradient are right."""
    expected, actual = evaluate(right, inputs), bench.run(inputs)
    words = difference(bench, expected, actual, right.slack)
    shown = bench.shown(inputs)
    return Example(shown, expected, actual, words) if words else None


def difference(bench: Bench, expected: Outcome, actual: Outcome, slack: float = 0.0) -> str:
    """Return in words where two outcomes differ most, "" where they agree."""
    if actual.error:
        return f"it raised {actual.error}"
    for name in ("gradient", "value"):
        seen, right = getattr(actual, name), getattr(expected, name)
        if seen.shape != right.shape:
            return f"{name} of shape {seen.shape}, expected {right.shape}"
        if not bench.close(seen, right, slack):
            return f"{name}{_worst(seen, right)}"
    return ""


def _worst(seen: Floats, right: Floats) -> str:
    error = np.abs(seen - right)
    at = np.unravel_index(int(np.argmax(np.where(np.isnan(error), np.inf, error))), error.shape)
    place = f" at ({', '.join(str(int(i)) for i in at)})" if at else ""
    return f"{place} {seen[at]:.7g}, closed form {right[at]:.7g}"
