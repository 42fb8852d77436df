"""What precision a loss computes in inside: the smallest step of its inputs that it answers to.

Central differences of its value at two steps agree as long as rounding is far below the step.
"""

import numpy as np

from rlvraudit.audit.implementations.implementation import VARIABLES
from rlvraudit.audit.implementations.recovery.bench import Bench, Floats, Inputs

STEPS = (
    ("float64", 1e-7, 1e-4, 1e-4),
    ("float32", 1e-3, 1e-2, 1e-2),
    ("float32", 3e-4, 2e-3, 1e-2),
)
"""Two steps at which quotients agree where it computes so, and to how much.

A step may cross a kink, which is why FP32 has two pairs.
"""
LARGE = 0.3
"""A step that any precision answers to."""


def inner_precision(bench: Bench, inputs: Inputs) -> str:
    """Return "float64", "float32" or "half"."""
    name = next((n for n in (*VARIABLES, "rewards") if n in inputs and bench.takes(n)), None)
    rest = bench.run(inputs)
    if rest.dtype in ("float16", "bfloat16"):
        return "half"
    if name is None or rest.error:
        return "float64"
    way = _direction(inputs[name], rest.gradient)
    scale = 0.05 * float(np.abs(rest.gradient).sum())
    answers = _quotient(bench, inputs, name, LARGE * way)
    if not np.isfinite(answers) or answers == 0.0:
        return "float64"  # it does not answer to its variable at all
    for precision, fine, coarse, agreement in STEPS:
        small, large = (_quotient(bench, inputs, name, h * way) / h for h in (fine, coarse))
        if large and abs(small - large) <= agreement * max(abs(large), scale):
            return precision
    return "half"


def _direction(values: Floats, gradient: Floats) -> Floats:
    """Return a direction in which the value changes as much as it can, each element by its own."""
    own: Floats = 1.0 + 0.3 * np.cos(np.arange(values.size)).reshape(values.shape)
    return own * np.sign(gradient) if gradient.shape == values.shape and gradient.any() else own


def _quotient(bench: Bench, inputs: Inputs, name: str, step: Floats) -> float:
    """Return half the difference of the values at a step ahead and behind."""
    ahead, behind = (bench.run({**inputs, name: inputs[name] + s}) for s in (step, -step))
    if ahead.error or behind.error or ahead.value.size != behind.value.size:
        return float("nan")
    return float((ahead.value.ravel()[0] - behind.value.ravel()[0]) / 2.0)
