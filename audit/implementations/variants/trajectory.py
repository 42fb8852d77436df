"""Wrong variants of TAPO: its prefix ratio, its clip width, and what it detaches."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvraudit.audit.implementations.variants.surrogate import (
    Terms,
    log_ratio,
    multiplied,
    outputs,
    per_token,
    slope,
    unmasked_ratio,
    weights,
)
from rlvraudit.audit.implementations.variants.variant import variant

Floats = NDArray[np.float64]
Outputs = Mapping[str, Any]


def positions(mask: Any) -> Floats:
    """Return t among the active tokens, 1 before the first."""
    t: Floats = np.maximum(np.cumsum(mask, axis=1), 1).astype(np.float64)
    return t


def columns(mask: Any) -> Floats:
    """Return t where padding and holes are counted as well."""
    return np.ones(mask.shape) * np.arange(1, mask.shape[1] + 1)


def widths(t: Floats, length: Floats, clip_min: float, clip_max: float) -> Floats:
    """Return eps_t."""
    tail = 1.0 / np.sqrt(np.maximum(length, 2.0))
    fraction = np.where(length > 1, (1.0 / np.sqrt(t) - tail) / (1.0 - tail), 1.0)
    return clip_min + (clip_max - clip_min) * fraction


def tapo_terms(logp_policy: Any, logp_old: Any, advantages: Any, mask: Any, **params: Any) -> Terms:
    """Return the terms of TAPO as the paper has them."""
    t = positions(mask)
    ratio = np.exp(np.cumsum(log_ratio(logp_policy, logp_old, mask), axis=1) / t)
    length = mask.sum(axis=1, keepdims=True)
    width = widths(t, length, params["clip_min"], params["clip_max"])
    weight = weights(mask, params["aggregation"], params.get("norm"))
    return Terms(ratio, 1.0 - width, 1.0 + width, per_token(advantages, mask), weight, mask)


def product_ratio(logp_policy: Any, logp_old: Any, mask: Any) -> Floats:
    """Return the product of the prefix ratios."""
    return np.exp(np.cumsum(log_ratio(logp_policy, logp_old, mask), axis=1))


def whole_ratio(logp_policy: Any, logp_old: Any, mask: Any) -> Floats:
    """Return the geometric mean of the whole sequence, at every token."""
    total = log_ratio(logp_policy, logp_old, mask).sum(axis=1, keepdims=True)
    ratio: Floats = np.exp(total / mask.sum(axis=1, keepdims=True)) * np.ones(mask.shape)
    return ratio


def padded_ratio(logp_policy: Any, logp_old: Any, mask: Any) -> Floats:
    """Return the prefix ratio whose t counts padding and holes."""
    return np.exp(np.cumsum(log_ratio(logp_policy, logp_old, mask), axis=1) / columns(mask))


@variant(
    "tapo.prefix_ratio.product",
    "tapo.prefix_ratio",
    "It equals the product of the ratios, not their geometric mean.",
)
def product(logp_policy: Any, logp_old: Any, mask: Any) -> Outputs:
    """No 1/t in the exponent."""
    return {"prefix_ratio": np.where(mask, product_ratio(logp_policy, logp_old, mask), 0.0)}


@variant(
    "tapo.prefix_ratio.whole-sequence",
    "tapo.prefix_ratio",
    "It equals GSPO's ratio of the whole sequence, not that of the prefix.",
)
def whole(logp_policy: Any, logp_old: Any, mask: Any) -> Outputs:
    """GSPO's ratio."""
    return {"prefix_ratio": np.where(mask, whole_ratio(logp_policy, logp_old, mask), 0.0)}


@variant(
    "tapo.prefix_ratio.padding-positions",
    "tapo.prefix_ratio",
    "Positions count padding and holes, not only active tokens.",
)
def padded(logp_policy: Any, logp_old: Any, mask: Any) -> Outputs:
    """Columns stand for positions."""
    return {"prefix_ratio": np.where(mask, padded_ratio(logp_policy, logp_old, mask), 0.0)}


@variant("tapo.clip_width.fixed", "tapo.clip_width", "The clip width is fixed at its maximum.")
def fixed(length: Any, *, clip_min: float, clip_max: float) -> Outputs:
    """eps_max at every position."""
    return {"clip_width": np.full(int(length), float(clip_max))}


@variant(
    "tapo.clip_width.swapped", "tapo.clip_width", "Smallest and largest clip width are swapped."
)
def swapped(length: Any, *, clip_min: float, clip_max: float) -> Outputs:
    """The width grows along the trajectory."""
    t = np.arange(1.0, int(length) + 1)
    return {"clip_width": widths(t, np.full_like(t, int(length)), clip_max, clip_min)}


@variant(
    "tapo.surrogate.prefix-attached",
    "tapo.surrogate",
    "The prefix ratio is not detached: the gradient holds terms of later positions over their t.",
)
def attached(logp_policy: Any, logp_old: Any, advantages: Any, mask: Any, **params: Any) -> Outputs:
    """dR_t / dlogp_i = R_t / t for every i up to t."""
    terms = tapo_terms(logp_policy, logp_old, advantages, mask, **params)
    return {**outputs(terms), "grad_logp_policy": _through_prefix(terms)}


