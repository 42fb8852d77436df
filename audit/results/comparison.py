"""Two methods on the same items: pairing by id, the paired estimates, and what to read first."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from rlvraudit.audit.errors import UsageError
from rlvraudit.audit.results.item import Items, Key, refuse_unsound
from rlvraudit.kernels.inference.bootstrap import (
    CONFIDENCE,
    RESAMPLES,
    SEED,
    Bootstrap,
    paired_bootstrap,
)
from rlvraudit.kernels.inference.exact import as_fraction, mcnemar, sign_flip

Order = Literal["id", "file"]
Means = Mapping[str, Fraction]
NAMED = 10
"""Ids that a message names before it only counts."""
FEW_ITEMS, FEW_DISCORDANT = 30, 10
"""Below these a percentile interval covers less than it says."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """The items that two methods share, in the order that resampling indexes.

    Means over an item's rollouts and seeds are exact, as the decimals of its scores say.
    """

    baseline: str
    treatment: str
    items: tuple[str, ...]
    baseline_means: tuple[Fraction, ...]
    treatment_means: tuple[Fraction, ...]
    samples: tuple[tuple[int, ...], tuple[int, ...]]

    @property
    def differences(self) -> tuple[Fraction, ...]:
        """Treatment minus baseline, per item."""
        pairs = zip(self.treatment_means, self.baseline_means, strict=True)
        return tuple(treated - base for treated, base in pairs)


@dataclass(frozen=True, slots=True)
class Protocol:
    """How a paired bootstrap is drawn."""

    seed: int = SEED
    resamples: int = RESAMPLES
    confidence: float = CONFIDENCE
    order: Order = "id"


@dataclass(frozen=True, slots=True)
class ExactTest:
    """The exact companion of a bootstrap p-value; `mid_p` only where the test has one."""

    name: str
    p_value: float
    mid_p: float | None
    attainable: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything that is said about two methods on the same items."""

    pairs: Pairs
    protocol: Protocol
    bootstrap: Bootstrap
    exact: ExactTest
    notes: tuple[str, ...]

    @property
    def outcomes(self) -> tuple[int, int, int]:
        """Items won, lost and tied by the treatment."""
        return outcomes(self.pairs.differences)

    @property
    def reliable(self) -> bool:
        """Whether there are enough items and discordant pairs for a percentile interval."""
        won, lost, _ = self.outcomes
        return len(self.pairs.items) >= FEW_ITEMS and won + lost >= FEW_DISCORDANT


def compare(
    tables: Sequence[Items],
    baseline: str | None = None,
    treatment: str | None = None,
    protocol: Protocol = Protocol(),
) -> Comparison:
    """Compare two methods over the items of one or more tables.

    Raises:
        RowError: A score is not finite, or there twice.
        UsageError: The methods are not clear, or their items are not the same, or only one.
        InvalidInputError: The protocol is not one.
    """
    refuse_unsound(tables)
    base, treated, notes = choose_methods(tables, baseline, treatment)
    pairs = pair(tables, base, treated, protocol.order)
    if len(pairs.items) == 1:
        raise UsageError(f"a single item ({pairs.items[0]!r}): nothing can be resampled")
    drawn = bootstrap(pairs, protocol)
    return Comparison(
        pairs,
        protocol,
        drawn,
        exact_test(pairs, protocol),
        (*notes, *_notes(tables, pairs, drawn)),
    )


def bootstrap(pairs: Pairs, protocol: Protocol) -> Bootstrap:
    """Return the paired bootstrap of `pairs` under `protocol`."""
    return paired_bootstrap(
        [float(mean) for mean in pairs.baseline_means],
        [float(mean) for mean in pairs.treatment_means],
        seed=protocol.seed,
        resamples=protocol.resamples,
        confidence=protocol.confidence,
    )


def exact_test(pairs: Pairs, protocol: Protocol = Protocol()) -> ExactTest:
    """Return McNemar's test where every item is solved or not, the sign-flip test elsewhere."""
    differences = pairs.differences
    if is_binary(pairs):
        won, lost, _ = outcomes(differences)
        table = mcnemar(won, lost)
        attainable = math.ldexp(1.0, 1 - won - lost) if won + lost else 1.0
        return ExactTest("exact McNemar", table.p_value, table.mid_p, attainable)
    flipped = sign_flip(differences, seed=protocol.seed, resamples=protocol.resamples)
    name = "sign flip, drawn" if flipped.method == "monte-carlo" else "exact sign flip"
    return ExactTest(name, flipped.p_value, None, flipped.attainable)


def is_binary(pairs: Pairs) -> bool:
    """Tell whether both methods have only zeros and ones."""
    return {*pairs.baseline_means, *pairs.treatment_means} <= {Fraction(0), Fraction(1)}


