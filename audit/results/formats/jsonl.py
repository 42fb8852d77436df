"""JSON Lines: one object per score, every object with the same keys, UTF-8."""

from collections.abc import Iterator, Set
from typing import Any

from rlvraudit.audit.evidence.intake import MalformedError
from rlvraudit.audit.evidence.strict_json import loads_lines
from rlvraudit.audit.results.format import Format, Row, name_columns, score_of_json, tabulate
from rlvraudit.audit.results.item import Items, RowError


def _rows(data: bytes, name: str) -> Iterator[Row]:
    columns: dict[str, str] = {}
    for line, cells in _objects(data, name):
        if cells.keys() != columns.keys():
            if columns:
                _refuse_other_keys(cells.keys(), columns.keys(), name, line)
            columns = name_columns(list(cells), name, line)
        yield line, {columns[key]: cell for key, cell in cells.items()}


def _objects(data: bytes, name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        for line, value in loads_lines(data):
            if not isinstance(value, dict):
                raise RowError(name, line, "not a JSON object")
            yield line, value
    except MalformedError as error:
        raise RowError(name, error.line or 1, f"not strict JSON: {error}") from error


def _refuse_other_keys(found: Set[str], expected: Set[str], name: str, line: int) -> None:
    odd = ", ".join(repr(key) for key in sorted(found ^ expected))
    raise RowError(name, line, f"keys differ from those of the first line: {odd}")


def parse(data: bytes, name: str) -> Items:
    """Return the table in a file of JSON Lines."""
    return tabulate(_rows(data, name), name, score_of_json)


JSONL = Format("jsonl", ".jsonl", parse)
