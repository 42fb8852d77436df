"""RA5, the direction: what a claim asserts is what its interval carries."""

from collections.abc import Iterator
from fractions import Fraction

from rlvraudit.audit.evidence.supplement import MANIFEST, Claim, Evidence
from rlvraudit.audit.results.comparison import excluded_side, is_borderline, unreliable
from rlvraudit.audit.results.pairing import Pairs
from rlvraudit.audit.rules.intervals import IntervalCheck, check_interval
from rlvraudit.audit.rules.judgement import companion
from rlvraudit.audit.rules.reported import UnavailableError, UnresolvedError, decimal, pairs_of
from rlvraudit.audit.rules.rule import Held, Outcome, Problem, Skipped, rule

CARRIED_BY = {"higher": (1,), "lower": (-1,), "different": (1, -1), "no-difference": (0,)}
"""On which sides of zero an interval must lie to carry what a claim asserts."""


@rule("RA511", "direction-unsupported")
def direction_unsupported(evidence: Evidence) -> Iterator[Outcome]:
    """A claim that one method beats another has an interval that excludes zero on that side.

    "Excludes" is strict: an end at 0.000 excludes nothing. `different` needs zero outside on
    either side, `no-difference` zero inside, and all of it within the `margin`, in the unit of the
    difference, if one is stated. A verdict that one lattice step of the scores would turn is
    noted as borderline. With fewer than 30 items or 10 discordant ones the percentile interval
    is unreliable, and the exact test has to agree.

    Passes: `"asserts": "higher"` with an interval from 0.015 to 0.072.
    Fails: the same with an interval from -0.004 to 0.083.

    How to fix: claim what the interval carries, or evaluate on more items.

    When to suppress: never; the statement can be weakened instead.
    """
    claims = [claim for claim in evidence.claims if "compares" in claim.value]
    if not claims:
        yield Skipped("no claim asserts a direction")
    for claim in claims:
        checks = list(_own_intervals(evidence, claim))
        if not checks:
            yield Skipped("directions without an interval that recomputes, which RA5 reports")
        for check, pairs in checks:
            yield from _direction_outcomes(claim, check, pairs)


def _own_intervals(evidence: Evidence, claim: Claim) -> Iterator[tuple[IntervalCheck, Pairs]]:
    for pointer, entry in claim.reported:
        if entry["quantity"] == "difference" and "interval" in entry:
            try:
                check = check_interval(evidence, claim, pointer, entry)
                yield check, pairs_of(evidence, claim, entry)
            except (UnavailableError, UnresolvedError):
                continue


def _direction_outcomes(claim: Claim, check: IntervalCheck, pairs: Pairs) -> Iterator[Outcome]:
    asserts, pointer = claim.value["compares"]["asserts"], f"{claim.pointer}/compares/asserts"
    low, high = check.recomputed.ci_low, check.recomputed.ci_high
    told = f"claim {claim.id} asserts {asserts}; its interval is [{low:.6g}, {high:.6g}]"
    if excluded_side(pairs.differences, low, high) not in CARRIED_BY[asserts]:
        yield Problem(MANIFEST, told, pointer)
        return
    if asserts != "no-difference" and _printed_side(check) not in CARRIED_BY[asserts]:
        ends = ", ".join(check.entry["interval"])
        yield Problem(MANIFEST, f"{told}, but as printed, [{ends}], it holds zero", pointer)
        return
    margin = claim.value["compares"].get("margin")
    if asserts == "no-difference" and margin and not _within(margin, check, max(-low, high)):
        place = f"{claim.pointer}/compares/margin"
        yield Problem(MANIFEST, f"{told}, beyond the margin of {margin}", place)
        return
    yield Held(MANIFEST, pointer)
    yield from _doubts(told, pointer, asserts, check, pairs)


def _printed_side(check: IntervalCheck) -> int:
    low, high = (end.value for end in check.ends)
    return 1 if low > 0 else -1 if high < 0 else 0


def _within(margin: str, check: IntervalCheck, farthest: float) -> bool:
    """Tell whether an interval lies within a margin, which has the unit of the difference."""
    return Fraction(farthest) <= decimal({**check.entry, "value": margin}).value + check.slack


def _doubts(
    told: str, pointer: str, asserts: str, check: IntervalCheck, pairs: Pairs
) -> Iterator[Problem]:
    """Yield why a verdict that the interval carries is still not to be relied on."""
    low, high = check.recomputed.ci_low, check.recomputed.ci_high
    alpha = 1 - float(check.entry["confidence"])
    exact = companion(pairs).p_value
    if asserts != "no-difference" and unreliable(pairs) and exact > alpha:
        message = f"{told}, unreliable with so few; the exact p is {exact:.2g}"
        yield Problem(MANIFEST, message, pointer, level="warning")
    elif is_borderline(pairs.differences, low, high):
        message = f"{told}: borderline, one lattice step of the scores would turn the verdict"
        yield Problem(MANIFEST, message, pointer, level="note")