def outcomes(differences: Sequence[Fraction]) -> tuple[int, int, int]:
    """Return how many differences are positive, negative and zero."""
    won = sum(d > 0 for d in differences)
    lost = sum(d < 0 for d in differences)
    return won, lost, len(differences) - won - lost


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
    base, treated = _by_item(tables, baseline), _by_item(tables, treatment)
    _refuse_unmatched(base, treated, baseline, treatment)
    items = canonical(treated) if order == "id" else tuple(treated)
    return Pairs(
        baseline,
        treatment,
        items,
        tuple(_mean(base[item]) for item in items),
        tuple(_mean(treated[item]) for item in items),
        (
            tuple(sorted({len(base[item]) for item in items})),
            tuple(sorted({len(treated[item]) for item in items})),
        ),
    )


def canonical(ids: Sequence[str] | Mapping[str, object]) -> tuple[str, ...]:
    """Return ids in canonical order: numerically if all are integers, else by code point."""
    if all(_is_integer(i) for i in ids):
        return tuple(sorted(ids, key=lambda i: (int(i), i)))
    return tuple(sorted(ids))


def _is_integer(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) < 1000


def _by_item(tables: Sequence[Items], method: str) -> dict[str, list[Fraction]]:
    values = {s: as_fraction(s) for t in tables for s in set(t.scores.tolist())}
    found: defaultdict[str, list[Fraction]] = defaultdict(list)
    for key, score in _rows(tables):
        if key.method == method:
            found[key.item].append(values[score])
    return dict(found)


def _rows(tables: Sequence[Items]) -> Iterator[tuple[Key, float]]:
    for table in tables:
        yield from zip(table.keys, table.scores.tolist(), strict=True)


def _mean(scores: Sequence[Fraction]) -> Fraction:
    return scores[0] if len(scores) == 1 else sum(scores, Fraction(0)) / len(scores)


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


def _notes(tables: Sequence[Items], pairs: Pairs, drawn: Bootstrap) -> Iterator[str]:
    won, lost, _ = outcomes(pairs.differences)
    if won + lost == 0:
        yield "all ties: no item tells the methods apart"
    elif len(pairs.items) < FEW_ITEMS or won + lost < FEW_DISCORDANT:
        few = "items" if len(pairs.items) < FEW_ITEMS else "discordant items"
        yield f"percentile interval unreliable with so few {few}: read the exact test"
    if is_borderline(pairs, drawn):
        yield "borderline: one lattice step of the scores would turn the verdict"
    if any(not 0 <= mean <= 1 for mean in (*pairs.baseline_means, *pairs.treatment_means)):
        yield "scores lie outside [0, 1]: they are not proportions"
    yield from _uneven(tables, pairs)


def is_borderline(pairs: Pairs, drawn: Bootstrap) -> bool:
    """Tell whether moving an endpoint by one lattice step would make zero enter or leave."""
    step = lattice_step(pairs.differences)
    if step == 0:
        return False
    low, high = drawn.ci_low, drawn.ci_high
    if low > 0 or high < 0:
        return min(abs(low), abs(high)) < step * (1 + 1e-9)
    return low + step * (1 + 1e-9) > 0 or high - step * (1 + 1e-9) < 0


def lattice_step(differences: Sequence[Fraction]) -> float:
    """Return the distance between attainable mean differences, 0 if there is only one."""
    unit = math.lcm(*(d.denominator for d in differences))
    shared = math.gcd(*(d.numerator * (unit // d.denominator) for d in differences))
    return float(Fraction(shared, unit * len(differences)))


def _uneven(tables: Sequence[Items], pairs: Pairs) -> Iterator[str]:
    for method, counts in zip((pairs.baseline, pairs.treatment), pairs.samples, strict=True):
        if len(counts) > 1:
            yield f"{method} has between {counts[0]} and {counts[-1]} scores per item"
    base, treated = (_sample_sets(tables, m) for m in (pairs.baseline, pairs.treatment))
    if base != treated and pairs.samples[0] == pairs.samples[1]:
        yield "the methods have other rollouts or seeds of the same items"
    elif pairs.samples[0] != pairs.samples[1]:
        yield "the methods have other numbers of scores per item"


def _sample_sets(tables: Sequence[Items], method: str) -> Counter[tuple[str | None, str | None]]:
    return Counter((k.seed, k.rollout) for t in tables for k in t.keys if k.method == method)


__all__ = [
    "Comparison",
    "ExactTest",
    "Order",
    "Pairs",
    "Protocol",
    "bootstrap",
    "canonical",
    "choose_methods",
    "compare",
    "exact_test",
    "is_binary",
    "is_borderline",
    "lattice_step",
    "outcomes",
    "pair",
]
