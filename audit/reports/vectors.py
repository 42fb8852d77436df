"""A replay of test vectors as people read it, and as programs do."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rlvraudit.audit.errors import Exit
from rlvraudit.audit.implementations.vectors import CaseResult, NotRun, Replay
from rlvraudit.audit.reports.terminal import Page, count, indent, paint, short

FORMAT = "rlvr-audit-vectors/1"
FAULTS = 12
"""Failing cases that are printed in full; the rest are counted."""
BLANK = Text("")


def as_text(replay: Replay, page: Page) -> str:
    """Return the replay for a terminal of that width."""
    return paint(_lines(replay), page)


def as_document(replay: Replay) -> Mapping[str, Any]:
    """Return the replay for JSON, every output of every case included."""
    return {
        "format": FORMAT,
        "backends": list(replay.backends),
        "cases": [_case(result) for result in replay.results],
        "not_run": [{"what": item.what, "reason": item.reason} for item in replay.not_run],
    }


def _case(result: CaseResult) -> Mapping[str, Any]:
    outputs = result.outputs
    return {
        "id": result.id,
        "objective": result.objective,
        "file": result.file,
        "backend": result.backend,
        "dtype": result.dtype,
        "outputs": outputs and {name: plain(value) for name, value in outputs.items()},
        "error": result.error,
        "passed": result.passed,
        "worst": plain(result.worst),
    }


def plain(value: Any) -> Any:
    """Return a number or array as JSON, with what is not finite as a string, without -0.0."""
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list):
        return [plain(part) for part in value]
    if isinstance(value, float):
        return value + 0.0 if math.isfinite(value) else str(value)
    return value


def _lines(replay: Replay) -> Iterator[RenderableType]:
    yield from _table(replay)
    yield from fault_lines(failures(replay.results))
    yield from not_run_lines(replay.not_run)
    yield BLANK
    yield _verdict(replay)


def _table(replay: Replay) -> Iterator[RenderableType]:
    if not replay.results:
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("objective", no_wrap=True)
    table.add_column("dtype", no_wrap=True)
    for backend in replay.backends:
        table.add_column(backend, justify="right", no_wrap=True)
    table.add_column("worst/bound", justify="right", no_wrap=True)
    table.add_column("case", justify="right", no_wrap=True)
    for (objective, dtype), group in groupby(sorted(replay.results, key=_kind), key=_kind):
        results = list(group)
        cells = [passed_cell([r for r in results if r.backend == b]) for b in replay.backends]
        table.add_row(short(objective, 26), dtype, *cells, *worst_cells(results))
    yield Padding(table, (0, 0, 0, 2))


def _kind(result: CaseResult) -> tuple[str, str]:
    return result.objective, result.dtype


def passed_cell(results: Sequence[CaseResult]) -> Text:
    """Return "21/21": how many of the cases passed."""
    good = sum(result.passed for result in results)
    style = "green" if good == len(results) else "bold red"
    return Text(f"{good}/{len(results)}", style)


def worst_cells(results: Sequence[CaseResult]) -> tuple[str, str]:
    """Return the largest error as a multiple of its bound, and the case that has it."""
    computed = [(r.worst, r.id) for r in results if r.worst is not None]
    if not computed:
        return "", ""
    worst, case = max(computed, key=lambda pair: pair[0])
    return ratio(worst), str(case)


def ratio(value: float) -> str:
    """Return a multiple of a bound as people read it."""
    return f"{value:.2f}" if value < 1000 else f"{value:.1e}"


def failures(results: Sequence[CaseResult]) -> tuple[tuple[str, str], ...]:
    """Return where and why cases failed."""
    return tuple(
        (f"{r.file} case {r.id}, {r.backend}, {r.dtype}", r.error or "")
        for r in results
        if not r.passed
    )


def fault_lines(faults: Sequence[tuple[str, str]]) -> Iterator[RenderableType]:
    """Yield what failed, the first in full."""
    for place, reason in faults[:FAULTS]:
        yield BLANK
        yield indent(Text.assemble(("fail ", "bold red"), short(place, 200)), 2)
        yield indent(short(reason, 400), 4)
    if len(faults) > FAULTS:
        yield BLANK
        yield indent(f"and {count(len(faults) - FAULTS, 'more failure')}", 2)


def not_run_lines(items: Sequence[NotRun]) -> Iterator[RenderableType]:
    """Yield what was not run and why."""
    for item in items:
        yield BLANK
        yield indent(Text.assemble(("not run ", "bold yellow"), short(item.what, 200)), 2)
        yield indent(short(item.reason, 200), 4)


def _verdict(replay: Replay) -> Text:
    good = sum(result.passed for result in replay.results)
    total = count(len(replay.results), "case")
    words = f"{good:,} of {total} passed on {', '.join(replay.backends)}"
    if replay.not_run:
        words += f"; {count(len(replay.not_run), 'file')} not run: this is no pass"
    return Text(words, "bold green" if replay.exit == Exit.PASSED else "bold red")
