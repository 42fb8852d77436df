"""Trials: what must not matter to a loss, and what must."""

from rlvraudit.audit.implementations.trials.trial import Trial
from rlvraudit.kernels.registry import collect

TRIALS = collect(Trial, __name__, __path__)

__all__ = ["TRIALS", "Trial"]
