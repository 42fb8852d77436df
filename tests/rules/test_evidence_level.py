"""RA6: claims against the level, the kind and the completeness of their evidence.

Supplements are built in memory; the folders under fixtures/rules/RA6* are whole ones.
"""

from typing import Any

import numpy as np
import pytest

from rlvraudit.audit.evidence.intake import File
from rlvraudit.audit.evidence.supplement import MANIFEST, Artifact, Claim, Document, Evidence
from rlvraudit.audit.results.item import Items, Key
from rlvraudit.audit.rules import RULES
from rlvraudit.audit.rules.rule import Held, Problem, Skipped

COMPARES = {"treatment": "tapo", "baseline": "grpo", "asserts": "higher"}
DIFFERENCE = {"quantity": "difference", "artifact": "items.csv", "value": "0.1", "n": 2}
QUOTE = {"quantity": "quote", "artifact": "paper.json", "pointer": "/results/0", "value": "41.0"}

PAPER = {"results": [{"what": "Avg@8 of TAPO", "value": "41.0", "source": {"table": "Table 1"}}]}


def items(*methods: str) -> Items:
    keys = tuple(Key(method, None, str(i), None) for method in methods for i in range(2))
    return Items("items.csv", keys, np.ones(len(keys)), tuple(range(2, 2 + len(keys))))


def receipt(level: str, *subjects: str, **flags: Any) -> dict[str, Any]:
    predicate = {
        "buildDefinition": {"externalParameters": {}, "resolvedDependencies": []},
        "runDetails": {"metadata": {}},
        "evidence": {"level": level, **flags},
    }
    return {"subject": [{"name": s, "digest": {}} for s in subjects], "predicate": predicate}


def claim(kind: str = "comparison", **changes: Any) -> dict[str, Any]:
    value = {"id": "it", "kind": kind, "evidence": ["items.csv"], "reported": [DIFFERENCE]}
    return {**value, **({"compares": COMPARES} if kind == "comparison" else {}), **changes}


def evidence(
    *claims: dict[str, Any], origins: dict[str, str] | None = None, **files: Any
) -> Evidence:
    """Build a supplement; files are named `type__stem`, and None is one that was not read."""
    origins = {"items.csv": "L2"} if origins is None else origins
    contents = {"item_results__items": items("grpo", "tapo"), **files}
    artifacts, documents = [], {}
    for index, (name, value) in enumerate(contents.items()):
        type_, _, stem = name.partition("__")
        path = f"{stem}.csv" if type_ == "item_results" else f"{stem}.json"
        origin = {"level": origins[path]} if path in origins else None
        type_ = type_.replace("_", "-")
        artifact = Artifact(path, "0" * 64, type_, "1", f"/artifacts/{index}", origin)
        artifacts.append(artifact)
        if value is not None:
            documents[path] = Document(artifact, value)
    read = {a.path: File(a.path, 0, "0" * 64, "0" * 40, b"") for a in artifacts}
    listed = (Claim(c["id"], c["kind"], f"/claims/{i}", c) for i, c in enumerate(claims))
    return Evidence("it", {}, tuple(artifacts), tuple(listed), read, documents, ())


def problems(code: str, supplement: Evidence) -> list[tuple[str, str]]:
    outcomes = list(RULES[code].check(supplement))
    assert outcomes, "a rule that looked at nothing has to say why"
    return [(o.pointer, o.message) for o in outcomes if isinstance(o, Problem)]


def holds(code: str, supplement: Evidence) -> bool:
    return any(isinstance(o, Held) for o in RULES[code].check(supplement))


LEVELS = ("L0", "L1", "L2", "L3")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("kind", "least"),
    [("mechanism", "L0"), ("component", "L1"), ("comparison", "L2"), ("capability", "L3")],
)
def test_each_kind_of_claim_needs_its_level(kind: str, least: str, level: str) -> None:
    found = problems("RA601", evidence(claim(kind), origins={"items.csv": level}))
    assert bool(found) == (LEVELS.index(level) < LEVELS.index(least))


def test_a_claim_that_there_is_no_difference_needs_what_the_comparison_would() -> None:
    null = claim("null-result", compares={**COMPARES, "asserts": "no-difference"})
    assert problems("RA601", evidence(null, origins={"items.csv": "L1"}))
    assert not problems("RA601", evidence(null, origins={"items.csv": "L2"}))


def test_evidence_without_any_level_is_too_low() -> None:
    [(pointer, message)] = problems("RA601", evidence(claim(), origins={}))
    assert pointer == "/claims/0/kind"
    assert "items.csv has no level" in message


