"""Receipts of our own runs: valid, bound, sanitized, and the same for the same run."""

import hashlib
import json
import subprocess
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from rlvraudit.audit.errors import UsageError
from rlvraudit.audit.evidence.private import leaks
from rlvraudit.audit.evidence.validation import violations
from rlvraudit.audit.runs.documents import dump, timestamp
from rlvraudit.audit.runs.receipt import build_receipt

BEGAN = datetime(2026, 11, 1, 10, 0, 0, tzinfo=UTC)


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=nobody", "-c", "user.email=nobody@localhost")
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "code" / "kernels").mkdir(parents=True)
    (tmp_path / "code" / "kernels" / "replay.py").write_bytes(b"x = 1\n")
    git(tmp_path / "code", "init", "--quiet")
    git(tmp_path / "code", "add", ".")
    git(tmp_path / "code", "commit", "--quiet", "--message", "Add it")
    return tmp_path / "code"


def receipt(checkout: Path, **changes: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "build_type": "urn:rlvr-audit:run:tar-component:v1",
        "entrypoint": "rlvr-audit run tar",
        "recipe": "synthetic:x-v1",
        "seeds": {"run": 42},
        "device_requested": "cpu",
        "device_kind": "cpu",
        "device_model": "x86_64",
        "budget": {"steps": 3},
        "dtype": "float32",
        "sources": [checkout / "kernels" / "replay.py"],
        "subjects": {"runs/tar-42.json": b"{}"},
        "started": BEGAN,
        "finished": BEGAN + timedelta(seconds=9),
        "cost": {"generated_tokens": 7, "seconds": "9.1"},
        "level": "L1",
        "versions": {"python": "3.11.7", "numpy": "2.4.6"},
    }
    return build_receipt(**{**given, **changes})


def dependencies(built: dict[str, Any]) -> Any:
    return built["predicate"]["buildDefinition"]["resolvedDependencies"]


def test_a_receipt_is_valid_and_bound_to_commit_sources_and_subjects(checkout: Path) -> None:
    built = receipt(checkout)
    assert violations(built, "receipt", 10) == ([], False)
    revision, source = dependencies(built)
    assert revision["digest"]["gitCommit"] == git(checkout, "rev-parse", "HEAD")
    assert revision["annotations"]["tree"] == "clean"
    assert source["name"] == "kernels/replay.py"
    assert source["digest"] == {
        "sha256": hashlib.sha256(b"x = 1\n").hexdigest(),
        "gitBlob": git(checkout, "rev-parse", "HEAD:kernels/replay.py"),
    }
    assert built["subject"][0]["digest"]["sha256"] == hashlib.sha256(b"{}").hexdigest()


def test_the_same_run_gives_the_same_bytes_but_for_times_and_cost(checkout: Path) -> None:
    first = receipt(checkout)
    later = {"started": BEGAN + timedelta(days=1), "finished": BEGAN + timedelta(days=2)}
    second = receipt(checkout, **later, cost={"seconds": "8.0"})
    for built in (first, second):
        del built["predicate"]["runDetails"]["metadata"]["startedOn"]
        del built["predicate"]["runDetails"]["metadata"]["finishedOn"]
        del built["predicate"]["outcome"]["cost"]
    assert dump(first) == dump(second)


@pytest.mark.parametrize("change", [{"seeds": {"run": 43}}, {"subjects": {"a": b"other"}}])
def test_another_run_has_another_invocation(checkout: Path, change: dict[str, Any]) -> None:
    ids = {
        built["predicate"]["runDetails"]["metadata"]["invocationId"]
        for built in (receipt(checkout), receipt(checkout, **change))
    }
    assert len(ids) == 2


@pytest.mark.parametrize(
    ("change", "state"),
    [("none", "clean"), ("new", "untracked"), ("edit", "dirty"), ("both", "dirty")],
)
def test_the_state_of_the_tree_is_recorded(checkout: Path, change: str, state: str) -> None:
    if change in ("new", "both"):
        (checkout / "new.py").write_text("x")
    if change in ("edit", "both"):
        (checkout / "kernels" / "replay.py").write_text("x = 2\n")
    assert dependencies(receipt(checkout))[0]["annotations"]["tree"] == state


def test_a_repository_of_sha256_names_its_blobs_by_sha256(tmp_path: Path) -> None:
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "replay.py").write_bytes(b"x = 1\n")
    git(tmp_path, "init", "--quiet", "--object-format=sha256")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "Add it")
    source = dependencies(receipt(tmp_path))[1]
    assert source["digest"]["gitBlob"] == git(tmp_path, "rev-parse", "HEAD:kernels/replay.py")


def test_no_hook_of_the_checkout_runs(checkout: Path, tmp_path: Path) -> None:
    script = tmp_path / "hook"
    script.write_text(f"#!/bin/sh\ntouch {tmp_path / 'ran'}\n")
    script.chmod(0o755)
    git(checkout, "config", "core.fsmonitor", str(script))
    receipt(checkout)
    assert not (tmp_path / "ran").exists()


def test_leaks_are_replaced_and_counted(checkout: Path) -> None:
    built = receipt(
        checkout,
        entrypoint="python /home/someone/run.py",
        device_model="GPU-12345678-1234-1234-1234-123456789abc",
        versions={"python": "3.11.7", "hostname": "node7"},
    )
    text = json.dumps(built)
    assert list(leaks(text)) == []
    assert "node7" not in text
    assert built["predicate"]["sanitization"]["redactions"] == 2


def test_code_outside_any_checkout_gets_no_receipt(tmp_path: Path) -> None:
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "replay.py").write_text("x")
    with pytest.raises(UsageError, match="source checkout"):
        receipt(tmp_path)


def test_an_installation_inside_somebodys_repository_gets_no_receipt(checkout: Path) -> None:
    installed = checkout / ".venv" / "replay.py"
    installed.parent.mkdir()
    installed.write_text("x")
    with pytest.raises(UsageError, match="does not hold it"):
        receipt(checkout, sources=[installed])


def test_sources_elsewhere_and_none_at_all_are_refused(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("x")
    with pytest.raises(UsageError, match=r"outside the checkout: other\.py"):
        receipt(checkout, sources=[checkout / "kernels" / "replay.py", tmp_path / "other.py"])
    with pytest.raises(UsageError, match="files of code"):
        receipt(checkout, sources=[])


@pytest.mark.parametrize(("level", "diagnostic"), [("L0", True), ("L1", True), ("L2", False)])
def test_below_l2_everything_is_diagnostic(checkout: Path, level: str, diagnostic: bool) -> None:
    evidence = receipt(checkout, level=level)["predicate"]["evidence"]
    assert evidence["diagnostic_only"] is diagnostic
    assert evidence["formal_comparison"] is False


def test_parents_are_named_by_the_digest_of_their_bytes(checkout: Path) -> None:
    parent = dependencies(receipt(checkout, parents={"train.json": b"{}"}))[-1]
    assert parent["annotations"] == {"role": "receipt"}
    assert parent["digest"] == {"sha256": hashlib.sha256(b"{}").hexdigest()}


def test_times_are_utc_in_whole_seconds() -> None:
    moment = datetime(2026, 11, 1, 0, 30, 0, 999, tzinfo=timezone(timedelta(hours=2)))
    assert timestamp(moment) == "2026-10-31T22:30:00Z"
    with pytest.raises(ValueError, match="zone"):
        timestamp(datetime(2026, 11, 1))


def test_numbers_that_are_not_finite_are_not_written() -> None:
    with pytest.raises(ValueError, match="JSON"):
        dump({"x": float("nan")})
