"""Running rules: what a crash, silence and a policy do, and where findings are."""

from collections.abc import Iterator

import pytest

from rlvraudit.audit.check import Audit, check
from rlvraudit.audit.errors import Exit, UsageError, worst
from rlvraudit.audit.evidence.intake import Fault, File
from rlvraudit.audit.evidence.supplement import Evidence
from rlvraudit.audit.policy import Policy, choose, find_rule
from rlvraudit.audit.rules import RULES as REGISTERED
from rlvraudit.audit.rules.rule import Held, Level, Outcome, Problem, Rule, Skipped

JSON = b'{\n "a": [\n  1,\n  {"b~/c": 2}\n ]\n}\n'


def rule(code: str, *said: Outcome | Exception, slug: str = "") -> Rule:
    def run(_evidence: Evidence) -> Iterator[Outcome]:
        for outcome in said:
            if isinstance(outcome, Exception):
                raise outcome
            yield outcome

    return Rule(code, slug or f"slug-{code.lower()}", "error", "It holds.", run)


def evidence(*faults: Fault) -> Evidence:
    file = File("trace.json", len(JSON), "0" * 64, "0" * 40, JSON)
    return Evidence("it", {}, (), (), {"trace.json": file}, {}, faults)


def audit(*rules: Rule, policy: Policy | None = None, faults: tuple[Fault, ...] = ()) -> Audit:
    return check(evidence(*faults), {r.name: r for r in rules}, policy)


def test_a_rule_that_raises_never_passes_and_the_others_still_run() -> None:
    done = audit(rule("RA401", RuntimeError("boom")), rule("RA402", Held("a")))
    assert [run.status for run in done.runs] == ["crashed", "passed"]
    assert done.exit is Exit.INCOMPLETE


def test_what_a_rule_found_before_it_crashed_is_kept() -> None:
    done = audit(rule("RA401", Problem("a", "wrong"), RuntimeError("boom")))
    assert [finding.problem.message for finding in done.findings] == ["wrong"]


def test_a_rule_that_says_nothing_never_passes() -> None:
    assert audit(rule("RA401")).exit is Exit.INCOMPLETE


def test_the_rules_about_rules_are_told_how_the_others_ended() -> None:
    many = [Problem("a", str(i)) for i in range(1001)]
    engine = (REGISTERED["RA002"], REGISTERED["RA003"])
    done = audit(*engine, rule("RA401", RuntimeError("boom")), rule("RA402", *many))
    said = [f.problem.message for f in done.findings if f.rule.family == "engine"]
    assert len(said) == 2
    assert "RA401 crashed" in said[0]
    assert "boom" in said[0]
    assert "RA402 ended at a cap" in said[1]


def test_more_findings_of_a_rule_than_fit_in_a_report_leave_the_audit_incomplete() -> None:
    most = [Problem("a", str(i)) for i in range(1000)]
    assert audit(rule("RA401", *most)).exit is Exit.FINDINGS
    done = audit(rule("RA401", *most, Problem("a", "one more")))
    assert done.exit is Exit.INCOMPLETE
    assert len(done.findings) == 1000


def test_a_skipped_rule_is_not_counted_as_passed() -> None:
    assert audit(rule("RA101", Skipped("no file"))).runs[0].status == "skipped"


def test_a_cap_that_was_reached_leaves_the_audit_incomplete() -> None:
    fault = Fault("limit-reached", "big.json", "too big", incomplete=True)
    assert audit(rule("RA401", Held("a")), faults=(fault,)).exit is Exit.INCOMPLETE


@pytest.mark.parametrize("slug", ["parse-error", "schema-violation", "unsupported-format"])
def test_a_document_that_was_left_out_is_no_pass_where_the_rule_that_says_so_is_not_run(
    slug: str,
) -> None:
    fault = Fault(slug, "trace.json", "not JSON")
    telling = rule("RA201", Held("a"), slug=slug)
    assert audit(rule("RA401", Held("a")), faults=(fault,)).exit is Exit.INCOMPLETE
    assert audit(rule("RA401", Held("a")), telling, faults=(fault,)).exit is Exit.PASSED


