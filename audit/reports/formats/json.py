"""The report for programs: a versioned shape of its own, `schemas/report.schema.json`."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rlvraudit import __version__
from rlvraudit.audit.check import Audit, Finding, RuleRun
from rlvraudit.audit.coverage import Share, whole
from rlvraudit.audit.errors import worst
from rlvraudit.audit.reports.format import report
from rlvraudit.audit.reports.terminal import Page

FORMAT = "rlvr-audit-report/1"


@report("json")
def as_json(audits: Sequence[Audit], _page: Page) -> str:
    """Return one document for all the audits; the same audits give the same bytes."""
    document = {
        "format": FORMAT,
        "tool": {"name": "rlvr-audit", "version": __version__},
        "audits": [_audit(audit) for audit in audits],
        "exit": int(worst(audit.exit for audit in audits)),
    }
    return json.dumps(document, indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def _audit(audit: Audit) -> Mapping[str, Any]:
    return {
        "supplement": _supplement(audit),
        "policy": {
            "select": list(audit.policy.select),
            "ignore": list(audit.policy.ignore),
            "fail_on": audit.policy.fail_on,
            "strict": audit.policy.strict,
        },
        "rules": [_rule(run) for run in audit.runs],
        "findings": [_finding(finding) for finding in audit.findings],
        "coverage": {
            "total": _share(whole(audit.shares)),
            "files": [{"path": share.path, **_share(share)} for share in audit.shares],
        },
        "summary": _summary(audit),
        "exit": int(audit.exit),
    }


def _supplement(audit: Audit) -> Mapping[str, Any]:
    evidence = audit.evidence
    return {
        "name": evidence.name,
        "title": evidence.manifest.get("title"),
        "papers": [paper["id"] for paper in evidence.manifest.get("papers", ())],
        "artifacts": len(evidence.artifacts),
        "files": len(evidence.files),
        "bytes": sum(file.size for file in evidence.files.values()),
        "claims": len(evidence.claims),
    }


def _rule(run: RuleRun) -> Mapping[str, Any]:
    return {
        "rule": run.rule.name,
        "slug": run.rule.slug,
        "family": run.rule.family,
        "level": run.rule.level,
        "mandatory": run.rule.mandatory,
        "status": run.status,
        "held": len(run.held),
        "findings": len(run.findings),
        "skipped": list(run.skipped),
        "crashed": run.crashed or None,
    }


def _finding(finding: Finding) -> Mapping[str, Any]:
    problem, discrepancy = finding.problem, finding.problem.discrepancy
    return {
        "rule": finding.rule.name,
        "slug": finding.rule.slug,
        "level": finding.level,
        "path": problem.path,
        "pointer": problem.pointer,
        "line": problem.line,
        "message": problem.message,
        "recorded": discrepancy and discrepancy.recorded,
        "recomputed": discrepancy and discrepancy.recomputed,
        "bound": discrepancy and discrepancy.bound,
        "variant": (discrepancy and discrepancy.variant) or None,
        "fix": finding.rule.fix,
    }


def _share(share: Share) -> Mapping[str, int]:
    return {
        "numbers": share.total,
        "recomputed": share.recomputed,
        "bound": share.bound,
        "reported": share.reported,
    }


def _summary(audit: Audit) -> Mapping[str, Any]:
    levels = Counter(finding.level for finding in audit.findings)
    status = Counter(run.status for run in audit.runs)
    return {
        "findings": {level: levels[level] for level in ("error", "warning", "note")},
        "rules": {word: status[word] for word in ("passed", "failed", "skipped", "crashed")},
        "incomplete": audit.incomplete,
    }
