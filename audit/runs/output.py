"""Output that is written once: all of it appears at once, or a record of the failure does."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rlvraudit.audit.errors import UsageError
from rlvraudit.audit.evidence.names import unsafe
from rlvraudit.audit.evidence.private import redacted
from rlvraudit.audit.runs.documents import dump, timestamp

FAILURE = "failure.json"
LONGEST_MESSAGE = 500


@dataclass(slots=True)
class Output:
    """Files on their way into a folder that does not exist yet; `stage` names what is under way."""

    folder: Path
    stage: str = "start"
    written: list[str] = field(default_factory=list)

    def write(self, name: str, data: bytes) -> None:
        """Write one file.

        Raises:
            ValueError: The name is not safe, or was used before.
        """
        if reason := unsafe(name):
            raise ValueError(f"{name!r} {reason}")
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as stream:
            stream.write(data)
        self.written.append(name)


@contextmanager
def write_once(directory: Path, run: str, seeds: Mapping[str, int]) -> Iterator[Output]:
    """Yield an output; `directory` appears when the block ends, with everything written to it.

    If the block raises, `directory` holds nothing but `failure.json`, and the error goes on.

    Raises:
        UsageError: `directory` exists already and is not an empty folder; nothing is touched.
    """
    _refuse_existing(directory)
    started = datetime.now(UTC)
    directory.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=directory.parent))
    output = Output(folder)
    try:
        yield output
    except BaseException as error:
        failure = failure_record(run, output.stage, error, seeds, started)
        _leave_only(folder, dump(failure))
        _publish(folder, directory)
        raise
    else:
        _publish(folder, directory)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def failure_record(
    run: str, stage: str, error: BaseException, seeds: Mapping[str, int], started: datetime
) -> dict[str, Any]:
    """Return the record of a failed run; its message is sanitized."""
    message, _ = redacted(str(error))
    return {
        "format": "failure/1",
        "run": run,
        "stage": stage,
        "error": {"type": type(error).__name__, "message": message[:LONGEST_MESSAGE]},
        "seeds": dict(seeds),
        "started": timestamp(started),
        "finished": timestamp(datetime.now(UTC)),
    }


def _refuse_existing(directory: Path) -> None:
    if directory.is_symlink() or (directory.exists() and not directory.is_dir()):
        raise UsageError(f"{directory} exists already; outputs are written once")
    if directory.is_dir() and any(directory.iterdir()):
        raise UsageError(f"{directory} exists already and is not empty; outputs are written once")


def _publish(folder: Path, directory: Path) -> None:
    folder.chmod(0o777 & ~_umask())
    try:
        folder.rename(directory)  # fails, rather than replaces, where something came in between
    except OSError as error:
        raise UsageError(f"{directory} appeared meanwhile; outputs are written once") from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _leave_only(folder: Path, failure: bytes) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / FAILURE).write_bytes(failure)
