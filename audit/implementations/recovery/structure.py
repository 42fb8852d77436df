"""What depends on what, found by moving one number at a time: no formula is asked for.

Advantages are positive and ratios below 1 throughout, where no surrogate clips.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from rlvraudit.audit.implementations.card import Fault
from rlvraudit.audit.implementations.implementation import Outcome
from rlvraudit.audit.implementations.recovery.bench import Bench, Floats, Inputs, batch, mask_of

ROWS, COLUMNS = 3, 4
STEP = 0.03
FAR = 1000.0
"""An advantage, in units of usual ones, that only code which changes them treats differently."""
X = -0.2
HOLED = ((True, True, False, True, False, False), (True, True, True, True, True, True))
"""One row with a hole and padding, one that is full."""


def positions(bench: Bench, inputs: Inputs, variable: str) -> Iterator[Fault]:
    """Yield whether each active position acts, and no other does.

    A position acts where moving `variable` there changes the value, or where it has a gradient.
    """
    rest = bench.run(inputs)
    mask = inputs["mask"]
    if rest.error or not np.isfinite(rest.value).all() or rest.gradient.shape[:2] != mask.shape:
        return
    acting = np.zeros(mask.shape, dtype=bool)
    for at in np.ndindex(mask.shape):
        moved = inputs[variable].copy()
        moved[at] -= STEP * (1.0 + np.arange(moved[at].size).reshape(moved[at].shape))
        seen = bench.run({**inputs, variable: moved})
        gradient = rest.gradient[at]
        moves = bool(np.isfinite(gradient).all() and np.any(gradient))
        acting[at] = moves or not np.array_equal(seen.value, rest.value)
    yield from _misplaced(mask, acting)


def _misplaced(mask: NDArray[np.bool_], acting: NDArray[np.bool_]) -> Iterator[Fault]:
    if np.array_equal(acting, mask) or not acting.any():
        return
    packed = np.arange(mask.shape[1]) < mask.sum(axis=1, keepdims=True)
    before = np.concatenate([mask[:, :1], mask[:, :-1]], axis=1)
    if np.array_equal(acting, packed):
        yield Fault(
            "mask-read-as-length",
            "The mask is read as a length: the first T_b positions of a row count, whichever are "
            "active.",
        )
    elif np.array_equal(acting[0], ~mask[0]):
        yield Fault("mask-inverted", "Masked-out positions count and active ones do not.")
    elif (not acting[mask].all() and acting[~mask].any()) or np.array_equal(acting, mask & before):
        yield Fault(
            "mask-shifted",
            "The mask is off by one: active tokens whose neighbour is inactive change nothing.",
        )
    elif not acting[mask].all():
        silent = [f"({b}, {t})" for b, t in np.argwhere(mask & ~acting)]
        yield Fault(
            "token-dropped",
            f"Active tokens change nothing: those at {', '.join(silent)} are dropped.",
        )
    else:
        read = [f"({b}, {t})" for b, t in np.argwhere(acting & ~mask)]
        yield Fault(
            "reads-inactive-positions",
            f"Inactive positions change the result: those at {', '.join(read)} are read.",
        )


def influences(bench: Bench) -> NDArray[np.bool_]:
    """Return whether moving logp_old at one token changes the gradient at another.

    `[ROWS * COLUMNS, ROWS * COLUMNS]`: the gradient's token, then that of logp_old.
    """
    inputs = batch(mask_of([COLUMNS] * ROWS), X)
    at_rest, found = _gradient(bench.run(inputs)), []
    for place in range(ROWS * COLUMNS):
        moved = {**inputs, "logp_old": inputs["logp_old"].copy()}
        moved["logp_old"].flat[place] += STEP
        found.append(np.abs(_gradient(bench.run(moved)) - at_rest) > 1e-7)
    return np.array(found).T


def _gradient(outcome: Outcome) -> Floats:
    gradient = outcome.gradient
    return gradient.ravel() if gradient.size == ROWS * COLUMNS else np.zeros(ROWS * COLUMNS)


def misaligned(moves: NDArray[np.bool_]) -> Fault | None:
    """Return the fault that the influences of logp_old show, if they show one."""
    row = np.repeat(np.arange(ROWS), COLUMNS)
    across = moves & (row[:, None] != row[None, :])
    if across.any() and not across[:COLUMNS, COLUMNS:].all():
        return Fault("rows-mixed", "The ratio of one trajectory depends on logp_old of another.")
    inside = moves[:COLUMNS, :COLUMNS]
    if inside.any() and not inside.diagonal().any():
        return Fault(
            "old-shifted",
            "logp_old is shifted one position against logp_policy: the gradient of each token has "
            "the ratio of its neighbour.",
        )
    return None


def advantage_rows(bench: Bench) -> Fault | None:
    """Return the fault that an advantage moves other trajectories than its own, if it does."""
    mask = mask_of([COLUMNS] * ROWS)
    moved = np.zeros((ROWS, ROWS), dtype=bool)
    silent = bench.run(batch(mask, X, 0.0)).gradient
    for row in range(ROWS):
        one = (np.arange(ROWS) == row).astype(float)
        gradient = bench.run(batch(mask, X, one)).gradient
        if gradient.shape == silent.shape == mask.shape and np.isfinite(gradient).all():
            moved[row] = np.any(gradient != silent, axis=1)
    if not moved.any() or not (moved & ~np.eye(ROWS, dtype=bool)).any():
        return None
    if moved.all():
        return Fault(
            "broadcast",
            "Every trajectory is moved by every advantage: a [B] array is broadcast against "
            "[B, 1].",
        )
    return Fault("advantages-mixed", "A trajectory is moved by the advantage of another.")


def linearity(bench: Bench) -> Fault | None:
    """Return the fault that the loss is not linear in the advantages, if it is not."""
    mask = mask_of([2, 3, 1])
    each = np.array([0.5, 1.0, 2.0])
    x = np.array([[-0.1], [-0.3], [-0.5]])

    def loss(advantages: Floats) -> float:
        return bench.value(batch(mask, x, advantages))

    silent = loss(0.0 * each)
    single = [loss(each * (np.arange(3) == i)) - silent for i in range(3)]
    double = [loss(2.0 * each * (np.arange(3) == i)) - silent for i in range(3)]
    # In 16 bits such a loss may well be infinite.
    scale = FAR if bench.precision == "float64" else 1.0
    far = [loss(scale * each * (np.arange(3) == i)) - silent for i in range(3)]
    large = bench.close(np.array(far) / scale, np.array(single))
    if not large or not bench.close(np.array(double), 2.0 * np.array(single)):
        return Fault(
            "advantages-changed-inside",
            "The loss is not proportional to the advantages: they are normalised, clipped or "
            "replaced inside.",
        )
    if not bench.close(loss(each) - silent, sum(single)):
        return Fault(
            "active-mean",
            "The mean runs over trajectories whose advantage is not 0, not over all of them.",
        )
    return None


def idle(bench: Bench) -> Fault | None:
    """Return the fault that a trajectory without advantage is moved, if it is.

    At the reference itself the KL estimates are 0, whatever the estimator.
    """
    seen = bench.run(batch(mask_of([2, 3]), X, 0.0))
    if bench.takes("logp_reference") or seen.error or bench.close(seen.value, 0.0):
        return None
    return Fault(
        "zero-advantage-moved",
        "A trajectory whose advantage is 0 changes the loss, though there is no KL term.",
    )


def level(bench: Bench) -> Fault | None:
    """Return the fault that the loss on policy depends on logp itself, if it does."""
    mask = mask_of([2, 1])
    values = [bench.value(batch(mask, 0.0, 1.0, level=at)) for at in (-1.0, -2.0, -4.0)]
    flat = bench.close(values, [values[0]] * 3)
    proportional = bench.close(values, [values[0], 2.0 * values[0], 4.0 * values[0]])
    if flat or proportional:
        return None
    return Fault(
        "ratio-biased",
        "On policy the ratio is not 1: it depends on the log-probability itself "
        f"(loss {values[0]:.6g} at logp -1, {values[2]:.6g} at -4).",
    )


def one_token(bench: Bench) -> Fault | None:
    """Return the fault that a one-token trajectory alone has no finite loss, if so."""
    one, two = (bench.run(batch(mask_of([n]), X)) for n in (1, 2))
    if two.error or not two.finite or (not one.error and one.finite):
        return None
    return Fault(
        "one-token-undefined",
        f"A one-token trajectory gives {one.error or 'no finite number'}: T_b = 1 is 0 / 0 in the "
        "clip width. The decision here is eps_1 = eps_max.",
    )
