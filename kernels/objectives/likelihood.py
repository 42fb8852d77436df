"""Log-probabilities from logits, with the usual shift by the maximum, and their NLL."""

from collections.abc import Mapping
from dataclasses import dataclass

from rlvraudit.kernels.arrays import (
    Array,
    InvalidInputError,
    namespace,
    promote,
    refuse_dtype,
    refuse_shape,
    refuse_where,
    stop_gradient,
)
from rlvraudit.kernels.objective import objective


@dataclass(frozen=True, slots=True)
class Nll:
    """The mean negative log-likelihood and its gradient in the input's dtype."""

    value: Array
    grad_logits: Array


def log_softmax(logits: Array) -> Array:
    """Return log-probabilities over the last axis; `logits` are in their compute dtype."""
    xp = namespace(logits)
    shifted = logits - stop_gradient(xp.max(logits, axis=-1, keepdims=True))
    return shifted - xp.log(xp.sum(xp.exp(shifted), axis=-1, keepdims=True))


def masked_logits(logits: Array, mask: Array, argument: str) -> Array:
    """Return logits, `[..., V]`, in their compute dtype, 0 in inactive rows, which are not read.

    Raises:
        InvalidInputError: A shape or dtype is wrong, no row is active, or an active logit is not
            finite.
    """
    refuse_dtype(mask, "bool", "mask")
    refuse_dtype(logits, "real floating", argument)
    if logits.ndim < 2 or logits.shape[-1] == 0:
        raise InvalidInputError(argument, f"of shape {tuple(logits.shape)}", "shape [..., V]")
    refuse_shape(mask, tuple(logits.shape[:-1]), "mask")
    if not bool(namespace(mask).any(mask)):
        raise InvalidInputError("mask", "false everywhere", "at least one active token")
    xp = namespace(logits)
    wide = promote(logits)
    clean = xp.where(mask[..., None], wide, xp.zeros_like(wide))
    refuse_where(~xp.isfinite(clean), clean, argument, "a finite logit")
    return clean


def active_rows(mask: Array, like: Array) -> Array:
    """Return the number of active rows, in the dtype of `like`."""
    counted = namespace(mask)
    rows = counted.sum(counted.astype(mask, counted.int64))
    return namespace(like).astype(rows, like.dtype)


def nll_from_logits(logits: Array, target: Array, mask: Array) -> Nll:
    """Return the mean over active tokens of -log softmax(logits)[target], and its gradient.

    Args:
        logits: `[..., V]`.
        target: The tokens, `[...]` integers; read at active positions only.
        mask: Active tokens, `[...]` bool.

    Raises:
        InvalidInputError: As `masked_logits`, or an active target lies outside the vocabulary.
    """
    clean = masked_logits(logits, mask, "logits")
    chosen = _one_hot(target, mask, clean.shape[-1])
    xp = namespace(clean)
    logp = log_softmax(clean)
    zeros = xp.zeros_like(logp)
    rows = active_rows(mask, clean)
    value = xp.sum(xp.where(chosen, -logp, zeros) / rows)
    p = xp.exp(stop_gradient(logp))
    gradient = xp.where(mask[..., None], (p - xp.astype(chosen, p.dtype)) / rows, zeros)
    return Nll(value, xp.astype(gradient, logits.dtype, copy=False))


def _one_hot(target: Array, mask: Array, vocabulary: int) -> Array:
    """Return `[..., V]` bool: true at the target of active rows."""
    refuse_dtype(target, "integral", "target")
    refuse_shape(target, tuple(mask.shape), "target")
    xp = namespace(target)
    clean = xp.where(mask, target, xp.zeros_like(target))
    bad = (clean < 0) | (clean >= vocabulary)
    refuse_where(bad, clean, "target", f"a token in [0, {vocabulary})")
    tokens = xp.arange(vocabulary, dtype=target.dtype, device=target.device)
    return (clean[..., None] == tokens) & mask[..., None]


def _nll(logits: Array, target: Array, mask: Array) -> Array:
    return nll_from_logits(logits, target, mask).value


@objective(
    "nll.from_logits",
    source="cross entropy; gradient softmax - onehot(target)",
    forward=_nll,
    wrt="logits",
    integral=("target",),
)
def nll(logits: Array, target: Array, mask: Array) -> Mapping[str, Array]:
    """The mean NLL over active tokens, and its gradient."""
    result = nll_from_logits(logits, target, mask)
    return {"value": result.value, "grad_logits": result.grad_logits}
