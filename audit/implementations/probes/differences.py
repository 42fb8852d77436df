"""Central differences of an objective's forward in FP64, detached parts held constant.

The tolerance comes from the numbers themselves: the rounding error of the two values over the
step, and the truncation error as the quotient at twice the step shows it.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from rlvraudit.audit.implementations.allowance import allowance
from rlvraudit.audit.implementations.judgement import Judgement, judge_floats
from rlvraudit.audit.implementations.probes.held import Held
from rlvraudit.audit.implementations.probes.probe import (
    Observation,
    ProbeResult,
    Subject,
    worst_of,
)
from rlvraudit.audit.implementations.vector_files import Case
from rlvraudit.kernels.objective import Objective

STEP = 2.0**-17
"""Near the cube root of FP64's unit roundoff, where rounding and truncation balance."""
DIRECTIONS = 3
SEED = 1273


def differences(subject: Subject) -> Iterator[ProbeResult]:
    """Yield whether the closed-form gradient predicts how the forward changes, in FP64."""
    if subject.objective.forward is None:
        return
    seen = tuple(_observe(subject.objective, case) for case in subject.of_dtype("float64"))
    yield ProbeResult("differences", subject.objective.name, "numpy", "float64", seen)


def _observe(objective: Objective, case: Case) -> Observation:
    outputs = allowance(objective, case)
    name = f"grad_{objective.wrt}"
    (value,) = (ball for key, ball in outputs.items() if key != name)
    generator = np.random.default_rng(SEED)
    judged = []
    for _ in range(DIRECTIONS):
        direction = _direction(case.inputs[objective.wrt], generator)
        judged.append(_compare(objective, case, direction, outputs[name], float(value.radius)))
    return Observation(case.id, not np.any(outputs[name].centre), worst_of(judged))


def _direction(x: Any, generator: np.random.Generator) -> Any:
    """Return signs times powers of two: a step of each element that is exact, or nearly so."""
    return generator.choice([-1.0, -0.5, 0.5, 1.0], x.shape)


def _compare(
    objective: Objective, case: Case, direction: Any, gradient: Any, rounding: float
) -> Judgement:
    fine, coarse = (_quotient(objective, case, direction, h) for h in (STEP, 2 * STEP))
    predicted = np.sum(gradient.centre * direction)
    bound = rounding / STEP + abs(coarse - fine) + np.sum(gradient.radius * np.abs(direction))
    return judge_floats(
        "directional derivative", np.asarray(fine), np.asarray(predicted), bound, "float64"
    )


def _quotient(objective: Objective, case: Case, direction: Any, step: float) -> float:
    ahead, behind = (_moved(objective, case, direction * h) for h in (step, -step))
    return (ahead - behind) / (2.0 * step)


def _moved(objective: Objective, case: Case, step: Any) -> float:
    """Return the forward at x + step, with detached parts at x."""
    assert objective.forward is not None
    inputs = {
        name: Held(values, values) if values.dtype.kind == "f" else values
        for name, values in case.inputs.items()
    }
    x = case.inputs[objective.wrt]
    inputs[objective.wrt] = Held(x, x + step)
    with np.errstate(all="ignore"):
        return float(objective.forward(**inputs, **case.params).moved)
