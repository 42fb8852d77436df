"""The clipped surrogates: GRPO, GSPO, TAPO, and what else is put together from their parts."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from rlvraudit.audit.implementations.card import Fault, Finding
from rlvraudit.audit.implementations.closed_forms import parts
from rlvraudit.audit.implementations.closed_forms.surrogate import Penalty, Surrogate
from rlvraudit.audit.implementations.closed_forms.weighting import NORMED
from rlvraudit.audit.implementations.families.family import Declared, Family, Recovery
from rlvraudit.audit.implementations.recovery.bench import Bench, Inputs, batch, mask_of
from rlvraudit.audit.implementations.recovery.declared import mismatches
from rlvraudit.audit.implementations.recovery.evaluate import evaluate
from rlvraudit.audit.implementations.recovery.examples import small, smallest
from rlvraudit.audit.implementations.recovery.should_be import LEVELS, right_level, should_be
from rlvraudit.audit.implementations.recovery.surrogate import (
    Recovered,
    bounds_of,
    corrected,
    generic,
    recover,
)
from rlvraudit.audit.implementations.recovery.verdicts import surrogate_faults
from rlvraudit.audit.implementations.recovery.words import surrogate_entries

IMPLIED = ("broadcast", "old-shifted", "rows-mixed", "advantages-mixed")


def recover_surrogate(bench: Bench, declared: Declared) -> Recovery:
    """Return what a surrogate computes, and what of it is wrong or not as declared."""
    found = recover(bench, {**declared.called, **declared.parameters}, declared.light)
    form = found.form
    if form is not None and form.ratio.name == "none" and bench.takes("logp_old"):
        form = replace(form, ratio=parts("ratio")["old-not-read"])
    right = should_be(found.right if form is None else corrected(form), found, declared)
    faults = list(found.structure)
    if form is not None and (form.ratio.fault or form.rule.fault):
        # A part that is wrong says it better than what depends on what.
        faults = [fault for fault in faults if fault.kind not in IMPLIED]
    if form is not None or not faults:
        said = {**declared.called, **declared.parameters}
        faults.extend(
            f for f in surrogate_faults(bench, found, form) if not _meant(f, declared, said)
        )
    if form is None and not faults:
        faults.append(_scaled_gradient(bench, found) or UNEXPLAINED)
    if not faults:
        faults.extend(_against(declared, found, form))
    shown = faults and not declared.light
    example = smallest(bench, right, small(bounds_of(right.width))) if shown else None
    return Recovery(
        objective="" if form is None else LEVELS.get(right_level(form), ""),
        finding=Finding(
            () if declared.light else tuple(surrogate_entries(bench, found, form)),
            tuple(replace(fault, example=example) for fault in faults),
        ),
        form=form,
        right=right,
        batches=generic(bench, found.right.width),
        numbers=numbers(found),
        normaliser=_normaliser(found),
    )


def _meant(fault: Fault, declared: Declared, said: Mapping[str, Any]) -> bool:
    """Whether what would be a fault is what was asked for."""
    if fault.kind == "kl-k1-gradient":
        return declared.parameters.get("estimator") == "k1"
    side = {"upper-bound-missing": "clip_high", "lower-bound-missing": "clip_low"}.get(
        fault.kind, ""
    )
    return side in said and said[side] in (None, math.inf)


def _normaliser(found: Recovered) -> str | None:
    if found.weighting is None or found.aggregated_otherwise:
        return None
    return found.weighting.normaliser


UNEXPLAINED = Fault(
    "unexplained", "Value and gradient are not those of any form known here, right or wrong."
)


def _scaled_gradient(bench: Bench, found: Recovered) -> Fault | None:
    """Return the fault that the value is right and the gradient a multiple of what it should be."""
    for ratio in parts("ratio").values():
        form = replace(found.right, ratio=ratio)
        factors = [_factor(bench, form, inputs) for inputs in generic(bench, form.width).values()]
        if not ratio.fault and None not in factors and len({f"{f:.6g}" for f in factors}) == 1:
            return Fault(
                "gradient-scaled",
                f"The value is right, and the gradient {factors[0]:.6g} times what it should be.",
            )
    return None


def _factor(bench: Bench, form: Surrogate, inputs: Inputs) -> float | None:
    seen, expected = bench.run(inputs), evaluate(form, inputs)
    if seen.error or not bench.close(seen.value, expected.value, form.slack):
        return None
    size = float(np.vdot(expected.gradient, expected.gradient))
    factor = float(np.vdot(expected.gradient, seen.gradient)) / size if size else 0.0
    fits = bench.close(seen.gradient, factor * expected.gradient, form.slack)
    return factor if fits and factor else None


def numbers(found: Recovered) -> dict[str, Any]:
    """Return what was recovered, by the objectives' names of parameters."""
    width = found.form.width if found.form else found.width
    weighting = found.weighting
    known: dict[str, Any] = {"dual_clip": None if np.isinf(found.right.dual) else found.right.dual}
    if width is not None:
        known.update(clip_low=width.low[1], clip_high=width.high[1])
        if not width.fixed or found.right.ratio.name == "prefix":
            known.update(clip_min=width.high[0], clip_max=width.high[1])
    if weighting is not None:
        known.update(aggregation=weighting.name)
        if weighting.name in (*NORMED, "seq-mean-token-sum-norm"):
            known.update(norm=weighting.norm)
    penalty = found.penalty
    known["beta"] = penalty.beta if isinstance(penalty, Penalty) else 0.0
    if isinstance(penalty, Penalty):
        known["estimator"] = penalty.estimator.name
    return known


def _against(declared: Declared, found: Recovered, form: Surrogate | None) -> Iterator[Fault]:
    """Yield what differs from the declared objective and parameters."""
    level = "" if form is None else LEVELS.get(right_level(form), "")
    if declared.objective is not None and level != declared.objective:
        yield Fault(
            "other-objective",
            f"{declared.objective} is declared, but it computes {level or 'none of these'}.",
        )
        return
    yield from mismatches(declared.parameters, declared.called, numbers(found))
    penalty = found.penalty
    asked = "aggregation" in declared.parameters
    if asked and isinstance(penalty, Penalty) and found.aggregated_otherwise:
        yield Fault(
            "kl-aggregated-otherwise",
            f"The KL term is aggregated by {penalty.weighting.name}, not as the policy term.",
        )


ROWS = 20


def sample(tokens: int, seed: int) -> Inputs:
    """Return a batch with ratios on both sides of customary bounds."""
    draw = np.random.default_rng(seed)
    mask = mask_of([*draw.integers(1, tokens + 1, ROWS - 1), tokens])
    x, d = draw.normal(0.0, 0.25, (2, *mask.shape))
    return batch(mask, x, draw.normal(0.0, 1.0, len(mask)), d)


SURROGATE = Family(
    "surrogate",
    ("grpo.surrogate", "gspo.surrogate", "tapo.surrogate"),
    ("logp_policy", "advantages"),
    ("logp_old", "logp_reference", "mask"),
    recover_surrogate,
    sample,
    {
        "clip_low": (0.15,),
        "clip_high": (0.35,),
        "clip_min": (0.05,),
        "clip_max": (0.4,),
        "dual_clip": (3.5,),
        "beta": (0.7,),
        "aggregation": (
            "token-mean",
            "seq-mean-token-mean",
            "seq-mean-token-sum",
            "seq-mean-token-sum-norm",
        ),
        "norm": (37.0,),
    },
)
