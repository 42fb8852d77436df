"""A trace and the receipt that binds it say the same of device and recipe."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the traces come from an actual run, which needs PyTorch")

from traces import receipt_of, small_trace, write_trace

from rlvraudit.audit.check import check
from rlvraudit.audit.policy import Policy
from rlvraudit.audit.rules import RULES
from rlvraudit.audit.supplements import open_supplement

Change = Callable[[dict[str, Any]], None]


def found(folder: Path, change: Change, in_receipt: Change = lambda receipt: None) -> set[Any]:
    document, tensors = small_trace()
    change(document)

    def receipt(files: dict[str, bytes]) -> dict[str, Any]:
        statement = receipt_of(files)
        in_receipt(statement["predicate"])
        return statement

    write_trace(folder, document, tensors, receipt=receipt)
    audit = check(open_supplement(folder), RULES, Policy())
    return {(f.rule.name, f.problem.pointer) for f in audit.findings}


def unchanged(document: dict[str, Any]) -> None:
    pass


def test_what_the_run_wrote_has_no_findings(tmp_path: Path) -> None:
    assert not found(tmp_path / "s", unchanged)


def test_a_trace_of_a_device_that_was_not_asked_for_is_found(tmp_path: Path) -> None:
    def fall_back(document: dict[str, Any]) -> None:
        document["device"] = {"requested": "cuda", "kind": "cpu"}

    assert ("RA312", "/device") in found(tmp_path / "s", fall_back)


def test_a_trace_of_another_recipe_than_its_receipt_is_found(tmp_path: Path) -> None:
    def rename(predicate: dict[str, Any]) -> None:
        predicate["buildDefinition"]["externalParameters"]["recipe"] = "synthetic:other-v1"

    assert ("RA302", "/recipe") in found(tmp_path / "s", unchanged, rename)


@pytest.mark.parametrize(
    ("part", "name", "value", "pointer"),
    [
        ("budget", "steps", 5, "/predicate/buildDefinition/externalParameters/budget/steps"),
        ("budget", "group", 8, "/predicate/buildDefinition/externalParameters/budget/group"),
        ("cost", "rejected", 77, "/predicate/outcome/cost/rejected"),
        ("cost", "generated_tokens", 1, "/predicate/outcome/cost/generated_tokens"),
    ],
)
def test_a_budget_or_cost_that_the_trace_does_not_show_is_found(
    tmp_path: Path, part: str, name: str, value: int, pointer: str
) -> None:
    def spend(predicate: dict[str, Any]) -> None:
        parameters = predicate["buildDefinition"]["externalParameters"]
        where = parameters if part == "budget" else predicate["outcome"]
        where[part] = {name: value}

    assert ("RA402", pointer) in found(tmp_path / "s", unchanged, spend)


def test_a_synthetic_recipe_above_its_level_is_found(tmp_path: Path) -> None:
    def raise_trace(document: dict[str, Any]) -> None:
        document["level"] = "L3"

    def raise_receipt(predicate: dict[str, Any]) -> None:
        predicate["evidence"]["level"] = "L3"

    places = found(tmp_path / "both", raise_trace, raise_receipt)
    assert {("RA609", "/level"), ("RA609", "/predicate/evidence/level")} <= places
    assert ("RA609", "/level") in found(tmp_path / "trace", raise_trace)


def test_a_diagnostic_eligible_for_promotion_is_found(tmp_path: Path) -> None:
    def promote(predicate: dict[str, Any]) -> None:
        predicate["evidence"]["promotion_eligible"] = True

    places = found(tmp_path / "s", unchanged, promote)
    assert ("RA609", "/predicate/evidence/promotion_eligible") in places


def test_arrays_of_another_dtype_than_declared_are_found(tmp_path: Path) -> None:
    def narrow(document: dict[str, Any]) -> None:
        document["dtype"] = "float32"  # which would widen every bound

    assert any(rule == "RA407" for rule, _ in found(tmp_path / "s", narrow))
