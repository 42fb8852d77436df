"""Reported numbers: decimals with the tolerance that their digits set, and what they rest on."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from rlvraudit.audit.errors import AuditError
from rlvraudit.audit.evidence.supplement import MANIFEST, Claim, Evidence
from rlvraudit.audit.results.item import Items, duplicates, non_finite
from rlvraudit.audit.results.pairing import Order, Pairs, pair
from rlvraudit.audit.rules.rule import Discrepancy, Problem

Entry = Mapping[str, Any]
PERCENT = Fraction(1, 100)
UNITS = {"proportion": "percent", "percent": "proportion"}
"""Each unit with the one that it is confused with."""


class UnresolvedError(AuditError):
    """A reported number can't be recomputed from what its claim rests on; a fault of the claim."""


class UnavailableError(AuditError):
    """What a reported number rests on can't be used, which another rule reports."""


@dataclass(frozen=True, slots=True)
class Decimal:
    """A number as printed: exact, with half a unit of its last digit as tolerance.

    Percentages are held as proportions.
    """

    text: str
    value: Fraction
    half: Fraction

    def admits(self, number: Fraction, slack: Fraction = Fraction(0)) -> bool:
        """Tell whether `number`, known to within `slack`, may have been printed like this."""
        return abs(number - self.value) <= self.half + slack

    def pins(self, number: Fraction, slack: Fraction = Fraction(0)) -> bool:
        """Tell whether no neighbouring decimal of as many digits would admit `number` too."""
        return abs(number - self.value) < self.half - slack


def read(text: str, unit: str = "proportion") -> Decimal:
    """Return a reported decimal."""
    mantissa, _, exponent = text.lower().partition("e")
    _, _, digits = mantissa.partition(".")
    last = Fraction(10) ** (int(exponent or 0) - len(digits))
    scale = PERCENT if unit == "percent" else Fraction(1)
    return Decimal(text, Fraction(text) * scale, last / 2 * scale)


def decimal(entry: Entry, key: str = "value") -> Decimal:
    """Return the decimal at `key` of a reported entry, in the entry's unit."""
    return read(entry[key], entry.get("unit", "proportion"))


def as_float(number: Fraction) -> float:
    """Return the nearest double; decimals of a manifest may lie beyond all of them."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def show(number: Fraction, like: Decimal, unit: str = "proportion") -> str:
    """Return `number` with three digits more than `like` has, in the same unit."""
    scaled = as_float(number / PERCENT if unit == "percent" else number)
    digits = len(like.text.lower().partition("e")[0].partition(".")[2])
    return f"{scaled:.{digits + 3}f}" if 1e-3 < abs(scaled) < 1e9 else f"{scaled:.6g}"


def discrepancy(number: Fraction, like: Decimal, entry: Entry, variant: str = "") -> Discrepancy:
    """Return the recorded decimal beside `number`, with half a unit of its last digit."""
    unit = entry.get("unit", "proportion")
    half = as_float(like.half / PERCENT if unit == "percent" else like.half)
    return Discrepancy(like.text, show(number, like, unit), f"{half:.2g}", variant)


def entries(evidence: Evidence, *quantities: str) -> Iterator[tuple[Claim, str, Entry]]:
    """Yield each reported entry of these quantities with its claim and pointer."""
    for claim in evidence.claims:
        for pointer, entry in claim.reported:
            if entry["quantity"] in quantities:
                yield claim, pointer, entry


def tables_of(evidence: Evidence, claim: Claim, entry: Entry) -> tuple[Items, ...]:
    """Return the tables of items that an entry rests on.

    Raises:
        UnresolvedError: The claim rests on no per-item results.
        UnavailableError: They could not be read, or no estimate may use them.
    """
    paths = (entry["artifact"],) if "artifact" in entry else claim.evidence
    wanted = {a.path for a in evidence.artifacts if a.type == "item-results"}.intersection(paths)
    if not wanted:
        quantity = entry["quantity"]
        raise UnresolvedError(f"claim {claim.id} gives a {quantity}, but no per-item results")
    documents = (evidence.documents.get(path) for path in paths if path in wanted)
    tables = tuple(d.value for d in documents if d is not None and isinstance(d.value, Items))
    if len(tables) < len(wanted):
        raise UnavailableError("per-item results could not be read")
    if unsound := _unsound(tables):
        raise UnavailableError(f"{unsound} has rows that RA403 or RA409 refuses")
    return tables


def pairs_of(evidence: Evidence, claim: Claim, entry: Entry, order: Order = "id") -> Pairs:
    """Return the paired items that an entry rests on.

    Raises:
        UnresolvedError: Items of the two methods can't be paired.
        UnavailableError: The claim names no two methods that are there, or has no usable items.
    """
    tables = tables_of(evidence, claim, entry)
    sides = claim.value.get("compares")
    there = {method for table in tables for method in table.methods}
    if sides is None or not {sides["treatment"], sides["baseline"]} <= there:
        raise UnavailableError("without a treatment and a baseline, which RA604 demands")
    try:
        return paired(tables, sides["baseline"], sides["treatment"], order)
    except AuditError as error:
        raise UnresolvedError(f"claim {claim.id}: {error}") from error


@lru_cache(maxsize=32)
def paired(tables: tuple[Items, ...], baseline: str, treatment: str, order: Order) -> Pairs:
    """Return `pair` of the same arguments, once for all rules that ask."""
    return pair(tables, baseline, treatment, order)


@lru_cache(maxsize=32)
def _unsound(tables: tuple[Items, ...]) -> str:
    """Return where tables are unsound, or nothing."""
    faults = (*non_finite(tables), *duplicates(tables))
    return faults[0].table.source if faults else ""


def problem(message: str, pointer: str, found: Discrepancy | None = None) -> Problem:
    """Return a problem at a place in the manifest."""
    return Problem(MANIFEST, message, pointer, discrepancy=found)
