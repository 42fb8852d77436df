"""Statistics as objectives: exact or seeded, so that vectors give them and tolerances are fixed.

They are defined on plain numbers: arrays of any library are brought to the host first.
"""

from collections.abc import Mapping
from typing import Any

from rlvraudit.kernels.inference import bootstrap, exact
from rlvraudit.kernels.inference.pass_at_k import pass_at_k
from rlvraudit.kernels.objective import objective

UNIT_RANGE = 2.0**-50
"""Eight units roundoff of FP64 at 1, the largest value of a proportion."""


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value


@objective("pass_at_k", source="Chen et al. 2021, arXiv 2107.03374, Eq. 1", absolute=UNIT_RANGE)
def unbiased_pass_at_k(n: Any, c: Any, k: Any) -> Mapping[str, Any]:
    """The unbiased pass@k of one item: c of n samples are correct."""
    return {"value": pass_at_k(_plain(n), _plain(c), _plain(k))}


@objective(
    "bootstrap.paired_items",
    source="percentile bootstrap, Efron and Tibshirani 1993, over default_rng(seed)",
    absolute=1e-12,
)
def paired_items(
    baseline: Any, treatment: Any, *, seed: int, resamples: int, confidence: float
) -> Mapping[str, Any]:
    """The paired item bootstrap: difference, interval, p-value."""
    result = bootstrap.paired_bootstrap(
        _plain(baseline),
        _plain(treatment),
        seed=seed,
        resamples=resamples,
        confidence=confidence,
    )
    names = ("difference", "ci_low", "ci_high", "p_value", "n_items")
    return {name: getattr(result, name) for name in names}


@objective("exact.mcnemar", source="exact test and mid-p, McNemar 1947", absolute=1e-12)
def mcnemar(treatment_only: Any, baseline_only: Any) -> Mapping[str, Any]:
    """The two-sided p-values of the discordant counts."""
    result = exact.mcnemar(_plain(treatment_only), _plain(baseline_only))
    return {"p_value": result.p_value, "mid_p": result.mid_p}


@objective("exact.sign_flip", source="sign-flip test, Fisher 1935", absolute=1e-12)
def sign_flip(differences: Any) -> Mapping[str, Any]:
    """The two-sided p-value, and how many differences are not zero."""
    result = exact.sign_flip(_plain(differences))
    return {"p_value": result.p_value, "nonzero": result.nonzero}
