"""Families of objectives: losses that are asked the same questions."""

from rlvraudit.audit.implementations.families.family import Declared, Family, Recovery
from rlvraudit.kernels.registry import collect

FAMILIES = collect(Family, __name__, __path__)

__all__ = ["FAMILIES", "Declared", "Family", "Recovery"]
