"""What every paired estimate starts from: scores, counts and settings, checked once."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlvraudit.kernels.arrays import InvalidInputError

Floats = NDArray[np.float64]


def paired_differences(baseline: ArrayLike, treatment: ArrayLike) -> Floats:
    """Return `treatment - baseline`, one per item, `[n]` FP64.

    Raises:
        InvalidInputError: No item, a value that is not finite, lengths that differ, or a
            sum of differences that overflows.
    """
    base, treated = finite_vector(baseline, "baseline"), finite_vector(treatment, "treatment")
    if base.size != treated.size:
        raise InvalidInputError("treatment", f"of length {treated.size}", f"length {base.size}")
    with np.errstate(over="ignore"):
        differences = treated - base
        total = float(np.abs(differences).sum())
    if not math.isfinite(total):
        raise InvalidInputError("treatment - baseline", "too large to add up", "finite sums")
    return differences


def finite_vector(values: ArrayLike, argument: str) -> Floats:
    """Return `values` as a vector of FP64, one per item.

    Raises:
        InvalidInputError: Not numbers, not one-dimensional, empty, or not finite somewhere.
    """
    try:
        vector = np.asarray(values, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(argument, "not an array of numbers", "one per item") from error
    if vector.ndim != 1:
        raise InvalidInputError(argument, f"of shape {vector.shape}", "one number per item")
    if vector.size == 0:
        raise InvalidInputError(argument, "empty", "at least one item")
    bad = np.flatnonzero(~np.isfinite(vector))
    if bad.size:
        at = int(bad[0])
        raise InvalidInputError(argument, str(float(vector[at])), "a finite number", (at,))
    return vector


def whole_number(value: Any, argument: str, least: int) -> int:
    """Return `value` as an integer of at least `least`.

    Raises:
        InvalidInputError: Not an integer (a boolean is none), or smaller.
    """
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < least:
        raise InvalidInputError(argument, repr(value), f"an integer, at least {least}")
    return int(value)


def open_unit(value: Any, argument: str) -> float:
    """Return `value` as a number strictly between 0 and 1.

    Raises:
        InvalidInputError: It is not.
    """
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(argument, repr(value), "a number between 0 and 1") from error
    if not (math.isfinite(number) and 0.0 < number < 1.0):
        raise InvalidInputError(argument, str(number), "strictly between 0 and 1")
    return number
