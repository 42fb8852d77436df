"""Which names a supplement may use: relative, normalised, portable, inside the tree."""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import chain

RESERVED = frozenset(
    chain(
        ("con", "prn", "aux", "nul", "conin$", "conout$"),
        (f"{port}{digit}" for port in ("com", "lpt") for digit in "0123456789¹²³"),
    )
)
NOT_PORTABLE = '<>:"|?*'
UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
LONGEST_PATH = 1024
LONGEST_PART = 255


def unsafe(path: str) -> str:
    """Return why `path` can't be used as a name inside a supplement, or "" if it can."""
    if not path:
        return "is empty"
    if len(path) > LONGEST_PATH:
        return f"has {len(path)} characters, at most {LONGEST_PATH} are portable"
    if path.startswith("/"):
        return "is absolute"
    if re.match(r"[A-Za-z]:", path):
        return "begins with a drive letter"
    if "\\" in path:
        return "contains a backslash"
    if unicodedata.normalize("NFC", path) != path:
        return "is not in Unicode normal form NFC"
    return next(filter(None, map(_unsafe_part, path.split("/"))), "")


def _unsafe_part(part: str) -> str:
    if part == "":
        return "has an empty part"
    if part in (".", ".."):
        return f"has a part {part!r}"
    bad = next((c for c in part if unicodedata.category(c) in UNPRINTABLE), None)
    if bad is not None:
        return f"contains the control or invisible character U+{ord(bad):04X}"
    if any(character in NOT_PORTABLE for character in part):
        return "contains one of the characters " + " ".join(NOT_PORTABLE)
    if part[-1] in ". ":
        return "has a part that ends in a dot or a space"
    if part.split(".")[0].rstrip().casefold() in RESERVED:
        return f"uses the reserved device name {part.split('.')[0]!r}"
    if len(part.encode("utf-8")) > LONGEST_PART:
        return f"has a part of more than {LONGEST_PART} bytes"
    return ""


def folded(path: str) -> str:
    """Return `path` as a file system that ignores case and composition sees it."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def collisions(paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each path that is another's twin after folding, beside the first of them.

    A folder counts too: `Runs/a.json` and `runs/b.json` meet in one folder on some systems.
    """
    seen: dict[str, str] = {}
    for path in sorted(set(paths)):
        parts = path.split("/")
        for end in range(1, len(parts) + 1):
            prefix = "/".join(parts[:end])
            first = seen.setdefault(folded(prefix), prefix)
            if first != prefix:
                yield path, first
                break
