"""A loss under test: what it is called with, and what came back."""

import contextlib
import io
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvraudit.audit.errors import AuditError

INPUTS = (
    "logp_policy",
    "logp_old",
    "logp_base",
    "logp_reference",
    "advantages",
    "mask",
    "rewards",
    "groups",
    "logits",
    "target",
)
"""The names by which a function may ask for arrays; all but `groups` are the objectives' own.

`groups` is the number of each reward's group, where groups differ in size.
"""
VARIABLES = ("logp_policy", "logits")
"""What a loss is differentiated with respect to."""


@dataclass(frozen=True, slots=True)
class Implementation:
    """A function that is called by keyword with torch tensors, and how it came to be called.

    Attributes:
        name: As the user gave it: "my.losses:grpo", "trl".
        call: The function.
        inputs: The names of `INPUTS` that it asks for.
        parameters: What else it declares, with the value that it gets unless another is set.
        called: In words, what is called; for a framework with its version.
        finite_padding: Whether padding is finite on the code's own path, so that what NaN does
            there is robustness, not a fault.
        unknown: Why a pass would say nothing: a version that the adapter was not written for.
        swallowed: The parameters that only its **kwargs take.
        unlike: What it is instead, where it is by its own account none of the objectives here.
    """

    name: str
    call: Callable[..., Any]
    inputs: tuple[str, ...]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    called: str = ""
    finite_padding: bool = False
    unknown: str = ""
    unlike: str = ""
    swallowed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came back, on the host in FP64: the value, and its gradient where one is defined.

    `error` says what was raised instead; `attached` whether the value had a gradient at all;
    `modified` names inputs that were written into.
    """

    value: NDArray[np.float64]
    gradient: NDArray[np.float64]
    dtype: str = ""
    attached: bool = True
    error: str = ""
    modified: tuple[str, ...] = ()

    @property
    def finite(self) -> bool:
        """Whether value and gradient are finite numbers throughout."""
        return bool(np.isfinite(self.value).all() and np.isfinite(self.gradient).all())


Arrays = Mapping[str, NDArray[Any]]


def observe(
    implementation: Implementation,
    inputs: Arrays,
    *,
    dtype: str = "float64",
    device: str = "cpu",
    wrt: str = "",
    **parameters: Any,
) -> Outcome:
    """Call the implementation once, and differentiate what it returns.

    Args:
        implementation: What is called.
        inputs: Arrays by name; those that it does not ask for are left out.
        dtype: What floating-point inputs are rounded to.
        device: Where the tensors live.
        wrt: What it is differentiated with respect to, where not the policy or its logits.
        parameters: Values of declared parameters that replace the implementation's own.
    """
    import torch

    tensors = {
        name: _tensor(torch, values, dtype, device)
        for name, values in inputs.items()
        if name in implementation.inputs
    }
    names = (wrt,) if wrt else VARIABLES
    variable = next((tensors[name] for name in names if name in tensors), None)
    if variable is not None:
        variable.requires_grad_()
    try:
        with _quiet():
            before = {name: tensor.detach().clone() for name, tensor in tensors.items()}
            returned = implementation.call(**tensors, **{**implementation.parameters, **parameters})
            outcome = _outcome(torch, returned, variable)
            return replace(outcome, modified=tuple(_modified(torch, before, tensors)))
    except AuditError:  # an adapter lacks something: that says nothing of the loss
        raise
    except (Exception, SystemExit) as error:
        return _failed(f"{type(error).__name__}: {error}")


def _modified(torch: Any, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    for name, tensor in after.items():
        now = tensor.detach()
        same = (before[name] == now) | (before[name].isnan() & now.isnan())
        if before[name].shape != now.shape or not bool(same.all()):
            yield name


def _tensor(torch: Any, values: NDArray[Any], dtype: str, device: str) -> Any:
    wanted = getattr(torch, dtype) if values.dtype.kind == "f" else None
    return torch.tensor(values, dtype=wanted, device=device)


@contextlib.contextmanager
def _quiet() -> Any:
    """Keep what the code under test prints or warns of out of the report."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


def _outcome(torch: Any, returned: Any, variable: Any) -> Outcome:
    value = returned[0] if isinstance(returned, tuple | list) and returned else returned
    if not isinstance(value, torch.Tensor):
        return _failed(f"it returned a {type(value).__name__}; expected a tensor")
    if variable is None:
        return Outcome(_host(value), np.zeros(0), str(value.dtype).removeprefix("torch."))
    if value.numel() != 1:
        return _failed(f"it returned shape {tuple(value.shape)}; expected a scalar tensor")
    gradient = None
    if value.requires_grad:
        (gradient,) = torch.autograd.grad(value.sum(), variable, allow_unused=True)
    return Outcome(
        _host(value).reshape(()),
        np.zeros(tuple(variable.shape)) if gradient is None else _host(gradient),
        str(value.dtype).removeprefix("torch."),
        gradient is not None,
    )


def _failed(why: str) -> Outcome:
    return Outcome(np.full((), np.nan), np.full(0, np.nan), attached=False, error=why[:300])


def _host(tensor: Any) -> NDArray[np.float64]:
    values: NDArray[np.float64] = tensor.detach().cpu().double().numpy()
    return values
