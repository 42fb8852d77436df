"""Small supplements over a table of items, written to disk and read by the strict reader."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlvraudit.audit.evidence.supplement import Evidence
from rlvraudit.audit.rules import RULES
from rlvraudit.audit.rules.rule import Held, Outcome, Problem, Skipped
from rlvraudit.audit.supplements import open_supplement

ORIGIN = {"source": "made by a test", "revision": "1", "level": "L2"}
Claim = dict[str, Any]


def table(base: str, new: str, start: int = 1) -> bytes:
    """Return a CSV table from two strings of scores, a digit per item, `base` rows first."""
    rows = [f"{m},{i},{s}" for m, ss in (("base", base), ("new", new)) for i, s in
            enumerate(ss, start)]  # fmt: skip
    return "\n".join(["method,item,score", *rows, ""]).encode()


def claim(*reported: dict[str, Any], asserts: str = "higher", **changes: Any) -> Claim:
    """Return a claim about `items.csv` in which `new` is compared with `base`."""
    value = {
        "id": "it",
        "statement": "new solves more than base",
        "kind": "comparison",
        "scope": {},
        "evidence": ["items.csv"],
        "compares": {"treatment": "new", "baseline": "base", "asserts": asserts},
        "reported": list(reported),
    }
    return {**value, **changes}


def supplement(folder: Path, files: Mapping[str, tuple[str, bytes]], *claims: Claim) -> Evidence:
    """Write files, by path with their type, and a manifest that lists them; read all of it."""
    artifacts = []
    for path, (kind, data) in files.items():
        (folder / path).write_bytes(data)
        digest = hashlib.sha256(data).hexdigest()
        artifacts.append({"path": path, "sha256": digest, "type": f"{kind}/1", "origin": ORIGIN})
    manifest = {
        "format": "rlvr-supplement/1",
        "papers": [],
        "artifacts": artifacts,
        "claims": list(claims),
    }
    (folder / "supplement.json").write_text(json.dumps(manifest))
    evidence = open_supplement(folder)
    assert not evidence.faults, evidence.faults
    return evidence


def of_items(folder: Path, data: bytes, *claims: Claim) -> Evidence:
    """Return a supplement of one table, `items.csv`."""
    return supplement(folder, {"items.csv": ("item-results", data)}, *claims)


def outcomes(evidence: Evidence, code: str) -> list[Outcome]:
    """Return what a rule says; it must say something."""
    found = list(RULES[code].check(evidence))
    assert found
    return found


def problems(evidence: Evidence, code: str) -> list[Problem]:
    """Return the problems that a rule finds."""
    return [o for o in outcomes(evidence, code) if isinstance(o, Problem)]


def recomputed(evidence: Evidence, code: str) -> set[str]:
    """Return the pointers into the manifest of the numbers that a rule calls recomputed."""
    held = (o for o in outcomes(evidence, code) if isinstance(o, Held))
    return {h.pointer for h in held if h.path == "supplement.json" and h.numbers is True}


def skipped(evidence: Evidence, code: str) -> list[str]:
    """Return the reasons for which a rule skipped something."""
    return [o.reason for o in outcomes(evidence, code) if isinstance(o, Skipped)]
