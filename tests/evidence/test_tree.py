"""Reading a tree: one open per file, no link followed, nothing that blocks, caps that are named."""

import hashlib
import os
import socket
import subprocess
from pathlib import Path

import pytest

from rlvraudit.audit.errors import UnreadableError
from rlvraudit.audit.evidence.intake import LIMITS, Limits
from rlvraudit.audit.evidence.tree import git_blob, read_tree


def slugs(folder: Path, limits: Limits = LIMITS) -> dict[str, str]:
    return {fault.path: fault.slug for fault in read_tree(folder, limits)[1]}


def test_files_carry_the_digests_of_the_bytes_that_are_kept(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b.txt").write_bytes(b"x\r\ny")
    files, faults = read_tree(tmp_path, LIMITS)
    assert faults == ()
    assert files["a/b.txt"].data == b"x\r\ny"
    assert files["a/b.txt"].sha256 == hashlib.sha256(b"x\r\ny").hexdigest()
    assert files["a/b.txt"].size == 4


def test_git_names_blobs_the_same(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"some\nbytes\0")
    command = ["git", "hash-object", "--no-filters", str(tmp_path / "f")]
    expected = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    assert git_blob(b"some\nbytes\0") == expected


def test_links_out_of_the_tree_are_named_and_never_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("secret")
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "file").symlink_to(tmp_path / "outside" / "secret.txt")
    (tree / "folder").symlink_to(tmp_path / "outside")
    (tree / "dangling").symlink_to(tree / "nowhere")
    (tree / "loop").symlink_to(tree)
    files, _ = read_tree(tree, LIMITS)
    assert files == {}
    assert slugs(tree) == dict.fromkeys(
        ("file", "folder", "dangling", "loop"), "symlink-or-special"
    )


def test_fifos_and_sockets_are_named_and_do_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        assert slugs(tmp_path) == dict.fromkeys(("fifo", "s"), "symlink-or-special")


def test_a_file_swapped_for_a_link_after_listing_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_text("secret")
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "a").write_text("harmless")
    opened = os.open

    def swap(path: str, flags: int, *rest: int, dir_fd: int | None = None) -> int:
        if path == "a":
            (tree / "a").unlink()
            (tree / "a").symlink_to(tmp_path / "secret")
        return opened(path, flags, *rest, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", swap)
    files, faults = read_tree(tree, LIMITS)
    assert files == {}
    assert [fault.incomplete for fault in faults] == [True]


def test_each_file_is_opened_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abc":
        (tmp_path / name).write_text(name)
    opened, names = os.open, list[str]()

    def count(path: str, flags: int, *rest: int, dir_fd: int | None = None) -> int:
        names.append(str(path))
        return opened(path, flags, *rest, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", count)
    read_tree(tmp_path, LIMITS)
    assert names == [str(tmp_path), "a", "b", "c"]


@pytest.mark.parametrize(
    ("limits", "path", "named"),
    [
        (Limits(files=2), ".", "more than 2 files"),
        (Limits(files=4), "d/e", "more than 4 files"),
        (Limits(file_bytes=9), "big", "more than 9 for one file"),
        (Limits(total_bytes=11), "big", "more than 11 bytes in all"),
        (Limits(depth=2), "d/e", "deeper than 2"),
    ],
)
def test_every_cap_is_named_when_it_is_reached(
    tmp_path: Path, limits: Limits, path: str, named: str
) -> None:
    (tmp_path / "d" / "e").mkdir(parents=True)
    (tmp_path / "d" / "e" / "deep").write_bytes(b"")
    for name, size in (("a", 2), ("big", 10)):
        (tmp_path / name).write_bytes(bytes(size))
    faults = {fault.path: fault for fault in read_tree(tmp_path, limits)[1]}
    assert faults[path].slug == "limit-reached"
    assert faults[path].incomplete
    assert named in faults[path].message


def test_a_file_at_the_cap_is_read(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(bytes(10))
    assert list(read_tree(tmp_path, Limits(file_bytes=10, total_bytes=10))[0]) == ["big"]


def test_folders_of_version_control_are_named_and_not_entered(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text("x")
    assert read_tree(tmp_path, LIMITS)[0] == {}
    assert slugs(tmp_path) == {".git": "metadata-leak"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root can read everything")
def test_a_file_without_permission_leaves_the_reading_incomplete(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    (tmp_path / "a").chmod(0)
    assert slugs(tmp_path) == {"a": "limit-reached"}


def test_a_folder_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError):
        read_tree(tmp_path / "nowhere", LIMITS)


def test_names_that_are_no_utf8_are_kept_apart(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"a\xff")).write_text("x")
    assert list(read_tree(tmp_path, LIMITS)[0]) == ["a\udcff"]
