"""Pairing: which two methods, which items both have, and the exact mean of each item."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType
from typing import Literal

from rlvraudit.audit.errors import UsageError
from rlvraudit.audit.results.item import Items
from rlvraudit.kernels.inference.exact import as_fraction

Order = Literal["id", "file"]
NAMED = 10
"""Ids that a message names before it only counts."""


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """The items that two methods share, in the order that resampling indexes.

    Means over an item's rollouts and seeds are exact, as the decimals of its scores say;
    `differences` are treatment minus baseline. `samples` are the numbers of scores per item
    that occur, for baseline and treatment.
    """

    baseline: str
    treatment: str
    items: tuple[str, ...]
    baseline_means: tuple[Fraction, ...]
    treatment_means: tuple[Fraction, ...]
    differences: tuple[Fraction, ...]
    samples: tuple[tuple[int, ...], tuple[int, ...]]


def choose_methods(
    tables: Sequence[Items], baseline: str | None, treatment: str | None
) -> tuple[str, str, tuple[str, ...]]:
    """Return baseline and treatment, and a note where their order was not given.

    Of two methods, the one that appears first is the baseline unless the caller says otherwise.

    Raises:
        UsageError: A method is not there, both are the same, or there is a choice to make.
    """
    there = tuple(dict.fromkeys(method for table in tables for method in table.methods))
    for role, method in (("baseline", baseline), ("treatment", treatment)):
        if method is not None and method not in there:
            raise UsageError(f"no {role} {method!r}; the methods are {_listed(there)}")
    if baseline is not None and baseline == treatment:
        raise UsageError(f"baseline and treatment are both {baseline!r}")
    if baseline is not None and treatment is not None:
        return baseline, treatment, ()
    if len(there) != 2:
        wanted = "need two methods" if len(there) < 2 else "name --baseline and --treatment"
        raise UsageError(f"{wanted}; the methods are {_listed(there)}")
    first, second = there
    if baseline is None and treatment is None:
        return first, second, (f"{first} is the baseline because it appears first",)
    base = baseline if baseline is not None else next(m for m in there if m != treatment)
    return base, next(m for m in there if m != base), ()


def pair(tables: Sequence[Items], baseline: str, treatment: str, order: Order = "id") -> Pairs:
    """Return the items of both methods, paired by id, in canonical or file order.

    File order is that of the treatment's rows.

    Raises:
        UsageError: The methods have no item in common, or one lacks items of the other.
    """
    base, treated = (
        scores_by_item(tuple(tables), baseline),
        scores_by_item(tuple(tables), treatment),
    )
    _refuse_unmatched(base, treated, baseline, treatment)
    items = canonical(treated) if order == "id" else tuple(treated)
    base_means = tuple(item_mean(base[item]) for item in items)
    treated_means = tuple(item_mean(treated[item]) for item in items)
    samples = (_sample_counts(base), _sample_counts(treated))
    differences = _subtract(treated_means, base_means)
    return Pairs(baseline, treatment, items, base_means, treated_means, differences, samples)


def _subtract(
    minuends: Sequence[Fraction], subtrahends: Sequence[Fraction]
) -> tuple[Fraction, ...]:
    """Subtract one by one, each distinct pair once: fractions are slow, and few are distinct."""
    known: dict[tuple[tuple[int, int], tuple[int, int]], Fraction] = {}
    differences = []
    for a, b in zip(minuends, subtrahends, strict=True):
        pair = (a.as_integer_ratio(), b.as_integer_ratio())
        if pair not in known:
            known[pair] = a - b
        differences.append(known[pair])
    return tuple(differences)


def _sample_counts(scores: Mapping[str, Sequence[Fraction]]) -> tuple[int, ...]:
    return tuple(sorted({len(of_item) for of_item in scores.values()}))


def canonical(ids: Sequence[str] | Mapping[str, object]) -> tuple[str, ...]:
    """Return ids in canonical order: numerically if all are integers, else by code point."""
    if all(_is_integer(i) for i in ids):
        return tuple(sorted(ids, key=lambda i: (int(i), i)))
    return tuple(sorted(ids))


def _is_integer(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) < 1000


def scores_by_item(tables: tuple[Items, ...], method: str) -> Mapping[str, Sequence[Fraction]]:
    """Return the scores of each item, as their decimals say, in order of first appearance."""
    return _by_method(tables).get(method, MappingProxyType({}))


@lru_cache(maxsize=32)
def _by_method(tables: tuple[Items, ...]) -> Mapping[str, Mapping[str, Sequence[Fraction]]]:
    values = {s: as_fraction(s) for t in tables for s in set(t.scores.tolist())}
    found: defaultdict[str, dict[str, list[Fraction]]] = defaultdict(dict)
    for table in tables:
        for key, score in zip(table.keys, table.scores.tolist(), strict=True):
            found[key.method].setdefault(key.item, []).append(values[score])
    return {method: MappingProxyType(items) for method, items in found.items()}


def item_mean(scores: Sequence[Fraction]) -> Fraction:
    """Return the exact mean."""
    if len(scores) == 1:
        return scores[0]
    if all(score.denominator == 1 for score in scores):
        return Fraction(sum(score.numerator for score in scores), len(scores))
    return exact_sum(scores) / len(scores)


def exact_sum(fractions: Iterable[Fraction]) -> Fraction:
    """Return the sum; equal objects, of which scores have few, are multiplied, not added."""
    held = tuple(fractions)  # while it is held, no two of its objects share an id
    known = {id(fraction): fraction for fraction in held}
    counts = Counter(map(id, held))
    numerators: defaultdict[int, int] = defaultdict(int)
    for key, count in counts.items():
        numerators[known[key].denominator] += known[key].numerator * count
    return sum((Fraction(n, d) for d, n in numerators.items()), Fraction(0))


def _refuse_unmatched(
    base: Mapping[str, object], treated: Mapping[str, object], baseline: str, treatment: str
) -> None:
    if not base.keys() & treated.keys():
        raise UsageError(
            f"no item in common: {baseline} has {_listed(canonical(base))}, "
            f"{treatment} has {_listed(canonical(treated))}"
        )
    sides = ((baseline, treated, base), (treatment, base, treated))
    lacks = [
        f"{method} lacks {len(missing):,} of {len(whole):,} items: {_listed(missing)}"
        for method, whole, own in sides
        if (missing := canonical([item for item in whole if item not in own]))
    ]
    if lacks:
        raise UsageError("; ".join(lacks) + "; every item needs both methods")


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:NAMED]) or "none"
    return shown + (f" and {len(names) - NAMED:,} more" if len(names) > NAMED else "")
