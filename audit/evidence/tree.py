"""The files below a folder, each opened once: the bytes kept are the bytes hashed."""

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rlvraudit.audit.errors import UnreadableError
from rlvraudit.audit.evidence.formats import never_read
from rlvraudit.audit.evidence.intake import Fault, File, Limits

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
REGULAR = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
NAMED = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
REPOSITORIES = (".git", ".hg", ".svn", ".bzr", ".jj")
"""Folders of version control: named in a finding, never entered."""


@dataclass(slots=True)
class _Reading:
    limits: Limits
    files: dict[str, File] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    seen: int = 0
    total: int = 0

    def refuse(self, slug: str, path: str, message: str, *, incomplete: bool = False) -> None:
        self.faults.append(Fault(slug, path, message, incomplete=incomplete))


def read_tree(folder: Path, limits: Limits) -> tuple[dict[str, File], tuple[Fault, ...]]:
    """Return every regular file below `folder` by relative path, and what was not read.

    Raises:
        UnreadableError: `folder` itself is not a folder that can be opened.
    """
    reading = _Reading(limits)
    try:
        descriptor = os.open(folder, FOLDER)
    except OSError as error:
        raise UnreadableError(f"{folder}: {error.strerror}") from error
    try:
        _read_folder(descriptor, "", 1, reading)
    finally:
        os.close(descriptor)
    return dict(sorted(reading.files.items())), tuple(reading.faults)


def read_named(path: Path, most: int) -> bytes:
    """Return the bytes of a file that the caller named; a link is followed, nothing ever blocks.

    Raises:
        UnreadableError: It can't be opened, is no regular file, or is larger than `most` bytes.
    """
    try:
        descriptor = os.open(path, NAMED)
    except OSError as error:
        raise UnreadableError(f"{path}: {error.strerror}") from error
    with os.fdopen(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableError(f"{path}: is {_what(status.st_mode)}, not a file")
        data = stream.read(most + 1)
    if len(data) > most:
        raise UnreadableError(f"{path}: larger than the {most:,} bytes that are read")
    return data


def _read_folder(descriptor: int, prefix: str, depth: int, reading: _Reading) -> None:
    for name, mode in _entries(descriptor, prefix, reading):
        path = f"{prefix}{name}"
        try:
            if stat.S_ISDIR(mode):
                _enter(descriptor, name, path, depth, reading)
            elif stat.S_ISREG(mode):
                _read_file(descriptor, name, path, reading)
            else:
                reading.refuse("symlink-or-special", path, f"is {_what(mode)}, not a file")
        except OSError as error:
            _refuse_unopened(path, error, reading)


def _entries(descriptor: int, prefix: str, reading: _Reading) -> list[tuple[str, int]]:
    """Return name and mode of what is in a folder, sorted.

    A folder that goes beyond the cap on files is left out whole: which of its files an operating
    system lists first is chance.
    """
    found = []
    with os.scandir(descriptor) as entries:
        for entry in entries:
            reading.seen += 1
            if reading.seen > reading.limits.files:
                message = f"more than {reading.limits.files} files: this folder was not read"
                folder = prefix.rstrip("/") or "."
                reading.refuse("limit-reached", folder, message, incomplete=True)
                return []
            found.append((entry.name, entry.stat(follow_symlinks=False).st_mode))
    return sorted(found)


def _enter(descriptor: int, name: str, path: str, depth: int, reading: _Reading) -> None:
    if name in REPOSITORIES:
        reading.refuse("metadata-leak", path, "is a folder of version control; it was not entered")
        return
    if depth >= reading.limits.depth:
        message = f"folders are nested deeper than {reading.limits.depth}: it was not entered"
        reading.refuse("limit-reached", path, message, incomplete=True)
        return
    inner = os.open(name, FOLDER | os.O_NOFOLLOW, dir_fd=descriptor)
    try:
        _read_folder(inner, f"{path}/", depth + 1, reading)
    finally:
        os.close(inner)


def _read_file(descriptor: int, name: str, path: str, reading: _Reading) -> None:
    opened = os.open(name, REGULAR, dir_fd=descriptor)
    with os.fdopen(opened, "rb", buffering=0) as stream:
        status = os.fstat(opened)
        if not stat.S_ISREG(status.st_mode):  # swapped since the folder was listed
            reading.refuse("symlink-or-special", path, f"is {_what(status.st_mode)}, not a file")
            return
        cap = _cap(reading)
        data = b"".join(_chunks(stream.fileno(), cap + 1)) if status.st_size <= cap else None
    if data is None or len(data) > cap:
        reading.refuse("limit-reached", path, _too_big(reading, status.st_size), incomplete=True)
        return
    reading.total += len(data)
    reading.files[path] = _file(path, data)


def _cap(reading: _Reading) -> int:
    return min(reading.limits.file_bytes, reading.limits.total_bytes - reading.total)


def _too_big(reading: _Reading, size: int) -> str:
    if size > reading.limits.file_bytes:
        return f"{size} bytes, more than {reading.limits.file_bytes} for one file: it was not read"
    return f"more than {reading.limits.total_bytes} bytes in all: it was not read"


def _chunks(descriptor: int, most: int) -> Iterator[bytes]:
    while most > 0 and (chunk := os.read(descriptor, min(most, 1 << 20))):
        most -= len(chunk)
        yield chunk


def _file(path: str, data: bytes) -> File:
    return File(
        path,
        len(data),
        hashlib.sha256(data).hexdigest(),
        git_blob(data),
        None if never_read(path, data) else data,
    )


def git_blob(data: bytes, algorithm: str = "sha1") -> str:
    """Return the id under which git keeps `data`: the digest of "blob N", NUL and the bytes.

    A repository uses SHA-1, or SHA-256 where it was made so.
    """
    digest = hashlib.new(algorithm, b"blob %d\0" % len(data), usedforsecurity=False)
    digest.update(data)
    return digest.hexdigest()


def _refuse_unopened(path: str, error: OSError, reading: _Reading) -> None:
    message = f"could not be read: {error.strerror}"
    reading.refuse("limit-reached", path, message, incomplete=True)


def _what(mode: int) -> str:
    names = {
        stat.S_ISLNK: "a symbolic link",
        stat.S_ISFIFO: "a FIFO",
        stat.S_ISSOCK: "a socket",
        stat.S_ISBLK: "a block device",
        stat.S_ISCHR: "a character device",
        stat.S_ISDIR: "a folder",
    }
    return next((name for is_kind, name in names.items() if is_kind(mode)), "something else")
