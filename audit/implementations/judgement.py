"""Whether computed outputs are right: the error of each as a multiple of its bound.

Decimal strings are compared within the bound, integers and booleans exactly, null not at all.
A result that overflows is right where the true one lies outside the range of its dtype.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvraudit.kernels.bounds import FORMATS

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Judgement:
    """The largest error as a multiple of its bound, and in words what is wrong, if anything."""

    worst: float
    fault: str = ""

    @property
    def passed(self) -> bool:
        """Whether everything is right."""
        return not self.fault


def judge(
    outputs: Mapping[str, NDArray[Any]],
    expected: Mapping[str, Any],
    bounds: Mapping[str, Any],
    dtype: str,
) -> Judgement:
    """Return the worst judgement over all outputs.

    Args:
        outputs: What was computed, on the host.
        expected: The right values, by the same names, with leaves as in a vector file.
        bounds: The errors allowed to floating-point outputs.
        dtype: That of the inputs.
    """
    judged = [
        _judge(name, outputs[name], value, bounds.get(name), output_dtype(name, dtype))
        for name, value in expected.items()
    ]
    faults = [j.fault for j in judged if j.fault]
    return Judgement(max((j.worst for j in judged), default=0.0), "; ".join(faults))


def output_dtype(name: str, dtype: str) -> str:
    """Return the dtype of an output: gradients come in that of the inputs, others as computed."""
    narrow = dtype in ("float16", "bfloat16") and not name.startswith("grad_")
    return "float32" if narrow else dtype


def _judge(name: str, computed: NDArray[Any], value: Any, bound: Any, dtype: str) -> Judgement:
    leaves = np.array(value, dtype=object)
    if leaves.shape != computed.shape:
        shapes = f"{computed.shape}, expected {leaves.shape}"
        return Judgement(np.inf, f"{name} has shape {shapes}")
    if not leaves.size:
        return Judgement(0.0)
    exact = np.array([isinstance(leaf, bool | int) for leaf in leaves.ravel()])
    if exact.any():
        return _judge_exactly(name, computed, leaves)
    true = np.array([_float(leaf) for leaf in leaves.ravel()]).reshape(leaves.shape)
    if bound is None or computed.dtype.kind != "f":
        return Judgement(np.inf, f"{name} is {computed.dtype}, expected floating-point numbers")
    return judge_floats(name, computed, true, bound, dtype)


def _judge_exactly(name: str, computed: NDArray[Any], leaves: NDArray[Any]) -> Judgement:
    if computed.tolist() == leaves.tolist():
        return Judgement(0.0)
    return Judgement(np.inf, f"{name} is {computed.tolist()}, expected {leaves.tolist()}")


def _float(leaf: str | None) -> np.longdouble:
    if leaf is None:
        return np.longdouble("nan")
    # Where FP64 underflows or overflows it says enough; elsewhere more digits are worth having.
    near = float(leaf)
    return np.longdouble(leaf) if near and np.isfinite(near) else np.longdouble(near)


def judge_floats(name: str, computed: Floats, true: Any, bound: Any, dtype: str) -> Judgement:
    """Return the judgement of one floating-point output; NaN in `true` is not specified."""
    allowed = np.broadcast_to(np.asarray(bound, np.float64), computed.shape)
    ratio = error_ratio(computed, true, allowed, FORMATS[dtype].largest)
    if not ratio.size:
        return Judgement(0.0)
    at = np.unravel_index(int(np.argmax(ratio)), ratio.shape)
    worst = float(ratio[at])
    if worst <= 1.0:
        return Judgement(worst)
    place = f"{name}[{', '.join(map(str, at))}]" if at else name
    return Judgement(
        worst,
        f"{place} is {computed[at]:.9g}, expected {float(true[at]):.9g}, bound {allowed[at]:.2g}",
    )


def error_ratio(computed: Floats, true: Any, bound: Floats, largest: float) -> Floats:
    """Return |computed - true| / bound; infinite where NaN, or wrong and nothing is allowed."""
    with np.errstate(all="ignore"):
        error = np.abs(computed - true)
        ratio = np.where((bound > 0) & np.isfinite(bound), error / bound, np.inf)
        overflowed = np.abs(true) + np.where(np.isfinite(bound), bound, 0.0) > largest
        right = (computed == true) | (overflowed & (computed == np.copysign(np.inf, true)))
        ratio = np.where(right | np.isnan(true), 0.0, ratio)
    return np.where(np.isnan(ratio), np.inf, ratio).astype(np.float64)
