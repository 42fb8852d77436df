"""RA0: nothing to check, a rule that crashes, a cap that is reached."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from supplements import GOOD, audited, codes, copy, edit, problems

from rlvraudit.audit.check import check
from rlvraudit.audit.errors import Exit
from rlvraudit.audit.evidence.intake import Limits
from rlvraudit.audit.evidence.loading import load
from rlvraudit.audit.evidence.supplement import Evidence
from rlvraudit.audit.rules import RULES
from rlvraudit.audit.rules.rule import Outcome, Rule
from rlvraudit.audit.supplements import open_supplement


def test_the_sound_supplement_passes() -> None:
    assert audited(GOOD).exit is Exit.PASSED


def test_an_empty_manifest_is_nothing_to_check(tmp_path: Path) -> None:
    folder = copy(tmp_path)
    for path in ("results.csv", "receipt.json", "loss.sh"):
        (folder / path).unlink()
    with edit(folder, "supplement.json") as manifest:
        manifest.update(artifacts=[], ignored=[])
    assert audited(folder).exit is Exit.NOTHING_TO_CHECK


@pytest.mark.parametrize("data", [b"", b"{}", b"\xff\xfe", b"[" * 100])
def test_a_broken_manifest_is_a_finding_and_no_empty_one(tmp_path: Path, data: bytes) -> None:
    folder = copy(tmp_path)
    (folder / "supplement.json").write_bytes(data)
    assert audited(folder).exit is Exit.FINDINGS
    assert "RA001" not in codes(folder)


def test_a_claim_alone_is_something_to_check(tmp_path: Path) -> None:
    folder = copy(tmp_path)
    with edit(folder, "supplement.json") as manifest:
        manifest["artifacts"] = manifest["artifacts"][:1]
        manifest["claims"] = [
            {"id": "c", "statement": "s", "kind": "mechanism", "scope": {}, "evidence": []}
        ]
    assert "RA001" not in codes(folder)


def test_a_rule_that_crashes_is_a_finding_of_its_own_and_no_pass() -> None:
    def broken(_evidence: Evidence) -> Iterator[Outcome]:
        yield from ()
        raise ZeroDivisionError("nobody thought of this")

    rules = {"RA499": Rule("RA499", "broken", "error", "It holds.", broken), **RULES}
    audit = check(open_supplement(GOOD), rules)
    (finding,) = audit.findings
    assert finding.rule.name == "RA002"
    assert "RA499" in finding.problem.message
    assert "nobody thought of this" in finding.problem.message
    assert audit.exit is Exit.INCOMPLETE


@pytest.mark.parametrize(
    ("limits", "named"),
    [
        (Limits(files=2), "more than 2 files"),
        (Limits(file_bytes=500), "more than 500 for one file"),
        (Limits(total_bytes=1000), "more than 1000 bytes in all"),
    ],
)
def test_a_cap_is_named_and_leaves_the_audit_incomplete(limits: Limits, named: str) -> None:
    audit = check(load(GOOD, limits), RULES)
    assert audit.exit is Exit.INCOMPLETE
    found = [f.problem.message for f in audit.findings if f.rule.name == "RA003"]
    assert any(named in message for message in found)


def test_the_findings_about_a_cap_do_not_blame_the_manifest() -> None:
    audit = check(load(GOOD, Limits(file_bytes=500)), RULES)
    assert "RA102" not in {finding.rule.name for finding in audit.findings}


def test_documents_that_nest_too_deep_are_parse_errors(tmp_path: Path) -> None:
    folder = copy(tmp_path)
    (folder / "receipt.json").write_bytes(b"[" * 100_000)
    (problem,) = problems(folder, "RA201")
    assert (problem.path, problem.line) == ("receipt.json", 1)
    assert "deeper than 64 (column 65)" in problem.message
