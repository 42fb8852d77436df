"""Which log-probabilities each token's ratio is made of, found by moving them one at a time."""

import numpy as np
from numpy.typing import NDArray

from rlvraudit.audit.implementations.recovery.bench import Bench, Floats, batch, mask_of

ROWS, COLUMNS = 2, 4
STEP = 0.03


def influences(bench: Bench) -> NDArray[np.bool_]:
    """Return whether moving logp_old at one token changes the gradient at another.

    `[ROWS * COLUMNS, ROWS * COLUMNS]`: the gradient's token, then that of logp_old. Advantages are
    positive and ratios below 1, where no surrogate clips.
    """
    mask = mask_of([COLUMNS] * ROWS)
    at_rest = _gradient(bench, np.full(mask.shape, -0.2))
    found = []
    for place in range(mask.size):
        x = np.full(mask.shape, -0.2)
        x.flat[place] -= STEP
        moved = batch(mask, -0.2)
        moved["logp_old"] = moved["logp_old"] + (-0.2 - x)
        found.append(np.abs(_of(bench, moved) - at_rest) > 1e-7)
    return np.array(found).T


def _gradient(bench: Bench, x: Floats) -> Floats:
    return _of(bench, batch(mask_of([COLUMNS] * ROWS), x))


def _of(bench: Bench, inputs: dict[str, NDArray[np.float64]]) -> Floats:
    gradient = bench.run(inputs).gradient
    return gradient.ravel() if gradient.size == ROWS * COLUMNS else np.zeros(ROWS * COLUMNS)


def describe(moves: NDArray[np.bool_]) -> tuple[str, str]:
    """Return the kind of fault that the influences show and a sentence, both empty for none."""
    row = np.repeat(np.arange(ROWS), COLUMNS)
    same = row[:, None] == row[None, :]
    if not moves.any():
        return "old-not-read", "No gradient depends on logp_old."
    if (moves & ~same).any():
        return "rows-mixed", "The ratio of one trajectory depends on logp_old of another."
    inside = moves[:COLUMNS, :COLUMNS]
    for by, where in ((1, "t - 1"), (-1, "t + 1")):
        off = np.eye(COLUMNS, k=-by, dtype=bool)
        if (inside & off).any() and not (inside & np.eye(COLUMNS, dtype=bool)).any():
            return (
                "old-shifted",
                "logp_old is shifted one position against logp_policy: "
                f"position t is compared with {where}.",
            )
    return "", ""
