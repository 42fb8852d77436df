"""Claimed intervals beside their recomputation, and the wrong procedures that explain others."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from rlvraudit.audit.errors import AuditError
from rlvraudit.audit.evidence.supplement import Claim, Evidence
from rlvraudit.audit.results.item import Items
from rlvraudit.audit.results.pairing import Order, Pairs
from rlvraudit.audit.rules.reported import (
    Decimal,
    Entry,
    UnavailableError,
    UnresolvedError,
    decimal,
    entries,
    paired,
    pairs_of,
    tables_of,
)
from rlvraudit.audit.rules.resampling import (
    FEW_WRONG_DRAWS,
    planned_draws,
    redraw,
    rounding,
    unpaired,
)
from rlvraudit.kernels.inference.bootstrap import Bootstrap

ORDERS: tuple[Order, ...] = ("file", "id")


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


def pooled(evidence: Evidence, claim: Claim, entry: Entry) -> tuple[Pairs, ...]:
    """Return the rows of both methods paired as if each rollout were an item, if they can be.

    In the order of the file, and by id.
    """
    sides = claim.value["compares"]
    apart = tuple(_rows_as_items(table) for table in tables_of(evidence, claim, entry))
    try:
        rows = [paired(apart, sides["baseline"], sides["treatment"], o) for o in ORDERS]
    except AuditError:
        return ()
    return tuple(r for r in rows if len(r.items) * entry["resamples"] <= FEW_WRONG_DRAWS)


def _rows_as_items(table: Items) -> Items:
    keys = (k._replace(item=repr((k.item, k.seed, k.rollout))) for k in table.keys)
    return replace(table, keys=tuple(keys))


def variant(
    evidence: Evidence, check: IntervalCheck, pairs: Pairs, pooled: tuple[Pairs, ...]
) -> str:
    """Return the sentence of the known wrong procedure that gives the printed interval."""
    if planned_draws(evidence) > FEW_WRONG_DRAWS:
        return ""
    for name, drawn in _variants(evidence, check.entry, pairs, pooled):
        if admits(check.ends, drawn, check.slack):
            return name
    return ""


def _variants(
    evidence: Evidence, entry: Entry, pairs: Pairs, pooled: tuple[Pairs, ...]
) -> Iterator[tuple[str, Bootstrap]]:
    drawn = redraw(evidence, pairs, entry)
    swapped = replace(drawn, ci_low=-drawn.ci_high, ci_high=-drawn.ci_low)
    yield "baseline minus treatment", swapped
    for rows in pooled:
        yield "rollouts pooled as if they were items", redraw(evidence, rows, entry)
    for first in ("treatment", "baseline"):
        name = f"methods resampled independently of each other, {first} first"
        yield name, unpaired(pairs, entry, first)
