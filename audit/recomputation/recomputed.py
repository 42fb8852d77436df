"""What a recomputation is: recorded numbers at one place, beside what they should be."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Place:
    """Where numbers stand: a file, and a JSON pointer or the name of an array after a slash."""

    path: str
    pointer: str


@dataclass(frozen=True, slots=True)
class Value:
    """What a recomputation gives, and how far a right recorded number may lie from it."""

    expected: Any
    bound: Any = 0.0


@dataclass(frozen=True, slots=True)
class Recomputed:
    """Recorded numbers at one place, beside their recomputation.

    `notices` are further places (settings, say) whose numbers went into the recomputation in a
    way that makes a change of one of them show here; `variants` returns the values that known
    wrong formulas give, with the sentence that names each fault, when they are needed.
    """

    rule: str
    what: str
    place: Place
    recorded: Any
    value: Value
    notices: tuple[Place, ...] = ()
    variants: Callable[[], Iterable[tuple[str, Any]]] = tuple


@dataclass(frozen=True, slots=True)
class Wrong:
    """Something recorded at a place that is wrong whatever its value; `message` says what."""

    rule: str
    place: Place
    message: str


@dataclass(frozen=True, slots=True)
class Omitted:
    """What was not recomputed for one rule, because of something that another rule reports."""

    rule: str
    reason: str


Result = Recomputed | Wrong | Omitted
