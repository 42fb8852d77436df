"""RA4, reported numbers: what a claim states follows from its artifacts, digit by digit."""

from collections.abc import Iterator
from fractions import Fraction

from rlvraudit.audit.evidence.supplement import MANIFEST, Claim, Evidence
from rlvraudit.audit.results.item import Items
from rlvraudit.audit.results.pairing import scores_by_item
from rlvraudit.audit.rules.judgement import Judgement, judge
from rlvraudit.audit.rules.lookup import quoted, recorded
from rlvraudit.audit.rules.reported import (
    Decimal,
    Entry,
    UnavailableError,
    UnresolvedError,
    decimal,
    discrepancy,
    entries,
    pairs_of,
    tables_of,
)
from rlvraudit.audit.rules.resampling import neighbours
from rlvraudit.audit.rules.rule import Held, Outcome, Problem, Skipped, rule
from rlvraudit.audit.rules.sensitivity import noticed
from rlvraudit.audit.rules.training import trace_values

STATISTICS = ("mean", "difference", "p-value")


@rule("RA401", "value-mismatch")
def value_mismatch(evidence: Evidence) -> Iterator[Outcome]:
    """The recomputed value lies within half a unit of the last printed digit of the reported one.

    A reported number is a decimal whose digits say how far it may be from what it was computed
    from: 0.39 admits 0.385 to 0.395, in exact arithmetic. Means are means over items of each
    item's mean over its rollouts and seeds; p-values are those of the named test; a `value` is
    the number at a JSON pointer of another artifact, or the sum, mean, minimum, maximum or
    number of positive ones there; a `quote` is the number in `paper-results`. A number that is
    out of range is for RA404, a mean that no outcomes can have for RA405, and a difference for
    RA406. In traces of runs it speaks of what no other rule owns: sampled tokens, hidden
    states, log-probabilities, the divergence and the total loss.

    Passes: a mean of "0.390" over 1,319 items of which 515 are solved (0.39045).
    Fails: the same mean reported as "0.391"; the mean over all rows where items have unequal
    numbers of rollouts.

    How to fix: print what the artifact gives, rounded once, or correct the artifact that the
    number was computed from.

    When to suppress: never for measured numbers; a supplement whose numbers don't follow from
    its artifacts shows nothing.
    """
    seen = False
    for claim, pointer, entry in entries(evidence, "mean", "p-value"):
        seen = True
        yield from _judged(evidence, claim, pointer, entry, "value-mismatch")
    for claim, pointer, entry in entries(evidence, "value", "quote"):
        seen = True
        yield from _looked_up(evidence, claim, pointer, entry)
    for outcome in trace_values(evidence):
        seen = True
        yield outcome
    if not seen:
        yield Skipped("no trace, and no claim reports a mean, a p-value, a value or a quotation")


@rule("RA406", "delta-mismatch")
def delta_mismatch(evidence: Evidence) -> Iterator[Outcome]:
    """A stated improvement equals the difference of the stated values; its kind is named.

    The difference is that of the items that the claim rests on, treatment minus baseline;
    `kind` says whether it is absolute (the default) or relative to the baseline: 39.0 % after
    34.7 % is an improvement of 4.3 points or of 12 %. Where the items can't be read, the
    means that the same claim states must give it, each within its own digits.

    Passes: a difference of "4.3" percent between means of "39.0" and "34.7".
    Fails: "12.4" for the same, without `"kind": "relative"`; "-4.3" where the treatment won.

    How to fix: state the difference that the items give, and `"kind": "relative"` if it is
    meant relative to the baseline.

    When to suppress: never for measured numbers.
    """
    seen = False
    for claim, pointer, entry in entries(evidence, "difference"):
        seen = True
        yield from _judged(evidence, claim, pointer, entry, "delta-mismatch")
    if not seen:
        yield Skipped("no claim reports a difference")


