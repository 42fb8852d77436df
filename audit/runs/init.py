"""The start of a supplement: a manifest of the files that are there, to be edited by hand."""

import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from rlvraudit.audit.errors import UsageError
from rlvraudit.audit.evidence.formats import unsupported
from rlvraudit.audit.evidence.intake import LIMITS, File, MalformedError
from rlvraudit.audit.evidence.kinds import KINDS
from rlvraudit.audit.evidence.receipt import STATEMENT
from rlvraudit.audit.evidence.strict_json import loads
from rlvraudit.audit.evidence.supplement import MANIFEST
from rlvraudit.audit.evidence.tree import read_tree

BY_SUFFIX = {".safetensors": "tensors", ".csv": "item-results", ".jsonl": "item-results"}
EDIT = "EDIT: say why this is no evidence, or move it to artifacts with its type"


def starter(folder: Path) -> dict[str, Any]:
    """Return a valid manifest that lists what lies in `folder`, each file with a guessed type.

    It has no claims, so that checking it says so until somebody states what the files show.

    Raises:
        UnreadableError: `folder` can't be opened.
    """
    files, _ = read_tree(folder, LIMITS)
    guessed = {path: _guess(file) for path, file in files.items() if path != MANIFEST}
    return {
        "format": "rlvr-supplement/1",
        "title": "EDIT: what this supplement belongs to",
        "papers": [],
        "artifacts": [
            {"path": path, "sha256": files[path].sha256, "type": type_}
            for path, type_ in guessed.items()
            if type_
        ],
        "ignored": [{"path": path, "reason": EDIT} for path, type_ in guessed.items() if not type_],
        "claims": [],
    }


def start(folder: Path, manifest: bytes) -> Path:
    """Write the manifest of a new supplement and return its path.

    Raises:
        UsageError: There is one already; it is not touched.
    """
    path = folder / MANIFEST
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
    except FileExistsError as error:
        raise UsageError(f"{path} exists already; it is not overwritten") from error
    except OSError as error:
        raise UsageError(f"{path} can't be written: {error.strerror}") from error
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(manifest)
    return path


def _guess(file: File) -> str:
    """Return the type that the contents or the name suggest, or "" if neither does."""
    data = file.data
    if data is None or unsupported(file.path, data):
        return ""
    suffix = PurePosixPath(file.path).suffix.casefold()
    name = _declared(data) if suffix == ".json" else BY_SUFFIX.get(suffix, "")
    return f"{name}/{KINDS[name].version}" if name in KINDS else ""


def _declared(data: bytes) -> str:
    """Return the type that a JSON document gives itself."""
    try:
        value = loads(data)
    except MalformedError:
        return ""
    if not isinstance(value, Mapping):
        return ""
    if value.get("_type") == STATEMENT:
        return "receipt"
    return str(value.get("format", "")).partition("/")[0]
