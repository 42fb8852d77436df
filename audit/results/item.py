"""The table of per-item results, column by column, and what makes a table unsound.

A table is long: one row per score. Columns, with the other names that files give them, are in
`COLUMNS`; `item` and `score` are required. Ids are taken verbatim, as text.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlvraudit.audit.errors import UnreadableError

COLUMNS = {
    "item": ("item", "item_id", "id", "question_id", "problem_id", "task_id", "doc_id", "idx"),
    "method": ("method", "model", "model_id", "system"),
    "seed": ("seed",),
    "rollout": ("rollout", "rollout_id", "epoch", "sample", "repeat"),
    "score": ("score", "reward", "correct", "is_correct", "acc", "accuracy", "passed"),
}
REQUIRED = ("item", "score")


class RowError(UnreadableError):
    """A file of results is not what it should be, at `line`; `problem` says in which way."""

    def __init__(self, name: str, line: int, problem: str) -> None:
        """Say that line `line` of the file `name` has `problem`."""
        super().__init__(f"{name}:{line}: {problem}")
        self.line, self.problem = line, problem


class Key(NamedTuple):
    """What a score belongs to. None where the file has no such column."""

    method: str
    seed: str | None
    item: str
    rollout: str | None

    def __str__(self) -> str:
        """Return the ids as a message names them."""
        parts = ((name, value) for name, value in self._asdict().items() if value is not None)
        return ", ".join(f"{name} {value!r}" for name, value in parts)


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """Scores of one file: row i has `keys[i]`, `scores[i]` and came from line `lines[i]`.

    Scores are FP64 as the file has them, so NaN, infinities and repeated keys are still there:
    `faults` finds them.
    """

    source: str
    keys: tuple[Key, ...]
    scores: NDArray[np.float64]
    lines: tuple[int, ...]

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods, in order of first appearance."""
        return _methods(self)

    def place(self, row: int) -> str:
        """Return file and line of a row."""
        return f"{self.source}:{self.lines[row]}"


@lru_cache(maxsize=32)
def _methods(table: Items) -> tuple[str, ...]:
    return tuple(dict.fromkeys(key.method for key in table.keys))


@dataclass(frozen=True, slots=True)
class RowFault:
    """A row that no estimate may use: `row` of `table`, and why."""

    table: Items
    row: int
    problem: str


def non_finite(tables: Sequence[Items]) -> Iterator[RowFault]:
    """Yield each row whose score is NaN or infinite."""
    for table in tables:
        for row in np.flatnonzero(~np.isfinite(table.scores)):
            value, key = float(table.scores[row]), table.keys[row]
            yield RowFault(table, int(row), f"score is {value} ({key}); expected a finite number")


def duplicates(tables: Sequence[Items]) -> Iterator[RowFault]:
    """Yield each row that repeats the ids of an earlier one, in any of the tables."""
    rows = sum(len(table.keys) for table in tables)
    if len(set[Key]().union(*(table.keys for table in tables))) == rows:
        return
    first: dict[Key, tuple[Items, int]] = {}
    for table in tables:
        for row, key in enumerate(table.keys):
            found, earlier = first.setdefault(key, (table, row))
            if found is not table or earlier != row:
                problem = f"{key} is already at {found.place(earlier)}{_hint(key)}"
                yield RowFault(table, row, problem)


def refuse_unsound(tables: Sequence[Items]) -> None:
    """Refuse tables with a score that is not finite, or one that is there twice.

    Raises:
        RowError: It names the ids and the lines.
    """
    for fault in (*non_finite(tables), *duplicates(tables)):
        raise RowError(fault.table.source, fault.table.lines[fault.row], fault.problem)


def _hint(key: Key) -> str:
    if key.rollout is not None:
        return ""
    return "; repeated samples of an item need a column `rollout`"