@rule("RA404", "out-of-range")
def out_of_range(evidence: Evidence) -> Iterator[Outcome]:
    """Metrics lie inside their range; percent and proportion are not confused.

    Scores of items are proportions, from 0 to 1; so are p-values and means, and differences lie
    between -1 and 1, or a hundred times that in percent. A number that recomputes only in the
    other unit is taken for a confusion of units, not for another value.

    Passes: a mean of "39.0" with `"unit": "percent"`; "0.390" without.
    Fails: a mean of "39.0" without a unit; a score of 85 in a file of item results.

    How to fix: give the unit in which the number is printed, and scores between 0 and 1.

    When to suppress: where scores are rewards on a scale of their own.
    """
    tables = [document.value for document in evidence.of_type("item-results")]
    seen = bool(tables)
    for table in tables:
        if isinstance(table, Items):
            yield from _scores_in_range(table)
    for claim, pointer, entry in entries(evidence, *STATISTICS):
        seen = True
        yield from _judged(evidence, claim, pointer, entry, "out-of-range")
    if not seen:
        yield Skipped("no item results and no reported mean, difference or p-value")


@rule("RA405", "impossible-mean")
def impossible_mean(evidence: Evidence) -> Iterator[Outcome]:
    """A reported mean of integer outcomes is attainable for its n (the GRIM test).

    The mean of n items with k outcomes of 0 or 1 each is a multiple of 1/(n k). A printed mean
    that no multiple rounds to was not computed from such outcomes: with 30 items and one
    rollout there is no 0.555, for 16/30 is 0.533 and 17/30 is 0.567 (Brown and Heathers 2017).

    Passes: "0.567" for n = 30; "0.555" for n = 30 with 32 rollouts each.
    Fails: "0.555" for n = 30 and one rollout.

    How to fix: print the mean that the outcomes give, or state the number of items and rollouts
    that it is a mean of.

    When to suppress: where outcomes are not 0 or 1; the rule doesn't apply itself to those.
    """
    seen = False
    for claim, pointer, entry in entries(evidence, "mean"):
        seen = True
        yield from _judged(evidence, claim, pointer, entry, "impossible-mean")
    if not seen:
        yield Skipped("no claim reports a mean")


def _judged(
    evidence: Evidence, claim: Claim, pointer: str, entry: Entry, fault: str
) -> Iterator[Outcome]:
    """Yield what the rule of one fault says of a statistic."""
    owner = "delta-mismatch" if entry["quantity"] == "difference" else "value-mismatch"
    try:
        found = judge(evidence, claim, entry)
    except UnavailableError as error:
        stated = _stated_means(claim, entry)
        if fault == "delta-mismatch" and stated is not None:
            yield _against_stated(claim, pointer, entry, stated)
        else:
            yield Skipped(str(error))
        return
    except UnresolvedError as error:
        if fault == owner:
            yield Problem(MANIFEST, str(error), pointer)
        else:
            yield Skipped("numbers that can't be recomputed are for RA401 and RA406")
        return
    if found.fault == fault:
        yield _problem(claim, pointer, entry, found)
    elif found.fault is None and fault == owner:
        yield Held(MANIFEST, f"{pointer}/value", numbers=found.pinned)
        yield from _inputs(evidence, claim, pointer, entry, found)
    else:
        yield Held(MANIFEST, f"{pointer}/value")


def _stated_means(claim: Claim, entry: Entry) -> tuple[Decimal, Decimal] | None:
    """Return the means of treatment and baseline that the claim itself states, if it does."""
    sides, means = claim.value.get("compares"), {}
    for _, other in claim.reported:
        if other["quantity"] == "mean":
            means[other["method"]] = decimal(other)
    if sides is None or entry["quantity"] != "difference":
        return None
    if not {sides["treatment"], sides["baseline"]} <= means.keys():
        return None
    return means[sides["treatment"]], means[sides["baseline"]]


def _against_stated(
    claim: Claim, pointer: str, entry: Entry, means: tuple[Decimal, Decimal]
) -> Outcome:
    treatment, baseline = means
    number, slack = treatment.value - baseline.value, treatment.half + baseline.half
    if entry.get("kind") == "relative":
        if baseline.value <= baseline.half:
            return Skipped("a difference relative to a baseline that may be 0")
        slack = slack * (1 + treatment.value / baseline.value) / (baseline.value - baseline.half)
        number = number / baseline.value
    reported = decimal(entry)
    if reported.admits(number, slack):
        return Held(MANIFEST, f"{pointer}/value")
    message = f"claim {claim.id}: the difference is not that of the means that it states"
    found = discrepancy(number, reported, entry)
    return Problem(MANIFEST, message, f"{pointer}/value", discrepancy=found)


