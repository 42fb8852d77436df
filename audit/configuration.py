"""What a project says to rlvr-audit in its `pyproject.toml`, under `[tool.rlvr-audit]`.

It counts only where the caller names no path, that is in the caller's own project: a supplement
that is under review can grant itself no exception.
"""

import tomllib
from pathlib import Path
from typing import Any

from rlvraudit.audit.errors import UsageError

FILE = "pyproject.toml"


def excluded_folders(project: Path) -> tuple[Path, ...]:
    """Return the folders below `project` in which no supplement is looked for.

    Raises:
        UsageError: The file is no TOML, or `exclude` is no list of relative paths.
    """
    table = _table(project / FILE)
    unknown = sorted(table.keys() - {"exclude"})
    if unknown:
        raise UsageError(f"{FILE}: tool.rlvr-audit.{unknown[0]} is unknown; expected exclude")
    exclude = table.get("exclude", [])
    if not isinstance(exclude, list) or not all(_is_below(path) for path in exclude):
        raise UsageError(
            f"{FILE}: tool.rlvr-audit.exclude is {exclude!r}; expected a list of folders below it"
        )
    return tuple(project / path for path in exclude)


def _is_below(path: Any) -> bool:
    return isinstance(path, str) and bool(path) and not {"/", ".."} & set(Path(path).parts)


def _table(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        tool = tomllib.loads(path.read_text("utf-8")).get("tool", {})
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from error
    table = tool.get("rlvr-audit", {}) if isinstance(tool, dict) else {}
    if not isinstance(table, dict):
        raise UsageError(f"{path}: tool.rlvr-audit is {table!r}; expected a table")
    return table
