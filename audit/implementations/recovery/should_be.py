"""What a surrogate should compute: its recovered form with all that is wrong put right.

What the caller declares goes first, then what the parameters say that the code is called with,
then the published convention next to what was found.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from rlvraudit.audit.implementations.closed_forms import parts
from rlvraudit.audit.implementations.closed_forms.surrogate import (
    INFINITE,
    Penalty,
    Surrogate,
    Width,
)
from rlvraudit.audit.implementations.closed_forms.weighting import NORMED, PUBLISHED, Weighting
from rlvraudit.audit.implementations.families.family import Declared
from rlvraudit.audit.implementations.recovery.surrogate import SEQUENCES, Recovered

LEVELS = {
    "token": "grpo.surrogate",
    "none": "grpo.surrogate",
    "sequence": "gspo.surrogate",
    "sequence-token": "gspo.surrogate",
    "prefix": "tapo.surrogate",
}
LEVEL = {"grpo.surrogate": "token", "gspo.surrogate": "sequence", "tapo.surrogate": "prefix"}
EXPONENTS = {name: exponents for exponents, name in PUBLISHED.items()}
NORM = "seq-mean-token-sum-norm"


def right_level(form: Surrogate) -> str:
    """Return the ratio level, of a faulty ratio that which should stand there."""
    return form.ratio.instead or form.ratio.name


def should_be(right: Surrogate, found: Recovered, declared: Declared) -> Surrogate:
    """Return the right form, from one whose faulty parts have been replaced."""
    said = {**declared.called, **declared.parameters}
    penalty = None if right.penalty is None else _penalty(right.penalty, found, declared)
    return replace(
        _of_objective(right, declared),
        weighting=_weighting(right.weighting, said),
        width=_width(right.width, said),
        dual=_dual(right.dual, said),
        penalty=penalty,
    )


def _of_objective(right: Surrogate, declared: Declared) -> Surrogate:
    level = LEVEL.get(declared.objective or "")
    if level is None or LEVELS.get(right.ratio.name) == declared.objective:
        return right
    return replace(right, ratio=parts("ratio")[level])


def _weighting(weighting: Weighting, said: Mapping[str, Any]) -> Weighting:
    wanted = said.get("aggregation")
    norm = _number(said.get("norm"))
    if wanted == NORM:
        return Weighting(
            EXPONENTS["seq-mean-token-sum"], 1.0 / norm if norm else weighting.constant
        )
    if isinstance(wanted, str) and wanted in EXPONENTS and wanted != weighting.name:
        return Weighting(EXPONENTS[wanted])
    if weighting.exponents not in PUBLISHED:
        return SEQUENCES
    if weighting.epsilon > 1e-5:
        weighting = replace(weighting, epsilon=0.0)
    normed = PUBLISHED[weighting.exponents] in NORMED
    return weighting if normed else replace(weighting, constant=1.0)


def _width(width: Width, said: Mapping[str, Any]) -> Width:
    low, high = _number(said.get("clip_low")), _number(said.get("clip_high"))
    last, first = _number(said.get("clip_min")), _number(said.get("clip_max"))
    if first is not None:
        span = (first if last is None else last, first)
        return Width(span, span)
    sides = [(low, low) if low is not None else width.low, (high, high) if high else width.high]
    # Where one bound is missing, the other one stands for both.
    below, above = (s if np.isfinite(s).all() else o for s, o in (sides, sides[::-1]))
    alike = not np.isfinite(below).any() or (max(below) > 0.5 and max(above) < 0.5)
    return replace(width, low=above if alike else below, high=above, alone=1.0)


def _dual(dual: float, said: Mapping[str, Any]) -> float:
    if "dual_clip" not in said:
        return dual if dual > 1.0 else INFINITE
    return _number(said["dual_clip"]) or INFINITE


def _penalty(penalty: Penalty, found: Recovered, declared: Declared) -> Penalty:
    said = {**declared.called, **declared.parameters}
    beta = _number(said.get("beta"))
    wanted = declared.parameters.get("estimator")
    known = wanted in parts("estimator")
    otherwise = found.aggregated_otherwise and "aggregation" in declared.parameters
    return replace(
        penalty,
        beta=penalty.beta if beta is None else beta,
        estimator=parts("estimator")[str(wanted)] if known else penalty.estimator,
        weighting=found.weighting if otherwise and found.weighting else penalty.weighting,
    )


def _number(value: Any) -> float | None:
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if known else None
