"""What every objective needs of an array library: namespace, compute dtype, masking, refusal."""

import math
from typing import Any

import numpy as np

Array = Any
"""An array of any library that follows the Python array API: NumPy, PyTorch, JAX, `bounds.Ball`."""


class InvalidInputError(ValueError):
    """An argument that an objective must refuse; the message names argument, position and value."""

    def __init__(self, argument: str, found: str, expected: str, at: tuple[int, ...] = ()) -> None:
        """Say that `argument`, at position `at`, holds `found` where `expected` is demanded."""
        place = f"[{', '.join(map(str, at))}]" if at else ""
        super().__init__(f"{argument}{place} is {found}; expected {expected}")
        self.argument, self.at = argument, at


def namespace(array: Array) -> Any:
    """Return the array API namespace of `array`.

    NumPy is its own since 2.1, and so is whatever names one; array-api-compat, which takes a
    tenth of a second to import, is asked for the others.
    """
    if isinstance(array, np.ndarray | np.generic):
        return np
    if hasattr(array, "__array_namespace__"):
        return array.__array_namespace__()
    from array_api_compat import array_namespace

    return array_namespace(array)


def compute_dtype(array: Array) -> Any:
    """Return the dtype that `array` is computed in: FP32 for FP16 and BF16, its own otherwise."""
    xp = namespace(array)
    return xp.float32 if xp.finfo(array.dtype).bits < 32 else array.dtype


def promote(array: Array) -> Array:
    """Return `array` in its compute dtype."""
    return namespace(array).astype(array, compute_dtype(array), copy=False)


def stop_gradient(array: Array) -> Array:
    """Return `array` as a constant for automatic differentiation: sg[.] of the papers."""
    return array.detach() if hasattr(array, "detach") else array


def refuse_where(bad: Array, array: Array, argument: str, expected: str) -> None:
    """Refuse `argument` at the first position where `bad` is true.

    Raises:
        InvalidInputError: At least one element of `bad` is true.
    """
    xp = namespace(bad)
    if not bool(xp.any(bad)):
        return
    at = tuple(int(axis[0]) for axis in xp.nonzero(bad)) if bad.ndim else ()
    raise InvalidInputError(argument, f"{float(array[at]):g}", expected, at)


def refuse_shape(array: Array, shape: tuple[int, ...], argument: str) -> None:
    """Refuse `argument` unless it has exactly `shape`: nothing is ever broadcast silently.

    Raises:
        InvalidInputError: The shapes differ.
    """
    if tuple(array.shape) != tuple(shape):
        raise InvalidInputError(argument, f"of shape {tuple(array.shape)}", f"shape {tuple(shape)}")


def refuse_dtype(array: Array, kind: str, argument: str) -> None:
    """Refuse `argument` unless it is an array of `kind`, as `isdtype` of the array API names it.

    Raises:
        InvalidInputError: It is no array, or its dtype is another.
    """
    if not hasattr(array, "dtype"):
        raise InvalidInputError(argument, f"a {type(array).__name__}", f"an array of {kind}")
    if not namespace(array).isdtype(array.dtype, kind):
        raise InvalidInputError(argument, f"an array of {array.dtype}", f"an array of {kind}")


def number(
    value: Any, argument: str, low: float, high: float = math.inf, *, open_low: bool = False
) -> float:
    """Return the parameter `value` as a float in `[low, high)`, or in `(low, high)`.

    Raises:
        InvalidInputError: It is no number, not finite, or outside the range.
    """
    bracket = "(" if open_low else "["
    expected = f"a number in {bracket}{low:g}, {high:g})"
    try:
        plain = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInputError(argument, repr(value)[:60], expected) from None
    if isinstance(value, str | bool) or not low <= plain < high or (open_low and plain == low):
        raise InvalidInputError(argument, str(value), expected)
    return plain


def integer(value: Any, argument: str, low: int) -> int:
    """Return the parameter `value`, a Python integer or a 0-d array, as an integer.

    Raises:
        InvalidInputError: It is not a whole number, or below `low`.
    """
    plain = number(value, argument, low)
    if not plain.is_integer():
        raise InvalidInputError(argument, str(value), f"a whole number, at least {low}")
    return int(value) if isinstance(value, int) else int(plain)


def masked(array: Array, mask: Array, argument: str) -> Array:
    """Return `array`, `[B, T]`, in its compute dtype, zero at inactive positions.

    Inactive positions are never read: they are replaced before any arithmetic, so that a NaN
    there leaks into neither value nor gradient.

    Raises:
        InvalidInputError: The shapes differ, a dtype is wrong, or an active value is not finite.
    """
    refuse_dtype(mask, "bool", "mask")
    refuse_dtype(array, "real floating", argument)
    refuse_shape(array, tuple(mask.shape), argument)
    xp = namespace(array)
    wide = promote(array)
    clean = xp.where(mask, wide, xp.zeros_like(wide))
    refuse_where(~xp.isfinite(clean), clean, argument, "a finite number")
    return clean


def masked_logp(logp: Array, mask: Array, argument: str) -> Array:
    """Return log-probabilities in their compute dtype, zero at inactive positions.

    Args:
        logp: Log-probabilities in nats, `[B, T]`.
        mask: Active tokens, `[B, T]` bool.
        argument: The argument's name, for the message.

    Raises:
        InvalidInputError: An active value is positive, NaN or infinite.
    """
    clean = masked(logp, mask, argument)
    refuse_where(clean > 0, clean, argument, "a finite log-probability, at most 0")
    return clean


def token_counts(mask: Array) -> Array:
    """Return the number of active tokens of each trajectory, `[B]`.

    Raises:
        InvalidInputError: The mask is not `[B, T]` bool or a trajectory has no active token.
    """
    refuse_dtype(mask, "bool", "mask")
    if mask.ndim != 2:
        raise InvalidInputError("mask", f"of shape {tuple(mask.shape)}", "shape [B, T]")
    if mask.shape[0] == 0:
        raise InvalidInputError("mask", "a batch without trajectories", "at least one trajectory")
    xp = namespace(mask)
    counts = xp.sum(xp.astype(mask, xp.int64), axis=1)
    refuse_where(counts == 0, counts, "mask", "at least one active token in each trajectory")
    return counts
