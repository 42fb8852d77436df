import json
from collections.abc import Callable
from typing import Any

from jsonschema import Draft202012Validator

from rlvraudit import schemas
from rlvraudit.audit.check import Audit
from rlvraudit.audit.policy import Policy
from rlvraudit.audit.reports.formats import REPORTS
from rlvraudit.audit.reports.terminal import Page
from rlvraudit.audit.rules.rule import Discrepancy, Held, Problem, Skipped

MakeAudit = Callable[..., Audit]
as_json = REPORTS["json"].render
SAID: dict[str, Any] = {
    "RA103": [Problem("x\x1b", "is not in the manifest")],
    "RA410": RuntimeError("boom"),
    "RA411": [Held("runs/tar-42.json", "/loss", True)],
    "RA412": [
        Problem("runs/tar-42.json", "wrong", "/loss", 3, Discrepancy("1", "2", "0.1", "a fault"))
    ],
    "RA414": [Skipped("no tapo-trace")],
}


def document(make_audit: MakeAudit, said: Any = None, **more: Any) -> Any:
    return json.loads(as_json([make_audit(SAID if said is None else said, **more)], Page()))


def test_a_report_is_valid_under_its_schema(make_audit: MakeAudit) -> None:
    schema = schemas.load("report")
    Draft202012Validator.check_schema(schema)
    assert not list(Draft202012Validator(schema).iter_errors(document(make_audit)))


def test_the_schema_refuses_a_field_that_is_not_described(make_audit: MakeAudit) -> None:
    report = document(make_audit)
    report["audits"][0]["coverage"]["files"][0]["seconds"] = 1
    assert list(Draft202012Validator(schemas.load("report")).iter_errors(report))


def test_every_outcome_of_a_rule_is_told(make_audit: MakeAudit) -> None:
    rules = {rule["rule"]: rule for rule in document(make_audit)["audits"][0]["rules"]}
    status = {code: rule["status"] for code, rule in rules.items()}
    assert status == {
        "RA002": "failed",
        "RA103": "failed",
        "RA410": "crashed",
        "RA411": "passed",
        "RA412": "failed",
        "RA414": "skipped",
    }
    assert rules["RA414"]["skipped"] == ["no tapo-trace"]
    assert rules["RA410"]["crashed"] == "RuntimeError: boom"


def test_a_numeric_finding_carries_its_numbers(make_audit: MakeAudit) -> None:
    finding = document(make_audit)["audits"][0]["findings"][0]
    numbers = {key: finding[key] for key in ("recorded", "recomputed", "bound", "variant", "line")}
    assert numbers == {
        "recorded": "1", "recomputed": "2", "bound": "0.1", "variant": "a fault", "line": 3
    }  # fmt: skip


def test_all_findings_are_there_however_many(make_audit: MakeAudit) -> None:
    many = [Problem("a.json", f"gate {i}", f"/gates/{i}") for i in range(1000)]
    assert len(document(make_audit, {"RA410": many})["audits"][0]["findings"]) == 1000


def test_coverage_counts_each_number_once(make_audit: MakeAudit) -> None:
    coverage = document(make_audit)["audits"][0]["coverage"]
    # The trace has a loss and two gates, the claim one decimal; only the loss was recomputed.
    assert coverage["total"] == {"numbers": 4, "recomputed": 1, "bound": 3, "reported": 0}


def test_several_audits_have_the_worst_status(make_audit: MakeAudit) -> None:
    good, bad = make_audit({"RA410": [Held("a")]}), make_audit({"RA410": [Problem("a", "wrong")]})
    report = json.loads(as_json([good, bad, good], Page()))
    assert [audit["exit"] for audit in report["audits"]] == [0, 1, 0]
    assert report["exit"] == 1


def test_strict_raises_warnings_to_errors(make_audit: MakeAudit) -> None:
    said = {"RA410": [Problem("a", "doubtful", level="warning")]}
    lax, strict = make_audit(said), make_audit(said, Policy(strict=True))
    assert (int(lax.exit), int(strict.exit)) == (0, 1)
    assert document(make_audit, said)["audits"][0]["findings"][0]["level"] == "warning"


def test_output_is_plain_ascii_so_that_no_terminal_is_driven_by_it(make_audit: MakeAudit) -> None:
    assert as_json([make_audit(SAID)], Page()).isascii()
