"""RA1 on trees that no repository can hold, and on edges that the examples leave out."""

import os
import unicodedata
from pathlib import Path

import pytest
from supplements import audited, codes, copy, edit, problems

from rlvraudit.audit.errors import Exit


def test_one_changed_byte_is_found_and_named(tmp_path: Path) -> None:
    folder = copy(tmp_path)
    (folder / "results.csv").write_bytes((folder / "results.csv").read_bytes() + b"\n")
    assert [p.path for p in problems(folder, "RA101")] == ["results.csv"]


def test_line_endings_count_as_bytes(tmp_path: Path) -> None:
    folder = copy(tmp_path)
    data = (folder / "results.csv").read_bytes()
    (folder / "results.csv").write_bytes(data.replace(b"\n", b"\r\n"))
    assert "RA101" in codes(folder)


@pytest.mark.parametrize("path", ["results.csv", "receipt.json"])
def test_a_file_that_is_gone_is_named_where_it_is_mentioned(tmp_path: Path, path: str) -> None:
    folder = copy(tmp_path)
    (folder / path).unlink()
    assert {p.pointer for p in problems(folder, "RA102")} >= {"/artifacts/0/path"} or path != (
        "results.csv"
    )
    assert all(path in p.message for p in problems(folder, "RA102"))


def test_a_claim_on_a_file_that_is_not_there_is_found(tmp_path: Path) -> None:
    folder = copy(tmp_path)
    with edit(folder, "supplement.json") as manifest:
        manifest["claims"] = [
            {"id": "c", "statement": "s", "kind": "mechanism", "scope": {}, "evidence": ["gone"]}
        ]
    assert [p.pointer for p in problems(folder, "RA102")] == ["/claims/0/evidence/0"]


def test_a_folder_in_the_place_of_a_file_is_missing(tmp_path: Path) -> None:
    folder = copy(tmp_path)
    (folder / "results.csv").unlink()
    (folder / "results.csv").mkdir()
    assert "RA102" in codes(folder)


def test_an_ignored_folder_covers_what_lies_in_it_and_nothing_else(tmp_path: Path) -> None:
    folder = copy(tmp_path)
    for path in ("docs/a/b.md", "docs.md", "docsx/c.md"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("x")
    with edit(folder, "supplement.json") as manifest:
        manifest["ignored"].append({"path": "docs/", "reason": "prose"})
    assert [p.path for p in problems(folder, "RA103")] == ["docs.md", "docsx/c.md"]
    assert problems(folder, "RA104") == []


def test_a_name_that_is_ignored_and_not_there_is_a_warning(tmp_path: Path) -> None:
    folder = copy(tmp_path)
    with edit(folder, "supplement.json") as manifest:
        manifest["ignored"].append({"path": "gone.md", "reason": "prose"})
    assert [p.level for p in problems(folder, "RA102")] == ["warning"]
    assert audited(folder).exit is Exit.PASSED


def test_hidden_files_count_too(tmp_path: Path) -> None:
    folder = copy(tmp_path)
    (folder / ".hidden").write_text("x")
    assert [p.path for p in problems(folder, "RA103")] == [".hidden"]


@pytest.mark.parametrize(
    "name", ["a\x1b[31m", "e\u0301.txt", "a\u202eb", "con.txt", "a ", "a\\b", os.fsdecode(b"\xff")]
)
def test_unsafe_names_in_the_tree_are_found_and_shown_in_ascii(tmp_path: Path, name: str) -> None:
    folder = copy(tmp_path)
    (folder / name).write_text("x")
    (problem,) = problems(folder, "RA104")
    assert problem.message.isascii()
    assert problem.message.isprintable()


@pytest.mark.parametrize("place", ["subject", "source", "parent"])
def test_unsafe_names_in_receipts_are_found(tmp_path: Path, place: str) -> None:
    folder = copy(tmp_path)
    with edit(folder, "receipt.json") as receipt:
        things = receipt["predicate"]["buildDefinition"]["resolvedDependencies"]
        if place == "subject":
            receipt["subject"][0]["name"] = "../results.csv"
        else:
            things[1]["name"] = "/x/loss.sh"
            things[1]["annotations"]["role"] = {"parent": "receipt"}.get(place, place)
    assert [p.path for p in problems(folder, "RA104")] == ["receipt.json"]


def test_links_and_fifos_are_found_even_where_they_are_listed(tmp_path: Path) -> None:
    folder = copy(tmp_path)
    (tmp_path / "outside.csv").write_bytes((folder / "results.csv").read_bytes())
    (folder / "results.csv").unlink()
    (folder / "results.csv").symlink_to(tmp_path / "outside.csv")
    os.mkfifo(folder / "fifo")
    assert {p.path for p in problems(folder, "RA105")} == {"results.csv", "fifo"}
    assert "is not a regular file" in problems(folder, "RA102")[0].message


def test_a_link_alone_breaks_only_its_rule(tmp_path: Path) -> None:
    folder = copy(tmp_path)
    (folder / "link").symlink_to("results.csv")
    assert codes(folder) == {"RA105"}


@pytest.mark.parametrize("other", ["RESULTS.CSV", "Results.csv"])
def test_names_that_differ_in_case_collide(tmp_path: Path, other: str) -> None:
    folder = copy(tmp_path)
    (folder / other).write_text("x")
    assert len(problems(folder, "RA106")) == 1


def test_names_that_differ_in_composition_collide(tmp_path: Path) -> None:
    folder = copy(tmp_path)
    for form in ("NFC", "NFD"):
        (folder / unicodedata.normalize(form, "\u00e9")).write_text("x")
    assert len(problems(folder, "RA106")) == 1


def test_a_wrong_git_blob_is_not_a_weak_digest(tmp_path: Path) -> None:
    folder = copy(tmp_path)
    with edit(folder, "receipt.json") as receipt:
        dependency = receipt["predicate"]["buildDefinition"]["resolvedDependencies"][1]
        dependency["digest"]["gitBlob"] = "0" * 40
    assert codes(folder) == {"RA302"}


def test_a_pointer_in_an_ignored_file_counts_too(tmp_path: Path) -> None:
    folder = copy(tmp_path)
    (folder / "loss.sh").write_text("version https://git-lfs.github.com/spec/v1\nsize 3\n")
    assert [p.path for p in problems(folder, "RA108")] == ["loss.sh"]
