"""What a rule is and what it can say: this holds, this does not, this does not apply because."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from inspect import cleandoc
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rlvraudit.audit.evidence.supplement import Evidence

Level = Literal["error", "warning", "note"]
LEVELS: tuple[Level, ...] = ("note", "warning", "error")
FAMILIES = {
    "RA0": "engine",
    "RA1": "integrity",
    "RA2": "schema",
    "RA3": "provenance",
    "RA4": "numerics",
    "RA5": "statistics",
    "RA6": "evidence",
    "RA7": "hygiene",
}
MANDATORY = ("RA0", "RA1", "RA3", "RA6")
"""Families that whoever reviews another's supplement cannot switch off (N in the catalogue)."""


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """A recorded number beside its recomputation, as text, and the bound that it exceeds."""

    recorded: str
    recomputed: str
    bound: str
    variant: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """One place where a rule does not hold: what was found and what was expected.

    `pointer` is a JSON pointer, or the name of a tensor with an index; `level` replaces the
    rule's own where a lesser one is due.
    """

    path: str
    message: str
    pointer: str = ""
    line: int | None = None
    discrepancy: Discrepancy | None = None
    level: Level | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """One thing that was looked at and found right.

    `numbers` says which numbers at `pointer` an independent calculation reproduced: none, the
    one there, or a mask over the elements of a tensor or the rows of a column.
    """

    path: str
    pointer: str = ""
    numbers: bool | NDArray[np.bool_] = False


@dataclass(frozen=True, slots=True)
class Skipped:
    """The rule does not apply, or could not be run, because of `reason`."""

    reason: str


Outcome = Problem | Held | Skipped
Check = Callable[[Evidence], Iterator[Outcome]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A check with its code, its slug, its level, its page of documentation and its remedy."""

    name: str
    slug: str
    level: Level
    explanation: str
    check: Check

    @property
    def family(self) -> str:
        """The family's name, from the code."""
        return FAMILIES[self.name[:3]]

    @property
    def mandatory(self) -> bool:
        """Whether a reviewer cannot switch it off."""
        return self.name[:3] in MANDATORY

    @property
    def fix(self) -> str:
        """The first sentence of the documentation's paragraph "How to fix"."""
        _, _, fix = self.explanation.partition("How to fix:")
        return " ".join(fix.partition("\n\n")[0].split())


def rule(name: str, slug: str, level: Level = "error") -> Callable[[Check], Rule]:
    """Turn a generator over evidence into a `Rule`; its docstring is what `explain` prints.

    A check yields `Problem`, `Held` or `Skipped`, and at least one of them: a rule that looked
    at nothing has to say why.
    """
    return lambda check: Rule(name, slug, level, cleandoc(check.__doc__ or ""), check)
