"""Reported intervals and bootstrap p-values, redrawn under the protocol that they declare."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np

from rlvraudit.audit.errors import AuditError
from rlvraudit.audit.evidence.supplement import Claim, Evidence
from rlvraudit.audit.results.item import Items
from rlvraudit.audit.results.pairing import Order, Pairs
from rlvraudit.audit.rules.reported import (
    Decimal,
    Entry,
    UnavailableError,
    UnresolvedError,
    as_float,
    decimal,
    entries,
    paired,
    pairs_of,
    read,
    tables_of,
)
from rlvraudit.kernels.inference.bootstrap import (
    CONFIDENCE,
    RESAMPLES,
    SEED,
    Bootstrap,
    resampled_means,
    summarise,
)
from rlvraudit.kernels.inference.estimate import Floats

ROUNDOFF = Fraction(2.0**-53)
MOST_DRAWS = 2_000_000_000
"""If all claims take more draws than this, none is repeated: about ten seconds of one core."""
FEW_DRAWS = 4_000_000
"""Neighbouring seeds are tried up to so many draws, which take about ten milliseconds."""


MOST_KEPT = 1_000_000
"""Claims over the same number of items share a drawing, up to so many resampled means."""


@dataclass(frozen=True, slots=True)
class IntervalCheck:
    """A claimed interval beside its recomputation.

    `order` is the item order under which it recomputes, None if under neither; `recomputed` is
    what that order gives, or the declared one where neither does. `slack` bounds the rounding
    of `recomputed`.
    """

    claim: Claim
    pointer: str
    entry: Entry
    recomputed: Bootstrap
    order: Order | None
    slack: Fraction

    @property
    def ends(self) -> tuple[Decimal, Decimal]:
        """The interval as printed."""
        return printed_ends(self.entry)

    @property
    def holds(self) -> bool:
        """Whether the interval recomputes, in whatever order."""
        return self.order is not None

    @property
    def declared(self) -> Order:
        """The item order that the claim declares, canonical if it declares none."""
        order: Order = self.entry.get("order", "id")
        return order


def printed_ends(entry: Entry) -> tuple[Decimal, Decimal]:
    """Return both ends of a reported interval."""
    low, high = ({**entry, "value": text} for text in entry["interval"])
    return decimal(low), decimal(high)


def recheck(evidence: Evidence) -> Iterator[IntervalCheck | tuple[Claim, str]]:
    """Yield a check of every claimed interval, or its claim with why there is none."""
    for claim, pointer, entry in entries(evidence, "difference"):
        if "interval" in entry:
            try:
                yield check_interval(evidence, claim, pointer, entry)
            except (UnresolvedError, UnavailableError) as error:
                yield claim, str(error)


def check_interval(evidence: Evidence, claim: Claim, pointer: str, entry: Entry) -> IntervalCheck:
    """Return a claimed interval beside its recomputation.

    Raises:
        UnresolvedError: Its items can't be paired, or it takes too many draws.
        UnavailableError: What it rests on is not there.
    """
    if entry.get("kind") == "relative":
        raise UnresolvedError("a paired item bootstrap gives no interval of a relative difference")
    ends, declared = printed_ends(entry), entry.get("order", "id")
    orders: tuple[Order, Order] = ("id", "file") if declared == "id" else ("file", "id")
    for order in orders:
        pairs = pairs_of(evidence, claim, entry, order)
        slack, drawn = rounding(pairs), redraw(evidence, pairs, entry)
        if admits(ends, drawn, slack):
            return IntervalCheck(claim, pointer, entry, drawn, order, slack)
    pairs = pairs_of(evidence, claim, entry, orders[0])
    return IntervalCheck(
        claim, pointer, entry, redraw(evidence, pairs, entry), None, rounding(pairs)
    )


def admits(ends: tuple[Decimal, Decimal], drawn: Bootstrap, slack: Fraction) -> bool:
    """Tell whether both ends may have been printed for `drawn`."""
    low, high = Fraction(drawn.ci_low), Fraction(drawn.ci_high)
    return ends[0].admits(low, slack) and ends[1].admits(high, slack)


def rounding(pairs: Pairs) -> Fraction:
    """Return the forward error bound of a resampled mean and its interpolated quantile."""
    largest = float(np.abs(_differences(pairs)).max())
    return (len(pairs.items) + 4) * ROUNDOFF * Fraction(largest)


def redraw(evidence: Evidence, pairs: Pairs, entry: Entry) -> Bootstrap:
    """Return the bootstrap under the protocol of an entry: seed, resamples, confidence.

    Raises:
        UnresolvedError: It takes too many draws, or the confidence is none.
    """
    if (planned := _planned(evidence)) > MOST_DRAWS:
        raise UnresolvedError(f"its claims take {planned:,} draws, more than {MOST_DRAWS:,}")
    seed, resamples = _protocol(entry)
    company = _company(evidence, pairs, resamples)
    return _bootstrap(company, pairs, seed, resamples, _confidence(entry).value)


def neighbours(evidence: Evidence, pairs: Pairs, entry: Entry, field: str) -> list[Bootstrap]:
    """Return the bootstraps with a field of the protocol one unit lower and one unit higher.

    There are none for a seed where drawing them would take long.
    """
    stated, (seed, resamples) = _confidence(entry), _protocol(entry)
    company = _company(evidence, pairs, resamples)
    if field == "confidence":
        levels = (stated.value - 2 * stated.half, stated.value + 2 * stated.half)
        inside = (level for level in levels if 0 < level < 1)
        return [_bootstrap(company, pairs, seed, resamples, level) for level in inside]
    if field == "resamples":
        drawn = _means(company, seed, resamples)[pairs]
        both = (drawn[: resamples - 1], drawn)
        return [_summary(pairs, means, stated.value) for means in both if means.size]
    if resamples * len(pairs.items) > FEW_DRAWS:
        return []
    seeds = (s for s in (seed - 1, seed + 1) if s >= 0)
    return [_bootstrap(company, pairs, s, resamples, stated.value) for s in seeds]


def _protocol(entry: Entry) -> tuple[int, int]:
    return entry.get("seed", SEED), entry.get("resamples", RESAMPLES)


def _confidence(entry: Entry) -> Decimal:
    return read(entry.get("confidence", str(CONFIDENCE)))


def _company(evidence: Evidence, pairs: Pairs, resamples: int) -> tuple[Pairs, ...]:
    """Return `pairs` with others over as many items, which can share their draws."""
    members = _sharing(evidence).get(len(pairs.items), ())
    if pairs not in members:
        return (pairs,)
    size = max(1, MOST_KEPT // resamples)
    first = members.index(pairs) // size * size
    return members[first : first + size]


@lru_cache(maxsize=2)
def _sharing(evidence: Evidence) -> Mapping[int, tuple[Pairs, ...]]:
    """Return the paired items of all resampled claims, by their number."""
    found: defaultdict[int, dict[Pairs, None]] = defaultdict(dict)
    for pairs, _ in _resampled(evidence):
        found[len(pairs.items)][pairs] = None
    return {n: tuple(members) for n, members in found.items()}


@lru_cache(maxsize=2)
def _planned(evidence: Evidence) -> int:
    """Return how many draws it takes to repeat every resampled claim on its own."""
    return sum(len(p.items) * _protocol(entry)[1] for p, entry in _resampled(evidence))


def _resampled(evidence: Evidence) -> Iterator[tuple[Pairs, Entry]]:
    for claim, _, entry in entries(evidence, "difference", "p-value"):
        if "interval" in entry or entry.get("test") == "paired-item-bootstrap":
            with suppress(UnresolvedError, UnavailableError):
                yield pairs_of(evidence, claim, entry, entry.get("order", "id")), entry


@lru_cache(maxsize=64)
def _bootstrap(
    company: tuple[Pairs, ...], pairs: Pairs, seed: int, resamples: int, confidence: Fraction
) -> Bootstrap:
    """Return a bootstrap, once for all rules that ask."""
    return _summary(pairs, _means(company, seed, resamples)[pairs][:resamples], confidence)


def _summary(pairs: Pairs, means: Floats, confidence: Fraction) -> Bootstrap:
    if not 0 < confidence < 1:
        raise UnresolvedError(f"a confidence of {as_float(confidence):g} is not between 0 and 1")
    observed = float(_differences(pairs).mean())
    return summarise(means, observed, len(pairs.items), float(confidence))


@lru_cache(maxsize=4)
def _means(company: tuple[Pairs, ...], seed: int, resamples: int) -> Mapping[Pairs, Floats]:
    """Return one resampled mean more than asked for, for the neighbouring number of resamples.

    Only the last few are kept: they can be large, and what they give is kept by `_bootstrap`.
    """
    vectors = [_differences(pairs) for pairs in company]
    return dict(zip(company, resampled_means(vectors, seed, resamples + 1), strict=True))


@lru_cache(maxsize=16)
def _differences(pairs: Pairs) -> Floats:
    treatment, baseline = _sides(pairs)
    return treatment - baseline


def _sides(pairs: Pairs) -> tuple[Floats, Floats]:
    treatment = np.array([float(mean) for mean in pairs.treatment_means])
    return treatment, np.array([float(mean) for mean in pairs.baseline_means])


def pooled(evidence: Evidence, claim: Claim, entry: Entry) -> Pairs | None:
    """Return the rows of both methods paired as if each rollout were an item, if they can be."""
    sides = claim.value["compares"]
    apart = tuple(_rows_as_items(table) for table in tables_of(evidence, claim, entry))
    try:
        return paired(apart, sides["baseline"], sides["treatment"], "file")
    except AuditError:
        return None


def _rows_as_items(table: Items) -> Items:
    keys = (k._replace(item=repr((k.item, k.seed, k.rollout))) for k in table.keys)
    return replace(table, keys=tuple(keys))


def variant(evidence: Evidence, check: IntervalCheck, pairs: Pairs, pooled: Pairs | None) -> str:
    """Return the sentence of the known wrong procedure that gives the printed interval."""
    for name, drawn in _variants(evidence, check.entry, pairs, pooled):
        if admits(check.ends, drawn, check.slack):
            return name
    return ""


def _variants(
    evidence: Evidence, entry: Entry, pairs: Pairs, pooled: Pairs | None
) -> Iterator[tuple[str, Bootstrap]]:
    drawn = redraw(evidence, pairs, entry)
    swapped = replace(drawn, ci_low=-drawn.ci_high, ci_high=-drawn.ci_low)
    yield "baseline minus treatment", swapped
    if pooled is not None:
        yield "rollouts pooled as if they were items", redraw(evidence, pooled, entry)
    resamples, level = entry["resamples"], _confidence(entry).value
    for reverse, name in ((False, "treatment"), (True, "baseline")):
        generator = np.random.default_rng(entry["seed"])
        sides = list(enumerate(_sides(pairs)))
        means = {
            side: resampled_means([scores], generator, resamples)[0]
            for side, scores in (reversed(sides) if reverse else sides)
        }
        unpaired = _summary(pairs, means[0] - means[1], level)
        yield f"methods resampled independently of each other, {name} first", unpaired
