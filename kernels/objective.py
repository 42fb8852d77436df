"""What an objective is: a definition of a paper, computed with value and closed-form gradient."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Evaluate = Callable[..., Mapping[str, Any]]
Forward = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Objective:
    """One objective of the papers, by the name that vectors and users give it.

    `evaluate` takes the inputs and parameters by keyword and returns every output under the
    vectors' own name, gradients in the inputs' dtype; its parameters, unlike its inputs, are
    keyword-only. `forward`, where there is one, takes the same and returns the differentiable
    value alone, with stop-gradients where the paper has them; automatic differentiation of it
    with respect to `wrt` must give the output `grad_<wrt>`. `chain` is that gradient as the chain
    rule adds it up, where this loses digits that the closed form keeps.
    """

    name: str
    source: str
    evaluate: Evaluate
    forward: Forward | None = None
    wrt: str = ""
    absolute: float | None = None
    integral: tuple[str, ...] = ()
    chain: Evaluate | None = None


def objective(
    name: str,
    *,
    source: str,
    forward: Forward | None = None,
    wrt: str = "",
    absolute: float | None = None,
    integral: tuple[str, ...] = (),
    chain: Evaluate | None = None,
) -> Callable[[Evaluate], Objective]:
    """Turn `evaluate` into an `Objective`.

    `absolute` replaces the running error bound where the definition prescribes a tolerance;
    `integral` names the inputs that are arrays of integers.
    """
    return lambda evaluate: Objective(
        name, source, evaluate, forward, wrt, absolute, integral, chain
    )
