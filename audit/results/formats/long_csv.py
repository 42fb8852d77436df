"""Long CSV: a header and one row per score, comma-separated (RFC 4180), UTF-8."""

import csv
import io
from collections.abc import Iterator
from typing import Any

from rlvraudit.audit.results.format import (
    Format,
    Row,
    name_columns,
    read_text,
    score_of_text,
    tabulate,
)
from rlvraudit.audit.results.item import Items, RowError


def parse(data: bytes, name: str) -> Items:
    """Return the table in a long CSV file."""
    reader = csv.reader(io.StringIO(read_text(data, name), newline=""), strict=True)
    try:
        header = next(filter(None, reader), None)
        if header is None:
            raise RowError(name, 1, "no header")
        columns = tuple(name_columns(header, name, reader.line_num).values())
        return tabulate(columns, _rows(reader, header, name), name, score_of_text)
    except csv.Error as error:
        raise RowError(name, reader.line_num, f"not CSV: {error}") from error


def _rows(reader: Any, header: list[str], name: str) -> Iterator[Row]:
    for cells in reader:
        if len(cells) == len(header):
            yield reader.line_num, cells
        elif cells:
            problem = f"{len(cells)} cells; the header has {len(header)} columns"
            raise RowError(name, reader.line_num, problem)


LONG_CSV = Format("csv", ".csv", parse)
