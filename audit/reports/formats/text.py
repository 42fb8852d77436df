"""The report for people: heading, a line per family, findings by file, coverage, verdict."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.console import RenderableType
from rich.text import Text

from rlvraudit.audit.check import Audit, Finding
from rlvraudit.audit.coverage import Share, whole
from rlvraudit.audit.errors import Exit
from rlvraudit.audit.reports.families import family_lines
from rlvraudit.audit.reports.format import report
from rlvraudit.audit.reports.terminal import Page, count, grid, indent, paint, percent, short
from rlvraudit.audit.rules.rule import LEVELS

ALIKE = 3
"""Findings of one rule in one file that are printed in full; the rest are counted."""
FILES = 30
REASONS = 12
LEAST_COVERED = 5
STYLES = {"error": "bold red", "warning": "yellow", "note": "blue", "pass": "green"}
BLANK = Text("")


@report("text")
def text(audits: Sequence[Audit], page: Page) -> str:
    """Return the audits one after the other, for a terminal of that width."""
    return "\n".join(paint(_lines(audit), page) for audit in audits)


def _lines(audit: Audit) -> Iterator[RenderableType]:
    yield from _heading(audit)
    yield BLANK
    yield grid(_family_rows(audit))
    yield BLANK
    yield from _findings(audit)
    yield from _reasons(audit)
    yield from _coverage(audit)
    yield _verdict(audit)


def _heading(audit: Audit) -> Iterator[RenderableType]:
    evidence = audit.evidence
    papers = ", ".join(short(paper["id"], 60) for paper in evidence.manifest.get("papers", ()))
    title = short(evidence.manifest.get("title", ""), 200)
    name = Text(short(evidence.name), "bold")
    yield Text("   ").join([name, Text(" · ".join(part for part in (title, papers) if part))])
    receipts = sum(1 for _ in evidence.of_type("receipt"))
    size = sum(file.size for file in evidence.files.values())
    yield Text(
        f"{count(len(evidence.artifacts), 'artifact')}, {_bytes(size)} · "
        f"{count(receipts, 'receipt')} · {count(len(evidence.claims), 'claim')}"
    )


def _family_rows(audit: Audit) -> Iterator[tuple[Text, Text, Text]]:
    for line in family_lines(audit):
        word = next((w for w in STYLES if w in line.verdict), "")
        yield Text(line.name), Text(line.looked_at), Text(line.verdict, STYLES.get(word, ""))


def _findings(audit: Audit) -> Iterator[RenderableType]:
    files = [list(group) for _, group in groupby(audit.findings, key=lambda f: f.problem.path)]
    for of_file in files[:FILES]:
        yield Text(short(of_file[0].problem.path) or "(the supplement)", "bold")
        by_rule: defaultdict[str, list[Finding]] = defaultdict(list)
        for finding in of_file:
            by_rule[finding.rule.name].append(finding)
        for alike in by_rule.values():
            yield from _alike(alike)
        yield BLANK
    if len(files) > FILES:
        yield Text(f"and {len(files) - FILES:,} more files with findings: --format json has all")
        yield BLANK


def _alike(findings: list[Finding]) -> Iterator[RenderableType]:
    """Yield the first findings of one rule in one file, the number of the others, the fix."""
    for finding in findings[:ALIKE]:
        yield from _finding(finding)
    if len(findings) > ALIKE:
        yield indent(f"and {len(findings) - ALIKE:,} more like it", 4)
    if findings[0].rule.fix:
        yield indent(f"fix: {findings[0].rule.fix}", 4)


def _finding(finding: Finding) -> Iterator[RenderableType]:
    rule, problem = finding.rule, finding.problem
    line = Text.assemble((finding.level, STYLES[finding.level]), f" {rule.name} {rule.slug}")
    if problem.pointer:
        line.append(f"   {short(problem.pointer)}")
    if problem.line:
        line.append(f"  line {problem.line}")
    yield indent(line, 2)
    if problem.discrepancy:
        d = problem.discrepancy
        bound = f", bound {short(d.bound)}" if d.bound else ""
        yield indent(f"recorded {short(d.recorded)}, recomputed {short(d.recomputed)}{bound}", 4)
        if d.variant and d.variant not in problem.message:
            yield indent(f"it equals a known fault: {short(d.variant, 200)}", 4)
    yield indent(short(problem.message, 400), 4)


def _reasons(audit: Audit) -> Iterator[RenderableType]:
    """Yield why checks were skipped, each reason with its rules."""
    codes: defaultdict[str, list[str]] = defaultdict(list)
    for run in audit.runs:
        for reason in run.skipped:
            codes[reason].append(run.rule.name)
    if not codes:
        return
    yield Text("skipped")
    for reason in list(codes)[:REASONS]:
        yield indent(f"{short(reason, 200)}: {' '.join(codes[reason])}", 2)
    if len(codes) > REASONS:
        yield indent(f"and {len(codes) - REASONS:,} more reasons: --format json has all", 2)
    yield BLANK


def _coverage(audit: Audit) -> Iterator[RenderableType]:
    total = whole(audit.shares)
    if not total.total:
        return
    parts = ((total.recomputed, "recomputed"), (total.bound, "bound"), (total.reported, "reported"))
    told = "   ".join(f"{percent(n, total.total)} {word}" for n, word in parts)
    yield Text(f"coverage  {told}")
    for share in _least_covered(audit.shares):
        told = f"{share.recomputed:,} of {share.total:,} recomputed in {short(share.path)}"
        yield indent(told, 10)
    yield BLANK


def _least_covered(shares: Sequence[Share]) -> list[Share]:
    """Return the files with most numbers that are only bound, worst first."""
    partly = sorted((s for s in shares if s.bound), key=lambda s: (-s.bound, s.path))
    return partly[:LEAST_COVERED]


def _verdict(audit: Audit) -> Text:
    if audit.exit is Exit.NOTHING_TO_CHECK:
        return Text("nothing to check: no claim and no receipt", "yellow")
    incomplete = "incomplete, so no pass · " if audit.exit is Exit.INCOMPLETE else ""
    if not audit.findings:
        total = whole(audit.shares)
        share = f"{percent(total.recomputed, total.total)} of " if total.total else ""
        numbers = f"{share}{count(total.total, 'number')} recomputed"
        style = STYLES["error" if incomplete else "pass"]
        return Text(f"{incomplete}no findings · {numbers}", style)
    levels = [finding.level for finding in audit.findings]
    told = ", ".join(
        count(levels.count(level), level)
        for level in reversed(LEVELS)
        if level != "note" or level in levels
    )
    worst = max(audit.findings, key=lambda finding: LEVELS.index(finding.level))
    style = STYLES[worst.level]
    return Text(f"{incomplete}{told} · rlvr-audit explain {worst.rule.name} says why", style)


def _bytes(size: int) -> str:
    for unit, step in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= step:
            return f"{size / step:.1f} {unit}"
    return f"{size} B"
