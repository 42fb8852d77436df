"""The clipped surrogates: GRPO, GSPO, TAPO, and what else is put together from their parts."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from rlvraudit.audit.implementations.card import Entry, Fault, Finding
from rlvraudit.audit.implementations.closed_forms import parts
from rlvraudit.audit.implementations.closed_forms.surrogate import Penalty, Surrogate, Width
from rlvraudit.audit.implementations.closed_forms.weighting import NORMED, PUBLISHED, Weighting
from rlvraudit.audit.implementations.families.family import Declared, Family, Recovery
from rlvraudit.audit.implementations.recovery.bench import Bench, Inputs, batch, mask_of, nice
from rlvraudit.audit.implementations.recovery.clipping import Token, log_ratio_clamp
from rlvraudit.audit.implementations.recovery.divergence import Curve, clamps
from rlvraudit.audit.implementations.recovery.examples import small, smallest
from rlvraudit.audit.implementations.recovery.surrogate import (
    Recovered,
    bounds_of,
    generic,
    recover,
)
from rlvraudit.audit.implementations.recovery.weights import chunked

LEVELS = {
    "token": "grpo.surrogate",
    "none": "grpo.surrogate",
    "sequence": "gspo.surrogate",
    "sequence-token": "gspo.surrogate",
    "prefix": "tapo.surrogate",
}
LEVEL = {"grpo.surrogate": "token", "gspo.surrogate": "sequence", "tapo.surrogate": "prefix"}
INFINITE = float("inf")


def recover_surrogate(bench: Bench, declared: Declared) -> Recovery:
    """Return what a surrogate computes, and what of it is wrong or not as declared."""
    found = recover(bench, {**declared.called, **declared.parameters})
    form = found.form
    if form is not None and form.ratio.name == "none" and bench.takes("logp_old"):
        form = replace(form, ratio=parts("ratio")["old-not-read"])
    right = _as_declared(found.right, form, declared)
    faults = list(found.structure)
    if form is not None or not faults:
        faults += [
            *_weight_faults(found),
            *_clip_faults(found),
            *_part_faults(form),
            *_penalty_faults(bench, found.penalty),
        ]
    if form is None and not faults:
        faults.append(UNEXPLAINED)
    if not faults:
        faults.extend(_against(declared, found, form))
    example = smallest(bench, right, small(bounds_of(right.width))) if faults else None
    return Recovery(
        objective="" if form is None else LEVELS.get(right_level(form), ""),
        finding=Finding(
            tuple(_entries(bench, found, form)),
            tuple(replace(fault, example=example) for fault in faults),
        ),
        form=form,
        right=right,
        batches=generic(bench, found.right.width),
        numbers=numbers(found),
        normaliser=_normaliser(found.weighting),
    )


def right_level(form: Surrogate) -> str:
    """Return the ratio level, of a faulty ratio that which should stand there."""
    return form.ratio.instead or form.ratio.name


def _normaliser(weighting: Weighting | None) -> str | None:
    if weighting is None or weighting.name not in {*PUBLISHED.values(), "seq-mean-token-sum-norm"}:
        return None
    rows, _, total, *_ = weighting.exponents
    return "tokens" if total else "trajectories" if rows else ""


def _as_declared(right: Surrogate, form: Surrogate | None, declared: Declared) -> Surrogate:
    """Return the form that is right for the objective that the caller names."""
    level = LEVEL.get(declared.objective or "")
    if level is None or (form is not None and LEVELS.get(right_level(form)) == declared.objective):
        return right
    return replace(right, ratio=parts("ratio")[level])


# --- What is wrong whatever is declared ---------------------------------------------------


def _weight_faults(found: Recovered) -> Iterator[Fault]:
    weighting = found.weighting
    if weighting is None:
        yield _odd_weights(found)
    else:
        yield from weighting_faults(weighting)
    if found.sign < 0:
        yield Fault("sign-flipped", "The sign is wrong: minimising this loss lowers J.")


def weighting_faults(weighting: Weighting) -> Iterator[Fault]:
    """Yield what is wrong with an aggregation."""
    if weighting.exponents[3]:
        yield Fault(
            "padding-in-denominator",
            f"Each token's weight is {weighting.formula}: the mean runs over padded positions "
            "too, so that the loss depends on the padded width T.",
        )
    elif weighting.exponents[4]:
        yield Fault(
            "longest-row-in-denominator",
            f"Each token's weight is {weighting.formula}: it depends on the longest trajectory of "
            "the batch.",
        )
    elif weighting.exponents not in PUBLISHED:
        yield Fault(
            "wrong-denominator",
            f"Each token's weight is {weighting.formula}, which is no published aggregation: "
            "something is divided out twice, or not at all.",
        )
    elif weighting.epsilon > 1e-3:
        yield Fault(
            "denominator-offset",
            f"{weighting.epsilon:g} is added to the count that the loss is divided by.",
        )
    elif weighting.constant != 1.0 and PUBLISHED[weighting.exponents] not in NORMED:
        yield Fault(
            "constant-factor",
            f"The loss is {weighting.constant:.6g} times its {weighting.name}: a constant factor "
            "changes the learning rate.",
        )


def _odd_weights(found: Recovered) -> Fault:
    assert found.weights is not None
    rows = chunked(found.weights, 1e-9)
    if rows is not None:
        return Fault(
            "mean-of-means",
            f"The loss is a mean over micro-batches of {rows} rows of each one's token mean: "
            "tokens of short micro-batches weigh more, and the order of rows matters.",
        )
    every = np.concatenate(found.weights.rows)
    if np.any(every == 0.0) and np.any(every != 0.0):
        return Fault("row-dropped", "Some trajectories of a batch weigh nothing: they are dropped.")
    return Fault(
        "aggregation-unknown",
        "The weight of a row is not a product of powers of B, T_b, N, T and L: no aggregation that "
        "depends on counts alone gives it.",
    )


def _clip_faults(found: Recovered) -> Iterator[Fault]:
    kinks, width = found.kinks, found.width
    if kinks is None or kinks.rule not in ("clipped", "clip-without-min", "log-ratio-clamped"):
        return
    low, high = kinks.low, kinks.high
    if kinks.rule == "log-ratio-clamped":
        ends = [float(np.log(end)) for end in kinks.clamp]
        yield Fault(
            "log-ratio-clamped",
            f"The log-ratio is clamped to [{ends[0]:.4g}, {ends[1]:.4g}] first: tokens "
            "far off get no gradient, whatever their advantage.",
        )
    if not np.isfinite(low) and np.isfinite(high):
        yield Fault(
            "lower-bound-missing",
            "The ratio has no lower bound: negative advantages push it down without end.",
        )
    elif np.isfinite(low) and not np.isfinite(high):
        yield Fault("upper-bound-missing", "The ratio has no upper bound.")
    elif low < 0.5 and nice(low, 1e-9) == nice(high - 1.0, 1e-9):
        yield Fault(
            "lower-bound-is-epsilon",
            f"The ratio is clipped to [{low:g}, {high:g}]: the lower bound is eps, not 1 - eps.",
        )
    if found.weighting is not None and width is None and found.form is None:
        yield Fault(
            "clip-width-unknown",
            "The clip bounds change with the length of the trajectory, but not as TAPO's width.",
        )
    if width is not None and not width.fixed:
        yield from _width_faults(width)


def _width_faults(width: Width) -> Iterator[Fault]:
    if width.low[0] > width.low[1] or width.high[0] > width.high[1]:
        yield Fault(
            "width-grows",
            "Smallest and largest clip width are swapped: the width grows along the trajectory.",
        )
    if width.alone != 1.0:
        yield Fault(
            "one-token-width",
            "A one-token trajectory is clipped at another width than the first token of longer "
            "ones; the decision here is eps_1 = eps_max.",
        )


def _part_faults(form: Surrogate | None) -> Iterator[Fault]:
    if form is None:
        return
    for part in (form.ratio, form.rule):
        if part.fault:
            yield Fault(part.name, part.fault)
    if form.width.by_column:
        yield Fault(
            "padding-positions",
            "The clip width counts columns as positions: padding and holes change it.",
        )


def _penalty_faults(bench: Bench, penalty: Penalty | Curve | None) -> Iterator[Fault]:
    if isinstance(penalty, Curve):
        yield Fault(
            "kl-unknown",
            "The KL term is none of the published estimators, or depends on the ratio as none "
            "does.",
        )
    if penalty is None and bench.takes("logp_reference") and _with_signal(bench):
        yield Fault(
            "kl-scaled-by-advantage",
            "The KL term is multiplied by the advantage: it vanishes or turns round with it.",
        )
    if not isinstance(penalty, Penalty):
        return
    if penalty.beta < 0:
        yield Fault("kl-sign", "The KL term is subtracted: it rewards distance from the reference.")
    if penalty.estimator.fault:
        yield Fault(penalty.estimator.name, penalty.estimator.fault)
    if penalty.estimator.name == "k1":
        yield Fault(
            "kl-k1-gradient",
            "k1 stands in the loss as it is: its gradient is the same whatever the reference, "
            "whose log-probabilities it ignores.",
        )


def _with_signal(bench: Bench) -> bool:
    """Return whether the reference matters where there is an advantage."""
    mask = mask_of([2])
    near, far = (bench.value(batch(mask, -0.2, 1.0, d, -1.0)) for d in (0.0, 0.7))
    silent = [bench.value(batch(mask, -0.2, 1.0, 0.0, -1.0 - s)) for s in (0.0, 0.7)]
    return not bench.close(near, far) and bench.close(silent[0], silent[1])


UNEXPLAINED = Fault(
    "unexplained", "Value and gradient are not those of any form known here, right or wrong."
)


# --- Against what is declared -------------------------------------------------------------


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
    yield from mismatches(declared, numbers(found))


def mismatches(declared: Declared, known: dict[str, Any]) -> Iterator[Fault]:
    """Yield the parameters whose recovered value is not the declared one."""
    differing = {
        name: (value, known[name])
        for name, value in {**declared.called, **declared.parameters}.items()
        if name in known and _comparable(name, value) and not same(value, known[name])
    }
    crossed = {"clip_low", "clip_high"} <= differing.keys() and same(
        differing["clip_low"][0], differing["clip_high"][1]
    )
    if crossed and same(differing["clip_high"][0], differing["clip_low"][1]):
        yield Fault(
            "bounds-swapped",
            "The clip bounds are swapped: it clips to [1 - clip_high, 1 + clip_low].",
        )
        differing = {n: v for n, v in differing.items() if n not in ("clip_low", "clip_high")}
    for name, (wanted, seen) in differing.items():
        yield Fault(
            "not-as-declared", f"{name} is {shown(wanted)}, but what acts is {shown(seen)}."
        )


def vocabulary(name: str) -> set[str] | None:
    """Return the values that a parameter with names for values has here, or None for numbers."""
    return {
        "aggregation": {*PUBLISHED.values(), "seq-mean-token-sum-norm"},
        "estimator": set(parts("estimator")),
        "scale": {"std", "none"},
    }.get(name)


def _comparable(name: str, value: Any) -> bool:
    """Whether the value of a parameter says something here."""
    known = vocabulary(name)
    return value in known if known is not None else value is not None or name == "dual_clip"


def same(a: Any, b: Any) -> bool:
    """Whether two values of a parameter are the same, numbers to six digits."""
    if isinstance(a, str) or isinstance(b, str) or a is None or b is None:
        return bool(a == b)
    return bool(np.isclose(float(a), float(b), rtol=1e-6, atol=1e-9))


def shown(value: Any) -> str:
    """Return the value of a parameter as the card shows it."""
    if value is None:
        return "none"
    return value if isinstance(value, str) else f"{value:g}"


# --- The card -----------------------------------------------------------------------------


def _entries(bench: Bench, found: Recovered, form: Surrogate | None) -> Iterator[Entry]:
    if form is None:
        yield Entry("ratio", "not one known here", True)
    else:
        yield Entry("ratio", form.ratio.words, bool(form.ratio.fault))
    yield Entry("clip", _clip_words(found), found.kinks is None or found.width is None)
    if form is not None and form.rule.name != "clipped":
        yield Entry("rule", form.rule.words, bool(form.rule.fault))
    yield Entry("dual clip", "none" if np.isinf(found.right.dual) else f"{found.right.dual:g}")
    yield Entry("log-ratio clamp", _clamp_words(bench, found))
    yield _aggregation(found)
    if bench.takes("logp_reference"):
        yield Entry("KL", _penalty_words(bench, found), isinstance(found.penalty, Curve))


def _clip_words(found: Recovered) -> str:
    if found.kinks is None:
        return "none of the published rules"
    width = found.width
    if width is None:
        return "bounds that change with the length"
    if not width.fixed:
        low, high = width.high
        return f"[1 - eps_t, 1 + eps_t], eps {low:g} to {high:g} by length"
    low, high = width.low[0], width.high[0]
    if np.isinf(low) and np.isinf(high):
        return "none"
    if np.isinf(low):
        return f"ratio at most {1.0 + high:g}"
    if np.isinf(high):
        return f"ratio at least {1.0 - low:g}"
    return f"[1 - {low:g}, 1 + {high:g}]"


def _clamp_words(bench: Bench, found: Recovered) -> str:
    if found.kinks is None or found.weighting is None or found.kinks.base != "ratio":
        return "not seen"
    if np.isfinite(found.kinks.dual) or found.kinks.rule == "clip-without-min":
        return "not seen behind the clip"
    weight = found.weighting.constant
    limit = log_ratio_clamp(bench, Token(weight, found.kinks.rule == "log-probability"))
    return "none" if np.isinf(limit) else f"at {limit:g}"


def _aggregation(found: Recovered) -> Entry:
    weighting = found.weighting
    if weighting is None:
        return Entry("aggregation", "no function of counts", True)
    words = weighting.name
    known = PUBLISHED.get(weighting.exponents)
    if known in NORMED and weighting.constant != 1.0:
        words = f"{words}, norm {weighting.norm:g}"
    if weighting.epsilon:
        words = f"{words}, denominator + {weighting.epsilon:g}"
    odd = known is None or (known not in NORMED and weighting.constant != 1.0)
    return Entry("aggregation", words, odd)


def _penalty_words(bench: Bench, found: Recovered) -> str:
    penalty = found.penalty
    if penalty is None:
        return "none: logp_reference changes nothing"
    if isinstance(penalty, Curve):
        return "none of the published estimators"
    words = [f"{penalty.estimator.words}, weight {penalty.beta:g}", *clamps(bench, penalty)]
    other = found.weighting is not None and penalty.weighting.exponents != found.weighting.exponents
    return "; ".join([*words, *([f"aggregated by {penalty.weighting.name}"] if other else [])])


def sample(tokens: int, seed: int) -> Inputs:
    """Return a batch with ratios on both sides of customary bounds."""
    draw = np.random.default_rng(seed)
    mask = mask_of([*draw.integers(1, tokens + 1, 7), tokens])
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
