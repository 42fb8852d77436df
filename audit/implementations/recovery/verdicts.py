"""What is wrong with a surrogate whatever is declared, said of each recovered part."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from rlvraudit.audit.implementations.card import Fault
from rlvraudit.audit.implementations.closed_forms.surrogate import Penalty, Surrogate, Width
from rlvraudit.audit.implementations.closed_forms.weighting import NORMED, PUBLISHED, Weighting
from rlvraudit.audit.implementations.recovery.bench import Bench, batch, mask_of, nice
from rlvraudit.audit.implementations.recovery.divergence import Curve
from rlvraudit.audit.implementations.recovery.surrogate import Recovered
from rlvraudit.audit.implementations.recovery.weights import chunked


def surrogate_faults(bench: Bench, found: Recovered, form: Surrogate | None) -> Iterator[Fault]:
    """Yield what is wrong with weights, clip, ratio, rule and KL term."""
    yield from _weight_faults(found)
    yield from _clip_faults(found)
    yield from _part_faults(form)
    yield from _penalty_faults(bench, found)


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
    elif weighting.epsilon > 1e-5:
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
    if kinks is None and found.form is not None:
        yield Fault(
            "clip-unknown",
            "Between ratios of exp(-8) and exp(8) a one-token trajectory shows no clip that is "
            "known here: somewhere the ratio is treated in a way of its own.",
        )
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
    if width.low != width.high:
        yield Fault(
            "width-not-symmetric",
            f"The width is {width.low[0]:g} to {width.low[1]:g} below 1 and {width.high[0]:g} to "
            f"{width.high[1]:g} above it: TAPO's is one width on both sides.",
        )
    if width.alone != 1.0:
        yield Fault(
            "one-token-width",
            "A one-token trajectory is clipped at another width than the first token of longer "
            "ones; the decision here is eps_1 = eps_max.",
        )


LENGTH = {"last": "position of the last token", "span": "span from first to last token"}


def _part_faults(form: Surrogate | None) -> Iterator[Fault]:
    if form is None:
        return
    for part in (form.ratio, form.rule):
        if part.fault:
            yield Fault(part.name, part.fault)
    if form.weighting.lengths != "tokens":
        yield Fault(
            "holes-in-length",
            "Holes in the mask count in the length that is divided by: it is the "
            f"{LENGTH[form.weighting.lengths]}, not the number of active tokens.",
        )
    if form.width.counted == "columns":
        yield Fault(
            "padding-positions",
            "The clip width counts columns as positions: padding and holes change it.",
        )
    if form.width.counted == "longest":
        yield Fault(
            "width-of-longest-row",
            "The clip width takes the longest trajectory of the batch for T_b: that of a "
            "trajectory depends on which others are beside it.",
        )


def _penalty_faults(bench: Bench, found: Recovered) -> Iterator[Fault]:
    penalty = found.penalty
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
    yield from weighting_faults(replace(penalty.weighting, constant=1.0))
    summed = penalty.weighting.normaliser == ""
    if summed and found.weighting is not None and found.weighting.normaliser:
        yield Fault(
            "kl-not-averaged",
            "The KL term is added up over the batch and the policy term is averaged: its weight "
            "grows with the batch.",
        )
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