@variant(
    "tapo.surrogate.prefix-attached-and-carried",
    "tapo.surrogate",
    "The prefix ratio is multiplied by pi / sg[pi] but not detached itself.",
)
def attached_and_carried(
    logp_policy: Any, logp_old: Any, advantages: Any, mask: Any, **params: Any
) -> Outputs:
    """The right gradient, and that of the prefix on top."""
    terms = tapo_terms(logp_policy, logp_old, advantages, mask, **params)
    return {**outputs(terms), "grad_logp_policy": slope(terms) + _through_prefix(terms)}


def _through_prefix(terms: Terms) -> Floats:
    over_t = slope(terms) / positions(terms.mask)
    later = np.cumsum(over_t[:, ::-1], axis=1)[:, ::-1]
    return np.where(terms.mask, later, 0.0)


@variant(
    "tapo.surrogate.gradient-over-t",
    "tapo.surrogate",
    "The gradient is divided by t: Eq. 15 has no 1/t.",
)
def diluted(logp_policy: Any, logp_old: Any, advantages: Any, mask: Any, **params: Any) -> Outputs:
    """Local, but diluted."""
    terms = tapo_terms(logp_policy, logp_old, advantages, mask, **params)
    return {**outputs(terms), "grad_logp_policy": slope(terms) / positions(mask)}


@variant(
    "tapo.surrogate.product",
    "tapo.surrogate",
    "The ratio is the product over the prefix, not its geometric mean.",
)
def product_surrogate(
    logp_policy: Any, logp_old: Any, advantages: Any, mask: Any, **params: Any
) -> Outputs:
    """No 1/t in the exponent."""
    terms = tapo_terms(logp_policy, logp_old, advantages, mask, **params)
    return outputs(replace(terms, ratio=product_ratio(logp_policy, logp_old, mask)))


@variant(
    "tapo.surrogate.whole-sequence",
    "tapo.surrogate",
    "The ratio is GSPO's of the whole sequence, not that of the prefix.",
)
def whole_surrogate(
    logp_policy: Any, logp_old: Any, advantages: Any, mask: Any, **params: Any
) -> Outputs:
    """GSPO's ratio within TAPO's bounds."""
    terms = tapo_terms(logp_policy, logp_old, advantages, mask, **params)
    return outputs(replace(terms, ratio=whole_ratio(logp_policy, logp_old, mask)))


@variant(
    "tapo.surrogate.padding-positions",
    "tapo.surrogate",
    "Positions count padding and holes, not only active tokens.",
)
def padded_surrogate(
    logp_policy: Any, logp_old: Any, advantages: Any, mask: Any, **params: Any
) -> Outputs:
    """Columns stand for positions, the padded length for T_b."""
    terms = tapo_terms(logp_policy, logp_old, advantages, mask, **params)
    t = columns(mask)
    length = np.full((len(mask), 1), float(mask.shape[1]))
    width = widths(t, length, params["clip_min"], params["clip_max"])
    ratio = padded_ratio(logp_policy, logp_old, mask)
    return outputs(replace(terms, ratio=ratio, low=1.0 - width, high=1.0 + width))


@variant(
    "tapo.surrogate.fixed-width",
    "tapo.surrogate",
    "The clip width is fixed at its maximum, whatever the position.",
)
def fixed_surrogate(
    logp_policy: Any, logp_old: Any, advantages: Any, mask: Any, **params: Any
) -> Outputs:
    """eps_max at every position."""
    wide = {**params, "clip_min": params["clip_max"]}
    return outputs(tapo_terms(logp_policy, logp_old, advantages, mask, **wide))


@variant(
    "tapo.surrogate.swapped-bounds",
    "tapo.surrogate",
    "Smallest and largest clip width are swapped: the width grows along the trajectory.",
)
def swapped_surrogate(
    logp_policy: Any, logp_old: Any, advantages: Any, mask: Any, **params: Any
) -> Outputs:
    """eps_min and eps_max change places."""
    other = {**params, "clip_min": params["clip_max"], "clip_max": params["clip_min"]}
    return outputs(tapo_terms(logp_policy, logp_old, advantages, mask, **other))


@variant(
    "tapo.surrogate.nan-times-zero",
    "tapo.surrogate",
    "Padding is multiplied by 0, not left out: NaN * 0 is NaN.",
)
def multiplied_surrogate(
    logp_policy: Any, logp_old: Any, advantages: Any, mask: Any, **params: Any
) -> Outputs:
    """The mask is applied by multiplication."""
    terms = tapo_terms(logp_policy, logp_old, advantages, mask, **params)
    running = np.cumsum(unmasked_ratio(logp_policy, logp_old) * mask, axis=1)
    return multiplied(replace(terms, ratio=np.exp(running / positions(mask))))
