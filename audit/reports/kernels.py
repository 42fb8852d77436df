"""The audit of the built-in kernels as people read it, and as programs do."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rlvraudit.audit.errors import Exit
from rlvraudit.audit.implementations.builtin import KernelAudit
from rlvraudit.audit.implementations.probes.controls import Control
from rlvraudit.audit.implementations.probes.probe import ProbeResult
from rlvraudit.audit.implementations.vectors import CaseResult
from rlvraudit.audit.reports.terminal import Page, count, grid, indent, paint
from rlvraudit.audit.reports.vectors import (
    failures,
    fault_lines,
    not_run_lines,
    passed_cell,
    plain,
    ratio,
    worst_cells,
)

FORMAT = "rlvr-audit-kernels/1"
DTYPES = ("float16", "bfloat16", "float32", "float64")
PROBES = {
    "autograd": "automatic differentiation of the forward = closed form",
    "differences": "central differences in float64 = closed form",
    "padding": "padding is not read; gradient there exactly 0",
}
BLANK = Text("")


def as_text(audit: KernelAudit, page: Page) -> str:
    """Return the audit for a terminal of that width."""
    return paint(_lines(audit), page)


def as_document(audit: KernelAudit) -> Mapping[str, Any]:
    """Return the audit for JSON; the outputs of the vectors are left to `vectors`."""
    return {
        "format": FORMAT,
        "device": audit.device,
        "backends": list(audit.vectors.backends),
        "passed": audit.exit == Exit.PASSED,
        "vectors": [_vectors(name, results) for name, results in _by_objective(audit)],
        "probes": [_probe(probe) for probe in audit.probes],
        "negative_controls": [_control(control) for control in audit.controls],
        "not_run": [{"what": item.what, "reason": item.reason} for item in audit.not_run],
    }


def _vectors(name: str, results: Sequence[CaseResult]) -> Mapping[str, Any]:
    computed = [(r.worst, r.id) for r in results if r.worst is not None]
    worst, case = max(computed, default=(None, None))
    return {
        "objective": name,
        "cases": len(results),
        "passed": sum(r.passed for r in results),
        "worst": plain(worst),
        "worst_case": case,
        "failures": [f"{place}: {reason}" for place, reason in failures(results)],
    }


def _probe(probe: ProbeResult) -> Mapping[str, Any]:
    worst = probe.worst
    return {
        "probe": probe.probe,
        "objective": probe.objective,
        "backend": probe.backend,
        "dtype": probe.dtype,
        "cases": len(probe.observations),
        "trivial": sum(o.trivial for o in probe.observations),
        "passed": probe.passed,
        "worst": plain(worst.judgement.worst) if worst else None,
        "worst_case": worst.case if worst else None,
        "faults": list(probe.faults),
    }


def _control(control: Control) -> Mapping[str, Any]:
    return {
        "name": control.variant.name,
        "objective": control.variant.objective,
        "fault": control.variant.sentence,
        "caught": control.caught,
        "caught_by": list(control.caught_by),
        "example": control.example,
    }


def _by_objective(audit: KernelAudit) -> Iterator[tuple[str, list[CaseResult]]]:
    names = dict.fromkeys(result.objective for result in audit.vectors.results)
    for name in sorted(names):
        yield name, [r for r in audit.vectors.results if r.objective == name]


def _lines(audit: KernelAudit) -> Iterator[RenderableType]:
    yield Text.assemble(("built-in kernels", "bold"), f"   {', '.join(audit.vectors.backends)}")
    yield BLANK
    yield Padding(_table(audit), (0, 0, 0, 2))
    yield BLANK
    yield grid([*_probe_rows(audit), _control_row(audit)])
    yield from fault_lines(tuple(_faults(audit)))
    yield from not_run_lines(audit.not_run)
    yield BLANK
    yield _verdict(audit)


def _table(audit: KernelAudit) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("objective", no_wrap=True)
    table.add_column("vectors", justify="right", no_wrap=True)
    for dtype in DTYPES:
        short_name = dtype.replace("bfloat", "bf").replace("float", "fp")
        table.add_column(short_name, justify="center", no_wrap=True)
    table.add_column("worst/bound", justify="right", no_wrap=True)
    table.add_column("case", justify="right", no_wrap=True)
    for name, results in _by_objective(audit):
        marks = [_mark(audit, name, dtype) for dtype in DTYPES]
        table.add_row(name, passed_cell(results), *marks, *worst_cells(results))
    return table


def _mark(audit: KernelAudit, objective: str, dtype: str) -> Text:
    """Return whether everything that looked at this objective in this dtype passed."""
    seen = [r.passed for r in audit.vectors.results if (r.objective, r.dtype) == (objective, dtype)]
    seen += [p.passed for p in audit.probes if (p.objective, p.dtype) == (objective, dtype)]
    if not seen:
        return Text("-")
    return Text("ok", "green") if all(seen) else Text("FAIL", "bold red")


def _probe_rows(audit: KernelAudit) -> Iterator[tuple[Text, Text, Text]]:
    for name, what in PROBES.items():
        probes = [probe for probe in audit.probes if probe.probe == name]
        if not probes:
            yield Text(name), Text(what), Text("not run", "bold yellow")
            continue
        cases = sum(len(probe.observations) for probe in probes)
        worst = max(p.worst.judgement.worst for p in probes if p.worst is not None)
        label = Text(f"{what}: {count(cases, 'case')}, worst {ratio(worst)} of its bound")
        good = all(probe.passed for probe in probes)
        yield Text(name), label, Text("pass", "green") if good else Text("FAIL", "bold red")


def _control_row(audit: KernelAudit) -> tuple[Text, Text, Text]:
    caught = sum(control.caught for control in audit.controls)
    words = f"caught {caught} of {len(audit.controls)}"
    good = audit.controls and caught == len(audit.controls)
    verdict = Text("pass", "green") if good else Text("FAIL", "bold red")
    return Text("negative controls"), Text(words), verdict


def _faults(audit: KernelAudit) -> Iterator[tuple[str, str]]:
    yield from failures(audit.vectors.results)
    for probe in audit.probes:
        for fault in probe.faults:
            place = f"{probe.probe} of {probe.objective}, {probe.backend}, {probe.dtype}"
            yield place, fault
    for control in audit.controls:
        if not control.caught:
            yield f"negative control {control.variant.name}", "no case caught it"


def _verdict(audit: KernelAudit) -> RenderableType:
    match audit.exit:
        case Exit.PASSED:
            return Text("The kernels compute what the papers say.", "bold green")
        case Exit.INCOMPLETE:
            return Text("Not everything was run: this is no pass.", "bold red")
        case _:
            return indent(Text("The kernels do not compute what the papers say.", "bold red"), 0)
