"""What precision a loss computes in inside: the smallest step of its inputs that it answers to.

Central differences of its value at two steps agree as long as rounding is far below the step.
"""

from typing import Any

import numpy as np

from rlvraudit.audit.implementations.implementation import VARIABLES
from rlvraudit.audit.implementations.recovery.bench import Bench, Inputs

STEPS = {"float64": (1e-7, 1e-4, 1e-4), "float32": (1e-3, 1e-2, 1e-2)}
"""Two steps at which quotients agree where it computes so, and to how much."""


LARGE = 0.3
"""A step that any precision answers to."""


def inner_precision(bench: Bench, inputs: Inputs) -> str:
    """Return "float64", "float32" or "half"."""
    if bench.run(inputs).dtype in ("float16", "bfloat16"):
        return "half"
    answers = _quotient(bench, inputs, LARGE)
    if not np.isfinite(answers) or answers == 0.0:
        return "float64"  # it does not answer to its variable at all
    for precision, (fine, coarse, agreement) in STEPS.items():
        small, large = (_quotient(bench, inputs, step) for step in (fine, coarse))
        if large and abs(small - large) <= agreement * abs(large):
            return precision
    return "half"


def _quotient(bench: Bench, inputs: Inputs, step: float) -> float:
    name = next((n for n in (*VARIABLES, "rewards") if n in inputs and bench.takes(n)), None)
    if name is None:
        return np.nan
    ahead, behind = (bench.run(_moved(inputs, name, h)) for h in (step, -step))
    if ahead.error or behind.error or ahead.value.size != behind.value.size:
        return np.nan
    return float((ahead.value.ravel()[0] - behind.value.ravel()[0]) / (2.0 * step))


def _moved(inputs: Inputs, name: str, step: float) -> dict[str, Any]:
    """Return the inputs with every active element moved by its own multiple of the step."""
    values = inputs[name]
    direction = np.cos(np.arange(values.size, dtype=np.float64)).reshape(values.shape)
    return {**inputs, name: values + step * direction}
