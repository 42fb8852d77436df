"""Closed forms put together from parts: published conventions, and known faults."""

from rlvraudit.audit.implementations.closed_forms.part import Part
from rlvraudit.kernels.registry import collect

PARTS = collect(Part, __name__, __path__)


def parts(which: str) -> dict[str, Part]:
    """Return the parts of one kind by name, the published conventions first."""
    found = [part for part in PARTS.values() if part.part == which]
    return {part.name: part for part in sorted(found, key=lambda part: bool(part.fault))}
