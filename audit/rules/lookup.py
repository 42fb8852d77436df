"""Numbers in other artifacts: at a JSON pointer, or reduced over what stands there."""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from rlvraudit.audit.evidence.supplement import Evidence
from rlvraudit.audit.rules.reported import PERCENT, Entry, UnavailableError, UnresolvedError
from rlvraudit.audit.rules.resampling import ROUNDOFF

DECIMAL = re.compile(r"[+-]?\d{1,30}(\.\d{1,30})?([eE][+-]?\d{1,3})?", re.ASCII)
"""As in the manifest: an exponent of nine digits would fill the memory."""
Reduction = Callable[[Sequence[float]], float]
REDUCTIONS: Mapping[str, Reduction] = {
    "sum": math.fsum,
    "mean": lambda numbers: math.fsum(numbers) / len(numbers),
    "min": min,
    "max": max,
    "count-positive": lambda numbers: sum(number > 0 for number in numbers),
}


def recorded(evidence: Evidence, entry: Entry) -> tuple[Fraction, Fraction]:
    """Return the number that a `value` refers to, and how far rounding may have moved it.

    Raises:
        UnresolvedError: There is no such place, or no number there.
        UnavailableError: The artifact could not be read.
    """
    found = resolve(_document(evidence, entry), entry["pointer"])
    if "reduce" not in entry:
        return _exact(found, entry["pointer"]), Fraction(0)
    numbers = list(_numbers(found, entry["pointer"]))
    if not numbers:
        raise UnresolvedError(f"nothing to reduce at {entry['pointer']}")
    try:
        reduced = REDUCTIONS[entry["reduce"]](numbers)
    except (OverflowError, ValueError) as error:  # what fsum says of infinities
        raise UnresolvedError(f"the numbers at {entry['pointer']} have no finite sum") from error
    number = _exact(reduced, entry["pointer"])
    return number, 2 * ROUNDOFF * abs(number)


def quoted(evidence: Evidence, entry: Entry) -> tuple[Fraction, Fraction]:
    """Return the number that a `quote` repeats, in the quotation's unit, and no slack.

    Raises:
        UnresolvedError: There is no such place, or no number there.
        UnavailableError: The artifact could not be read.
    """
    document, pointer = _document(evidence, entry), entry["pointer"]
    number = _exact(resolve(document, pointer), pointer)
    around = resolve(document, pointer.rpartition("/")[0])
    unit = around.get("unit") if isinstance(around, Mapping) else None
    return (number * PERCENT if unit == "percent" else number), Fraction(0)


def resolve(value: Any, pointer: str) -> Any:
    """Return what stands at a JSON pointer (RFC 6901).

    Raises:
        UnresolvedError: There is no such place.
    """
    for token in pointer.split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        if isinstance(value, Mapping) and key in value:
            value = value[key]
        elif isinstance(value, list | tuple | np.ndarray) and _is_index(key, len(value)):
            value = value[int(key)]
        else:
            raise UnresolvedError(f"there is nothing at {pointer}")
    return value


def _is_index(key: str, length: int) -> bool:
    return key.isascii() and key.isdigit() and str(int(key)) == key and int(key) < length


def _document(evidence: Evidence, entry: Entry) -> Any:
    known = {artifact.path for artifact in evidence.artifacts}
    if entry["artifact"] not in known:
        raise UnresolvedError(f"{entry['artifact']} is not among the artifacts")
    if entry["artifact"] not in evidence.documents:
        raise UnavailableError("the artifact of a reported value could not be read")
    return evidence.documents[entry["artifact"]].value


def _exact(value: Any, pointer: str) -> Fraction:
    """Return a number as its decimal says; a decimal string is one too, a truth value is not."""
    if isinstance(value, str) and DECIMAL.fullmatch(value):
        return Fraction(value)
    if isinstance(value, np.generic | np.ndarray) and np.ndim(value) == 0:
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UnresolvedError(f"there is no number at {pointer}")
    if not math.isfinite(value):
        raise UnresolvedError(f"the number at {pointer} is not finite")
    return Fraction(repr(value))


def _numbers(value: Any, pointer: str) -> Iterator[float]:
    """Yield every number of an array, nested or not; truth values count as 0 and 1."""
    if isinstance(value, np.ndarray):
        yield from value.astype(np.float64).reshape(-1).tolist()
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _numbers(part, pointer)
    else:
        yield float(value) if isinstance(value, bool) else float(_exact(value, pointer))
