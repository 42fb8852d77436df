"""Known wrong variants of the objectives: what an audit must catch, and what it names."""

from rlvraudit.audit.implementations.variants.variant import Variant
from rlvraudit.kernels.registry import collect

VARIANTS = collect(Variant, __name__, __path__)

__all__ = ["VARIANTS", "Variant"]
