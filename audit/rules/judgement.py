"""What is wrong with a reported mean, difference or p-value: at most one thing.

Out of range comes before impossible, and impossible before a mismatch. Each belongs to a rule
of its own, so that a fault is found once.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal

from rlvraudit.audit.evidence.supplement import Claim, Evidence
from rlvraudit.audit.results.comparison import ExactTest, exact_test
from rlvraudit.audit.results.item import Items
from rlvraudit.audit.results.pairing import Pairs, exact_sum, item_mean, scores_by_item
from rlvraudit.audit.rules.reported import (
    UNITS,
    Decimal,
    Entry,
    UnresolvedError,
    decimal,
    pairs_of,
    read,
    tables_of,
)
from rlvraudit.audit.rules.resampling import ROUNDOFF, redraw

Fault = Literal["out-of-range", "impossible-mean", "value-mismatch", "delta-mismatch"]
ItemScores = Mapping[str, Sequence[Fraction]]
Candidates = Iterator[tuple[str, Fraction]]


@dataclass(frozen=True, slots=True)
class Judgement:
    """A reported decimal beside its recomputation; `fault` is the slug of the rule it breaks.

    `why` says more about the fault: the known wrong formula or the confusion that explains it.
    """

    reported: Decimal
    number: Fraction
    slack: Fraction = Fraction(0)
    fault: Fault | None = None
    why: str = ""

    @property
    def pinned(self) -> bool:
        """Whether a change of the decimal by one unit of its last digit would be a fault."""
        return self.fault is None and self.reported.pins(self.number, self.slack)


def judge(evidence: Evidence, claim: Claim, entry: Entry) -> Judgement:
    """Return what is to be said of a reported mean, difference or p-value.

    Raises:
        UnresolvedError: It can't be recomputed from what the claim rests on.
        UnavailableError: What it rests on can't be used, which another rule reports.
    """
    return JUDGES[entry["quantity"]](evidence, claim, entry)


def judge_mean(evidence: Evidence, claim: Claim, entry: Entry) -> Judgement:
    """Return what is to be said of the mean of a method: of its items' means over rollouts."""
    tables, reported = tables_of(evidence, claim, entry), decimal(entry)
    scores = scores_by_item(tables, entry["method"])
    if not scores:
        raise UnresolvedError(f"claim {claim.id}: there is no method {entry['method']!r}")
    number = method_mean(tables, entry["method"])
    if reported.admits(number):
        return Judgement(reported, number)
    if why := _out_of_range(entry, reported, number, Fraction(0)):
        return Judgement(reported, number, fault="out-of-range", why=why)
    if why := _impossible(entry, reported, scores):
        return Judgement(reported, number, fault="impossible-mean", why=why)
    why = _explain(reported, _wrong_means(scores))
    return Judgement(reported, number, fault="value-mismatch", why=why)


def judge_difference(evidence: Evidence, claim: Claim, entry: Entry) -> Judgement:
    """Return what is to be said of a difference, against the items that the claim rests on."""
    pairs, reported = pairs_of(evidence, claim, entry), decimal(entry)
    absolute, relative = differences(pairs)
    is_relative = entry.get("kind") == "relative"
    number = relative if is_relative else absolute
    if number is None:
        raise UnresolvedError(f"claim {claim.id}: nothing is relative to a baseline of 0")
    if reported.admits(number):
        return Judgement(reported, number)
    if why := _out_of_range(entry, reported, number, Fraction(-1), bounded=not is_relative):
        return Judgement(reported, number, fault="out-of-range", why=why)
    why = _explain(reported, _wrong_differences(pairs, is_relative))
    return Judgement(reported, number, fault="delta-mismatch", why=why)


def judge_p_value(evidence: Evidence, claim: Claim, entry: Entry) -> Judgement:
    """Return what is to be said of a p-value."""
    pairs = pairs_of(evidence, claim, entry, entry.get("order", "id"))
    reported = decimal(entry)
    tests = dict(_p_values(evidence, pairs, entry))
    if entry["test"] not in tests:
        raise UnresolvedError(f"claim {claim.id}: these scores don't allow {entry['test']}")
    number = tests[entry["test"]]
    slack = 16 * len(pairs.items) * ROUNDOFF * number
    if reported.admits(number, slack):
        return Judgement(reported, number, slack)
    if not 0 <= reported.value <= 1:
        return Judgement(reported, number, slack, "out-of-range", "a p-value lies in [0, 1]")
    why = _explain(reported, iter(tests.items()), slack)
    return Judgement(reported, number, slack, "value-mismatch", why)


