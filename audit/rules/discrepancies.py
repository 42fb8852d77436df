"""What follows from a recorded number and its recomputation, for the rule that it belongs to."""

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from rlvraudit.audit.recomputation.recomputed import Omitted, Recomputed, Result, Wrong
from rlvraudit.audit.rules.rule import Discrepancy, Held, Outcome, Problem, Skipped

Floats = NDArray[np.float64]
NOTICED = 1e-3
"""A number counts as recomputed where a relative change of this size would have been noticed."""


@np.errstate(invalid="ignore", over="ignore")
def outcomes(results: Iterable[Result], rule: str) -> tuple[Outcome, ...]:
    """Return what a rule says of the results that belong to it."""
    return tuple(o for result in results if result.rule == rule for o in _outcomes(result))


def _outcomes(result: Result) -> Iterator[Outcome]:
    match result:
        case Recomputed():
            yield from _compare(result)
        case Wrong():
            yield Problem(result.place.path, result.message, result.place.pointer)
        case Omitted():
            yield Skipped(result.reason)


def _compare(result: Recomputed) -> Iterator[Outcome]:
    recorded = np.asarray(result.recorded, np.float64)
    expected, bound = np.asarray(result.value.expected), np.asarray(result.value.bound)
    near = (np.abs(recorded - expected) <= bound) & np.isfinite(bound)
    good = near | (recorded == expected)
    sharp = (bound <= NOTICED / 2 * np.abs(recorded)) | (recorded == 0)
    if not good.all():
        yield _problem(result, recorded, good)
    yield Held(result.place.path, result.place.pointer, good & sharp)
    if good.all():
        yield from (Held(place.path, place.pointer, True) for place in result.notices)


def _problem(result: Recomputed, recorded: Floats, good: NDArray[np.bool_]) -> Problem:
    expected = np.broadcast_to(np.asarray(result.value.expected, np.float64), recorded.shape)
    bound = np.broadcast_to(np.asarray(result.value.bound, np.float64), recorded.shape)
    wrong = np.argwhere(~good)
    at = tuple(int(i) for i in wrong[0])
    index = f"[{', '.join(map(str, at))}]" if at else ""
    more = f" (and {len(wrong) - 1} more there)" if len(wrong) > 1 else ""
    variant = _variant(result, recorded, bound)
    message = f"the recorded {result.what} does not recompute{more}"
    return Problem(
        result.place.path,
        f"{message}: {variant}" if variant else message,
        result.place.pointer + index,
        discrepancy=Discrepancy(
            shown(recorded[at]), shown(expected[at]), f"{float(bound[at]):.2g}", variant
        ),
    )


def shown(number: np.float64) -> str:
    """Return a number as its JSON would have it: whole ones without a point."""
    whole = abs(number) < 2**53 and number == np.trunc(number)
    return str(int(number)) if whole else repr(float(number))


def _variant(result: Recomputed, recorded: Floats, bound: Floats) -> str:
    """Return the sentence of the known wrong formula that gives what was recorded."""
    for sentence, values in result.variants():
        wrong = np.asarray(values, np.float64)
        slack = bound + 1e-12 * np.abs(wrong)
        if wrong.shape == recorded.shape and np.all(np.abs(recorded - wrong) <= slack):
            return sentence
    return ""