def _problem(claim: Claim, pointer: str, entry: Entry, found: Judgement) -> Problem:
    message = f"claim {claim.id}: the reported {entry['quantity']} does not recompute"
    if found.fault == "out-of-range":
        message = f"claim {claim.id}: {entry['quantity']} {entry['value']} is out of range"
    if found.fault == "impossible-mean":
        message = f"claim {claim.id}: no outcomes have the mean {entry['value']}"
    is_variant = found.fault in ("value-mismatch", "delta-mismatch")
    return Problem(
        MANIFEST,
        message if is_variant or not found.why else f"{message}: {found.why}",
        f"{pointer}/value",
        discrepancy=discrepancy(
            found.number, found.reported, entry, found.why if is_variant else ""
        ),
    )


def _inputs(
    evidence: Evidence, claim: Claim, pointer: str, entry: Entry, found: Judgement
) -> Iterator[Held]:
    """Yield which numbers went into a statistic so finely that a change of one would show."""
    tables = tables_of(evidence, claim, entry)
    if entry["quantity"] == "p-value":
        yield from _protocol(evidence, claim, pointer, entry, found)
        return
    if entry["quantity"] == "mean":
        weights = {entry["method"]: 1}
    elif entry.get("kind") == "relative":
        return
    else:
        sides = claim.value["compares"]
        weights = {sides["treatment"]: 1, sides["baseline"]: -1}
    scores = {method: scores_by_item(tables, method) for method in weights}
    for table in tables:
        mask = noticed(table, scores, weights, found.reported, found.number)
        yield Held(table.source, "/score", mask)


def _protocol(
    evidence: Evidence, claim: Claim, pointer: str, entry: Entry, found: Judgement
) -> Iterator[Held]:
    if entry["test"] != "paired-item-bootstrap":
        return
    pairs = pairs_of(evidence, claim, entry)
    for field in ("seed", "resamples"):
        others = [Fraction(other.p_value) for other in neighbours(evidence, pairs, entry, field)]
        shows = bool(others) and not any(found.reported.admits(p, found.slack) for p in others)
        if field in entry:
            yield Held(MANIFEST, f"{pointer}/{field}", numbers=shows)


def _looked_up(evidence: Evidence, claim: Claim, pointer: str, entry: Entry) -> Iterator[Outcome]:
    """Yield whether a value or quotation is the number at its pointer."""
    is_quotation = entry["quantity"] == "quote"
    reported = decimal(entry)
    try:
        number, slack = (quoted if is_quotation else recorded)(evidence, entry)
    except UnavailableError as error:
        yield Skipped(str(error))
        return
    except UnresolvedError as error:
        yield Problem(MANIFEST, f"claim {claim.id}: {error}", f"{pointer}/pointer")
        return
    if not reported.admits(number, slack):
        what = "quotation" if is_quotation else "value"
        place = f"{entry['artifact']} has at {entry['pointer']}"
        message = f"claim {claim.id}: the {what} is not what {place}"
        found = discrepancy(number, reported, entry)
        yield Problem(MANIFEST, message, f"{pointer}/value", discrepancy=found)
        return
    recomputed = not is_quotation and reported.pins(number, slack)
    yield Held(MANIFEST, f"{pointer}/value", numbers=recomputed)


def _scores_in_range(table: Items) -> Iterator[Outcome]:
    outside = [r for r, s in enumerate(table.scores.tolist()) if s < 0 or s > 1]
    if not outside:
        yield Held(table.source, "/score")
        return
    row, inside = outside[0], table.scores.min() >= 0 and table.scores.max() <= 100
    hint = "; are these percentages?" if inside and table.scores.max() > 2 else ""
    yield Problem(
        table.source,
        f"{len(outside):,} scores lie outside [0, 1], first {table.scores[row]:g} "
        f"({table.keys[row]}){hint}",
        "/score",
        table.lines[row],
    )
