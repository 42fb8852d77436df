"""What a clipped surrogate computes: its parts, one after the other, and their sum on batches.

Numbers are read off first (weights, bounds, widths, the KL term), each from inputs on which
nothing else can hide it. Ratio level, rule and what is detached are then those that give value
and gradient of whole batches; published conventions are tried before known faults.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from rlvraudit.audit.implementations.card import Fault
from rlvraudit.audit.implementations.closed_forms import parts
from rlvraudit.audit.implementations.closed_forms.part import Part
from rlvraudit.audit.implementations.closed_forms.surrogate import (
    INFINITE,
    Penalty,
    Surrogate,
    Width,
)
from rlvraudit.audit.implementations.closed_forms.weighting import Weighting
from rlvraudit.audit.implementations.recovery.batches import GENERIC, Zones, zones
from rlvraudit.audit.implementations.recovery.bench import (
    Bench,
    Inputs,
    ProbeError,
    batch,
    close,
    mask_of,
    nice,
)
from rlvraudit.audit.implementations.recovery.clipping import Kinks, Scan, Token, kinks, scan
from rlvraudit.audit.implementations.recovery.divergence import (
    Curve,
    recover_penalty,
    same_weighting,
)
from rlvraudit.audit.implementations.recovery.evaluate import differs
from rlvraudit.audit.implementations.recovery.structure import (
    HOLED,
    X,
    advantage_rows,
    idle,
    influences,
    level,
    linearity,
    misaligned,
    one_token,
    positions,
)
from rlvraudit.audit.implementations.recovery.weights import RowWeights, fit, row_weights
from rlvraudit.audit.implementations.recovery.widths import recover_width

CUSTOMARY = Width((0.2, 0.2), (0.2, 0.2))
OFF_POLICY = -0.5


@dataclass(frozen=True, slots=True)
class Recovered:
    """What was recovered; None where nothing known gives what was seen.

    `form` reproduces the implementation; `right` is the same with faulty parts replaced by what
    should stand there. `structure` holds what is wrong whatever the formula; `sign` is -1 where
    the loss has the wrong one.
    """

    structure: tuple[Fault, ...]
    right: Surrogate
    weights: RowWeights | None = None
    weighting: Weighting | None = None
    kinks: Kinks | None = None
    width: Width | None = None
    penalty: Penalty | Curve | None = None
    form: Surrogate | None = None
    sign: float = 1.0

    @property
    def aggregated_otherwise(self) -> bool:
        """Whether the KL term has another aggregation than the policy term."""
        penalty, weighting = self.penalty, self.weighting
        if weighting is None or not isinstance(penalty, Penalty):
            return False
        return penalty.weighting.exponents != weighting.exponents


def recover(bench: Bench, called: Mapping[str, Any], light: bool = False) -> Recovered:
    """Return what an implementation computes, called with these parameters.

    Where it is `light`, what was asked before of the same code is not asked again.

    Raises:
        ProbeError: It raises, or gives no number, on inputs that every objective accepts.
    """
    faults = () if light else tuple(structure(bench))
    right = Surrogate(
        parts("ratio")["token"], parts("rule")["clipped"], said_width(called), SEQUENCES
    )
    try:
        return _recover(bench, called, faults)
    except (ProbeError, ZeroDivisionError) as error:
        if not faults:
            raise ProbeError(str(error), getattr(error, "inputs", None)) from error
        return Recovered(faults, right)


def structure(bench: Bench) -> Iterator[Fault]:
    """Yield what is wrong whatever the formula."""
    undefined = one_token(bench)
    if undefined is not None:
        yield undefined
        return
    if bench.takes("logp_old"):
        shifted = misaligned(influences(bench))
        if shifted is not None:
            yield shifted
            return
    yield from positions(bench, batch(np.array(HOLED), X), "logp_policy")
    found = [linearity(bench), level(bench), idle(bench)]
    yield from (fault for fault in found if fault is not None)
    if found[0] is None:
        mixed = advantage_rows(bench)
        if mixed is not None:
            yield mixed


def said_width(called: Mapping[str, Any]) -> Width:
    """Return the clip width that the parameters say, the customary one where they are silent."""
    low, high = (_number(called.get(name), 0.2) for name in ("clip_low", "clip_high"))
    last, first = (_number(called.get(name), 0.0) for name in ("clip_min", "clip_max"))
    return Width((last, first), (last, first)) if first else Width((low, low), (high, high))


def _number(value: Any, otherwise: float) -> float:
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if known else otherwise


SEQUENCES = Weighting((-1, -1, 0, 0, 0))


def _recover(bench: Bench, called: Mapping[str, Any], faults: tuple[Fault, ...]) -> Recovered:
    times_logp = _times_logp(bench)
    seen, sign = _weights(bench, times_logp)
    weighting = fit(seen, bench.tolerance)
    known = weighting or SEQUENCES
    found = _kinks(bench, seen, times_logp, sign)
    width = recover_width(bench, known, found) if found and weighting else None
    penalty = recover_penalty(bench) if bench.takes("logp_reference") else None
    if isinstance(penalty, Penalty):
        penalty = same_weighting(penalty, known)
    frame = Surrogate(
        parts("ratio")["token"],
        parts("rule")["log-probability" if times_logp else "clipped"],
        width or said_width(called),
        known,
        found.dual if found else np.inf,
        sign,
        penalty if isinstance(penalty, Penalty) else None,
        found.clamp if found else (-np.inf, np.inf),
    )
    form = _assemble(bench, frame, said_width(called), found.rule if found else "")
    return Recovered(
        faults, corrected(form or frame), seen, weighting, found, width, penalty, form, sign
    )


def _times_logp(bench: Bench) -> bool:
    """Return whether the loss is proportional to logp_policy, not a function of the ratio."""
    mask = mask_of([2, 1])
    one, two = (
        bench.value(batch(mask, 0.0, 1.0, level=at)) - bench.value(batch(mask, 0.0, 0.0, level=at))
        for at in (-1.0, -2.0)
    )
    return bool(one) and close(two, 2.0 * one, bench.tolerance)


def _weights(bench: Bench, times_logp: bool) -> tuple[RowWeights, float]:
    """Return the weights of rows, positive, and the sign of the loss."""
    at = -1.0 if times_logp else None
    positive, negative = (row_weights(bench, 0.0, at, sign) for sign in (1.0, -1.0))
    seen = positive if _silent(negative) or _heavier(negative, positive) else negative
    if _silent(positive) and _silent(negative):
        seen = row_weights(bench, OFF_POLICY, at)
    sign = -1.0 if times_logp else 1.0
    seen = replace(seen, rows=tuple(sign * rows for rows in seen.rows))
    if all((rows < 0).all() for rows in seen.rows):
        return replace(seen, rows=tuple(-rows for rows in seen.rows)), -1.0
    return seen, 1.0


def _silent(weights: RowWeights) -> bool:
    return all(close(rows, 0.0 * rows, 1e-12) for rows in weights.rows)


def _heavier(one: RowWeights, other: RowWeights) -> bool:
    """Whether `one` has larger weights: dual clip in the wrong place multiplies those of a sign."""
    return float(np.abs(one.rows[0]).sum()) > float(np.abs(other.rows[0]).sum()) * (1 + 1e-6)


def _kinks(bench: Bench, seen: RowWeights, times_logp: bool, sign: float) -> Kinks | None:
    single = next(r for m, r in zip(seen.masks, seen.rows, strict=True) if m.size == 1)
    if single[0] == 0.0:
        return None
    token = Token(sign * float(single[0]), times_logp)
    scanned = scan(bench, token)
    return _weight_kinks(scanned, bench) if times_logp else kinks(scanned, bench.tolerance)


def _weight_kinks(seen: Scan, bench: Bench) -> Kinks | None:
    """Return the bounds of a clipped weight of logp, the same for both signs of A."""
    ratio = np.exp(seen.x)
    if not bench.close(seen.positive, seen.negative):
        return kinks(seen, bench.tolerance)
    if bench.close(seen.positive, np.ones_like(ratio)):
        return Kinks("one", "log-probability", -np.inf, np.inf, np.inf)
    low, high = float(seen.positive.min()), float(seen.positive.max())
    low = -np.inf if np.isclose(low, ratio.min(), rtol=1e-6, atol=0) else nice(low, bench.tolerance)
    high = np.inf if np.isclose(high, ratio.max(), rtol=1e-6) else nice(high, bench.tolerance)
    fits = close(seen.positive, np.clip(ratio, low, high), 10 * bench.tolerance)
    return Kinks("ratio", "log-probability", low, high, np.inf) if fits else None


def generic(bench: Bench, width: Width) -> dict[str, Inputs]:
    """Return the batches on which a closed form must hold."""
    around = bounds_of(width)
    return {name: make(around) for name, make in GENERIC.items()}


def bounds_of(width: Width) -> Zones:
    """Return the zones of the widest bounds."""
    return zones(1.0 - max(width.low), 1.0 + max(width.high))


def _assemble(bench: Bench, frame: Surrogate, said: Width, hint: str) -> Surrogate | None:
    """Return the first form that gives value and gradient of every batch."""
    batches = generic(bench, frame.width)
    for form in candidates(frame, said, hint):
        if not any(differs(bench, form, inputs) for inputs in batches.values()):
            return form
    return None


def candidates(frame: Surrogate, said: Width, hint: str) -> Iterator[Surrogate]:
    """Yield the forms that differ from `frame` in ratio, rule and width, faults last.

    Of faults that come to the same, the rule that the scan showed is named.
    """
    widths = [frame.width, said] if said != frame.width else [frame.width]
    widths += [
        replace(width, counted=counted)
        for width in widths
        if not width.fixed
        for counted in ("columns", "longest")
    ]
    rules = list(parts("rule").values())
    if frame.rule.name == "log-probability":
        rules = [rule for rule in rules if rule.name.endswith("log-probability")]
    every = list(product(parts("ratio").values(), rules, widths))
    every.sort(
        key=lambda c: (
            bool(c[0].fault) + bool(c[1].fault) + (c[2].counted != "tokens"),
            c[1].name != hint,
        )
    )
    for ratio, rule, width in every:
        yield replace(frame, ratio=ratio, rule=rule, width=width)
    for lengths, ratio in product(("last", "span"), parts("ratio").values()):
        if not ratio.fault:
            yield replace(frame, ratio=ratio, weighting=replace(frame.weighting, lengths=lengths))


def corrected(form: Surrogate) -> Surrogate:
    """Return the form with every faulty part replaced by what should stand there."""
    penalty = form.penalty
    if penalty is not None:
        estimator = instead(penalty.estimator)
        penalty = replace(penalty, estimator=estimator, beta=abs(penalty.beta))
    return replace(
        form,
        ratio=instead(form.ratio),
        rule=instead(form.rule),
        width=replace(form.width, counted="tokens"),
        sign=1.0,
        weighting=replace(form.weighting, lengths="tokens"),
        penalty=penalty,
        clamp=(-INFINITE, INFINITE),
    )


def instead(part: Part) -> Part:
    """Return the convention that should stand in the place of a faulty part."""
    return parts(part.part)[part.instead] if part.fault else part
