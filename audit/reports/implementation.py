"""The audit of somebody's loss as people read it, and as programs do."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rlvraudit.audit.errors import Exit
from rlvraudit.audit.implementations.card import Entry, Example, Fault
from rlvraudit.audit.implementations.inspection import Inspection
from rlvraudit.audit.implementations.precision import Precision
from rlvraudit.audit.reports.terminal import Page, count, indent, paint, short
from rlvraudit.audit.reports.vectors import plain

FORMAT = "rlvr-audit-implementation/1"
BLANK = Text("")


def as_text(seen: Inspection, page: Page) -> str:
    """Return the audit for a terminal of that width."""
    return paint(_lines(seen), page)


def as_document(seen: Inspection) -> Mapping[str, Any]:
    """Return the audit for JSON."""
    implementation = seen.implementation
    return {
        "format": FORMAT,
        "implementation": implementation.name,
        "called": implementation.called,
        "device": seen.device,
        "family": seen.family,
        "objective": seen.objective or None,
        "declared": {
            "objective": seen.declared.objective,
            "parameters": {k: _json(v) for k, v in seen.declared.parameters.items()},
        },
        "parameters": {k: _json(v) for k, v in implementation.parameters.items()},
        "passed": seen.exit == Exit.PASSED,
        "card": [{"name": e.name, "words": e.words, "fault": e.fault} for e in seen.entries],
        "faults": [_fault_document(fault) for fault in seen.faults],
        "notes": list(seen.notes),
        "rounding": [_precision_document(p) for p in seen.precisions],
        "no_verdict": no_verdict(seen) or None,
    }


def _json(value: Any) -> Any:
    known = value is None or isinstance(value, bool | int | float | str)
    return plain(value) if known else repr(value)


def _fault_document(fault: Fault) -> Mapping[str, Any]:
    return {
        "kind": fault.kind,
        "sentence": fault.sentence,
        "probe": fault.probe,
        "example": None if fault.example is None else example_document(fault.example),
    }


def example_document(example: Example) -> Mapping[str, Any]:
    """Return an example for JSON."""
    expected, actual = example.expected, example.actual
    return {
        "dtype": example.dtype,
        "inputs": {name: plain(values) for name, values in example.inputs.items()},
        "difference": example.words,
        "expected": {"value": plain(expected.value), "gradient": plain(expected.gradient)},
        "actual": {
            "value": plain(actual.value),
            "gradient": plain(actual.gradient),
            "error": actual.error or None,
        },
    }


def _precision_document(precision: Precision) -> Mapping[str, Any]:
    return {
        "dtype": precision.dtype,
        "k_value": plain(precision.value),
        "k_gradient": plain(precision.gradient),
        "relative_error": plain(precision.error),
    }


def no_verdict(seen: Inspection) -> str:
    """Return why the audit can neither pass nor fail the code, "" where it can."""
    if seen.implementation.unknown:
        return seen.implementation.unknown
    return f"by its own account it is {seen.unlike}" if seen.unlike else ""


def _lines(seen: Inspection) -> Iterator[RenderableType]:
    implementation = seen.implementation
    yield Text.assemble((short(implementation.name), "bold"), f"   on {seen.device}")
    yield indent(f"called: {short(implementation.called, 200)}", 0, "dim")
    yield BLANK
    yield Text("convention card")
    yield _card([Entry("objective", _objective(seen)), *seen.entries])
    yield BLANK
    yield Text("rounding, as a multiple of the same formula's in that dtype")
    yield _rounding(seen.precisions)
    for fault in seen.faults:
        yield BLANK
        yield from fault_lines(fault)
    if seen.notes:
        yield BLANK
        yield Text("notes")
        for note in seen.notes:
            yield indent(short(note, 600), 2)
    yield BLANK
    yield _verdict(seen)


def _objective(seen: Inspection) -> str:
    if not seen.objective:
        return "none of those known here"
    return f"{seen.objective}, {'declared' if seen.declared.objective else 'recovered'}"


def _card(entries: list[Entry]) -> Padding:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for entry in entries:
        words = Text(short(entry.words, 200))
        if entry.fault:
            words.append("   <- fault", "bold red")
        table.add_row(Text(entry.name), words)
    return Padding(table, (0, 0, 0, 2))


def _rounding(precisions: tuple[Precision, ...]) -> Padding:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="")
    table.add_column("", no_wrap=True)
    for precision in precisions:
        table.add_column(precision.dtype, justify="right", no_wrap=True)
    table.add_row("value", *(_multiple(p.value, p) for p in precisions))
    table.add_row("gradient", *(_multiple(p.gradient, p) for p in precisions))
    table.add_row("error", *(_error(p.error) for p in precisions))
    return Padding(table, (0, 0, 0, 2))


def _multiple(k: float | None, precision: Precision) -> Text:
    if k is None:
        return Text("FAIL", "bold red") if precision.fault else Text("not compared", "yellow")
    text = f"k {k:.1f}" if k < 1000 else f"k {k:.0e}"
    return Text(text, "bold red" if precision.fault else "")


def _error(error: float | None) -> Text:
    return Text("" if error is None else f"{error:.0e}")


def fault_lines(fault: Fault) -> Iterator[RenderableType]:
    """Return a fault with what shows it."""
    yield Text.assemble(("fault", "bold red"), f"  {fault.kind}")
    yield indent(short(fault.sentence, 800), 2)
    if fault.example is None:
        return
    yield indent(f"Seen: {short(fault.example.words, 300)}.", 2)
    yield indent(f"Input: {given(fault.example)}.  --repro FILE writes a script that shows it.", 2)


def given(example: Example) -> str:
    """Return in words what an example puts in."""
    mask, rewards = example.inputs.get("mask"), example.inputs.get("rewards")
    if rewards is not None:
        few = rewards.size <= 8
        return f"rewards {rewards.tolist()}" if few else f"rewards of shape {rewards.shape}"
    if mask is None or mask.ndim != 2:
        return f"inputs in {example.dtype}"
    rows, tokens = len(mask), int(mask.sum())
    return f"{count(rows, 'trajectory', 'trajectories')}, {count(tokens, 'active token')}"


def _verdict(seen: Inspection) -> RenderableType:
    why = no_verdict(seen)
    if why:
        return indent(Text(f"No verdict: {short(why, 300)}.", "bold yellow"), 0)
    if seen.faults:
        return Text(f"{count(len(seen.faults), 'fault')}.", "bold red")
    compared = any(p.error is not None for p in seen.precisions)
    words = "" if compared else " Rounding was not compared."
    return Text(f"No fault found.{words}", "bold green")
