"""RA2: places of errors, times, and formats."""

from pathlib import Path

import pytest
from supplements import codes, copy, edit, problems

from rlvraudit.audit.rules.schema import moment


@pytest.mark.parametrize(
    "text",
    [
        *("2026-11-01T10:00:00Z", "2024-02-29T00:00:00Z", "2026-11-01T10:00:00.5Z"),
        "2026-11-01T23:59:59.999999Z",
    ],
)
def test_times_in_utc_are_read(text: str) -> None:
    found = moment(text)
    assert found is not None
    assert found.isoformat()[:19] == text[:19]


@pytest.mark.parametrize(
    "text",
    [
        *("", "now", "2026-11-01", "2026-11-01T10:00:00", "2026-11-01 10:00:00Z"),
        *("2026-11-01T10:00:00+00:00", "2026-11-01T10:00:00+01:00", "2026-11-01t10:00:00z"),
        *("2026-02-29T10:00:00Z", "2026-13-01T10:00:00Z", "2026-11-01T24:00:00Z"),
        *("2026-11-01T10:00:00Z\n", " 2026-11-01T10:00:00Z", "2026-1-1T1:0:0Z        "),
        *("2026-11-1T10:00:000Z", "\u0662026-11-01T10:00:00Z", "2026-11-01T10:00:61Z"),
        "2026-11-01T10:00:00.Z",
    ],
)
def test_anything_else_is_no_time(text: str) -> None:
    assert moment(text) is None


def test_a_violation_names_pointer_and_line(tmp_path: Path) -> None:
    folder = copy(tmp_path)
    with edit(folder, "receipt.json") as receipt:
        receipt["predicate"]["outcome"]["status"] = "fine"
    (problem,) = problems(folder, "RA202")
    lines = (folder / "receipt.json").read_text().splitlines()
    assert problem.pointer == "/predicate/outcome/status"
    assert problem.line is not None
    assert '"fine"' in lines[problem.line - 1]


def test_an_unknown_field_is_a_warning_with_line_and_nearest_name(tmp_path: Path) -> None:
    folder = copy(tmp_path)
    with edit(folder, "supplement.json") as manifest:
        manifest["artifacts"][0]["license"] = "MIT"
    (problem,) = problems(folder, "RA204")
    assert "licence" in problem.message
    assert problem.line is not None
    assert codes(folder) == {"RA204"}


def test_a_run_of_no_length_is_in_order(tmp_path: Path) -> None:
    folder = copy(tmp_path)
    with edit(folder, "receipt.json") as receipt:
        metadata = receipt["predicate"]["runDetails"]["metadata"]
        metadata["finishedOn"] = metadata["startedOn"]
    assert codes(folder) == set()


def test_an_archive_that_is_only_ignored_is_no_evidence_and_no_finding(tmp_path: Path) -> None:
    folder = copy(tmp_path)
    (folder / "more.zip").write_bytes(b"PK\x03\x04\0\0")
    with edit(folder, "supplement.json") as manifest:
        manifest["ignored"].append({"path": "more.zip", "reason": "the paper's own archive"})
    assert codes(folder) == set()
