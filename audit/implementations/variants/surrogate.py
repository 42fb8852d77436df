"""Wrong variants of the clipped surrogates: ratio, clip bounds, and where the gradient flows."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvraudit.audit.implementations.variants.variant import variant

Floats = NDArray[np.float64]
Outputs = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Terms:
    """What a clipped surrogate is made of, `[B, T]` in FP64: one of them is wrong in a variant."""

    ratio: Floats
    low: Floats
    high: Floats
    advantages: Floats
    weight: Floats
    mask: NDArray[np.bool_]


def log_ratio(logp_policy: Any, logp_old: Any, mask: Any) -> Floats:
    """Return logp_policy - logp_old, 0 at inactive positions."""
    difference = np.asarray(logp_policy, np.float64) - np.asarray(logp_old, np.float64)
    return np.where(mask, difference, 0.0)


def per_token(advantages: Any, mask: Any) -> Floats:
    """Return the advantages of the tokens, 0 at inactive positions."""
    wide = np.asarray(advantages, np.float64)
    return np.where(mask, wide if wide.ndim == 2 else wide[:, None], 0.0)


def weights(mask: Any, aggregation: str, norm: float | None) -> Floats:
    """Return the weight of each token's term, `[B, T]`."""
    lengths = mask.sum(axis=1, keepdims=True) + 0.0
    divisor = {
        "token-mean": lambda: np.full_like(lengths, lengths.sum()),
        "seq-mean-token-mean": lambda: lengths * len(mask),
        "seq-mean-token-sum": lambda: np.full_like(lengths, len(mask)),
        "seq-mean-token-sum-norm": lambda: np.full_like(lengths, len(mask) * (norm or np.nan)),
    }[aggregation]()
    return np.where(mask, 1.0 / divisor, 0.0)


def clipped(terms: Terms) -> NDArray[np.bool_]:
    """Return where the gradient is cut."""
    above = (terms.advantages > 0) & (terms.ratio > terms.high)
    return above | ((terms.advantages < 0) & (terms.ratio < terms.low))


def loss(terms: Terms) -> Any:
    """Return -sum weight min(r A, clip(r) A)."""
    a = terms.advantages
    bound = np.clip(terms.ratio, terms.low, terms.high)
    value = np.where(a == 0, 0.0, np.minimum(terms.ratio * a, bound * a))
    return -np.sum(terms.weight * value)


def slope(terms: Terms) -> Floats:
    """Return dloss/dr_t times r_t, `[B, T]`: the gradient where r_t = sg[r_t] pi / sg[pi]."""
    passes = terms.mask & ~clipped(terms) & (terms.advantages != 0)
    return np.where(passes, -terms.advantages * terms.ratio * terms.weight, 0.0)


def outputs(terms: Terms) -> Outputs:
    """Return loss and gradient of the surrogate with these terms."""
    return {"loss": loss(terms), "grad_logp_policy": slope(terms)}


def multiplied(terms: Terms) -> Outputs:
    """Return them where the mask was multiplied, so that what is not finite at padding leaks."""
    m = terms.mask.astype(np.float64)
    bound = np.clip(terms.ratio, terms.low, terms.high)
    value = np.minimum(terms.ratio * terms.advantages, bound * terms.advantages) * m
    gradient = np.where(clipped(terms), 0.0, -terms.advantages * terms.ratio) * m * terms.weight
    return {"loss": -np.sum(terms.weight * value), "grad_logp_policy": gradient}


def unmasked_ratio(logp_policy: Any, logp_old: Any) -> Floats:
    """Return logp_policy - logp_old with whatever stands at inactive positions."""
    return np.asarray(logp_policy, np.float64) - np.asarray(logp_old, np.float64)


def grpo_terms(logp_policy: Any, logp_old: Any, advantages: Any, mask: Any, **params: Any) -> Terms:
    """Return the terms of GRPO as the paper has them."""
    ratio = np.exp(log_ratio(logp_policy, logp_old, mask))
    return Terms(
        ratio,
        np.full_like(ratio, 1.0 - params["clip_low"]),
        np.full_like(ratio, 1.0 + params["clip_high"]),
        per_token(advantages, mask),
        weights(mask, params["aggregation"], params.get("norm")),
        mask,
    )


