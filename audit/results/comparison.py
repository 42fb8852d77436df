"""Two methods on the same items: the paired estimates, and what to read first."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from rlvraudit.audit.errors import UsageError
from rlvraudit.audit.results.item import Items, refuse_unsound
from rlvraudit.audit.results.pairing import Order, Pairs, choose_methods, pair
from rlvraudit.kernels.inference.bootstrap import (
    CONFIDENCE,
    RESAMPLES,
    SEED,
    TIE,
    Bootstrap,
    paired_bootstrap,
)
from rlvraudit.kernels.inference.exact import mcnemar, sign_flip

FEW_ITEMS, FEW_DISCORDANT = 30, 10
"""Below these a percentile interval covers less than it says."""


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
        return not unreliable(self.pairs)


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
    means = {m.as_integer_ratio() for m in (*pairs.baseline_means, *pairs.treatment_means)}
    return means <= {(0, 1), (1, 1)}


def outcomes(differences: Sequence[Fraction]) -> tuple[int, int, int]:
    """Return how many differences are positive, negative and zero."""
    won = sum(d.numerator > 0 for d in differences)
    lost = sum(d.numerator < 0 for d in differences)
    return won, lost, len(differences) - won - lost


def _notes(tables: Sequence[Items], pairs: Pairs, drawn: Bootstrap) -> Iterator[str]:
    won, lost, _ = outcomes(pairs.differences)
    if won + lost == 0:
        yield "all ties: no item tells the methods apart"
    elif len(pairs.items) < FEW_ITEMS or won + lost < FEW_DISCORDANT:
        few = "items" if len(pairs.items) < FEW_ITEMS else "discordant items"
        yield f"percentile interval unreliable with so few {few}: read the exact test"
    if is_borderline(pairs.differences, drawn.ci_low, drawn.ci_high):
        yield "borderline: one lattice step of the scores would turn the verdict"
    if any(not 0 <= mean <= 1 for mean in (*pairs.baseline_means, *pairs.treatment_means)):
        yield "scores lie outside [0, 1]: they are not proportions"
    yield from _uneven(tables, pairs)


def unreliable(pairs: Pairs) -> bool:
    """Tell whether items or discordant ones are too few for a percentile interval."""
    won, lost, _ = outcomes(pairs.differences)
    return len(pairs.items) < FEW_ITEMS or won + lost < FEW_DISCORDANT


def excluded_side(differences: Sequence[Fraction], low: float, high: float) -> int:
    """Return on which side of zero an interval lies: 1 above, -1 below, 0 if it holds zero.

    Strictly, and by more than the rounding of a resampled mean: an end that is 0 in exact
    arithmetic excludes nothing, whatever its last bit says.
    """
    slack = (len(differences) + 4) * 2.0**-53 * float(max(map(abs, differences)))
    return 1 if low > slack else -1 if high < -slack else 0


def is_borderline(differences: Sequence[Fraction], low: float, high: float) -> bool:
    """Tell whether moving an end by one lattice step would make zero enter or leave.

    Zero is excluded strictly: an end that is 0 excludes nothing, but a step more would.
    """
    step = lattice_step(differences)
    if step == 0:
        return False
    if excluded_side(differences, low, high):
        return min(abs(low), abs(high)) <= step * (1 + TIE)
    return -low < step * (1 - TIE) or high < step * (1 - TIE)


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
