"""JSON Lines: one object per score, every object with the same keys, UTF-8."""

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

from rlvraudit.audit.results.format import Format, Row, name_columns, read_text, tabulate
from rlvraudit.audit.results.item import Items, RowError


def _rows(data: bytes, name: str) -> Iterator[Row]:
    columns: dict[str, str] = {}
    for line, text in enumerate(read_text(data, name).split("\n"), 1):
        if not text.strip():
            continue
        cells = _object(text, name, line)
        if cells.keys() != columns.keys():
            if columns:
                _refuse_other_keys(cells.keys(), columns.keys(), name, line)
            columns = name_columns(list(cells), name, line)
        yield line, {columns[key]: cell for key, cell in cells.items()}


def _object(text: str, name: str, line: int) -> dict[str, Any]:
    try:
        value = json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=_refuse_constant,
            parse_float=_finite,
        )
    except (ValueError, RecursionError) as error:
        raise RowError(name, line, f"not strict JSON: {error}") from error
    if not isinstance(value, dict):
        raise RowError(name, line, "not a JSON object")
    return value


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"key {key!r} is there twice")
        found[key] = value
    return found


def _finite(text: str) -> float:
    if math.isinf(value := float(text)):
        raise ValueError(f"{text[:60]} does not fit a double")
    return value


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is not a JSON number; expected a finite one")


def _refuse_other_keys(found: Any, expected: Any, name: str, line: int) -> None:
    odd = ", ".join(repr(key) for key in sorted(set(found) ^ set(expected)))
    raise RowError(name, line, f"keys differ from those of the first line: {odd}")


def parse(data: bytes, name: str) -> Items:
    """Return the table in a file of JSON Lines."""
    return tabulate(_rows(data, name), name)


JSONL = Format("jsonl", ".jsonl", parse)
