"""The error allowed to what an objective computes in a dtype: `ball` run through the objective."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from rlvraudit.kernels.ball import FORMATS, Ball, Floats, Precision
from rlvraudit.kernels.objective import Objective


def exact(values: Any, dtype: str) -> Ball:
    """Return `values`, exactly representable in `dtype`, as balls in its compute precision."""
    compute = "float32" if dtype in ("float16", "bfloat16") else dtype
    return Ball(values, 0.0, FORMATS[compute])


def output_bound(ball: Ball, dtype: str) -> Floats:
    """Return the error allowed to `ball` once it has been rounded to `dtype`."""
    precision = FORMATS[dtype]
    rounding = precision.roundoff * (np.abs(ball.centre) + ball.radius) + precision.tiny
    return ball.radius + (0.0 if precision == ball.precision else rounding)


def bounded_outputs(
    objective: Objective, inputs: Mapping[str, Any], params: Mapping[str, Any], dtype: str
) -> dict[str, Ball]:
    """Return each floating-point output of `objective` in FP64, with the error allowed to it.

    Args:
        objective: The objective; one without a tolerance of its own.
        inputs: Its inputs, as NumPy arrays; floating-point ones are exactly as given.
        params: Its parameters.
        dtype: What the inputs are computed from; gradients are rounded to it at the end.
    """
    balls = {name: _as_input(value, dtype) for name, value in inputs.items()}
    outputs = objective.evaluate(**balls, **params)
    return {
        name: Ball(ball.centre, _allowed(name, ball, dtype), ball.precision)
        for name, ball in outputs.items()
        if isinstance(ball, Ball)
    }


def error_bound(
    objective: Objective, inputs: Mapping[str, Any], params: Mapping[str, Any], dtype: str
) -> dict[str, Floats]:
    """Return the error allowed to each floating-point output; see `bounded_outputs`."""
    balls = bounded_outputs(objective, inputs, params, dtype)
    return {name: ball.radius for name, ball in balls.items()}


def _allowed(name: str, ball: Ball, dtype: str) -> Floats:
    return output_bound(ball, dtype) if name.startswith("grad_") else ball.radius


def _as_input(value: Any, dtype: str) -> Any:
    """Return floats, and single numbers of any kind, as balls; masks and tokens as they are."""
    array = np.asarray(value)
    return exact(array, dtype) if array.ndim == 0 or array.dtype.kind == "f" else array


__all__ = [
    "FORMATS",
    "Ball",
    "Precision",
    "bounded_outputs",
    "error_bound",
    "exact",
    "output_bound",
]