def test_a_fault_that_leaves_nothing_out_may_be_ignored() -> None:
    fault = Fault("unknown-field", "trace.json", "colour is unknown")
    assert audit(rule("RA401", Held("a")), faults=(fault,)).exit is Exit.PASSED


@pytest.mark.parametrize(
    ("level", "fail_on", "strict", "expected"),
    [
        ("error", "error", False, Exit.FINDINGS),
        ("warning", "error", False, Exit.PASSED),
        ("warning", "warning", False, Exit.FINDINGS),
        ("warning", "error", True, Exit.FINDINGS),
        ("note", "error", True, Exit.PASSED),
        ("note", "note", False, Exit.FINDINGS),
    ],
)
def test_which_findings_fail_is_the_callers_choice(
    level: Level, fail_on: Level, strict: bool, expected: Exit
) -> None:
    policy = Policy(fail_on=fail_on, strict=strict)
    assert audit(rule("RA401", Problem("a", "x", level=level)), policy=policy).exit is expected


def test_nothing_to_check_has_its_own_status() -> None:
    nothing = rule("RA001", Problem("supplement.json", "no claim"), slug="nothing-to-check")
    assert audit(nothing, rule("RA401", Held("a"))).exit is Exit.NOTHING_TO_CHECK


def test_a_pointer_becomes_a_line() -> None:
    # The fourth line of the document holds the second element of "a", with the key "b~/c".
    pointers = ("/a", "/a/0", "/a/1/b~0~1c", "/nowhere", "/a[7]")
    done = audit(rule("RA401", *(Problem("trace.json", p, p) for p in pointers)))
    lines = {finding.problem.pointer: finding.problem.line for finding in done.findings}
    assert lines == {"/a": 2, "/a/0": 3, "/a/1/b~0~1c": 4, "/nowhere": None, "/a[7]": 2}


def test_a_line_that_the_rule_knows_is_kept() -> None:
    done = audit(rule("RA401", Problem("trace.json", "x", "/a", line=99)))
    assert done.findings[0].problem.line == 99


def test_several_audits_have_the_worst_status_of_one() -> None:
    assert worst([Exit.PASSED, Exit.NOTHING_TO_CHECK]) is Exit.NOTHING_TO_CHECK
    assert worst([Exit.NOTHING_TO_CHECK, Exit.FINDINGS]) is Exit.FINDINGS
    assert worst([Exit.FINDINGS, Exit.INCOMPLETE, Exit.PASSED]) is Exit.INCOMPLETE
    assert worst([Exit.PASSED, Exit.PASSED]) is Exit.PASSED


RULES = {code: rule(code, Held("a")) for code in ("RA101", "RA401", "RA402", "RA501")}


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (Policy(), ["RA101", "RA401", "RA402", "RA501"]),
        (Policy(select=("RA4",)), ["RA101", "RA401", "RA402"]),
        (Policy(select=("RA402", "RA5")), ["RA101", "RA402", "RA501"]),
        (Policy(ignore=("RA4",)), ["RA101", "RA501"]),
        (Policy(select=("RA4",), ignore=("RA402",)), ["RA101", "RA401"]),
    ],
)
def test_codes_and_prefixes_choose_rules_and_mandatory_ones_always_run(
    policy: Policy, expected: list[str]
) -> None:
    assert sorted(choose(RULES, policy)) == expected


@pytest.mark.parametrize("policy", [Policy(select=("RA403",)), Policy(ignore=("RA403",))])
def test_an_unknown_code_is_refused_with_the_nearest(policy: Policy) -> None:
    with pytest.raises(UsageError, match=r"'RA403'; the nearest is RA40[12]"):
        choose(RULES, policy)


@pytest.mark.parametrize("prefix", ["RA1", "RA101", "RA", "R"])
def test_a_mandatory_rule_cannot_be_ignored(prefix: str) -> None:
    with pytest.raises(UsageError, match="RA1 integrity"):
        choose(RULES, Policy(ignore=(prefix,)))


def test_an_empty_code_is_refused() -> None:
    with pytest.raises(UsageError, match="''"):
        choose(RULES, Policy(select=("",)))


@pytest.mark.parametrize("name", ["RA401", "ra401", "slug-ra401", "Slug-RA401"])
def test_a_rule_is_found_by_code_or_slug(name: str) -> None:
    assert find_rule(name, RULES).name == "RA401"
