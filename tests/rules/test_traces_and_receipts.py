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
        in_receipt(statement["predicate"]["buildDefinition"]["externalParameters"])
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
    def rename(parameters: dict[str, Any]) -> None:
        parameters["recipe"] = "synthetic:other-v1"

    assert ("RA302", "/recipe") in found(tmp_path / "s", unchanged, rename)
