"""RA5: every comparison has an uncertainty that recomputes and carries what is claimed."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from fractions import Fraction

from rlvraudit.audit.evidence.receipt import Receipt, receipts
from rlvraudit.audit.evidence.supplement import MANIFEST, Claim, Evidence
from rlvraudit.audit.results.comparison import FEW_ITEMS
from rlvraudit.audit.results.pairing import Order, Pairs
from rlvraudit.audit.rules.intervals import (
    IntervalCheck,
    admits,
    check_interval,
    pooled,
    variant,
)
from rlvraudit.audit.rules.reported import (
    UNITS,
    Entry,
    UnavailableError,
    UnresolvedError,
    discrepancy,
    entries,
    pairs_of,
    read,
    tables_of,
)
from rlvraudit.audit.rules.resampling import neighbours
from rlvraudit.audit.rules.rule import Held, Outcome, Problem, Skipped, rule

FEW_SEEDS = 3
"""Fewer independent training runs than this carry no claim about a method."""
COMPARATIVE = ("comparison", "null-result")


@rule("RA501", "no-uncertainty")
def no_uncertainty(evidence: Evidence) -> Iterator[Outcome]:
    """Every comparative claim has an interval, with its method and n.

    A difference without an interval can't be told from noise: with 30 items of one rollout a
    difference of ten points has a standard error of about ten points.

    Passes: a comparison that reports a difference with interval, confidence, method, seed,
    resamples and n.
    Fails: a comparison that reports two means, or a difference alone.

    How to fix: report the difference with the interval that `rlvr-audit bootstrap` prints.

    When to suppress: where the claim says in its statement that it is exploratory.
    """
    claims = [claim for claim in evidence.claims if _compares(claim)]
    if not claims:
        yield Skipped("no claim compares methods")
    for claim in claims:
        if any("interval" in e for _, e in claim.reported if e["quantity"] == "difference"):
            yield Held(MANIFEST, claim.pointer)
        else:
            message = f"{claim.kind} claim {claim.id} reports no difference with an interval"
            yield Problem(MANIFEST, message, claim.pointer)


def _compares(claim: Claim) -> bool:
    if claim.kind == "reported":
        return False
    return claim.kind in COMPARATIVE or "compares" in claim.value


@rule("RA502", "interval-mismatch")
def interval_mismatch(evidence: Evidence) -> Iterator[Outcome]:
    """The interval recomputes under its declared protocol and seed.

    A paired item bootstrap is deterministic: `default_rng(seed)` draws the same items for
    everybody, so a printed interval can be checked to its last digit. Items are in canonical
    order (by id); where that fails, the order of the file is tried, and the report says which
    reproduces the interval. Known wrong procedures are named: methods resampled independently,
    rollouts pooled as if they were items, sides exchanged, the other unit.

    Passes: "0.015163" to "0.072024" for seed 1273, 10,000 resamples, 1,319 items.
    Fails: the interval of a bootstrap that resamples the methods independently; that of
    another seed than the one declared.

    How to fix: run `rlvr-audit bootstrap` on the items with the declared seed, resamples and
    confidence, and print what it says.

    When to suppress: where the interval comes from another procedure, which then can't be
    declared as this one.
    """
    seen = False
    for claim, pointer, entry in entries(evidence, "difference"):
        if "interval" not in entry:
            continue
        seen = True
        try:
            check = check_interval(evidence, claim, pointer, entry)
            pairs = pairs_of(evidence, claim, entry, check.order or "id")
            yield from _interval_outcomes(evidence, check, pairs)
        except UnavailableError as error:
            yield Skipped(str(error))
        except UnresolvedError as error:
            yield Problem(MANIFEST, str(error), f"{pointer}/interval")
    if not seen:
        yield Skipped("no claim reports an interval")


def _interval_outcomes(evidence: Evidence, check: IntervalCheck, pairs: Pairs) -> Iterator[Outcome]:
    if check.order is None:
        yield from _wrong_ends(evidence, check, pairs)
        return
    if check.order != check.declared:
        yield _other_order(check)
    yield from _right_ends(evidence, check, pairs)


def _right_ends(evidence: Evidence, check: IntervalCheck, pairs: Pairs) -> Iterator[Held]:
    """Yield the ends, and the fields of the protocol without whose value they would differ."""
    drawn = (check.recomputed.ci_low, check.recomputed.ci_high)
    for index, (end, value) in enumerate(zip(check.ends, drawn, strict=True)):
        pinned = end.pins(Fraction(value), check.slack)
        yield Held(MANIFEST, f"{check.pointer}/interval/{index}", numbers=pinned)
    for field in ("confidence", "seed", "resamples"):
        others = neighbours(evidence, pairs, check.entry, field)
        shows = bool(others) and not any(admits(check.ends, o, check.slack) for o in others)
        yield Held(MANIFEST, f"{check.pointer}/{field}", numbers=shows)


def _other_order(check: IntervalCheck) -> Problem:
    declared = "order" in check.entry
    message = (
        f"claim {check.claim.id}: the interval recomputes with items in {ORDERS[check.order]}, "
        f"not in {ORDERS[check.declared]}{', which it declares' if declared else ''}"
    )
    pointer = f"{check.pointer}/{'order' if declared else 'interval'}"
    return Problem(MANIFEST, message, pointer, level="warning" if declared else "note")


ORDERS: Mapping[Order | None, str] = {"id": "canonical order", "file": "the order of the file"}


def _wrong_ends(evidence: Evidence, check: IntervalCheck, pairs: Pairs) -> Iterator[Outcome]:
    unit = check.entry.get("unit", "proportion")
    drawn = check.recomputed
    known = variant(evidence, check, pairs, pooled(evidence, check.claim, check.entry))
    other = tuple(read(end.text, UNITS[unit]) for end in check.ends)
    if admits((other[0], other[1]), drawn, check.slack):
        known = f"the interval is a {UNITS[unit]}, but its unit says {unit}"
    for index, value in enumerate((drawn.ci_low, drawn.ci_high)):
        end = check.ends[index]
        if not end.admits(Fraction(value), check.slack):
            message = f"claim {check.claim.id}: the interval does not recompute in either order"
            found = discrepancy(Fraction(value), end, check.entry, known)
            pointer = f"{check.pointer}/interval/{index}"
            yield Problem(MANIFEST, message, pointer, discrepancy=found)


@rule("RA503", "too-few-seeds")
def too_few_seeds(evidence: Evidence) -> Iterator[Outcome]:
    """A capability claim has at least three independent seeds, and enough items.

    What varies between training runs is another population than items: with one run per method
    nothing can be said about the method, only about the two checkpoints. With fewer than 30
    items a percentile interval covers less than it says.

    Passes: a capability claim on results of seeds 42, 43 and 44 over 500 items.
    Fails: the same on one seed, or on 8 items.

    How to fix: train and evaluate with more seeds, or claim a comparison of the checkpoints.

    When to suppress: where a committee has agreed to fewer; the report then says so.
    """
    claims = [claim for claim in evidence.claims if claim.kind == "capability"]
    if not claims:
        yield Skipped("no capability claim")
    for claim in claims:
        yield from _seeds_outcomes(evidence, claim)


def _seeds_outcomes(evidence: Evidence, claim: Claim) -> Iterator[Outcome]:
    try:
        tables = tables_of(evidence, claim, {"quantity": "capability"})
    except (UnavailableError, UnresolvedError):
        yield Skipped("capability claims without usable item results")
        return
    seeds: defaultdict[str, set[str | None]] = defaultdict(set)
    items: defaultdict[str, set[str]] = defaultdict(set)
    for table in tables:
        for key in table.keys:
            seeds[key.method].add(key.seed)
            items[key.method].add(key.item)
    yield from _at_least(
        claim, FEW_SEEDS, "independent seeds", {m: len(s) for m, s in seeds.items()}
    )
    yield from _at_least(claim, FEW_ITEMS, "items", {m: len(i) for m, i in items.items()})


def _at_least(claim: Claim, least: int, what: str, found: Mapping[str, int]) -> Iterator[Outcome]:
    method = min(found, key=lambda m: found[m])
    if found[method] >= least:
        yield Held(MANIFEST, claim.pointer)
        return
    message = (
        f"capability claim {claim.id} has {found[method]} {what} of {method!r}; "
        f"expected at least {least}"
    )
    yield Problem(MANIFEST, message, f"{claim.pointer}/kind")


@rule("RA504", "seed-reuse")
def seed_reuse(evidence: Evidence) -> Iterator[Outcome]:
    """Runs called independent have distinct seeds.

    Two runs of one recipe with one seed are one run: they agree by construction, and averaging
    them narrows an interval without adding anything.

    Passes: three receipts of one recipe with seeds 42, 43 and 44.
    Fails: two receipts of one recipe, for different artifacts, both with seed 42.

    How to fix: run again with another seed, or list the repetition as one run.

    When to suppress: where the repetition is meant to show that a run is reproducible.
    """
    known = receipts(evidence)
    if len(known) < 2:
        yield Skipped("fewer than two receipts")
        return
    for index, receipt in enumerate(known):
        twin = next((other for other in known[:index] if _same_run(receipt, other)), None)
        if twin is None:
            yield Held(receipt.path)
        else:
            seeds = ", ".join(f"{name} {seed}" for name, seed in sorted(receipt.seeds.items()))
            message = f"seeds {seeds} are those of {twin.path}, another run of the same recipe"
            pointer = "/predicate/buildDefinition/externalParameters/seeds"
            yield Problem(receipt.path, message, pointer)


def _same_run(one: Receipt, other: Receipt) -> bool:
    """Tell whether two receipts are of runs that only claim to be independent.

    Receipts about the same files, and those of which one builds on the other, don't.
    """
    asked, again = (r.predicate["buildDefinition"]["buildType"] for r in (one, other))
    if not one.seeds or (asked, one.parameters) != (again, other.parameters):
        return False
    return not _made_with(one) & _made_with(other)


def _made_with(receipt: Receipt) -> set[str]:
    """Return the names of a receipt, its subjects and the receipts that it builds on."""
    parents = {parent.name for parent in receipt.parents}
    return {receipt.path, *parents, *(subject.name for subject in receipt.subjects)}


@rule("RA509", "zero-variance")
def zero_variance(evidence: Evidence) -> Iterator[Outcome]:
    """No p-value is claimed from zero variance.

    Where every item has the same difference, all resamples are alike: the interval has no
    width, and the bootstrap p-value says 1/10,001 for two wins out of two, whose exact p-value
    is 0.5. That is no certainty, but the absence of information about variance.

    Passes: an exact McNemar p-value of eight wins out of eight.
    Fails: a bootstrap p-value, or an interval, from eight wins out of eight.

    How to fix: report the exact test.

    When to suppress: never.
    """
    seen = False
    for claim, pointer, entry in entries(evidence, "difference", "p-value"):
        if entry.get("test") != "paired-item-bootstrap" and "interval" not in entry:
            continue
        seen = True
        try:
            pairs = pairs_of(evidence, claim, entry)
        except (UnavailableError, UnresolvedError):
            yield Skipped("numbers that can't be recomputed are for RA401 and RA406")
            continue
        yield _variance_outcome(claim, pointer, entry, pairs)
    if not seen:
        yield Skipped("no bootstrap is reported")


def _variance_outcome(claim: Claim, pointer: str, entry: Entry, pairs: Pairs) -> Outcome:
    if len(set(pairs.differences)) > 1:
        return Held(MANIFEST, pointer)
    what = "an interval" if "interval" in entry else "a bootstrap p-value"
    value = float(pairs.differences[0])
    message = (
        f"claim {claim.id} takes {what} from {len(pairs.items)} equal differences of {value:g}"
    )
    return Problem(MANIFEST, message, f"{pointer}/{'interval' if 'interval' in entry else 'value'}")
