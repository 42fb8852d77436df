"""Run the rules over the evidence. A rule that crashes or says nothing never passes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rlvraudit.audit.coverage import Share, coverage
from rlvraudit.audit.errors import Exit
from rlvraudit.audit.evidence.supplement import Evidence
from rlvraudit.audit.rules.rule import LEVELS, Held, Level, Outcome, Problem, Rule, Skipped


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem together with the rule that found it and the level that it has here."""

    rule: Rule
    level: Level
    problem: Problem


@dataclass(frozen=True, slots=True)
class RuleRun:
    """What one rule said: its findings, what held, and why anything was skipped."""

    rule: Rule
    findings: tuple[Finding, ...]
    held: tuple[Held, ...]
    skipped: tuple[str, ...]
    crashed: str = ""

    @property
    def status(self) -> str:
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
    runs: tuple[RuleRun, ...]
    shares: tuple[Share, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Every finding, sorted by file, line, pointer and rule."""
        return tuple(sorted((f for run in self.runs for f in run.findings), key=_place))

    def exit(self, fail_on: Level) -> Exit:
        """Return the exit status, as `spec` of the rule catalogue has it.

        Nothing to check comes first, then what could not be looked at, then what was found.
        """
        slugs = {f.rule.slug for f in self.findings}
        if "nothing-to-check" in slugs:
            return Exit.NOTHING_TO_CHECK
        if self.evidence.incomplete or any(run.crashed for run in self.runs):
            return Exit.INCOMPLETE
        worst = LEVELS.index(fail_on)
        if any(LEVELS.index(f.level) >= worst for f in self.findings):
            return Exit.FINDINGS
        return Exit.PASSED


def check(evidence: Evidence, rules: Mapping[str, Rule], *, strict: bool = False) -> Audit:
    """Run `rules` over `evidence`; with `strict`, warnings count as errors."""
    runs = tuple(_run(rules[code], evidence, strict) for code in sorted(rules))
    held = [h for run in runs for h in run.held]
    return Audit(evidence, runs, coverage(evidence, held))


def _run(rule: Rule, evidence: Evidence, strict: bool) -> RuleRun:
    outcomes: list[Outcome] = []
    try:
        outcomes.extend(rule.check(evidence))
        crashed = "" if outcomes else "it looked at nothing and did not say why"
    except Exception as error:  # whatever it is, it is a finding about the rule
        crashed = f"{type(error).__name__}: {error}"
    return RuleRun(
        rule,
        tuple(_finding(rule, o, strict) for o in outcomes if isinstance(o, Problem)),
        tuple(o for o in outcomes if isinstance(o, Held)),
        tuple(dict.fromkeys(o.reason for o in outcomes if isinstance(o, Skipped))),
        crashed,
    )


def _finding(rule: Rule, problem: Problem, strict: bool) -> Finding:
    level = problem.level or rule.level
    return Finding(rule, "error" if strict and level == "warning" else level, problem)


def _place(finding: Finding) -> tuple[str, int, str, str, str]:
    problem = finding.problem
    return (problem.path, problem.line or 0, problem.pointer, finding.rule.name, problem.message)


def select(
    rules: Mapping[str, Rule], chosen: Sequence[str], ignored: Sequence[str]
) -> Mapping[str, Rule]:
    """Return the rules whose code begins with a chosen prefix and with no ignored one."""
    return {
        code: rule
        for code, rule in rules.items()
        if _matches(code, chosen or ("RA",)) and not _matches(code, ignored)
    }


def _matches(code: str, prefixes: Iterable[str]) -> bool:
    return any(code.startswith(prefix) for prefix in prefixes)


