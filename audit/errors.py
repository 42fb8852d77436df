"""Everything that the toolkit raises on purpose.

    AuditError                  a message for a person, and the exit status that goes with it
    ├── UsageError              2  the command line or a configuration is wrong
    ├── UnreadableError         3  a file can't be read, or is not what it should be
    ├── LimitError              3  a cap was reached; the message names it
    ├── DeviceError             3  the device that was asked for is not there
    └── NothingToCheckError     5  no manifest, no claim, no receipt

The command line prints the message and exits with the status.
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import ClassVar


class Exit(IntEnum):
    """Exit statuses, the same for every command and output format."""

    PASSED = 0
    FINDINGS = 1
    USAGE = 2
    INCOMPLETE = 3
    NOTHING_TO_CHECK = 5


SEVERITY = (Exit.INCOMPLETE, Exit.FINDINGS, Exit.NOTHING_TO_CHECK, Exit.PASSED)
"""Which status stands for several supplements: the first of these that one of them has."""


def worst(statuses: Iterable[Exit]) -> Exit:
    """Return the status of several audits together: never a pass where one of them is none."""
    return min(statuses, key=SEVERITY.index)


class AuditError(Exception):
    """Base of all of them."""

    exit: ClassVar[Exit] = Exit.INCOMPLETE


class UsageError(AuditError):
    """The command line or a configuration is wrong."""

    exit = Exit.USAGE


class UnreadableError(AuditError):
    """A file can't be read, or is not what it should be."""


class LimitError(AuditError):
    """A cap was reached; the message names it."""


class DeviceError(AuditError):
    """The device that was asked for is not there; no other is used in its place."""


class NothingToCheckError(AuditError):
    """No manifest, no claim, no receipt: a pass would be vacuous."""

    exit = Exit.NOTHING_TO_CHECK


REPORT_IT = "Please report it, with what this prints when RLVR_AUDIT_TRACEBACK=1 is set."


def describe(error: Exception) -> tuple[str, Exit]:
    """Return what a person needs to know of any error, and the exit status that goes with it."""
    from rlvraudit.kernels.arrays import InvalidInputError

    match error:
        case NothingToCheckError():
            return f"nothing to check: {error}", error.exit
        case AuditError():
            return f"error: {error}", error.exit
        case InvalidInputError():
            return f"error: {error}", Exit.USAGE
        case OSError(filename=str(name), strerror=str(why)):
            return f"error: {name}: {why}", Exit.INCOMPLETE
        case OSError(strerror=str(why)):  # of a stream: a full disk, say
            return f"error: what was found could not be written: {why}", Exit.INCOMPLETE
    what = f"{type(error).__name__}: {error}"
    return f"error: a fault of rlvr-audit itself: {what}\n{REPORT_IT}", Exit.INCOMPLETE
