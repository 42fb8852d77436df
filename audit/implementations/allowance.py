"""The error allowed to an objective's outputs in one case, computed once for all backends."""

from functools import lru_cache

from rlvraudit.audit.implementations.vector_files import Case
from rlvraudit.kernels.bounds import Ball, bounded_outputs
from rlvraudit.kernels.objective import Objective

KEPT = 4096


@lru_cache(maxsize=KEPT)
def allowance(objective: Objective, case: Case) -> dict[str, Ball]:
    """Return each floating-point output in FP64 with the error allowed to it."""
    return bounded_outputs(objective, case.inputs, case.params, case.dtype)


def bounds(objective: Objective, case: Case) -> dict[str, object]:
    """Return the errors alone: the objective's own tolerance where it has one."""
    if objective.absolute is not None:
        return dict.fromkeys(case.expected or (), objective.absolute)
    return {name: ball.radius for name, ball in allowance(objective, case).items()}
