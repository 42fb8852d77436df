"""A line for each family of rules: what was looked at, in numbers, and how it came out."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from rlvraudit.audit.check import Audit, RuleRun
from rlvraudit.audit.coverage import marks
from rlvraudit.audit.evidence.receipt import receipts
from rlvraudit.audit.reports.terminal import clean, count
from rlvraudit.audit.rules.rule import FAMILIES, LEVELS

TRACES = ("tar-trace", "tapo-trace")


@dataclass(frozen=True, slots=True)
class FamilyLine:
    """A family's name, what its rules looked at, and the verdict."""

    name: str
    looked_at: str
    verdict: str


def family_lines(audit: Audit) -> Iterator[FamilyLine]:
    """Yield a line for each family that has a rule in the audit, in the order of the codes."""
    for prefix, name in FAMILIES.items():
        runs = [run for run in audit.runs if run.rule.name.startswith(prefix)]
        if runs:
            looked_at = LOOKED_AT.get(name, _things_held)
            yield FamilyLine(name, looked_at(audit, runs), verdict(runs))


def verdict(runs: list[RuleRun]) -> str:
    """Return the worst that the runs say: a crash, the worst findings, a pass, or all skipped."""
    levels = Counter(finding.level for run in runs for finding in run.findings)
    crashed = sum(run.status == "crashed" for run in runs)
    if crashed:
        return f"{crashed} crashed"
    for level in reversed(LEVELS):
        if levels[level]:
            return count(levels[level], level)
    return "pass" if any(run.status == "passed" for run in runs) else "skipped"


def _engine(audit: Audit, _runs: list[RuleRun]) -> str:
    status = Counter(run.status for run in audit.runs)
    told = (f"{n} {word}" for word, n in sorted(status.items()) if word != "passed")
    return ", ".join([f"{count(len(audit.runs), 'check')}: {status['passed']} passed", *told])


def _integrity(audit: Audit, _runs: list[RuleRun]) -> str:
    return f"{count(len(audit.evidence.files), 'file')} hashed"


def _schema(audit: Audit, _runs: list[RuleRun]) -> str:
    return f"{count(len(audit.evidence.documents), 'document')} parsed"


def _provenance(audit: Audit, _runs: list[RuleRun]) -> str:
    found = list(receipts(audit.evidence))
    if not found:
        return "no receipt"
    sources = {source.name for receipt in found for source in receipt.sources}
    commits = {c.digest.get("gitCommit", "") for receipt in found for c in receipt.commits}
    at = clean(min(commits)[:7]) if len(commits) == 1 else count(len(commits), "commit")
    return f"{count(len(found), 'receipt')} bound to {count(len(sources), 'source')} at {at}"


def _numerics(audit: Audit, runs: list[RuleRun]) -> str:
    traces = sum(1 for type_ in TRACES for _ in audit.evidence.of_type(type_))
    return f"{count(traces, 'trace')}, {count(_recomputed(audit, runs), 'number')} recomputed"


def _statistics(audit: Audit, runs: list[RuleRun]) -> str:
    tables = sum(1 for _ in audit.evidence.of_type("item-results"))
    numbers = count(_recomputed(audit, runs), "number")
    return f"{count(tables, 'table')} of items, {numbers} recomputed"


def _evidence(audit: Audit, _runs: list[RuleRun]) -> str:
    kinds = Counter(claim.kind for claim in audit.evidence.claims)
    told = ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items()))
    return f"{count(len(audit.evidence.claims), 'claim')}: {told}" if kinds else "no claim"


def _hygiene(audit: Audit, _runs: list[RuleRun]) -> str:
    return f"{count(len(audit.evidence.files), 'file')} searched"


def _things_held(_audit: Audit, runs: list[RuleRun]) -> str:
    return f"{count(sum(len(run.held) for run in runs), 'thing')} looked at"


def _recomputed(audit: Audit, runs: list[RuleRun]) -> int:
    held = (item for run in runs for item in run.held)
    return sum(int(mask.sum()) for mask in marks(audit.evidence, held).values())


LOOKED_AT: Mapping[str, Callable[[Audit, list[RuleRun]], str]] = {
    "engine": _engine,
    "integrity": _integrity,
    "schema": _schema,
    "provenance": _provenance,
    "numerics": _numerics,
    "statistics": _statistics,
    "evidence": _evidence,
    "hygiene": _hygiene,
}
