"""Opening a supplement: the strict reader of evidence, with the parsers of the other wings."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rlvraudit.audit.evidence.loading import load
from rlvraudit.audit.evidence.supplement import Evidence
from rlvraudit.audit.results.formats import parse

PARSERS = MappingProxyType({"item-results": parse})


def open_supplement(folder: Path, options: Mapping[str, Any] = MappingProxyType({})) -> Evidence:
    """Return the evidence in `folder`, every artifact parsed by its type.

    Raises:
        UnreadableError: `folder` can't be opened.
    """
    return load(folder, parsers=PARSERS, options=options)
