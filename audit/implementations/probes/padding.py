"""Padding invariance: neither what stands at inactive positions nor their number matters."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvraudit.audit.implementations.allowance import KEPT, allowance
from rlvraudit.audit.implementations.backend import Backend, inputs_on, on_host
from rlvraudit.audit.implementations.judgement import Judgement, judge_floats, output_dtype
from rlvraudit.audit.implementations.probes.probe import (
    Observation,
    ProbeResult,
    Subject,
    worst_of,
)
from rlvraudit.audit.implementations.vector_files import Case
from rlvraudit.kernels.objective import Objective

GARBAGE = (np.nan, np.inf, -np.inf, 7.0)
OUT_OF_RANGE = 1_000_000


def padding(subject: Subject, backend: Backend) -> Iterator[ProbeResult]:
    """Yield, for each dtype, whether outputs stay as they are and padding gets exact zeros."""
    if not any("mask" in case.inputs for case in subject.cases):
        return
    for dtype in sorted({case.dtype for case in subject.cases}):
        seen = tuple(_observe(subject.objective, c, backend) for c in subject.of_dtype(dtype))
        yield ProbeResult("padding", subject.objective.name, backend.name, dtype, seen)


@lru_cache(maxsize=KEPT)
def padded(case: Case) -> Case:
    """Return the case with garbage at every inactive position and in columns that are added."""
    mask = case.inputs["mask"]
    longer = _longer(mask, mask.ndim - 1, False)
    inputs = {
        name: longer if name == "mask" else _with_garbage(values, mask, longer)
        for name, values in case.inputs.items()
    }
    return replace(case, inputs=inputs)


def _longer(values: NDArray[Any], axis: int, fill: Any) -> NDArray[Any]:
    shape = list(values.shape)
    shape[axis] = len(GARBAGE)
    return np.concatenate([values, np.full(shape, fill, values.dtype)], axis=axis)


def _with_garbage(values: NDArray[Any], mask: NDArray[Any], longer: NDArray[Any]) -> NDArray[Any]:
    if values.shape[: mask.ndim] != mask.shape:
        return values  # one per trajectory: it has no inactive positions
    wide = _longer(values, mask.ndim - 1, 0)
    inactive = np.argwhere(~longer)
    cycle = np.resize(GARBAGE, len(inactive)) if wide.dtype.kind == "f" else OUT_OF_RANGE
    wide[~longer] = np.reshape(cycle, (-1,) + (1,) * (wide.ndim - mask.ndim))
    return wide


def _observe(objective: Objective, case: Case, backend: Backend) -> Observation:
    balls, with_garbage = allowance(objective, case), padded(case)
    allowed = allowance(objective, with_garbage)
    inputs = inputs_on(backend, with_garbage.inputs, case.dtype)
    with np.errstate(all="ignore"):
        outputs = objective.evaluate(**inputs, **case.params)
    host = {name: on_host(value) for name, value in outputs.items()}
    mask = with_garbage.inputs["mask"]
    judged = [
        judgement
        for name, ball in balls.items()
        for judgement in _judge(name, host, ball, allowed, (mask, case.dtype))
    ]
    trivial = not any(np.any(ball.centre) for ball in balls.values())
    return Observation(case.id, trivial, worst_of(judged))


def _judge(
    name: str,
    host: Mapping[str, NDArray[Any]],
    ball: Any,
    allowed: Mapping[str, Any],
    context: tuple[NDArray[Any], str],
) -> Iterator[Judgement]:
    mask, dtype = context
    computed, original = host[name], tuple(slice(size) for size in ball.shape)
    bound = ball.radius + allowed[name].radius[original]
    kept = computed[original]
    yield judge_floats(name, kept, ball.centre, bound, output_dtype(name, dtype))
    if computed.shape[: mask.ndim] == mask.shape:
        leaked = computed[~mask]
        if np.any(leaked != 0) or np.any(np.isnan(leaked)):
            yield Judgement(np.inf, f"{name} is not exactly 0 at inactive positions")
