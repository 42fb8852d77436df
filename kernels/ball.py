"""Forward error bounds by running error analysis (Higham 2002, section 3.3).

A `Ball` is a number in FP64 with the error that a computation in a narrower dtype may have
made so far. It follows the array API, so the very functions that compute an objective also
bound its rounding error: a bound can't drift away from its formula. Each operation adds one
unit roundoff of its result (four units in the last place for exp, log and tanh, which covers
the vector libraries in use), a sum of n terms adds (n - 1) u times the sum of magnitudes, so
that a loss of large terms of both signs is allowed more, as it must be.

Comparisons look at the centre: at a kink both sides are right, and which one is taken there
is not bounded.
"""

# ruff: noqa: D105 (operators are what their names say)
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
quiet = np.errstate(all="ignore")
"""For operations on balls: an overflow is an infinite ball, and says so itself."""


@dataclass(frozen=True, slots=True)
class Precision:
    """Unit roundoff, smallest normal and largest finite number of a floating-point format."""

    roundoff: float
    tiny: float
    largest: float


FORMATS = {
    "float16": Precision(2.0**-11, 2.0**-24, 65504.0),
    "bfloat16": Precision(2.0**-8, 2.0**-126, (2 - 2.0**-7) * 2.0**127),
    "float32": Precision(2.0**-24, 2.0**-126, (2 - 2.0**-23) * 2.0**127),
    "float64": Precision(2.0**-53, 2.0**-1022, (2 - 2.0**-52) * 2.0**1023),
}
"""By dtype name. FP16 has its subnormal step as `tiny`: every library keeps its subnormals."""


class Ball:
    """An array of centres with radii, in a given precision; see the module's docstring."""

    __slots__ = ("centre", "precision", "radius")
    __array_ufunc__ = None  # NumPy's operators leave the work to a ball's reflected ones
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, centre: Any, radius: Any, precision: Precision) -> None:
        """Hold `centre` and `radius`, broadcast against each other."""
        self.centre: Floats = np.asarray(centre, np.float64)
        fits = isinstance(radius, np.ndarray) and radius.shape == self.centre.shape
        self.radius: Floats = radius if fits else np.full(self.centre.shape, radius, np.float64)
        self.precision = precision

    dtype = np.dtype(np.float64)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the centres."""
        return self.centre.shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.centre.ndim

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.centre.size

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        """Return the operations on balls, as the array API asks."""
        from rlvraudit.kernels.ball_operations import BallNamespace  # each needs the other

        return BallNamespace(self.precision)

    def __getitem__(self, key: Any) -> Ball:
        """Select elements; exact."""
        return Ball(self.centre[key], self.radius[key], self.precision)

    def __float__(self) -> float:
        """Return the centre of a single ball."""
        return float(self.centre)

    def rounded(self, extra: Floats | float, centre: Floats) -> Ball:
        """Return `centre` with radius `extra` plus the rounding of one operation."""
        radius = np.abs(centre)
        radius *= self.precision.roundoff
        radius += extra
        radius += self.precision.tiny
        return Ball(centre, radius, self.precision)

    def lift(self, other: Any) -> Ball:
        """Return `other` as a ball; plain numbers and arrays are rounded to the precision."""
        return other if isinstance(other, Ball) else lifted(other, self.precision)

    def __neg__(self) -> Ball:
        return Ball(-self.centre, self.radius, self.precision)

    @quiet
    def __add__(self, other: Any) -> Ball:
        b = self.lift(other)
        return self.rounded(self.radius + b.radius, self.centre + b.centre)

    @quiet
    def __sub__(self, other: Any) -> Ball:
        b = self.lift(other)
        return self.rounded(self.radius + b.radius, self.centre - b.centre)

    @quiet
    def __mul__(self, other: Any) -> Ball:
        b = self.lift(other)
        spread = np.abs(self.centre) * b.radius + self.radius * (np.abs(b.centre) + b.radius)
        return self.rounded(spread, self.centre * b.centre)

    @quiet
    def __truediv__(self, other: Any) -> Ball:
        b = self.lift(other)
        quotient = self.centre / b.centre
        nearest = np.maximum(np.abs(b.centre) - b.radius, np.finfo(np.float64).tiny)
        spread = (self.radius + np.abs(quotient) * b.radius) / nearest
        return self.rounded(np.where(b.radius + self.radius == 0, 0.0, spread), quotient)

    def __radd__(self, other: Any) -> Ball:
        return self.__add__(other)

    def __rmul__(self, other: Any) -> Ball:
        return self.__mul__(other)

    def __rsub__(self, other: Any) -> Ball:
        return self.lift(other) - self

    def __rtruediv__(self, other: Any) -> Ball:
        return self.lift(other) / self

    @quiet
    def __matmul__(self, other: Any) -> Ball:
        b = self.lift(other)
        mine, other_magnitude = np.abs(self.centre), np.abs(b.centre)
        growth = self.shape[-1] * self.precision.roundoff
        spread = (self.radius + growth * mine) @ other_magnitude
        if b.radius.any():
            spread += (mine + self.radius) @ b.radius
        return self.rounded(spread, self.centre @ b.centre)

    def __lt__(self, other: Any) -> Any:
        return self.centre < self.lift(other).centre

    def __le__(self, other: Any) -> Any:
        return self.centre <= self.lift(other).centre

    def __gt__(self, other: Any) -> Any:
        return self.centre > self.lift(other).centre

    def __ge__(self, other: Any) -> Any:
        return self.centre >= self.lift(other).centre

    def __eq__(self, other: object) -> Any:
        return self.centre == self.lift(other).centre

    def __ne__(self, other: object) -> Any:
        return self.centre != self.lift(other).centre


@quiet
def lifted(plain: Any, precision: Precision) -> Ball:
    """Return a plain number or array as a ball: off by a rounding unless representable."""
    centre = np.asarray(plain, np.float64)
    if precision is FORMATS["float64"]:
        return Ball(centre, 0.0, precision)
    held = centre.astype(np.float32).astype(np.float64)
    return Ball(centre, np.where(held == centre, 0.0, np.abs(held - centre)), precision)