def gspo_terms(logp_policy: Any, logp_old: Any, advantages: Any, mask: Any, **params: Any) -> Terms:
    """Return the terms of GSPO as the paper has them."""
    whole = {**params, "aggregation": "seq-mean-token-mean"}
    terms = grpo_terms(logp_policy, logp_old, advantages, mask, **whole)
    mean = np.log(terms.ratio).sum(axis=1, keepdims=True) / mask.sum(axis=1, keepdims=True)
    return replace(terms, ratio=np.where(mask, np.exp(mean), 1.0))


def _swapped(params: Mapping[str, Any]) -> dict[str, Any]:
    return {**params, "clip_low": params["clip_high"], "clip_high": params["clip_low"]}


@variant(
    "grpo.surrogate.swapped-bounds",
    "grpo.surrogate",
    "The clip bounds are swapped: it clips to [1 - clip_high, 1 + clip_low].",
)
def grpo_swapped(
    logp_policy: Any, logp_old: Any, advantages: Any, mask: Any, **params: Any
) -> Outputs:
    """clip_low and clip_high change places."""
    return outputs(grpo_terms(logp_policy, logp_old, advantages, mask, **_swapped(params)))


@variant(
    "gspo.surrogate.swapped-bounds",
    "gspo.surrogate",
    "The clip bounds are swapped: it clips to [1 - clip_high, 1 + clip_low].",
)
def gspo_swapped(
    logp_policy: Any, logp_old: Any, advantages: Any, mask: Any, **params: Any
) -> Outputs:
    """clip_low and clip_high change places."""
    return outputs(gspo_terms(logp_policy, logp_old, advantages, mask, **_swapped(params)))


@variant(
    "grpo.surrogate.nan-times-zero",
    "grpo.surrogate",
    "Padding is multiplied by 0, not left out: NaN * 0 is NaN.",
)
def grpo_multiplied(
    logp_policy: Any, logp_old: Any, advantages: Any, mask: Any, **params: Any
) -> Outputs:
    """The mask is applied by multiplication."""
    terms = grpo_terms(logp_policy, logp_old, advantages, mask, **params)
    return multiplied(replace(terms, ratio=np.exp(unmasked_ratio(logp_policy, logp_old))))


@variant(
    "gspo.surrogate.nan-times-zero",
    "gspo.surrogate",
    "Padding is multiplied by 0, not left out: NaN * 0 is NaN.",
)
def gspo_multiplied(
    logp_policy: Any, logp_old: Any, advantages: Any, mask: Any, **params: Any
) -> Outputs:
    """The mask is applied by multiplication."""
    terms = gspo_terms(logp_policy, logp_old, advantages, mask, **params)
    total = (unmasked_ratio(logp_policy, logp_old) * mask).sum(axis=1, keepdims=True)
    ratio = np.exp(total / mask.sum(axis=1, keepdims=True)) * np.ones(mask.shape)
    return multiplied(replace(terms, ratio=ratio))


@variant(
    "gspo.surrogate.product",
    "gspo.surrogate",
    "The ratio is the product over the sequence, not its geometric mean.",
)
def gspo_product(
    logp_policy: Any, logp_old: Any, advantages: Any, mask: Any, **params: Any
) -> Outputs:
    """No division by the length."""
    terms = gspo_terms(logp_policy, logp_old, advantages, mask, **params)
    total = log_ratio(logp_policy, logp_old, mask).sum(axis=1, keepdims=True)
    return outputs(replace(terms, ratio=np.where(mask, np.exp(total), 1.0)))


@variant(
    "gspo.surrogate.token-ratio",
    "gspo.surrogate",
    "Each token carries its own ratio, as in GRPO, not that of the sequence.",
)
def gspo_token_ratio(
    logp_policy: Any, logp_old: Any, advantages: Any, mask: Any, **params: Any
) -> Outputs:
    """GRPO's ratio."""
    terms = gspo_terms(logp_policy, logp_old, advantages, mask, **params)
    return outputs(replace(terms, ratio=np.exp(log_ratio(logp_policy, logp_old, mask))))
