"""The lines of a surrogate's convention card."""

from collections.abc import Iterator

import numpy as np

from rlvraudit.audit.implementations.card import Entry
from rlvraudit.audit.implementations.closed_forms.surrogate import Penalty, Surrogate
from rlvraudit.audit.implementations.closed_forms.weighting import NORMED, PUBLISHED
from rlvraudit.audit.implementations.recovery.bench import Bench
from rlvraudit.audit.implementations.recovery.clipping import Token, log_ratio_clamp
from rlvraudit.audit.implementations.recovery.divergence import Curve, clamps
from rlvraudit.audit.implementations.recovery.surrogate import Recovered


def surrogate_entries(bench: Bench, found: Recovered, form: Surrogate | None) -> Iterator[Entry]:
    """Yield the lines, those that are wrong marked."""
    if form is None:
        yield Entry("ratio", "not one known here", True)
    else:
        brief = form.ratio.words.partition(":")[0]
        yield Entry("ratio", form.ratio.words, bool(form.ratio.fault), brief)
    odd = found.kinks is None or found.width is None
    yield Entry("clip", _clip_words(found), odd, _clip_brief(found))
    if form is not None and form.rule.name != "clipped":
        yield Entry("rule", form.rule.words, bool(form.rule.fault))
    yield Entry("dual clip", "none" if np.isinf(found.right.dual) else f"{found.right.dual:g}")
    yield Entry("log-ratio clamp", _clamp_words(bench, found))
    yield _aggregation(found)
    if bench.takes("logp_reference"):
        odd = isinstance(found.penalty, Curve)
        yield Entry("KL", _penalty_words(bench, found), odd, _penalty_brief(bench, found))


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


def _clip_brief(found: Recovered) -> str:
    if found.width is None:
        return "?"
    ends = [*found.width.low[:1], *found.width.high[1:]]
    return "/".join("none" if np.isinf(end) else f"{end:g}" for end in ends)


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
    if weighting.rounded:
        words = f"{words}, weights in float32"
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
    other = found.aggregated_otherwise
    return "; ".join([*words, *([f"aggregated by {penalty.weighting.name}"] if other else [])])


def _penalty_brief(bench: Bench, found: Recovered) -> str:
    penalty = found.penalty
    if not isinstance(penalty, Penalty):
        return "none" if penalty is None else "?"
    clamped = [words.rpartition(" ")[2] for words in clamps(bench, penalty)[:1]]
    other = f", {penalty.weighting.name}" if found.aggregated_otherwise else ""
    name = penalty.estimator.words.partition(":")[0].partition(" (")[0]
    return name + "".join(f", clamp {limit}" for limit in clamped) + other
