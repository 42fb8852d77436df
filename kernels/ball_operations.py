"""The array API's functions on balls: each bounds the rounding error that it makes."""

from collections.abc import Callable
from typing import Any

import numpy as np

from rlvraudit.kernels.ball import Ball, Floats, Precision, lifted, quiet

LIBRARY_ULPS = 4
"""Units in the last place that exp, log and tanh may be off: it covers the libraries in use."""


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

    def expand_dims(self, x: Any, *, axis: int = 0) -> Ball:
        """Add an axis; exact."""
        return self._join(lambda part: np.expand_dims(part, axis), x)

    def abs(self, x: Any) -> Ball:
        """Magnitude; exact."""
        ball = self.lift(x)
        return Ball(np.abs(ball.centre), ball.radius, self.precision)

    @quiet
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

    @quiet
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

    @quiet
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

    @quiet
    def exp(self, x: Any) -> Ball:
        """Exponential."""
        x = self.lift(x)
        centre = np.exp(x.centre)
        return self._library(centre, self._exponential_spread(x, centre))

    @quiet
    def expm1(self, x: Any) -> Ball:
        """Exponential minus one, without cancellation."""
        x = self.lift(x)
        return self._library(np.expm1(x.centre), self._exponential_spread(x, np.exp(x.centre)))

    def _exponential_spread(self, x: Ball, exponential: Floats) -> Floats:
        """Return a bound of exp(c + r) - exp(c): expm1(r) is at most r (1 + r) where r < 1."""
        near = exponential * (x.radius * (1 + x.radius))
        if x.radius.max(initial=0.0) < 1 and np.isfinite(near).all():
            return near
        return np.where(x.radius < 1, near, np.exp(x.centre + x.radius))

    @quiet
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

    @quiet
    def sqrt(self, x: Any) -> Ball:
        """Square root."""
        ball = self.lift(x)
        centre = np.sqrt(ball.centre)
        scale = np.where(ball.centre > 0, centre, 1.0)
        near = np.sqrt(ball.radius)
        spread = np.where(ball.centre > ball.radius, ball.radius / scale, near)
        return ball.rounded(spread, centre)