@lru_cache(maxsize=32)
def companion(pairs: Pairs) -> ExactTest:
    """Return the exact test of `pairs`, once for all rules that ask."""
    return exact_test(pairs)


@lru_cache(maxsize=32)
def method_mean(tables: tuple[Items, ...], method: str) -> Fraction:
    """Return the mean over items of the mean over each item's rollouts and seeds."""
    scores = scores_by_item(tables, method)
    return exact_sum(map(item_mean, scores.values())) / len(scores)


@lru_cache(maxsize=32)
def differences(pairs: Pairs) -> tuple[Fraction, Fraction | None]:
    """Return the absolute difference of the means, and the relative one where there is one."""
    absolute = exact_sum(pairs.differences) / len(pairs.items)
    baseline = exact_sum(pairs.baseline_means) / len(pairs.items)
    return absolute, absolute / baseline if baseline else None


def _out_of_range(
    entry: Entry, reported: Decimal, number: Fraction, least: Fraction, *, bounded: bool = True
) -> str:
    unit = entry.get("unit", "proportion")
    other = UNITS[unit]
    if read(reported.text, other).admits(number):
        return f"it is a {other}, but its unit says {unit}"
    if bounded and least <= number <= 1 and not least <= reported.value <= 1:
        low, high = (least, 1) if unit == "proportion" else (100 * least, 100)
        return f"expected a {unit} between {low} and {high}"
    return ""


def _impossible(entry: Entry, reported: Decimal, scores: ItemScores) -> str:
    """Apply the GRIM test (Brown and Heathers 2017) to outcomes of 0 and 1."""
    values = list(scores.values())
    counts = {len(of_item) for of_item in values}
    rollouts = entry.get("rollouts", min(counts))
    if any(s not in (0, 1) for of_item in values for s in of_item):
        return ""
    if entry["n"] != len(values) or counts != {rollouts}:
        return ""
    total = entry["n"] * rollouts
    if reported.admits(Fraction(round(reported.value * total), total)):
        return ""
    below = Fraction(int(reported.value * total), total)
    return (
        f"{entry['n']} items of {rollouts} outcomes give means in steps of 1/{total}: "
        f"{float(below):.6g} or {float(below + Fraction(1, total)):.6g}, nothing between"
    )


def _wrong_means(scores: ItemScores) -> Candidates:
    values = list(scores.values())
    rows = [s for of_item in values for s in of_item]
    yield "the mean over all rows, with items weighted by their rollouts", item_mean(rows)
    yield "the share of items with any correct rollout", item_mean([max(v) for v in values])
    yield "the share of items with all rollouts correct", item_mean([min(v) for v in values])
    yield "the mean of each item's first rollout", item_mean([v[0] for v in values])


def _wrong_differences(pairs: Pairs, is_relative: bool) -> Candidates:
    absolute, relative = differences(pairs)
    yield "baseline minus treatment", -absolute
    if is_relative:
        yield "the absolute difference, but its kind says relative", absolute
    elif relative is not None:
        yield "the relative difference, but its kind says absolute", relative


def _explain(reported: Decimal, wrong: Candidates, slack: Fraction = Fraction(0)) -> str:
    return next((name for name, number in wrong if reported.admits(number, slack)), "")


def _p_values(evidence: Evidence, pairs: Pairs, entry: Entry) -> Iterator[tuple[str, Fraction]]:
    """Yield each test that can be done, the known names first."""
    exact = companion(pairs)
    if exact.mid_p is not None:
        yield "exact-mcnemar", Fraction(exact.p_value)
        yield "the mid-p of McNemar's test", Fraction(exact.mid_p)
    if exact.name.startswith("exact"):
        yield "exact-sign-flip", Fraction(exact.p_value)
    if entry["test"] == "paired-item-bootstrap":
        drawn = redraw(evidence, pairs, entry)
        yield "paired-item-bootstrap", Fraction(drawn.p_value)
        yield "the centred bootstrap p-value", Fraction(drawn.p_centred)


JUDGES: Mapping[str, Callable[[Evidence, Claim, Entry], Judgement]] = {
    "mean": judge_mean,
    "difference": judge_difference,
    "p-value": judge_p_value,
}
