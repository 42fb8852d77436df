"""For people's own tests: hold a loss against an objective, or go through its test vectors.

    from rlvraudit.testing import assert_implements, cases

    def test_my_loss_is_tapo():
        assert_implements(my_loss, "tapo.surrogate", clip_min=0.1, clip_max=0.3)

    @pytest.mark.parametrize("case", cases("grpo.surrogate"), ids=str)
    def test_my_loss_on(case):
        case.check(my_loss(**case.tensors(), **case.parameters))

Both need PyTorch. What the first one proves, and what not, is in docs/implementations.md.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rlvraudit.audit.errors import Exit, UsageError
from rlvraudit.audit.implementations.families import Declared
from rlvraudit.audit.implementations.inspection import DTYPES, inspect_implementation
from rlvraudit.audit.implementations.judgement import judge
from rlvraudit.audit.implementations.loading import wrap
from rlvraudit.audit.implementations.vector_files import Case as Vector
from rlvraudit.audit.implementations.vector_files import read
from rlvraudit.audit.reports.implementation import as_text
from rlvraudit.audit.reports.terminal import Page
from rlvraudit.fixtures import ROOT
from rlvraudit.kernels.objectives import OBJECTIVES

__all__ = ["Case", "assert_implements", "cases"]


def assert_implements(
    function: Callable[..., Any],
    objective: str,
    /,
    *,
    dtypes: tuple[str, ...] = DTYPES,
    **parameters: Any,
) -> None:
    """Audit a loss as `rlvr-audit kernels --impl` does.

    Args:
        function: Called by keyword with torch tensors, as `kernels --help` says.
        objective: What it is meant to be: "tapo.surrogate".
        dtypes: Those in which its rounding is compared.
        parameters: Of the objective: what it is called with, where it takes them, and held to.

    Raises:
        AssertionError: It is not; the message is the report.
        UsageError: It can't be called, or there is no such objective.
    """
    __tracebackhide__ = True
    name = getattr(function, "__qualname__", type(function).__name__)
    loss = wrap(function, name, parameters)
    seen = inspect_implementation(loss, Declared(objective, parameters), dtypes)
    if seen.exit != Exit.PASSED:
        raise AssertionError(as_text(seen, Page()))


@dataclass(frozen=True, slots=True)
class Case:
    """A test vector in FP64: inputs, parameters, and the right value and gradient."""

    objective: str
    vector: Vector

    def __str__(self) -> str:
        """Return a name for a parametrised test."""
        return f"{self.objective}-{self.vector.id}"

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The parameters of the objective."""
        return self.vector.params

    def tensors(self) -> dict[str, Any]:
        """Return the inputs as torch tensors, the one that is differentiated requiring it."""
        import torch

        found = {name: torch.tensor(values) for name, values in self.vector.inputs.items()}
        variable = OBJECTIVES[self.objective].wrt
        if variable:
            found[variable].requires_grad_()
        return found

    def check(self, output: Any, gradient: Any = None) -> None:
        """Hold an output, and a gradient if there is one, against the vector at 1e-9.

        Raises:
            AssertionError: One of them is wrong.
        """
        __tracebackhide__ = True
        expected = dict(self.vector.expected or {})
        slopes = {name: value for name, value in expected.items() if name.startswith("grad_")}
        values = {name: value for name, value in expected.items() if name not in slopes}
        name = next(iter(values))
        seen = {name: _host(output)}
        wanted = {name: values[name]}
        if gradient is not None:
            (slope,) = slopes
            seen[slope], wanted[slope] = _host(gradient), slopes[slope]
        bounds = {key: 1e-9 + 1e-9 * abs(value) for key, value in seen.items()}
        judgement = judge(seen, wanted, bounds, "float64")
        if not judgement.passed:
            raise AssertionError(f"{self}: {judgement.fault}")


def _host(tensor: Any) -> Any:
    return tensor.detach().double().cpu().numpy()


def cases(objective: str) -> tuple[Case, ...]:
    """Return the valid FP64 test vectors of an objective that is differentiable or an array.

    Raises:
        UsageError: There are none.
    """
    path = ROOT / "vectors" / f"{objective.replace('.', '-', 1)}.json"
    if objective not in OBJECTIVES or not path.is_file():
        known = sorted(p.stem.replace("-", ".", 1) for p in (ROOT / "vectors").glob("*.json"))
        raise UsageError(f"there are no vectors of {objective!r}; there are {', '.join(known)}")
    vectors = read(path).cases
    return tuple(
        Case(objective, case)
        for case in vectors
        if case.expected is not None and case.dtype == "float64"
    )
