"""JSON Lines: one object per score, every object with the same keys, UTF-8."""

from collections.abc import Iterator
from itertools import chain
from typing import Any

from rlvraudit.audit.evidence.intake import MalformedError
from rlvraudit.audit.evidence.strict_json import loads_lines
from rlvraudit.audit.results.format import Format, Row, name_columns, score_of_json, tabulate
from rlvraudit.audit.results.item import Items, RowError


def parse(data: bytes, name: str) -> Items:
    """Return the table in a file of JSON Lines."""
    objects = _objects(data, name)
    line, first = next(objects, (1, None))
    if first is None:
        raise RowError(name, line, "no row of results")
    columns = name_columns(list(first), name, line)
    rows = _rows(chain([(line, first)], objects), tuple(columns), name)
    return tabulate(tuple(columns.values()), rows, name, score_of_json)


def _rows(
    objects: Iterator[tuple[int, dict[str, Any]]], keys: tuple[str, ...], name: str
) -> Iterator[Row]:
    for line, cells in objects:
        if cells.keys() != set(keys):
            odd = ", ".join(repr(key) for key in sorted(cells.keys() ^ set(keys)))
            raise RowError(name, line, f"keys differ from those of the first line: {odd}")
        yield line, [cells[key] for key in keys]


def _objects(data: bytes, name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        for line, value in loads_lines(data):
            if not isinstance(value, dict):
                raise RowError(name, line, "not a JSON object")
            yield line, value
    except MalformedError as error:
        raise RowError(name, error.line or 1, f"not strict JSON: {error}") from error


JSONL = Format("jsonl", ".jsonl", parse)
