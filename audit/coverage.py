"""Audit coverage: which share of the numbers was recomputed, bound or only reported.

A number counts as recomputed where a rule says that an independent calculation reproduced it,
to within a bound so small that a change by one part in a thousand would have been noticed.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from rlvraudit.audit.evidence.numbers import numbers
from rlvraudit.audit.evidence.supplement import MANIFEST, Evidence
from rlvraudit.audit.rules.rule import Held

QUOTED_TYPES = ("paper-results", "figure-source")
Marks = dict[tuple[str, str], NDArray[np.bool_]]


@dataclass(frozen=True, slots=True)
class Share:
    """How many numbers of one file were recomputed, bound and reported."""

    path: str
    recomputed: int
    bound: int
    reported: int

    @property
    def total(self) -> int:
        """All numbers of the file."""
        return self.recomputed + self.bound + self.reported


def coverage(evidence: Evidence, held: Iterable[Held]) -> tuple[Share, ...]:
    """Return the shares of every file that holds numbers, by path."""
    done: defaultdict[str, int] = defaultdict(int)
    rest: defaultdict[str, int] = defaultdict(int)
    quoted: defaultdict[str, int] = defaultdict(int)
    is_quoted = _quotations(evidence)
    for (path, pointer), mask in marks(evidence, held).items():
        hits = int(mask.sum())
        done[path] += hits
        kind = quoted if is_quoted(path, pointer) else rest
        kind[path] += mask.size - hits
    return tuple(Share(path, done[path], rest[path], quoted[path]) for path in sorted(done))


def whole(shares: Iterable[Share]) -> Share:
    """Return the shares of all files together."""
    parts = tuple(shares)
    return Share(
        "",
        sum(share.recomputed for share in parts),
        sum(share.bound for share in parts),
        sum(share.reported for share in parts),
    )


def marks(evidence: Evidence, held: Iterable[Held]) -> Marks:
    """Return, for each number or array of numbers, which elements were recomputed."""
    marked: Marks = {
        (path, pointer): np.zeros(size, np.bool_) for path, pointer, size in _all_numbers(evidence)
    }
    for item in held:
        known = marked.get((item.path, item.pointer))
        if known is not None and item.numbers is not False:
            known |= np.broadcast_to(np.asarray(item.numbers).reshape(-1), known.shape)
    return marked


@lru_cache(maxsize=2)
def _all_numbers(evidence: Evidence) -> tuple[tuple[str, str, int], ...]:
    """Return path, pointer and size of all numbers; the shares and each family ask for them."""
    return tuple(_walk(evidence))


def _walk(evidence: Evidence) -> Iterator[tuple[str, str, int]]:
    for claim in evidence.claims:
        for pointer, entry in claim.reported:
            for at, size in numbers(entry, pointer, decimals=True):
                yield MANIFEST, at, size
    for path, document in evidence.documents.items():
        decimals = document.artifact.type in QUOTED_TYPES
        for at, size in numbers(document.value, decimals=decimals):
            yield path, at, size


def _quotations(evidence: Evidence) -> Callable[[str, str], bool]:
    """Return a predicate: was the number at this path and pointer quoted from elsewhere?"""
    claims = {claim.pointer for claim in evidence.claims if claim.kind == "reported"}
    files = {p for p, d in evidence.documents.items() if d.artifact.type in QUOTED_TYPES}

    def is_quoted(path: str, pointer: str) -> bool:
        return path in files if path != MANIFEST else pointer.split("/reported/")[0] in claims

    return is_quoted
