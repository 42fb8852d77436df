"""A supplement that was never on disk, and rules that say what a test wants them to say."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rlvraudit.audit.check import Audit, check
from rlvraudit.audit.evidence.intake import File
from rlvraudit.audit.evidence.supplement import Artifact, Claim, Document, Evidence
from rlvraudit.audit.policy import Policy
from rlvraudit.audit.rules import RULES
from rlvraudit.audit.rules.rule import Outcome, Rule

MakeAudit = Callable[..., Audit]


def evidence(**changes: Any) -> Evidence:
    trace = Artifact("runs/tar-42.json", "0" * 64, "tar-trace", "1", "/artifacts/0")
    value = {
        "id": "tar-helps",
        "kind": "component",
        "evidence": [trace.path],
        "reported": [
            {"quantity": "value", "artifact": trace.path, "pointer": "/loss", "value": "0.25"}
        ],
    }
    parts: dict[str, Any] = {
        "name": "supplement",
        "manifest": {"title": "A component audit", "papers": [{"id": "arXiv 2610.24236v1"}]},
        "artifacts": (trace,),
        "claims": (Claim("tar-helps", "component", "/claims/0", value),),
        "files": {trace.path: File(trace.path, 1500, "0" * 64, "0" * 40, b"{}")},
        "documents": {trace.path: Document(trace, {"loss": 0.25, "gates": [0.5, 0.25]})},
        "faults": (),
    }
    return Evidence(**{**parts, **changes})


@pytest.fixture
def make_audit() -> MakeAudit:
    """Return what audits the supplement with rules that yield the given outcomes, by code."""

    def make(
        said: dict[str, list[Outcome] | Exception], policy: Policy | None = None, **changes: Any
    ) -> Audit:
        rules = {code: _rule(code, outcomes) for code, outcomes in said.items()}
        rules["RA002"] = RULES["RA002"]
        return check(evidence(**changes), rules, policy)

    return make


def _rule(code: str, outcomes: list[Outcome] | Exception) -> Rule:
    def run(_evidence: Evidence) -> Iterator[Outcome]:
        if isinstance(outcomes, Exception):
            raise outcomes
        yield from outcomes

    explanation = f"What {code} demands.\n\nHow to fix: mend {code}.\n\nWhen to suppress: never."
    slug = "nothing-to-check" if code == "RA001" else f"slug-of-{code.lower()}"
    return Rule(code, slug, "error", explanation, run)
