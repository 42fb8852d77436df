"""What every objective needs of an array library: namespace, compute dtype, masking, refusal."""

from typing import Any

from array_api_compat import array_namespace

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
    """Return the array API namespace of `array`."""
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
    at = tuple(int(axis[0]) for axis in xp.nonzero(bad))
    raise InvalidInputError(argument, str(float(array[at])), expected, at)


def refuse_shape(array: Array, shape: tuple[int, ...], argument: str) -> None:
    """Refuse `argument` unless it has exactly `shape`: nothing is ever broadcast silently.

    Raises:
        InvalidInputError: The shapes differ.
    """
    if tuple(array.shape) != tuple(shape):
        raise InvalidInputError(argument, f"of shape {tuple(array.shape)}", f"shape {tuple(shape)}")


def masked_logp(logp: Array, mask: Array, argument: str) -> Array:
    """Return log-probabilities in their compute dtype, zero at inactive positions.

    Inactive positions are never read: they are replaced before any arithmetic, so that a NaN
    there leaks into neither value nor gradient.

    Args:
        logp: Log-probabilities in nats, `[B, T]`.
        mask: Active tokens, `[B, T]` bool.
        argument: The argument's name, for the message.

    Raises:
        InvalidInputError: An active value is positive, NaN or infinite.
    """
    xp = namespace(logp)
    refuse_shape(logp, tuple(mask.shape), argument)
    clean = xp.where(mask, promote(logp), xp.zeros_like(promote(logp)))
    bad = ~(xp.isfinite(clean) & (clean <= 0))
    refuse_where(bad, clean, argument, "a finite log-probability, at most 0")
    return clean


def token_counts(mask: Array) -> Array:
    """Return the number of active tokens of each trajectory, `[B]`.

    Raises:
        InvalidInputError: The mask is not `[B, T]` bool or a trajectory has no active token.
    """
    xp = namespace(mask)
    if len(mask.shape) != 2 or not xp.isdtype(mask.dtype, "bool"):
        raise InvalidInputError(
            "mask", f"{mask.dtype} of shape {tuple(mask.shape)}", "booleans of shape [B, T]"
        )
    if mask.shape[0] == 0:
        raise InvalidInputError("mask", "a batch without trajectories", "at least one trajectory")
    counts = xp.sum(xp.astype(mask, xp.int64), axis=1)
    refuse_where(counts == 0, counts, "mask", "at least one active token in each trajectory")
    return counts
