"""Bootstraps redrawn under the protocol that a reported interval or p-value declares."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from fractions import Fraction
from functools import lru_cache
from typing import Literal

import numpy as np

from rlvraudit.audit.errors import LimitError
from rlvraudit.audit.evidence.supplement import Evidence
from rlvraudit.audit.results.pairing import Pairs
from rlvraudit.audit.rules.reported import (
    Decimal,
    Entry,
    UnavailableError,
    UnresolvedError,
    as_float,
    entries,
    pairs_of,
    read,
)
from rlvraudit.kernels.inference.bootstrap import (
    CONFIDENCE,
    RESAMPLES,
    SEED,
    Bootstrap,
    resampled_means,
    summarise,
)
from rlvraudit.kernels.inference.draws import IndexStream
from rlvraudit.kernels.inference.estimate import Floats

Side = Literal["treatment", "baseline"]
ROUNDOFF = Fraction(2.0**-53)
MOST_DRAWS = 1_000_000_000
"""If all claims take more draws than this, none is repeated: some five seconds of one core."""
FEW_WRONG_DRAWS = 50_000_000
"""Known wrong procedures are tried where all claims together take no more draws than this."""
FEW_DRAWS = 1_000_000
"""Neighbouring seeds are tried up to so many draws, which take some three milliseconds."""


MOST_KEPT = 1_000_000
"""Claims over the same number of items share a drawing, up to so many resampled means."""


def rounding(pairs: Pairs) -> Fraction:
    """Return the forward error bound of a resampled mean and its interpolated quantile."""
    largest = float(np.abs(_differences(pairs)).max())
    return (len(pairs.items) + 4) * ROUNDOFF * Fraction(largest)


def redraw(evidence: Evidence, pairs: Pairs, entry: Entry) -> Bootstrap:
    """Return the bootstrap under the protocol of an entry: seed, resamples, confidence.

    Raises:
        LimitError: All claims of the supplement together take too many draws.
        UnresolvedError: The confidence is none.
    """
    if (planned := planned_draws(evidence)) > MOST_DRAWS:
        raise LimitError(f"the claims take {planned:,} draws, more than {MOST_DRAWS:,}")
    seed, resamples = _protocol(entry)
    company = _company(evidence, pairs, resamples)
    return _bootstrap(company, pairs, seed, resamples, _confidence(entry).value)


def neighbours(evidence: Evidence, pairs: Pairs, entry: Entry, field: str) -> list[Bootstrap]:
    """Return the bootstraps with a field of the protocol one unit lower and one unit higher.

    Of a seed only the next one is tried, and none where drawing it would take long.
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
    return [_bootstrap(company, pairs, seed + 1, resamples, stated.value)]


def unpaired(pairs: Pairs, entry: Entry, first: Side) -> Bootstrap:
    """Return the wrong bootstrap that resamples the methods independently, `first` before."""
    seed, resamples = _protocol(entry)
    stream, scores = IndexStream(seed), _sides(pairs)
    order: tuple[Side, Side] = (
        ("treatment", "baseline") if first == "treatment" else ("baseline", "treatment")
    )
    means = {side: resampled_means([scores[side]], stream, resamples)[0] for side in order}
    return _summary(pairs, means["treatment"] - means["baseline"], _confidence(entry).value)


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
def planned_draws(evidence: Evidence) -> int:
    """Return how many draws it takes to repeat every resampled claim; equal ones share theirs."""
    drawn = {(len(p.items), *_protocol(entry)) for p, entry in _resampled(evidence)}
    return sum(n * resamples for n, _, resamples in drawn)


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


@lru_cache(maxsize=8)
def _means(company: tuple[Pairs, ...], seed: int, resamples: int) -> Mapping[Pairs, Floats]:
    """Return one resampled mean more than asked for, for the neighbouring number of resamples.

    Only the last few are kept: they can be large, and what they give is kept by `_bootstrap`.
    """
    vectors = [_differences(pairs) for pairs in company]
    return dict(
        zip(company, resampled_means(vectors, IndexStream(seed), resamples + 1), strict=True)
    )


@lru_cache(maxsize=16)
def _differences(pairs: Pairs) -> Floats:
    scores = _sides(pairs)
    return scores["treatment"] - scores["baseline"]


def _sides(pairs: Pairs) -> Mapping[Side, Floats]:
    return {
        "treatment": np.array([float(mean) for mean in pairs.treatment_means]),
        "baseline": np.array([float(mean) for mean in pairs.baseline_means]),
    }
