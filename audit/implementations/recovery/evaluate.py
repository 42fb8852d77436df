"""A closed form put together from parts, evaluated on a batch: value and gradient on the host."""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from rlvraudit.audit.implementations.implementation import VARIABLES, Outcome
from rlvraudit.audit.implementations.recovery.bench import Bench, Inputs


class Form(Protocol):
    """Anything with a differentiable loss; `slack` is what its conventions leave open."""

    @property
    def slack(self) -> float:
        """What value and gradient may differ by, over and above rounding."""
        ...

    def loss(self, inputs: Mapping[str, Any]) -> Any:
        """Return the loss of a batch of tensors."""
        ...


def evaluate(form: Form, inputs: Inputs, dtype: str = "float64") -> Outcome:
    """Return value and gradient of a closed form on inputs rounded to `dtype`."""
    import torch

    tensors = {
        name: torch.tensor(v, dtype=getattr(torch, dtype) if v.dtype.kind == "f" else None)
        for name, v in inputs.items()
    }
    variable = next((tensors[name] for name in VARIABLES if name in tensors), None)
    if variable is None:
        return Outcome(form.loss(tensors).double().numpy(), np.zeros(0))
    variable.requires_grad_()
    loss, gradient = form.loss(tensors), None
    if loss.requires_grad:
        (gradient,) = torch.autograd.grad(loss, variable, allow_unused=True)
    return Outcome(
        loss.detach().double().numpy(),
        np.zeros(tuple(variable.shape)) if gradient is None else gradient.double().numpy(),
    )


def differs(bench: Bench, form: Form, inputs: Inputs) -> str:
    """Return what differs from the closed form: "", "value", "gradient" or "value and gradient"."""
    seen, expected = bench.run(inputs), evaluate(form, inputs)
    if seen.error:
        return "value and gradient"
    parts = {"value": (seen.value, expected.value), "gradient": (seen.gradient, expected.gradient)}
    return " and ".join(name for name, pair in parts.items() if not bench.close(*pair, form.slack))
