"""Batches for the comparison with a closed form: ragged, with holes, in all six clip regions."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlvraudit.audit.implementations.recovery.bench import Floats, Inputs, batch, mask_of, spread


@dataclass(frozen=True, slots=True)
class Zones:
    """The log of the clip bounds that a batch has to straddle."""

    low: float
    high: float

    @property
    def reach(self) -> float:
        """How far beyond a bound the batch goes."""
        return 0.6 * max(-self.low, self.high)

    def centres(self) -> Floats:
        """Return a log-ratio in every zone."""
        return np.array([self.low - self.reach, 0.3 * self.high, self.high + self.reach])


def zones(low: float, high: float) -> Zones:
    """Return the zones of these bounds of the ratio; customary ones where there are none."""
    below = np.log(low) if 0.0 < low < 1.0 else np.log(0.8)
    above = np.log(high) if 1.0 < high < np.inf else np.log(1.2)
    return Zones(float(below), float(above))


def holed_mask() -> NDArray[np.bool_]:
    """Return eight rows of at most seven tokens: full, short, of one token, with holes."""
    mask = mask_of([7, 5, 6, 4, 7, 3, 6, 1])
    mask[0, 2] = mask[2, 0] = mask[4, 3] = mask[4, 4] = mask[6, 1] = False
    return mask


def straddling(around: Zones) -> Inputs:
    """Return a batch whose rows lie on both sides of the bounds, for both signs of A."""
    mask = holed_mask()
    centre = np.tile(around.centres(), 3)[: len(mask), None]
    wobble = spread(mask.shape, -0.45, 0.45) * around.reach
    sign = np.array([1.0, 1.0, 1.0, -1.0, -1.0, -1.0, 1.0, -1.0])
    advantages = sign * spread((len(mask),), 0.4, 1.6, 5)
    return batch(mask, centre + wobble, advantages, spread(mask.shape, -2.0, 2.0, 17))


def broad(around: Zones) -> Inputs:
    """Return a batch whose ratios run from 1/4 to 12, whatever the bounds."""
    mask = holed_mask()[::-1].copy()
    x = spread(mask.shape, -1.4, 1.4, 3)
    x[0, 0], x[3, 1] = 2.4, -1.9
    advantages = spread((len(mask),), -1.5, 1.5, 11)
    return batch(mask, x, advantages, spread(mask.shape, -2.0, 2.0, 29))


def short(around: Zones) -> Inputs:
    """Return three rows of one, two and three tokens, without padding in the longest."""
    mask = mask_of([1, 3, 2])
    x = spread(mask.shape, -0.9, 0.9, 41)
    return batch(mask, x, np.array([0.7, -1.1, 1.3]), spread(mask.shape, -1.5, 1.5, 7))


def square(around: Zones) -> Inputs:
    """Return as many rows as tokens, where a wrong axis does not raise."""
    mask = mask_of([4, 4, 4, 4])
    x = spread(mask.shape, -0.8, 0.8, 53)
    return batch(mask, x, np.array([0.9, -0.6, 1.4, -1.2]), spread(mask.shape, -1.5, 1.5, 61))


def far(around: Zones) -> Inputs:
    """Return a batch that has left the behaviour policy far behind: ratios from 1.6 to 20."""
    mask = mask_of([3, 4, 2, 4])
    x = spread(mask.shape, 0.5, 3.0, 83)
    advantages = np.array([-0.9, 1.2, -1.7, 0.6])
    return batch(mask, x, advantages, spread(mask.shape, -1.5, 1.5, 19))


GENERIC = {
    "straddling": straddling,
    "broad": broad,
    "short": short,
    "square": square,
    "far": far,
}
