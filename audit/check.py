"""Run the rules over the evidence. A rule that crashes or says nothing never passes."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from rlvraudit.audit.coverage import Share, coverage
from rlvraudit.audit.errors import Exit, LimitError
from rlvraudit.audit.evidence.intake import LIMITS
from rlvraudit.audit.evidence.locate import lines_of
from rlvraudit.audit.evidence.supplement import Evidence
from rlvraudit.audit.policy import Policy, choose
from rlvraudit.audit.rules.rule import Held, Level, Outcome, Problem, Rule, Skipped

Status = Literal["passed", "failed", "skipped", "crashed"]
ABOUT_RULES = ("rule-crashed", "limit-reached")
"""The slugs of rules about how the others ended; they run last."""
UNREAD = ("parse-error", "schema-violation", "unknown-artifact-type", "unsupported-format")
"""The slugs of faults that leave a document out, so that no other rule looks at it."""
LONGEST_CRASH = 300


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem together with the rule that found it and the level that it has here."""

    rule: Rule
    level: Level
    problem: Problem


@dataclass(frozen=True, slots=True)
class RuleRun:
    """What one rule said: its findings, what held, and why anything was skipped.

    `capped` says which cap stopped it, if one did.
    """

    rule: Rule
    findings: tuple[Finding, ...]
    held: tuple[Held, ...]
    skipped: tuple[str, ...]
    crashed: str = ""
    capped: str = ""

    @property
    def status(self) -> Status:
        """One word: failed, crashed, passed or skipped."""
        if self.crashed:
            return "crashed"
        if self.findings:
            return "failed"
        return "passed" if self.held else "skipped"


@dataclass(frozen=True, slots=True)
class Audit:
    """The result of a check: everything that a report says."""

    evidence: Evidence
    policy: Policy
    runs: tuple[RuleRun, ...]
    shares: tuple[Share, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Every finding, sorted by file, line, pointer and rule."""
        return tuple(sorted((f for run in self.runs for f in run.findings), key=_place))

    @property
    def incomplete(self) -> bool:
        """Whether something was not looked at, so that no pass is possible.

        A cap was reached, a file could not be opened, a rule crashed, or a document was left out
        because of a fault that no chosen rule reports.
        """
        told = {run.rule.slug for run in self.runs}
        unread = any(f.slug in UNREAD and f.slug not in told for f in self.evidence.faults)
        broken = any(run.crashed or run.capped for run in self.runs)
        return self.evidence.incomplete or unread or broken

    @property
    def exit(self) -> Exit:
        """The exit status of the rule catalogue.

        Nothing to check comes first, then what could not be looked at, then what was found.
        """
        if any(f.rule.slug == "nothing-to-check" for f in self.findings):
            return Exit.NOTHING_TO_CHECK
        if self.incomplete:
            return Exit.INCOMPLETE
        if any(self.policy.fails(f.level) for f in self.findings):
            return Exit.FINDINGS
        return Exit.PASSED


def check(evidence: Evidence, rules: Mapping[str, Rule], policy: Policy | None = None) -> Audit:
    """Run the rules that `policy` asks for over `evidence`.

    Raises:
        UsageError: The policy names a rule that there is not, or ignores a mandatory one.
    """
    policy = policy or Policy()
    chosen = choose(rules, policy)
    runs = _run_all(chosen.values(), evidence, policy)
    held = [h for run in runs for h in run.held]
    return Audit(evidence, policy, tuple(_located(runs, evidence)), coverage(evidence, held))


def _run_all(rules: Iterable[Rule], evidence: Evidence, policy: Policy) -> list[RuleRun]:
    """Return the runs by code; the rules about the others are told how those ended."""
    ordered = sorted(rules, key=lambda rule: rule.name)
    first = [_run(r, evidence, policy) for r in ordered if r.slug not in ABOUT_RULES]
    told = replace(evidence, options={**evidence.options, **_ends(first)})
    last = [_run(r, told, policy) for r in ordered if r.slug in ABOUT_RULES]
    return sorted((*first, *last), key=lambda run: run.rule.name)


def _ends(runs: Iterable[RuleRun]) -> Mapping[str, Any]:
    return {
        "crashes": {run.rule.name: run.crashed for run in runs if run.crashed},
        "capped": {run.rule.name: run.capped for run in runs if run.capped},
    }


def _run(rule: Rule, evidence: Evidence, policy: Policy) -> RuleRun:
    outcomes: list[Outcome] = []
    capped, crashed = "", ""
    try:
        capped = _take(rule, evidence, outcomes)
        if not outcomes and evidence.incomplete:
            outcomes.append(Skipped("what it looks at could not be read (RA003)"))
        crashed = "" if outcomes or capped else "it looked at nothing and did not say why"
    except Exception as error:  # whatever it is, it is a finding about the rule
        crashed = f"{type(error).__name__}: {error}"[:LONGEST_CRASH]
    return RuleRun(
        rule,
        tuple(
            Finding(rule, policy.level(o.level or rule.level), o)
            for o in outcomes
            if isinstance(o, Problem)
        ),
        tuple(o for o in outcomes if isinstance(o, Held)),
        tuple(dict.fromkeys(o.reason for o in outcomes if isinstance(o, Skipped))),
        crashed,
        capped,
    )


def _take(rule: Rule, evidence: Evidence, outcomes: list[Outcome]) -> str:
    """Add what a rule says to `outcomes`; return which cap it reached, if it did."""
    problems = 0
    try:
        for outcome in rule.check(evidence):
            problems += isinstance(outcome, Problem)
            if problems > LIMITS.findings:
                return "it found more than fits in a report: the rest is not shown"
            outcomes.append(outcome)
    except LimitError as error:
        return str(error)
    return ""


def _located(runs: Iterable[RuleRun], evidence: Evidence) -> list[RuleRun]:
    """Return the runs, every finding in a JSON document with its line.

    Only files with findings are searched for lines, each of them once.
    """
    runs = list(runs)
    pointers: defaultdict[str, set[str]] = defaultdict(set)
    for problem in (f.problem for run in runs for f in run.findings):
        if problem.pointer and problem.line is None and problem.path.endswith(".json"):
            pointers[problem.path].add(_document_pointer(problem))
    lines = {
        path: lines_of(file.data, wanted)
        for path, wanted in pointers.items()
        if (file := evidence.files.get(path)) and file.data is not None
    }
    return [
        replace(run, findings=tuple(_with_line(finding, lines) for finding in run.findings))
        for run in runs
    ]


def _with_line(finding: Finding, lines: Mapping[str, Mapping[str, int]]) -> Finding:
    problem = finding.problem
    line = lines.get(problem.path, {}).get(_document_pointer(problem))
    if problem.line is not None or line is None:
        return finding
    return replace(finding, problem=replace(problem, line=line))


def _document_pointer(problem: Problem) -> str:
    """Return the JSON pointer without the index into an array of numbers at its end."""
    return problem.pointer.partition("[")[0]


def _place(finding: Finding) -> tuple[str, int, str, str, str]:
    problem = finding.problem
    return (problem.path, problem.line or 0, problem.pointer, finding.rule.name, problem.message)
