"""Which scores a reported number depends on so finely that a change of one would show."""

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from rlvraudit.audit.results.item import Items
from rlvraudit.audit.rules.reported import Decimal, as_float

CHANGE = 1e-3
"""The relative change of a score that must show. A score of 0 or 1 among such is flipped."""


def noticed(
    table: Items,
    scores: Mapping[str, Mapping[str, Sequence[Fraction]]],
    weights: Mapping[str, int],
    reported: Decimal,
    number: Fraction,
) -> NDArray[np.bool_]:
    """Return, per row of `table`, whether changing that score would make `number` a mismatch.

    Args:
        table: The table whose rows are meant.
        scores: By method, the scores of each item over all tables.
        weights: By method, the sign with which its mean enters `number`.
        reported: What was printed.
        number: What was recomputed.
    """
    shares = np.array(
        [
            weights[key.method] / (len(scores[key.method]) * len(scores[key.method][key.item]))
            if key.method in weights
            else 0.0
            for key in table.keys
        ]
    )
    off, reach = as_float(number - reported.value), as_float(reported.half) * (1 + 1e-9)
    shifts = (shares * change for change in _changes(table.scores))
    mask: NDArray[np.bool_] = shares != 0
    for shift in shifts:
        mask = mask & (np.abs(off + shift) > reach)
    return mask


def _changes(scores: NDArray[np.float64]) -> Sequence[NDArray[np.float64]]:
    """Return the changes that must show, each on its own: a flip, or a little up and down."""
    if np.isin(scores, (0.0, 1.0)).all():
        return (1.0 - 2.0 * scores,)
    little = CHANGE * np.where(scores == 0, 1.0, np.abs(scores))
    return (little, -little)
