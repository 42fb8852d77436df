"""The objectives on random and extreme inputs, against their definitions in 60-digit arithmetic."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvraudit.kernels.bounds import FORMATS, error_bound
from rlvraudit.kernels.objectives import OBJECTIVES

mpmath: Any = pytest.importorskip("mpmath")
mp = mpmath.mp
mpf = mpmath.mpf
DTYPES = ("float16", "bfloat16", "float32", "float64")
Inputs = dict[str, Any]
Truth = Mapping[str, Any]


def phi(z: Any) -> Any:
    return -mpmath.expm1(-max(z, mpf(0)))


def ratios(inputs: Inputs, prefix: Callable[[list[Any], int], Any]) -> Any:
    """Return for each row its active columns and the ratio of each."""
    for row, mask in enumerate(inputs["mask"]):
        columns = [int(c) for c in np.flatnonzero(mask)]
        logs = [
            mpf(float(inputs["logp_policy"][row, c])) - mpf(float(inputs["logp_old"][row, c]))
            for c in columns
        ]
        yield row, columns, [prefix(logs, t) for t in range(1, len(logs) + 1)]


def surrogate(
    inputs: Inputs, prefix: Any, bounds: Callable[[int, int], tuple[Any, Any]], weight: Any
) -> Truth:
    loss = mpf(0)
    gradient = np.full(inputs["mask"].shape, mpf(0), dtype=object)
    for row, columns, ratio in ratios(inputs, prefix):
        for t, (column, r) in enumerate(zip(columns, ratio, strict=True), start=1):
            a = mpf(float(inputs["advantages"][row]))
            low, high = bounds(t, len(columns))
            w = weight(len(columns))
            loss -= w * min(r * a, min(max(r, low), high) * a)
            if not ((a > 0 and r > high) or (a < 0 and r < low)):
                gradient[row, column] = -a * r * w
    return {"loss": loss, "grad_logp_policy": gradient}


def grpo(inputs: Inputs, params: Mapping[str, Any]) -> Truth:
    rows = len(inputs["mask"])
    bounds = (1 - mpf(params["clip_low"]), 1 + mpf(params["clip_high"]))
    return surrogate(
        inputs,
        lambda logs, t: mpmath.exp(logs[t - 1]),
        lambda t, length: bounds,
        lambda length: mpf(1) / (rows * length),
    )


def gspo(inputs: Inputs, params: Mapping[str, Any]) -> Truth:
    rows = len(inputs["mask"])
    bounds = (1 - mpf(params["clip_low"]), 1 + mpf(params["clip_high"]))
    return surrogate(
        inputs,
        lambda logs, t: mpmath.exp(mpmath.fsum(logs) / len(logs)),
        lambda t, length: bounds,
        lambda length: mpf(1) / (rows * length),
    )


def tapo(inputs: Inputs, params: Mapping[str, Any]) -> Truth:
    tokens = int(inputs["mask"].sum())
    least, most = mpf(params["clip_min"]), mpf(params["clip_max"])

    def bounds(t: int, length: int) -> tuple[Any, Any]:
        tail = 1 / mpmath.sqrt(length)
        part = (1 / mpmath.sqrt(t) - tail) / (1 - tail) if length > 1 else mpf(1)
        width = least + (most - least) * part
        return 1 - width, 1 + width

    return surrogate(
        inputs,
        lambda logs, t: mpmath.exp(mpmath.fsum(logs[:t]) / t),
        bounds,
        lambda length: mpf(1) / tokens,
    )


def replay(inputs: Inputs, params: Mapping[str, Any]) -> Truth:
    rows = len(inputs["mask"])
    loss, gradient = mpf(0), np.full(inputs["mask"].shape, mpf(0), dtype=object)
    for row, mask in enumerate(inputs["mask"]):
        columns = [int(c) for c in np.flatnonzero(mask)]
        policy = [mpf(float(inputs["logp_policy"][row, c])) for c in columns]
        delta = [
            mpf(float(inputs["logp_base"][row, c])) - p
            for c, p in zip(columns, policy, strict=True)
        ]
        gate, weights = phi(mpmath.fsum(delta) / len(delta)), [phi(d) for d in delta]
        total = mpf(params["denominator_epsilon"]) + mpmath.fsum(weights)
        for column, w, p in zip(columns, weights, policy, strict=True):
            loss += gate * w * -p / total / rows
            gradient[row, column] = -gate * w / total / rows
    return {"loss": loss, "grad_logp_policy": gradient}


def k3(inputs: Inputs, params: Mapping[str, Any]) -> Truth:
    mask = inputs["mask"]
    tokens, value = int(mask.sum()), mpf(0)
    gradient = np.full(mask.shape, mpf(0), dtype=object)
    for row, column in np.argwhere(mask):
        d = mpf(float(inputs["logp_policy"][row, column]))
        d -= mpf(float(inputs["logp_reference"][row, column]))
        value += (mpmath.expm1(-d) + d) / tokens
        gradient[row, column] = -mpmath.expm1(-d) / tokens
    return {"value": value, "grad_logp_policy": gradient}


CASES: dict[str, tuple[Callable[[Inputs, Mapping[str, Any]], Truth], dict[str, Any], str]] = {
    "grpo.surrogate": (
        grpo,
        {"clip_low": 0.2, "clip_high": 0.28, "aggregation": "seq-mean-token-mean"},
        "logp_old",
    ),
    "gspo.surrogate": (gspo, {"clip_low": 0.0003, "clip_high": 0.0004}, "logp_old"),
    "tapo.surrogate": (
        tapo,
        {"clip_min": 0.125, "clip_max": 0.25, "aggregation": "token-mean"},
        "logp_old",
    ),
    "tar.replay_nll": (replay, {"denominator_epsilon": 1e-8}, "logp_base"),
    "kl.estimate": (k3, {"estimator": "k3"}, "logp_reference"),
}


def held(values: Any, dtype: str) -> Any:
    """Return `values` rounded to `dtype`, as FP64."""
    return torch.tensor(values).to(getattr(torch, dtype)).double().numpy()


def draw(rng: np.random.Generator, other: str, spread: float, dtype: str) -> Inputs:
    shape = (int(rng.integers(1, 4)), int(rng.integers(1, 6)))
    first = -rng.exponential(size=shape) * 10.0 ** rng.uniform(-3, 1) - 1e-3
    second = np.minimum(first + spread * rng.normal(size=shape), 0.0)
    mask = rng.random(shape) < 0.8
    mask[np.arange(shape[0]), rng.integers(0, shape[1], shape[0])] = True
    inputs: Inputs = {"logp_policy": held(first, dtype), other: held(second, dtype)}
    for name in inputs:
        inputs[name][~mask] = np.nan
    if other == "logp_old":
        inputs["advantages"] = held(rng.normal(size=shape[0]), dtype)
    return {**inputs, "mask": mask}


def compare(name: str, inputs: Inputs, dtype: str) -> None:
    define, params, _ = CASES[name]
    objective = OBJECTIVES[name]
    with mpmath.workdps(60):
        truth = define(inputs, params)
    tensors = {
        key: torch.tensor(v, dtype=getattr(torch, dtype) if v.dtype.kind == "f" else None)
        for key, v in inputs.items()
    }
    outputs = objective.evaluate(**tensors, **params)
    bounds = error_bound(objective, inputs, params, dtype)
    for output, computed in outputs.items():
        right = np.array(truth[output], dtype=object)
        got, bound = computed.double().numpy(), np.asarray(bounds[output])
        format_ = FORMATS[dtype if output.startswith("grad_") or dtype == "float64" else "float32"]
        for at in np.ndindex(right.shape):
            error = abs(mpf(float(got[at])) - right[at])
            beyond = abs(right[at]) + mpf(float(np.nan_to_num(bound[at], posinf=0.0)))
            overflow = beyond > format_.largest
            assert error <= mpf(float(bound[at])) or (overflow and np.isinf(got[at])), (
                output,
                at,
                got[at],
                mpmath.nstr(right[at], 20),
                bound[at],
            )


@pytest.mark.parametrize("name", CASES)
@given(
    seed=st.integers(0, 2**32),
    spread=st.sampled_from([1e-6, 1e-3, 0.1, 1.0, 30.0]),
    dtype=st.sampled_from(DTYPES),
)
@settings(max_examples=60, deadline=None)
def test_the_error_bound_holds_on_random_inputs(
    name: str, seed: int, spread: float, dtype: str
) -> None:
    compare(name, draw(np.random.default_rng(seed), CASES[name][2], spread, dtype), dtype)


EDGES = [
    # Elsewhere exp of the difference has no representation in any arithmetic here.
    *(("tar.replay_nll", dtype) for dtype in DTYPES),
    *((name, dtype) for name in CASES if "surrogate" in name for dtype in DTYPES[:3]),
    ("kl.estimate", "float16"),
]


@pytest.mark.parametrize(("name", "dtype"), EDGES)
@pytest.mark.parametrize("factor", [0.9, 1e-2, 2.0**-10])
def test_the_error_bound_holds_at_the_edges_of_the_range(
    name: str, dtype: str, factor: float
) -> None:
    edge = -factor * FORMATS[dtype].largest
    first = np.array([[edge, -1.0, 0.0], [-1.0, edge, -2.0], [edge, edge, -1.0]])
    second = np.array([[-1.0, -1.0, 0.0], [edge, -2.0, -2.0], [edge, -1.0, edge]])
    inputs: Inputs = {
        "logp_policy": held(first, dtype),
        CASES[name][2]: held(second, dtype),
        "mask": np.ones((3, 3), np.bool_),
    }
    if CASES[name][2] == "logp_old":
        inputs["advantages"] = held(np.array([1.0, 1.0, -1.0]), dtype)
    compare(name, inputs, dtype)
