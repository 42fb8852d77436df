"""Long CSV: a header and one row per score, comma-separated (RFC 4180), UTF-8."""

import csv
import io
from collections.abc import Iterator

from rlvraudit.audit.results.format import (
    Format,
    Row,
    name_columns,
    read_text,
    score_of_text,
    tabulate,
)
from rlvraudit.audit.results.item import Items, RowError


def _rows(data: bytes, name: str) -> Iterator[Row]:
    reader = csv.reader(io.StringIO(read_text(data, name), newline=""), strict=True)
    header: list[str] = []
    columns: list[str] = []
    try:
        for cells in reader:
            if not header:
                header = cells
                columns = list(name_columns(header, name, reader.line_num).values())
            elif cells:
                _refuse_width(cells, header, name, reader.line_num)
                yield reader.line_num, dict(zip(columns, cells, strict=True))
    except csv.Error as error:
        raise RowError(name, reader.line_num, f"not CSV: {error}") from error
    if not header:
        raise RowError(name, 1, "no header")


def _refuse_width(cells: list[str], header: list[str], name: str, line: int) -> None:
    if len(cells) != len(header):
        problem = f"{len(cells)} cells; the header has {len(header)} columns"
        raise RowError(name, line, problem)


def parse(data: bytes, name: str) -> Items:
    """Return the table in a long CSV file."""
    return tabulate(_rows(data, name), name, score_of_text)


LONG_CSV = Format("csv", ".csv", parse)
