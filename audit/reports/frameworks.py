"""The losses of all frameworks side by side: conventions in tables, faults and notes below."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rlvraudit.audit.implementations.card import Entry
from rlvraudit.audit.implementations.frameworks import Survey
from rlvraudit.audit.implementations.inspection import Inspection
from rlvraudit.audit.reports.implementation import as_document as inspection_document
from rlvraudit.audit.reports.implementation import given, no_verdict
from rlvraudit.audit.reports.terminal import Page, count, indent, paint, short

FORMAT = "rlvr-audit-frameworks/1"
BLANK = Text("")
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "surrogate": ("ratio", "clip", "dual clip", "aggregation", "KL"),
    "divergence": ("estimator", "clamps", "aggregation"),
    "advantages": ("baseline", "scale", "epsilon", "no variance", "group of one"),
}
"""The lines of the cards that are shown side by side, by family."""


def as_text(survey: Survey, page: Page) -> str:
    """Return the survey for a terminal of that width."""
    return paint(_lines(survey), page)


def as_document(survey: Survey) -> Mapping[str, Any]:
    """Return the survey for JSON."""
    return {
        "format": FORMAT,
        "inspections": [
            {"framework": name, **inspection_document(seen)} for name, seen in survey.inspections
        ],
        "not_run": [{"framework": name, "reason": why} for name, why in survey.not_run],
    }


def _lines(survey: Survey) -> Iterator[RenderableType]:
    for family, columns in COLUMNS.items():
        rows = [(name, seen) for name, seen in survey.inspections if seen.family == family]
        if rows:
            yield Text(f"{family}", "bold")
            yield _table(rows, columns)
            yield BLANK
    yield from _called(survey)
    yield from _findings(survey)
    if survey.not_run:
        yield BLANK
    for name, why in survey.not_run:
        yield indent(Text.assemble(("not run  ", "yellow"), f"{name}: {short(why, 200)}"), 0)
    yield BLANK
    faults = sum(len(seen.faults) for _, seen in survey.inspections)
    yield Text(f"{count(len(survey.inspections), 'loss', 'losses')}, {count(faults, 'fault')}")


def _table(rows: Sequence[tuple[str, Inspection]], columns: tuple[str, ...]) -> Padding:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("", no_wrap=True)
    for column in columns:
        table.add_column(SHORTER.get(column, column), no_wrap=column in NARROW)
    table.add_column("faults", justify="right")
    for name, seen in rows:
        cells = {entry.name: entry for entry in seen.entries}
        shown = [_cell(seen, cells.get(column)) for column in columns]
        table.add_row(name, *shown, str(len(seen.faults)))
    return Padding(table, (0, 0, 0, 2))


SHORTER = {"dual clip": "dual"}
NARROW = ("ratio", "clip", "dual clip", "aggregation")
"""Columns whose words are short, so that another one has to wrap."""


def _cell(seen: Inspection, entry: Entry | None) -> Text:
    if entry is None:
        return Text("-")
    words = short(entry.brief or entry.words, 90)
    if entry.name == "KL" and seen.implementation.parameters.get("beta") == 0.0:
        words = f"{words} (off)"
    return Text(words, "bold red" if entry.fault else "")


def _called(survey: Survey) -> Iterator[RenderableType]:
    yield Text("called, with its own defaults", "bold")
    for name, seen in survey.inspections:
        yield indent(f"{name}: {short(seen.implementation.called, 300)}", 2)
    yield BLANK


def _findings(survey: Survey) -> Iterator[RenderableType]:
    for name, seen in survey.inspections:
        for fault in seen.faults:
            yield Text.assemble(("fault", "bold red"), f"  {name}: {fault.kind}")
            yield indent(short(fault.sentence, 800), 2)
            if fault.example is not None:
                words = f"With {given(fault.example)} came back: {fault.example.words}."
                yield indent(short(words, 400), 2)
        why = no_verdict(seen)
        if why:
            yield indent(Text.assemble(("no verdict", "yellow"), f"  {name}: {short(why)}"), 0)
    notes: dict[str, list[str]] = {}
    for name, seen in survey.inspections:
        for note in seen.notes:
            notes.setdefault(note, []).append(name)
    if notes:
        yield BLANK
        yield Text("robustness, at inputs that the code may never meet on its own path", "bold")
    for note, names in notes.items():
        yield indent(f"{', '.join(names)}: {short(note, 600)}", 2)