def test_the_lowest_of_two_stated_levels_counts() -> None:
    lower = evidence(claim(), receipt__r=receipt("L1", "items.csv"))
    assert "its evidence is L1" in problems("RA601", lower)[0][1]
    assert not problems("RA601", evidence(claim(), receipt__r=receipt("L3", "items.csv")))


def test_the_weakest_of_the_artifacts_that_carry_a_claim_counts() -> None:
    two = claim(evidence=["items.csv", "more.csv"])
    weak = {"items.csv": "L3", "more.csv": "L1"}
    supplement = evidence(two, origins=weak, item_results__more=items("grpo"))
    assert "L1 (more.csv)" in problems("RA601", supplement)[0][1]


def test_a_contract_beside_item_results_does_not_lower_a_comparison() -> None:
    both = claim(evidence=["items.csv", "contracts.json"])
    assert not problems("RA601", evidence(both, mechanism_contracts__contracts={}))


def test_a_mechanism_contract_is_of_level_zero_by_definition() -> None:
    formula = claim("mechanism", evidence=["contracts.json"], reported=[])
    trained = claim("component", evidence=["contracts.json"], reported=[])
    assert not problems("RA601", evidence(formula, mechanism_contracts__contracts={}))
    assert problems("RA601", evidence(trained, mechanism_contracts__contracts={}))


def test_a_quotation_needs_no_level() -> None:
    quoted = claim("reported", evidence=["paper.json"], reported=[QUOTE])
    outcomes = list(RULES["RA601"].check(evidence(quoted, paper_results__paper=PAPER)))
    assert [type(outcome) for outcome in outcomes] == [Skipped]


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"evidence": []}, "/claims/0/evidence"),
        ({"evidence": ["items.csv", "gone.csv"]}, "/claims/0/evidence/1"),
        ({"reported": [{**DIFFERENCE, "artifact": "other.csv"}]}, "/claims/0/reported/0/artifact"),
        ({"reported": []}, "/claims/0"),
        ({"reported": [{**QUOTE, "artifact": "items.csv"}]}, "/claims/0"),
    ],
)
def test_a_claim_that_does_not_resolve_is_named_with_its_place(
    changes: dict[str, Any], pointer: str
) -> None:
    assert [place for place, _ in problems("RA602", evidence(claim(**changes)))] == [pointer]


def test_a_claim_with_a_recomputed_number_resolves() -> None:
    assert holds("RA602", evidence(claim()))


CONTRACTS: dict[str, Any] = {"contracts": [], "negative_controls": []}


@pytest.mark.parametrize(
    ("type_", "value"), [("tar_trace", {}), ("mechanism_contracts", CONTRACTS)]
)
def test_a_trace_or_contract_carries_a_claim_without_numbers(
    type_: str, value: dict[str, Any]
) -> None:
    component = claim("component", evidence=["it.json"], reported=[])
    assert holds("RA602", evidence(component, **{f"{type_}__it": value}))


@pytest.mark.parametrize(("cases", "passed"), [(0, 0), (3, 2)])
def test_a_check_without_cases_or_with_failures_supports_nothing(cases: int, passed: int) -> None:
    check = {"check": "vectors", "dtype": "float64", "cases": cases, "passed": passed}
    contracts = CONTRACTS | {"contracts": [{"objective": "tar.gate", "checks": [check]}]}
    mechanism = claim("mechanism", evidence=["it.json"], reported=[])
    found = problems("RA602", evidence(mechanism, mechanism_contracts__it=contracts))
    assert [place for place, _ in found] == ["/contracts/0/checks/0"]


def test_a_split_manifest_alone_carries_nothing() -> None:
    component = claim("component", evidence=["split.json"], reported=[])
    assert problems("RA602", evidence(component, split_manifest__split={}))


@pytest.mark.parametrize(
    ("methods", "side"), [(("tapo",), "baseline"), (("grpo",), "treatment"), ((), "treatment")]
)
def test_a_comparison_needs_results_of_both_sides(methods: tuple[str, ...], side: str) -> None:
    supplement = evidence(claim(), item_results__items=items(*methods))
    assert [place for place, _ in problems("RA604", supplement)] == [f"/claims/0/compares/{side}"]


def test_both_sides_may_stand_in_two_files() -> None:
    two = claim(evidence=["items.csv", "more.csv"])
    supplement = evidence(two, item_results__items=items("grpo"), item_results__more=items("tapo"))
    assert holds("RA604", supplement)


def test_a_comparison_that_names_no_baseline_is_refused() -> None:
    unnamed = claim()
    del unnamed["compares"]
    assert [place for place, _ in problems("RA604", evidence(unnamed))] == ["/claims/0"]


def test_a_difference_needs_a_baseline_whatever_the_claim_is_called() -> None:
    assert problems("RA604", evidence(claim("component")))


