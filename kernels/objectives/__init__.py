"""The objectives of the papers: one reference each, with value and closed-form gradient."""

from rlvraudit.kernels.objective import Objective
from rlvraudit.kernels.registry import collect

OBJECTIVES = collect(Objective, __name__, __path__)

__all__ = ["OBJECTIVES"]
