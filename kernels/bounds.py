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

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvraudit.kernels.objective import Objective

Floats = NDArray[np.float64]
LIBRARY_ULPS = 4
_quiet = np.errstate(all="ignore")  # an overflow is an infinite ball, and says so itself


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
        return BallNamespace(self.precision)

    def __getitem__(self, key: Any) -> Ball:
        """Select elements; exact."""
        return Ball(self.centre[key], self.radius[key], self.precision)

    def __float__(self) -> float:
        """Return the centre of a single ball."""
        return float(self.centre)

    def rounded(self, extra: Floats | float, centre: Floats) -> Ball:
        """Return `centre` with radius `extra` plus the rounding of one operation."""
        u, tiny = self.precision.roundoff, self.precision.tiny
        return Ball(centre, extra + u * np.abs(centre) + tiny, self.precision)

    def lift(self, other: Any) -> Ball:
        """Return `other` as a ball; plain numbers and arrays are rounded to the precision."""
        return other if isinstance(other, Ball) else lifted(other, self.precision)

    def __neg__(self) -> Ball:
        return Ball(-self.centre, self.radius, self.precision)

    @_quiet
    def __add__(self, other: Any) -> Ball:
        b = self.lift(other)
        return self.rounded(self.radius + b.radius, self.centre + b.centre)

    @_quiet
    def __sub__(self, other: Any) -> Ball:
        b = self.lift(other)
        return self.rounded(self.radius + b.radius, self.centre - b.centre)

    @_quiet
    def __mul__(self, other: Any) -> Ball:
        b = self.lift(other)
        spread = np.abs(self.centre) * b.radius + self.radius * (np.abs(b.centre) + b.radius)
        return self.rounded(spread, self.centre * b.centre)

    @_quiet
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

    @_quiet
    def __matmul__(self, other: Any) -> Ball:
        b = self.lift(other)
        magnitude = np.abs(self.centre) @ np.abs(b.centre)
        spread = np.abs(self.centre) @ b.radius + self.radius @ (np.abs(b.centre) + b.radius)
        u = self.precision.roundoff
        return self.rounded(spread + self.shape[-1] * u * magnitude, self.centre @ b.centre)

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


@_quiet
def lifted(plain: Any, precision: Precision) -> Ball:
    """Return a plain number or array as a ball: off by a rounding unless representable."""
    centre = np.asarray(plain, np.float64)
    single = precision.roundoff > FORMATS["float64"].roundoff
    held = centre.astype(np.float32).astype(np.float64) if single else centre
    return Ball(centre, np.where(held == centre, 0.0, np.abs(held - centre)), precision)


