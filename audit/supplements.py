"""Opening a supplement: the strict reader of evidence, with the parsers of the other wings."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rlvraudit.audit.errors import NothingToCheckError
from rlvraudit.audit.evidence.loading import find, load
from rlvraudit.audit.evidence.supplement import Evidence
from rlvraudit.audit.results.formats import parse

PARSERS = MappingProxyType({"item-results": parse})


def open_supplement(folder: Path, options: Mapping[str, Any] = MappingProxyType({})) -> Evidence:
    """Return the evidence in `folder`, every artifact parsed by its type.

    Raises:
        UnreadableError: `folder` can't be opened.
    """
    return load(folder, parsers=PARSERS, options=options)


def find_supplements(paths: Iterable[Path], excluded: Iterable[Path] = ()) -> list[Path]:
    """Return the folders of the supplements at or below `paths`, each once, in order.

    Those at or below an `excluded` folder are left out.

    Raises:
        NothingToCheckError: There is none below one of them, so that a pass would not be about it.
    """
    left_out = tuple(excluded)
    found: dict[Path, None] = {}
    for path in paths:
        below = [f for f in find(path) if not any(f.is_relative_to(out) for out in left_out)]
        if not below:
            place = "the current folder" if path == Path() else path
            raise NothingToCheckError(
                f"no supplement.json below {place}.  Start one with: rlvr-audit init DIR"
            )
        found.update(dict.fromkeys(below))
    return list(found)
