"""A new supplement begins with a valid manifest of what is there, and no claim."""

from pathlib import Path

import pytest
from supplements import GOOD, SPLIT, audited, problems

from rlvraudit.audit.errors import Exit, UsageError
from rlvraudit.audit.evidence.validation import violations
from rlvraudit.audit.runs.documents import dump
from rlvraudit.audit.runs.init import start, starter


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("results.csv", "receipt.json", "loss.sh"):
        (tmp_path / name).write_bytes((GOOD / name).read_bytes())
    (tmp_path / "split.json").write_bytes(SPLIT)
    (tmp_path / "other.json").write_text('{"format": 3}')
    (tmp_path / "weights.pt").write_bytes(b"PK\x03\x04\0")
    return tmp_path


def test_types_are_guessed_from_contents_and_names(folder: Path) -> None:
    manifest = starter(folder)
    assert violations(manifest, "supplement", 10) == ([], False)
    assert {a["path"]: a["type"] for a in manifest["artifacts"]} == {
        "results.csv": "item-results/1",
        "receipt.json": "receipt/1",
        "split.json": "split-manifest/1",
    }
    assert [i["path"] for i in manifest["ignored"]] == ["loss.sh", "other.json", "weights.pt"]


def test_the_manifest_lists_every_file_with_its_digest(folder: Path) -> None:
    path = start(folder, dump(starter(folder)))
    assert path.read_bytes().startswith(b"{")
    for code in ("RA101", "RA103", "RA201", "RA202"):
        assert problems(folder, code) == []


def test_an_empty_folder_has_nothing_to_check_yet(tmp_path: Path) -> None:
    start(tmp_path, dump(starter(tmp_path)))
    assert audited(tmp_path).exit is Exit.NOTHING_TO_CHECK


@pytest.mark.parametrize("link", [False, True])
def test_an_existing_manifest_is_not_overwritten(tmp_path: Path, link: bool) -> None:
    target = tmp_path / "target"
    manifest = tmp_path / "supplement.json"
    manifest.symlink_to(target) if link else manifest.write_text("old")
    with pytest.raises(UsageError, match="exists already"):
        start(tmp_path, b"new")
    assert not target.exists()
    assert link or manifest.read_text() == "old"
