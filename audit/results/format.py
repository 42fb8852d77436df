"""What a format of per-item results is, and how rows of text become a table."""

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, repeat
from pathlib import PurePath
from typing import Any

import numpy as np

from rlvraudit.audit.errors import LimitError, UnreadableError
from rlvraudit.audit.results.item import COLUMNS, REQUIRED, Items, Key, RowError

Parse = Callable[[bytes, str], Items]
Row = tuple[int, Sequence[Any]]
"""A line number and the cells that stand there."""

MAX_LINE, MAX_ROWS = 1 << 20, 5_000_000
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
NOT_FINITE = re.compile(r"[+-]?(nan|inf|infinity)", re.ASCII | re.IGNORECASE)
TRUTH = {"true": 1.0, "false": 0.0}


@dataclass(frozen=True, slots=True)
class Format:
    """A way to write per-item results down; `parse` takes the bytes and the file's name."""

    name: str
    suffix: str
    parse: Parse


def read_text(data: bytes, name: str) -> str:
    """Return `data` as text.

    Raises:
        RowError: It is not UTF-8, or begins with a byte-order mark.
        LimitError: A line is too long.
    """
    for mark, encoding in ((b"\xef\xbb\xbf", "UTF-8 with a byte-order mark"),
                           (b"\xff\xfe", "UTF-16"), (b"\xfe\xff", "UTF-16")):  # fmt: skip
        if data.startswith(mark):
            raise RowError(name, 1, f"the encoding is {encoding}; expected plain UTF-8")
    longest = max(map(len, data.split(b"\n")))
    if longest > MAX_LINE:
        raise LimitError(f"{name}: a line has {longest:,} bytes; the cap is {MAX_LINE:,}")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        found = data[error.start]
        raise RowError(name, line, f"byte 0x{found:02x} is not UTF-8") from error


def name_columns(header: Sequence[str], name: str, line: int) -> dict[str, str]:
    """Return our name for each column of `header`.

    Raises:
        RowError: A column is unknown, missing, or there twice under whatever names.
    """
    ours = {alias: column for column, aliases in COLUMNS.items() for alias in aliases}
    unknown = [repr(h) for h in header if h.lower() not in ours]
    if unknown:
        known = "; ".join(f"{c}: {', '.join(a)}" for c, a in COLUMNS.items())
        raise RowError(name, line, f"unknown column {', '.join(unknown)}; known are {known}")
    named = [(h, ours[h.lower()]) for h in header]
    for column in COLUMNS:
        same = [h for h, c in named if c == column]
        if len(same) > 1:
            raise RowError(name, line, f"columns {', '.join(same)} all hold the {column}")
    missing = [c for c in REQUIRED if c not in dict(named).values()]
    if missing:
        raise RowError(name, line, f"missing column {', '.join(missing)}")
    return dict(named)


def tabulate(
    columns: Sequence[str], rows: Iterable[Row], name: str, read_score: Callable[[Any], float]
) -> Items:
    """Return the table of `rows`; without a method column the file's stem is the method.

    `columns` are our names of the columns, in the order of each row's cells. Columns are read
    one after the other, which is several times as fast as row by row.

    Raises:
        RowError: A cell is not what its column demands, or there is no row.
        LimitError: There are too many rows.
    """
    counted = tuple(islice(rows, MAX_ROWS + 1))
    if len(counted) > MAX_ROWS:
        raise LimitError(f"{name}: more than {MAX_ROWS:,} rows")
    if not counted:
        raise RowError(name, 1, "no row of results")
    lines, cells = zip(*counted, strict=True)
    by_name = dict(zip(columns, zip(*cells, strict=True), strict=True))
    scores = _column(by_name["score"], read_score, lines, name)
    missing = {"method": PurePath(name).stem, "seed": None, "rollout": None}
    ids = (
        _ids(by_name[c], c, lines, name) if c in by_name else repeat(missing[c], len(lines))
        for c in Key._fields
    )
    return Items(name, tuple(map(Key, *ids)), np.array(scores), lines)


def _ids(cells: Sequence[Any], column: str, lines: Sequence[int], name: str) -> Sequence[str]:
    if all(isinstance(cell, str) for cell in cells) and all(map(str.strip, cells)):
        return cells
    return _column(cells, lambda cell: _id(cell, column), lines, name)


def _column(
    cells: Sequence[Any], read: Callable[[Any], Any], lines: Sequence[int], name: str
) -> list[Any]:
    """Return what `read` makes of each cell; it raises ValueError where it can make nothing."""
    found: list[Any] = []
    try:
        found.extend(map(read, cells))
    except ValueError as error:
        raise RowError(name, lines[len(found)], str(error)) from error
    return found


def _id(cell: Any, column: str) -> str:
    if isinstance(cell, int) and not isinstance(cell, bool):
        return str(cell)
    if not isinstance(cell, str) or not cell.strip():
        raise ValueError(f"{column} is {_shown(cell)}; expected an id")
    return cell


def score_of_json(cell: Any) -> float:
    """Return the score that a JSON value is: a number, or a truth value as 0 or 1.

    Raises:
        ValueError: It is something else.
    """
    if not isinstance(cell, int | float):
        raise ValueError(f"score is {_shown(cell)}; expected a number or a truth value")
    try:
        return float(cell)
    except OverflowError:
        raise ValueError("score does not fit a double") from None


@lru_cache(maxsize=1024)
def score_of_text(text: str) -> float:
    """Return the score that a cell of text is. Whether it is finite is judged later.

    Remembered, since thousands of rows hold few distinct scores.

    Raises:
        ValueError: It is neither a number nor true or false.
    """
    if text.lower() in TRUTH:
        return TRUTH[text.lower()]
    if NOT_FINITE.fullmatch(text):
        return float(text)
    if not NUMBER.fullmatch(text):
        raise ValueError(f"score is {_shown(text)}; expected a number, true or false")
    value = float(text)
    digits = text.lower().partition("e")[0]
    if math.isinf(value) or (value == 0 and digits.strip("+-0.")):
        raise ValueError(f"score is {_shown(text)}, which does not fit a double")
    return value


def _shown(cell: Any) -> str:
    text = json.dumps(cell, default=str) if not isinstance(cell, str) else repr(cell)
    return "empty" if cell == "" else text if len(text) <= 60 else f"{text[:57]}..."


def choose(formats: Mapping[str, Format], name: str) -> Format:
    """Return the format of the file `name`, by its suffix.

    Raises:
        UnreadableError: No format has that suffix.
    """
    for form in formats.values():
        if PurePath(name).suffix.lower() == form.suffix:
            return form
    known = ", ".join(form.suffix for form in formats.values())
    raise UnreadableError(f"{name}: not a known format of per-item results; known are {known}")
