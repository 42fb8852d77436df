"""The contracts that an audit of the kernels leaves, with their receipt."""

import hashlib
import json
from pathlib import Path

import pytest

from rlvraudit.audit.errors import UsageError
from rlvraudit.audit.runs.contracts import run_contracts
from rlvraudit.fixtures import ROOT


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("torch", reason="without it the audit is incomplete")
    output = tmp_path_factory.mktemp("run") / "contracts"
    run_contracts(ROOT / "vectors", "cpu", output)
    return output


def test_contracts_say_what_was_checked_and_what_they_are(written: Path) -> None:
    contracts = json.loads((written / "mechanism-contracts.json").read_bytes())
    assert contracts["level"] == "L0"
    assert contracts["diagnostic_only"] is True
    assert contracts["formal_comparison"] is False
    assert {"tar.replay_nll", "tapo.surrogate"} <= {c["objective"] for c in contracts["contracts"]}
    assert all(control["caught"] for control in contracts["negative_controls"])
    checks = [check for contract in contracts["contracts"] for check in contract["checks"]]
    assert all(0 < check["cases"] == check["passed"] for check in checks)


def test_the_receipt_names_the_contracts_and_their_level(written: Path) -> None:
    receipt = json.loads((written / "mechanism-contracts.receipt.json").read_bytes())
    (subject,) = receipt["subject"]
    data = (written / subject["name"]).read_bytes()
    assert subject["digest"]["sha256"] == hashlib.sha256(data).hexdigest()
    assert receipt["predicate"]["evidence"]["level"] == "L0"


def test_an_existing_output_is_refused_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("keep me")
    with pytest.raises(UsageError, match="written once"):
        run_contracts(ROOT / "vectors", "cpu", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]
