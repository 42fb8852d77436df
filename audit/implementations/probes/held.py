"""Numbers that move while a copy of them is held: what a detached part of a loss sees.

`Held` is an array of the array API that carries two values through every operation. Whatever is
detached goes on with the value that is held, so that a difference quotient of a loss treats as
constant exactly what the loss itself treats as constant.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def _lift(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of arrays that also takes pairs; booleans come from what is held."""

    def lifted(*args: Any, **kwargs: Any) -> Any:
        if not any(isinstance(a, Held) for a in args):
            return function(*args, **kwargs)
        held = function(*(a.held if isinstance(a, Held) else a for a in args), **kwargs)
        if held.dtype.kind == "b":
            return held
        moved = function(*(a.moved if isinstance(a, Held) else a for a in args), **kwargs)
        return Held(held, moved)

    return lifted


class Held:
    """A held and a moved FP64 array of one shape; comparisons look at what is held."""

    __array_ufunc__ = None  # NumPy's operators leave the work to the reflected ones here
    __hash__ = None  # type: ignore[assignment]
    dtype = np.dtype(np.float64)

    def __init__(self, held: Any, moved: Any) -> None:
        """Pair the two values."""
        self.held: Floats = np.asarray(held)
        self.moved: Floats = np.asarray(moved)
        self.shape, self.ndim = self.held.shape, self.held.ndim

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        """Return NumPy, lifted to pairs."""
        return HeldNamespace()

    def detach(self) -> Held:
        """Return what does not move."""
        return Held(self.held, self.held)

    def __getitem__(self, key: Any) -> Held:
        """Select elements."""
        return Held(self.held[key], self.moved[key])

    def __float__(self) -> float:
        """Return what is held."""
        return float(self.held)

    __neg__ = _lift(operator.neg)
    __add__ = _lift(operator.add)
    __sub__ = _lift(operator.sub)
    __mul__ = _lift(operator.mul)
    __truediv__ = _lift(operator.truediv)
    __radd__ = _lift(lambda a, b: b + a)
    __rsub__ = _lift(lambda a, b: b - a)
    __rmul__ = _lift(lambda a, b: b * a)
    __rtruediv__ = _lift(lambda a, b: b / a)
    __lt__ = _lift(operator.lt)
    __le__ = _lift(operator.le)
    __gt__ = _lift(operator.gt)
    __ge__ = _lift(operator.ge)
    __eq__ = _lift(operator.eq)
    __ne__ = _lift(operator.ne)


class HeldNamespace:
    """NumPy's functions, lifted to pairs as they are asked for."""

    def __getattr__(self, name: str) -> Any:
        """Return NumPy's `name`."""
        found = getattr(np, name)
        return _lift(found) if callable(found) and not isinstance(found, type) else found
