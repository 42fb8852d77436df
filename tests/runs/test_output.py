"""Outputs are written once: all of it, or the record of a failure, and nothing is touched twice."""

import json
from pathlib import Path

import pytest

from rlvraudit.audit.errors import UsageError
from rlvraudit.audit.evidence.validation import violations
from rlvraudit.audit.runs.output import write_once


def files(folder: Path) -> dict[str, bytes]:
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def test_everything_appears_at_once_at_the_end(tmp_path: Path) -> None:
    with write_once(tmp_path / "out", "it", {"run": 1}) as output:
        output.write("a.json", b"1")
        output.write("b/c.json", b"2")
        assert not (tmp_path / "out").exists()
    assert files(tmp_path) == {"out/a.json": b"1", "out/b/c.json": b"2"}
    assert output.written == ["a.json", "b/c.json"]


def test_an_empty_folder_is_no_output_yet(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with write_once(tmp_path / "out", "it", {}) as output:
        output.write("a", b"1")
    assert files(tmp_path) == {"out/a": b"1"}


@pytest.mark.parametrize("kind", ["file", "folder", "link", "dangling link"])
def test_an_existing_output_is_an_error_and_stays_as_it_is(tmp_path: Path, kind: str) -> None:
    out = tmp_path / "out"
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "old").write_text("old")
    match kind:
        case "file":
            out.write_text("old")
        case "folder":
            out.mkdir()
            (out / "old").write_text("old")
        case "link":
            out.symlink_to(tmp_path / "full")
        case _:
            out.symlink_to(tmp_path / "nowhere")
    before = files(tmp_path)
    with (
        pytest.raises(UsageError, match="written once"),
        write_once(out, "it", {}),
    ):
        pytest.fail("the run began")
    assert files(tmp_path) == before


def test_a_failed_run_leaves_its_failure_and_nothing_else(tmp_path: Path) -> None:
    def run() -> None:
        with write_once(tmp_path / "out", "it", {"run-7": 7}) as output:
            output.write("a.json", b"1")
            output.stage = "update 2"
            raise FloatingPointError("not finite, see /home/someone/log")

    with pytest.raises(FloatingPointError):
        run()
    assert list(files(tmp_path)) == ["out/failure.json"]
    failure = json.loads((tmp_path / "out" / "failure.json").read_bytes())
    assert violations(failure, "failure", 10) == ([], False)
    assert failure["stage"] == "update 2"
    assert failure["seeds"] == {"run-7": 7}
    assert failure["error"]["type"] == "FloatingPointError"
    assert "someone" not in failure["error"]["message"]


def test_an_interrupted_run_is_a_failed_one(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), write_once(tmp_path / "out", "it", {}):
        raise KeyboardInterrupt
    assert list(files(tmp_path)) == ["out/failure.json"]


def test_an_output_that_appears_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    def run() -> None:
        with write_once(tmp_path / "out", "it", {}) as output:
            output.write("a", b"ours")
            (tmp_path / "out").mkdir()
            (tmp_path / "out" / "a").write_bytes(b"theirs")

    with pytest.raises(UsageError, match="appeared meanwhile"):
        run()
    assert files(tmp_path) == {"out/a": b"theirs"}


@pytest.mark.parametrize("name", ["../a", "/a", "a\\b", "", "a/../b", "con"])
def test_unsafe_names_are_refused(tmp_path: Path, name: str) -> None:
    with (
        pytest.raises(ValueError, match="'"),
        write_once(tmp_path / "out", "it", {}) as output,
    ):
        output.write(name, b"1")
    assert list(files(tmp_path)) == ["out/failure.json"]


def test_a_file_is_written_once_too(tmp_path: Path) -> None:
    def run() -> None:
        with write_once(tmp_path / "out", "it", {}) as output:
            output.write("a", b"1")
            output.write("a", b"2")

    with pytest.raises(FileExistsError):
        run()
