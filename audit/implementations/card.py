"""The convention card: what an implementation computes, line by line, and what is wrong with it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from rlvraudit.audit.implementations.implementation import Outcome


@dataclass(frozen=True, slots=True, eq=False)
class Example:
    """An input that shows a fault: what the closed form gives, and what came back.

    `wrt` names what the gradient is taken of, where not of the policy or its logits.
    """

    inputs: Mapping[str, NDArray[Any]]
    expected: Outcome
    actual: Outcome
    words: str
    dtype: str = "float64"
    wrt: str = ""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong.

    Attributes:
        kind: A name for programs: "prefix-attached".
        sentence: What is wrong, and how it should be.
        example: An input that shows it, the smallest that was found; None where none can.
        probe: The question whose answer gave it away.
        about: The parameter that it is about, if it is about one.
    """

    kind: str
    sentence: str
    example: Example | None = None
    probe: str = "closed form"
    about: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the card; `fault` marks it as wrong, `brief` is for tables."""

    name: str
    words: str
    fault: bool = False
    brief: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one probe adds: lines of the card, faults, and notes on robustness.

    A note is about inputs that the code does not meet on its own path; it fails nothing.
    """

    entries: tuple[Entry, ...] = ()
    faults: tuple[Fault, ...] = ()
    notes: tuple[str, ...] = ()
