"""Automatic differentiation of an objective's forward against its closed-form gradient."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from rlvraudit.audit.implementations.allowance import allowance
from rlvraudit.audit.implementations.backend import Backend, inputs_on, on_host
from rlvraudit.audit.implementations.judgement import judge_floats
from rlvraudit.audit.implementations.probes.probe import Observation, ProbeResult, Subject
from rlvraudit.audit.implementations.vector_files import Case
from rlvraudit.kernels.objective import Objective


def autograd(subject: Subject, backend: Backend) -> Iterator[ProbeResult]:
    """Yield, for each dtype, whether PyTorch's gradient is the closed form within its bound."""
    if subject.objective.forward is None:
        return
    for dtype in backend.dtypes:
        cases = _in_bfloat16(subject, backend) if dtype == "bfloat16" else subject.of_dtype(dtype)
        seen = tuple(_observe(subject.objective, case, backend) for case in cases)
        yield ProbeResult("autograd", subject.objective.name, backend.name, dtype, seen)


def _in_bfloat16(subject: Subject, backend: Backend) -> tuple[Case, ...]:
    """Return the FP16 cases with their inputs rounded to BF16, which no vector is given in."""
    return tuple(
        replace(
            case,
            dtype="bfloat16",
            inputs={
                name: on_host(backend.asarray(values, "bfloat16" if _is_float(values) else None))
                for name, values in case.inputs.items()
            },
        )
        for case in subject.of_dtype("float16")
    )


def _is_float(values: Any) -> bool:
    return bool(values.dtype.kind == "f")


def _observe(objective: Objective, case: Case, backend: Backend) -> Observation:
    name = f"grad_{objective.wrt}"
    chained = replace(objective, evaluate=objective.chain or objective.evaluate)
    ball = allowance(chained, case)[name]
    computed = gradient(objective, case, backend)
    judgement = judge_floats(name, computed, ball.centre, ball.radius, case.dtype)
    return Observation(case.id, not np.any(ball.centre), judgement)


def gradient(objective: Objective, case: Case, backend: Backend) -> Any:
    """Return PyTorch's gradient of the forward with respect to `wrt`, on the host."""
    assert objective.forward is not None
    inputs = inputs_on(backend, case.inputs, case.dtype)
    variable = inputs[objective.wrt].requires_grad_()
    objective.forward(**inputs, **case.params).backward()
    return on_host(variable.grad)