def test_a_method_compared_with_itself_is_refused() -> None:
    itself = claim(compares={**COMPARES, "treatment": "grpo"})
    assert problems("RA604", evidence(itself))


def test_a_comparison_on_no_item_results_at_all_has_no_baseline() -> None:
    bare = claim(evidence=["contracts.json"])
    assert problems("RA604", evidence(bare, mechanism_contracts__contracts={}))


def test_items_that_could_not_be_read_are_left_to_the_rule_that_says_so() -> None:
    outcomes = list(RULES["RA604"].check(evidence(claim(), item_results__items=None)))
    assert [type(outcome) for outcome in outcomes] == [Skipped]


@pytest.mark.parametrize("kind", ["comparison", "capability", "null-result"])
@pytest.mark.parametrize("type_", ["tar_trace", "tapo_trace", "tensors"])
def test_training_traces_carry_no_claim_about_outcomes(kind: str, type_: str) -> None:
    outcome = claim(kind, evidence=["items.csv", "it.json"])
    found = problems("RA606", evidence(outcome, **{f"{type_}__it": {}}))
    assert [place for place, _ in found] == ["/claims/0/evidence/1"]


def test_a_trace_may_carry_a_component_claim() -> None:
    component = claim("component", evidence=["it.json"], reported=[])
    supplement = evidence(component, claim(), tar_trace__it={})
    assert not problems("RA606", supplement)
    assert holds("RA606", supplement)


@pytest.mark.parametrize(
    ("made", "pointer"),
    [
        (claim(evidence=["items.csv", "paper.json"]), "/claims/0/evidence/1"),
        (claim(reported=[QUOTE]), "/claims/0/reported/0/quantity"),
        (claim("reported", reported=[]), "/claims/0/evidence/0"),
        (
            claim("reported", evidence=["paper.json"], reported=[DIFFERENCE]),
            "/claims/0/reported/0/quantity",
        ),
        (
            claim(
                "reported",
                evidence=["paper.json"],
                reported=[{**QUOTE, "artifact": "split.json"}],
            ),
            "/claims/0/reported/0/artifact",
        ),
    ],
)
def test_quotations_and_measurements_do_not_mix(made: dict[str, Any], pointer: str) -> None:
    supplement = evidence(made, paper_results__paper=PAPER, split_manifest__split={})
    assert [place for place, _ in problems("RA608", supplement)] == [pointer]


def test_a_quotation_from_paper_results_and_a_measurement_from_items_hold() -> None:
    quoted = claim("reported", evidence=["paper.json"], reported=[QUOTE])
    supplement = evidence(quoted, claim(), paper_results__paper=PAPER)
    assert not problems("RA608", supplement)


def test_a_quoted_number_names_its_place_in_the_paper() -> None:
    blank = {"results": [*PAPER["results"], {"what": "it", "value": "1", "source": {"table": " "}}]}
    found = problems("RA608", evidence(paper_results__paper=blank))
    assert [place for place, _ in found] == ["/results/1/source"]


FLAGS = {"diagnostic_only": True, "formal_comparison": False}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    "flags",
    [
        {},
        {**FLAGS, "diagnostic_only": False},
        {**FLAGS, "formal_comparison": True},
        {"diagnostic_only": True},
        {**FLAGS, "diagnostic_only": 1},
    ],
)
def test_below_l2_a_receipt_says_that_it_is_a_diagnostic(level: str, flags: dict[str, Any]) -> None:
    wrong = evidence(receipt__r=receipt(level, **flags))
    right = evidence(receipt__r=receipt(level, **FLAGS))
    assert bool(problems("RA609", wrong)) == (level in ("L0", "L1"))
    assert not problems("RA609", right)


def test_an_artifact_that_states_its_level_says_it_too() -> None:
    assert problems("RA609", evidence(tar_trace__it={"level": "L1"}))
    assert not problems("RA609", evidence(tar_trace__it={"level": "L1", **FLAGS}))


@pytest.mark.parametrize("code", ["RA601", "RA602", "RA604", "RA606", "RA608", "RA609"])
def test_a_supplement_without_claims_and_receipts_gets_a_reason(code: str) -> None:
    empty = Evidence("it", {}, (), (), {}, {}, ())
    outcomes = list(RULES[code].check(empty))
    assert outcomes
    assert all(isinstance(outcome, Skipped) for outcome in outcomes)


def test_every_problem_points_into_a_file_of_the_supplement() -> None:
    supplement = evidence(claim(evidence=[]), receipt__r=receipt("L0"))
    found = [
        outcome.path
        for code in ("RA602", "RA609")
        for outcome in RULES[code].check(supplement)
        if isinstance(outcome, Problem)
    ]
    assert found == [MANIFEST, "r.json"]
