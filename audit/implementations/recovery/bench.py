"""Where an implementation is tried out: inputs with chosen log-ratios, and what comes back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvraudit.audit.implementations.implementation import Implementation, Outcome, observe

Floats = NDArray[np.float64]
Inputs = dict[str, NDArray[Any]]
GOLDEN = 0.6180339887498949
TOLERANCE = {"float64": 1e-9, "float32": 5e-6, "half": 3e-2}
"""By the precision that code computes in inside, relative and absolute."""


class ProbeError(Exception):
    """The implementation raised, or gave no number, where a probe needs one: on these inputs."""

    def __init__(self, why: str, inputs: "Inputs | None" = None) -> None:
        """Say what it did, and on what."""
        super().__init__(why)
        self.inputs = inputs


@dataclass(frozen=True, slots=True)
class Bench:
    """An implementation with the parameters that it is called with, on a device.

    `precision` is what it computes in inside; `per_token` says that it takes advantages as
    `[B, T]` alone.
    """

    implementation: Implementation
    parameters: Mapping[str, Any] = field(default_factory=dict)
    device: str = "cpu"
    precision: str = "float64"
    per_token: bool = False

    @property
    def tolerance(self) -> float:
        """What value and gradient may differ by from the closed form in FP64."""
        return TOLERANCE[self.precision]

    def takes(self, name: str) -> bool:
        """Whether the implementation asks for the input."""
        return name in self.implementation.inputs

    def run(self, inputs: Inputs, dtype: str = "float64", **parameters: Any) -> Outcome:
        """Call it."""
        return observe(
            self.implementation,
            _per_token(inputs) if self.per_token else inputs,
            dtype=dtype,
            device=self.device,
            **{**self.parameters, **parameters},
        )

    def shown(self, inputs: Inputs) -> Inputs:
        """Return what it is called with, for an example."""
        given = _per_token(inputs) if self.per_token else inputs
        return {name: values for name, values in given.items() if self.takes(name)}

    def value(self, inputs: Inputs) -> float:
        """Return the value of a loss in FP64.

        Raises:
            ProbeError: It raised, or the value is not finite.
        """
        outcome = self.run(inputs)
        if outcome.error:
            raise ProbeError(outcome.error, inputs)
        if not np.isfinite(outcome.value).all():
            raise ProbeError(f"the value is {float(outcome.value):g}", inputs)
        return float(outcome.value)

    def where(self, **changes: Any) -> "Bench":
        """Return the bench with other parameters of the implementation."""
        return replace(self, parameters={**self.parameters, **changes})

    def close(self, a: Any, b: Any, slack: float = 0.0) -> bool:
        """Whether two results are equal within the tolerance and what a convention adds."""
        return close(a, b, self.tolerance + slack)


def _per_token(inputs: Inputs) -> Inputs:
    mask, advantages = inputs["mask"], inputs["advantages"]
    wide = advantages[:, None] * mask if advantages.ndim == 1 else advantages
    return {**inputs, "advantages": wide}


def close(a: Any, b: Any, tolerance: float) -> bool:
    """Whether two results are finite and equal within a tolerance, relative and absolute."""
    x, y = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if x.shape != y.shape or not np.isfinite(x).all() or not np.isfinite(y).all():
        return False
    return bool(np.all(np.abs(x - y) <= tolerance * (1.0 + np.abs(y))))


def nice(number: float, tolerance: float) -> float:
    """Return the short decimal that `number` stands for within rounding, or itself."""
    for digits in range(7):
        rounded = round(number, digits)
        if abs(rounded - number) <= 4.0 * tolerance * max(abs(number), 1.0) and (
            rounded or abs(number) < 1e-8
        ):
            return rounded
    return number


def spread(shape: tuple[int, ...], low: float, high: float, start: int = 1) -> Floats:
    """Return numbers that fill [low, high) evenly: multiples of the golden ratio, modulo 1."""
    steps = np.arange(start, start + int(np.prod(shape)), dtype=np.float64)
    unit: Floats = (steps * GOLDEN) % 1.0
    return (low + (high - low) * unit).reshape(shape)


def mask_of(lengths: Sequence[int], width: int | None = None) -> NDArray[np.bool_]:
    """Return the mask of right-padded rows."""
    columns = np.arange(max(lengths) if width is None else width)
    mask: NDArray[np.bool_] = columns < np.asarray(lengths)[:, None]
    return mask


def batch(
    mask: NDArray[np.bool_],
    x: Any = 0.0,
    advantages: Any = 1.0,
    d: Any = 0.0,
    level: float | None = None,
) -> Inputs:
    """Return a batch with log-ratios `x` and differences from the reference `d`.

    Args:
        mask: Active tokens, `[B, T]`.
        x: logp_policy - logp_old.
        advantages: One for all, or `[B]`, or `[B, T]`.
        d: logp_policy - logp_reference.
        level: logp_policy of every token, where it should be one number.
    """
    shape = mask.shape
    x, d = (np.broadcast_to(np.asarray(v, np.float64), shape) for v in (x, d))
    start = spread(shape, -2.2, -0.3) if level is None else np.full(shape, level)
    # Neither policy, old nor reference may be a positive log-probability.
    policy = start + np.minimum(0.0, np.minimum(x, d))
    inputs = {
        "logp_policy": policy,
        "logp_old": policy - x,
        "logp_reference": policy - d,
        "logp_base": policy,
        "advantages": np.broadcast_to(np.asarray(advantages, np.float64), shape[:1])
        if np.ndim(advantages) < 2
        else np.asarray(advantages, np.float64),
    }
    clean = {
        name: np.where(mask, values, 0.0) if values.ndim == 2 else values.copy()
        for name, values in inputs.items()
    }
    return {**clean, "mask": mask}
