"""Which level of evidence each artifact has, and where it says so."""

from collections.abc import Iterator, Mapping
from typing import Any

from rlvraudit.audit.evidence.kinds import KINDS
from rlvraudit.audit.evidence.receipt import receipts
from rlvraudit.audit.evidence.supplement import Document, Evidence

TRACES = ("tar-trace", "tapo-trace", "tensors")
"""The types of artifact that hold training rewards, replay losses and verifier bits."""
MEASURED = frozenset(kind.name for kind in KINDS.values() if kind.measured)
"""The types of artifact that hold local measurements, which some rule recomputes."""
FORMAL = "L2"
"""The level from which on evidence is more than a diagnostic. Levels compare as text."""


def levels(evidence: Evidence) -> Mapping[str, str]:
    """Return the level of each artifact that has one: the lowest that is stated for it.

    A receipt states the level of its subjects, the manifest's `origin` that of data from
    elsewhere, a trace its own; a mechanism contract is L0 by definition.
    """
    stated: dict[str, str] = {}
    for path, level in _stated(evidence):
        stated[path] = min(level, stated.get(path, level))
    return stated


def statements(document: Document) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the places of a document that state its level, with their pointers."""
    value = document.value
    if document.artifact.type == "receipt":
        yield "/predicate/evidence", value["predicate"]["evidence"]
    elif document.artifact.type in MEASURED and isinstance(value, Mapping) and "level" in value:
        yield "", value


def _stated(evidence: Evidence) -> Iterator[tuple[str, str]]:
    for receipt in receipts(evidence):
        yield from ((subject.name, receipt.level) for subject in receipt.subjects)
    for artifact in evidence.artifacts:
        if artifact.origin:
            yield artifact.path, artifact.origin["level"]
        if artifact.type == "mechanism-contracts":
            yield artifact.path, "L0"
    for path, document in evidence.documents.items():
        if document.artifact.type != "receipt":
            yield from ((path, statement["level"]) for _, statement in statements(document))