class BallNamespace:
    """The array API functions that the objectives use, on balls; others come from NumPy."""

    float32 = np.float32
    float64 = np.float64
    int64 = np.int64

    def __init__(self, precision: Precision) -> None:
        """Compute in `precision`."""
        self.precision = precision

    def __getattr__(self, name: str) -> Any:
        """Fall back on NumPy, for masks and indices."""
        return getattr(np, name)

    def lift(self, x: Any) -> Ball:
        """Return `x` as a ball of this precision, rounded to it."""
        return x if isinstance(x, Ball) else lifted(x, self.precision)

    def asarray(self, x: Any, **_: Any) -> Any:
        """Return `x`, as a ball unless it is one."""
        return self.lift(x)

    def astype(self, x: Any, dtype: Any, *, copy: bool = True) -> Any:
        """Return `x`; masks and counts become exact balls, or integers where asked for."""
        if not isinstance(x, Ball) and np.dtype(dtype).kind in "iub":
            return np.asarray(x).astype(dtype)
        return self.lift(x)

    def isfinite(self, x: Any) -> Any:
        """Tell where the centres are finite."""
        return np.isfinite(x.centre if isinstance(x, Ball) else x)

    def zeros_like(self, x: Any, **_: Any) -> Any:
        """Return exact zeros in the shape of `x`."""
        return Ball(np.zeros(x.shape), 0.0, self.precision)

    def ones_like(self, x: Any, **_: Any) -> Any:
        """Return exact ones in the shape of `x`."""
        return Ball(np.ones(x.shape), 0.0, self.precision)

    def _join(self, f: Callable[..., Any], *parts: Any) -> Ball:
        balls = [self.lift(p) for p in parts]
        return Ball(f(*(b.centre for b in balls)), f(*(b.radius for b in balls)), self.precision)

    def where(self, condition: Any, a: Any, b: Any) -> Ball:
        """Select; exact."""
        return self._join(lambda x, y: np.where(condition, x, y), a, b)

    def stack(self, arrays: Any, *, axis: int = 0) -> Ball:
        """Stack; exact."""
        return self._join(lambda *parts: np.stack(parts, axis=axis), *arrays)

    def concat(self, arrays: Any, *, axis: int = 0) -> Ball:
        """Concatenate; exact."""
        return self._join(lambda *parts: np.concatenate(parts, axis=axis), *arrays)

    def reshape(self, x: Any, shape: tuple[int, ...]) -> Ball:
        """Reshape; exact."""
        return self._join(lambda part: np.reshape(part, shape), x)

    def matrix_transpose(self, x: Any) -> Ball:
        """Swap the last two axes; exact."""
        return self._join(np.matrix_transpose, x)

    def take_along_axis(self, x: Any, indices: Any, *, axis: int = -1) -> Ball:
        """Gather; exact."""
        return self._join(lambda part: np.take_along_axis(part, indices, axis), x)

    def broadcast_to(self, x: Any, shape: tuple[int, ...]) -> Ball:
        """Broadcast; exact."""
        return self._join(lambda part: np.broadcast_to(part, shape), x)

    def expand_dims(self, x: Any, *, axis: int = 0) -> Ball:
        """Add an axis; exact."""
        return self._join(lambda part: np.expand_dims(part, axis), x)

    def squeeze(self, x: Any, axis: int) -> Ball:
        """Drop an axis; exact."""
        return self._join(lambda part: np.squeeze(part, axis), x)

    def abs(self, x: Any) -> Ball:
        """Magnitude; exact."""
        ball = self.lift(x)
        return Ball(np.abs(ball.centre), ball.radius, self.precision)

    @_quiet
    def maximum(self, a: Any, b: Any) -> Ball:
        """Larger of two; no rounding of its own, and none from one that is clearly smaller."""
        a, b = self.lift(a), self.lift(b)
        centre = np.maximum(a.centre, b.centre)
        above, below = centre - a.centre, centre - b.centre
        up = np.maximum(a.radius - above, b.radius - below)
        down = np.minimum(a.radius + above, b.radius + below)
        return Ball(centre, np.maximum(up, down), self.precision)

    def minimum(self, a: Any, b: Any) -> Ball:
        """Smaller of two; no rounding of its own."""
        return -self.maximum(-self.lift(a), -self.lift(b))

    def max(self, x: Any, *, axis: int | None = None, keepdims: bool = False) -> Ball:
        """Largest along an axis; no rounding of its own."""
        x = self.lift(x)
        radius = np.max(x.radius, axis=axis, keepdims=keepdims)
        return Ball(np.max(x.centre, axis=axis, keepdims=keepdims), radius, self.precision)

    def vecdot(self, a: Any, b: Any, *, axis: int = -1) -> Any:
        """Sum of products along an axis."""
        return self.sum(self.lift(a) * self.lift(b), axis=axis)

    @_quiet
    def sum(self, x: Any, *, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Any:
        """Sum in any order of the terms."""
        if not isinstance(x, Ball):
            return np.sum(x, axis=axis, keepdims=keepdims)
        centre = np.sum(x.centre, axis=axis, keepdims=keepdims)
        terms = x.centre.size // max(centre.size, 1)
        magnitude = np.sum(np.abs(x.centre) + x.radius, axis=axis, keepdims=keepdims)
        radius = np.sum(x.radius, axis=axis, keepdims=keepdims)
        return Ball(centre, radius + self._growth(terms - 1) * magnitude, self.precision)

    def _growth(self, roundings: Any) -> Any:
        """Return gamma_n = n u / (1 - n u) of Higham 2002, section 3.1."""
        relative = np.maximum(roundings, 0) * self.precision.roundoff
        return relative / (1 - relative)

    def mean(self, x: Any, *, axis: Any = None, keepdims: bool = False) -> Ball:
        """Sum, divided by the number of terms."""
        x = self.lift(x)
        total = self.sum(x, axis=axis, keepdims=keepdims)
        mean: Ball = total / (x.size // max(total.size, 1))
        return mean

    @_quiet
    def cumulative_sum(self, x: Any, *, axis: int = -1, dtype: Any = None) -> Any:
        """Running sum."""
        if not isinstance(x, Ball):
            return np.cumsum(x, axis=axis)
        shape = [1] * x.ndim
        shape[axis] = -1
        growth = self._growth(np.arange(x.shape[axis], dtype=np.float64).reshape(shape))
        magnitude = np.cumsum(np.abs(x.centre) + x.radius, axis=axis)
        radius = np.cumsum(x.radius, axis=axis) + growth * magnitude
        return Ball(np.cumsum(x.centre, axis=axis), radius, self.precision)

    def _library(self, centre: Floats, spread: Floats) -> Ball:
        rounding = 2 * LIBRARY_ULPS * self.precision.roundoff * np.abs(centre)
        return Ball(centre, spread + rounding + self.precision.tiny, self.precision)

    @_quiet
    def exp(self, x: Any) -> Ball:
        """Exponential."""
        x = self.lift(x)
        return self._library(np.exp(x.centre), self._exponential_spread(x))

    @_quiet
    def expm1(self, x: Any) -> Ball:
        """Exponential minus one, without cancellation."""
        x = self.lift(x)
        return self._library(np.expm1(x.centre), self._exponential_spread(x))

    def _exponential_spread(self, x: Ball) -> Floats:
        """Return exp(c + r) - exp(c), or what bounds it where the product would be inf * 0."""
        near = np.exp(x.centre) * np.expm1(np.minimum(x.radius, 1.0))
        return np.where(x.radius < 1, near, np.exp(x.centre + x.radius))

    @_quiet
    def log(self, x: Any) -> Ball:
        """Natural logarithm."""
        x = self.lift(x)
        nearest = np.maximum(x.centre - x.radius, np.finfo(np.float64).tiny)
        return self._library(np.log(x.centre), x.radius / nearest)

    def tanh(self, x: Any) -> Ball:
        """Hyperbolic tangent."""
        x = self.lift(x)
        centre = np.tanh(x.centre)
        slope = np.minimum(1.0, 1.0 - centre**2 + 2 * x.radius)
        return self._library(centre, x.radius * slope)

    @_quiet
    def sqrt(self, x: Any) -> Ball:
        """Square root."""
        ball = self.lift(x)
        centre = np.sqrt(ball.centre)
        scale = np.where(ball.centre > 0, centre, 1.0)
        near = np.sqrt(ball.radius)
        spread = np.where(ball.centre > ball.radius, ball.radius / scale, near)
        return ball.rounded(spread, centre)


def exact(values: Any, dtype: str) -> Ball:
    """Return `values`, exactly representable in `dtype`, as balls in its compute precision."""
    compute = "float32" if dtype in ("float16", "bfloat16") else dtype
    return Ball(values, 0.0, FORMATS[compute])


def output_bound(ball: Ball, dtype: str) -> Floats:
    """Return the error allowed to `ball` once it has been rounded to `dtype`."""
    precision = FORMATS[dtype]
    rounding = precision.roundoff * (np.abs(ball.centre) + ball.radius) + precision.tiny
    return ball.radius + (0.0 if precision == ball.precision else rounding)


def bounded_outputs(
    objective: Objective, inputs: Mapping[str, Any], params: Mapping[str, Any], dtype: str
) -> dict[str, Ball]:
    """Return each floating-point output of `objective` in FP64, with the error allowed to it.

    Args:
        objective: The objective; one without a tolerance of its own.
        inputs: Its inputs, as NumPy arrays; floating-point ones are exactly as given.
        params: Its parameters.
        dtype: What the inputs are computed from; gradients are rounded to it at the end.
    """
    balls = {name: _as_input(value, dtype) for name, value in inputs.items()}
    outputs = objective.evaluate(**balls, **params)
    return {
        name: Ball(ball.centre, _allowed(name, ball, dtype), ball.precision)
        for name, ball in outputs.items()
        if isinstance(ball, Ball)
    }


def error_bound(
    objective: Objective, inputs: Mapping[str, Any], params: Mapping[str, Any], dtype: str
) -> dict[str, Floats]:
    """Return the error allowed to each floating-point output; see `bounded_outputs`."""
    balls = bounded_outputs(objective, inputs, params, dtype)
    return {name: ball.radius for name, ball in balls.items()}


def _allowed(name: str, ball: Ball, dtype: str) -> Floats:
    return output_bound(ball, dtype) if name.startswith("grad_") else ball.radius


def _as_input(value: Any, dtype: str) -> Any:
    """Return floats, and single numbers of any kind, as balls; masks and tokens as they are."""
    array = np.asarray(value)
    return exact(array, dtype) if array.ndim == 0 or array.dtype.kind == "f" else array


__all__ = [
    "FORMATS",
    "Ball",
    "Precision",
    "bounded_outputs",
    "error_bound",
    "exact",
    "output_bound",
]
