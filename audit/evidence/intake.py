"""What reading hands on: the caps, a file as it was read, and what could not be read."""

from dataclasses import dataclass

from rlvraudit.audit.errors import UnreadableError

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """Caps on what is read; whichever is reached is named in a finding."""

    files: int = 20_000
    depth: int = 32
    file_bytes: int = 256 * MIB
    total_bytes: int = 512 * MIB
    json_bytes: int = 16 * MIB
    json_depth: int = 64
    integer_digits: int = 100
    line_bytes: int = MIB
    header_bytes: int = 4 * MIB
    findings: int = 1000


LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class File:
    """A regular file that was opened once: `data` are the very bytes that were hashed.

    `data` is None where the contents are of a format that is never read.
    """

    path: str
    size: int
    sha256: str
    git_blob: str
    data: bytes | None = None


@dataclass(frozen=True, slots=True)
class Fault:
    """Why something below the manifest was not read, or is not what it says.

    `slug` is the slug of the rule that reports it; `incomplete` means that no pass is possible,
    because a cap was reached or a file could not be opened.
    """

    slug: str
    path: str
    message: str
    pointer: str = ""
    line: int | None = None
    column: int | None = None
    incomplete: bool = False


class MalformedError(UnreadableError):
    """Bytes that are not what they should be, and where: `line` and `column` count from 1."""

    def __init__(self, message: str, line: int | None = None, column: int | None = None) -> None:
        """Keep the message and the place apart, so that a report can show both."""
        super().__init__(message)
        self.line = line
        self.column = column
