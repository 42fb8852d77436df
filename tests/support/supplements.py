"""Small supplements on disk, with right digests unless a test makes them wrong."""

import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rlvraudit.audit.check import Audit, check
from rlvraudit.audit.rules import RULES
from rlvraudit.audit.rules.rule import Problem
from rlvraudit.audit.supplements import open_supplement
from rlvraudit.fixtures import ROOT

GOOD = ROOT / "rules" / "RA001" / "pass"
"""A receipt, the item results that it is about, and an ignored file of code."""
SPLIT = (
    b'{"format": "split-manifest/1", "dataset": {"name": "d", "revision": "1"},'
    b' "splits": [{"name": "t", "role": "test", "items": 1, "ids": ["q"]}]}'
)


def write(folder: Path, files: Mapping[str, bytes], types: Mapping[str, str]) -> Path:
    """Write `files` and a manifest that lists those in `types` with their digests."""
    folder.mkdir(parents=True, exist_ok=True)
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    artifacts = [
        {"path": path, "sha256": hashlib.sha256(files.get(path, b"")).hexdigest(), "type": type_}
        for path, type_ in types.items()
    ]
    manifest: dict[str, Any] = {
        "format": "rlvr-supplement/1",
        "papers": [],
        "artifacts": artifacts,
        "claims": [],
    }
    (folder / "supplement.json").write_text(json.dumps(manifest))
    return folder


def copy(tmp_path: Path, source: Path = GOOD) -> Path:
    """Return a writable copy of an example."""
    return Path(shutil.copytree(source, tmp_path / "supplement"))


def edit(folder: Path, path: str) -> "Edit":
    """Return a context in which a JSON file is edited; the manifest follows."""
    return Edit(folder, path)


class Edit:
    """The value of a JSON file below a supplement, written back with its digest renewed."""

    def __init__(self, folder: Path, path: str) -> None:
        """Remember which file."""
        self.folder, self.path = folder, path

    def __enter__(self) -> Any:
        """Return the value."""
        self.value = json.loads((self.folder / self.path).read_bytes())
        return self.value

    def __exit__(self, *error: object) -> None:
        """Write the value, and the new digest into the manifest."""
        (self.folder / self.path).write_text(json.dumps(self.value, indent=1))
        if self.path != "supplement.json":
            renew(self.folder)


def renew(folder: Path) -> None:
    """Make every digest in the manifest right again."""
    manifest = json.loads((folder / "supplement.json").read_bytes())
    for entry in manifest["artifacts"]:
        file = folder / entry["path"]
        if file.is_file():
            entry["sha256"] = hashlib.sha256(file.read_bytes()).hexdigest()
    (folder / "supplement.json").write_text(json.dumps(manifest, indent=1))


def audited(folder: Path, **options: Any) -> Audit:
    """Return the audit of a supplement under every rule."""
    return check(open_supplement(folder, options), RULES)


def problems(folder: Path, code: str, **options: Any) -> list[Problem]:
    """Return what one rule finds."""
    found = audited(folder, **options).findings
    return [finding.problem for finding in found if finding.rule.name == code]


def codes(folder: Path, **options: Any) -> set[str]:
    """Return the codes of all findings."""
    return {finding.rule.name for finding in audited(folder, **options).findings}


def skips(folder: Path, code: str, **options: Any) -> Iterable[str]:
    """Return why a rule skipped something."""
    return next(run.skipped for run in audited(folder, **options).runs if run.rule.name == code)
