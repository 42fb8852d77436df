"""One call of a loss: what it gets, and what came back, whatever it does."""

import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rlvraudit.audit.errors import UsageError
from rlvraudit.audit.implementations.implementation import (
    Implementation,
    Outcome,
    observe,
)
from rlvraudit.audit.implementations.loading import wrap

torch: Any = pytest.importorskip("torch", reason="losses are called with torch tensors")

X = np.array([[1.0, 2.0], [3.0, 4.0]])
MASK = np.array([[True, False], [True, True]])


def seen(function: Callable[..., Any], **more: Any) -> Outcome:
    """Observe a function of `logp_policy`, `advantages` and `mask`, or of some of them."""
    inputs: dict[str, NDArray[Any]] = {
        "logp_policy": X,
        "advantages": np.array([0.5, -2.0]),
        "mask": MASK,
    }
    return observe(wrap(function, "loss", {}), inputs, **more)


def square(logp_policy: Any) -> Any:
    return (logp_policy**2).sum()


# The sum of squares of 1, 2, 3, 4 is 30, its gradient 2 x.


@pytest.mark.parametrize(
    "packed",
    [
        lambda value: value,
        lambda value: (value, {"metric": 1.0}),
        lambda value: [value, None],
        lambda value: value.reshape(1),
        lambda value: value.reshape(1, 1),
    ],
)
def test_a_scalar_is_taken_alone_or_first_in_a_tuple_or_list(packed: Any) -> None:
    def loss(logp_policy: Any) -> Any:
        return packed(square(logp_policy))

    outcome = seen(loss)
    assert (outcome.error, outcome.attached, outcome.finite) == ("", True, True)
    assert outcome.value.shape == ()
    assert float(outcome.value) == 30.0
    assert outcome.gradient.tolist() == (2 * X).tolist()


@pytest.mark.parametrize(
    ("returned", "kind"),
    [(1.5, "float"), (None, "NoneType"), ({"loss": 1}, "dict"), ((), "tuple"), (([],), "list")],
)
def test_what_is_no_tensor_is_named_by_its_type(returned: object, kind: str) -> None:
    def loss(logp_policy: Any) -> Any:
        return returned

    outcome = seen(loss)
    assert outcome.error == f"it returned a {kind}; expected a tensor"
    assert not outcome.finite
    assert not outcome.attached


@pytest.mark.parametrize(("shape", "words"), [((2, 2), "(2, 2)"), ((0,), "(0,)")])
def test_a_tensor_that_is_no_scalar_is_named_by_its_shape(
    shape: tuple[int, ...], words: str
) -> None:
    def loss(logp_policy: Any) -> Any:
        return torch.ones(shape)

    assert seen(loss).error == f"it returned shape {words}; expected a scalar tensor"


def test_what_is_raised_is_an_outcome() -> None:
    def loss(logp_policy: Any) -> Any:
        raise LookupError("no such loss")

    outcome = seen(loss)
    assert outcome.error == "LookupError: no such loss"
    assert np.isnan(outcome.value)
    assert not outcome.finite


def test_a_long_message_is_cut() -> None:
    def loss(logp_policy: Any) -> Any:
        raise LookupError("x" * 5000)

    assert len(seen(loss).error) == 300


@pytest.mark.parametrize("status", [0, 1, None])
def test_a_loss_that_exits_does_not_end_the_audit(status: int | None) -> None:
    def loss(logp_policy: Any) -> Any:
        sys.exit(status)

    assert seen(loss).error.startswith("SystemExit: ")


def test_an_interrupt_is_no_outcome() -> None:
    def loss(logp_policy: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        seen(loss)


def test_what_an_adapter_lacks_says_nothing_of_the_loss() -> None:
    def loss(logp_policy: Any) -> Any:
        raise UsageError("the adapter lacks it")

    with pytest.raises(UsageError):
        seen(loss)


def test_what_the_derivative_raises_is_an_outcome() -> None:
    class Broken(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.sum()

        @staticmethod
        def backward(ctx: Any, upstream: Any) -> Any:
            raise ArithmeticError("no derivative")

    def loss(logp_policy: Any) -> Any:
        return Broken.apply(logp_policy)

    assert seen(loss).error == "ArithmeticError: no derivative"


@pytest.mark.parametrize(
    "other",
    [
        lambda x: x.detach().sum(),
        lambda x: torch.tensor(3.0, requires_grad=True) * 2,
        lambda x: torch.tensor(x.sum().item()),
    ],
)
def test_a_value_without_a_gradient_has_zeros_and_is_not_attached(other: Any) -> None:
    def loss(logp_policy: Any) -> Any:
        return other(logp_policy)

    outcome = seen(loss)
    assert outcome.error == ""
    assert not outcome.attached
    assert outcome.gradient.tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_inputs_that_are_written_into_are_named() -> None:
    def loss(logp_policy: Any, advantages: Any, mask: Any) -> Any:
        advantages.mul_(2.0)
        mask[0, 0] = False
        return (logp_policy * advantages[:, None]).sum()

    assert seen(loss).modified == ("advantages", "mask")


def test_inputs_that_are_only_read_are_not() -> None:
    def loss(logp_policy: Any, advantages: Any, mask: Any) -> Any:
        return (logp_policy * advantages[:, None]).masked_fill(~mask, 0.0).sum()

    assert seen(loss).modified == ()


def test_nan_in_an_input_is_not_taken_for_a_change() -> None:
    def loss(logp_policy: Any, advantages: Any) -> Any:
        return logp_policy.sum()

    inputs = {"logp_policy": X, "advantages": np.array([np.nan, 1.0])}
    assert observe(wrap(loss, "loss", {}), inputs).modified == ()


def test_nan_that_is_replaced_in_place_is_a_change() -> None:
    def loss(logp_policy: Any, advantages: Any) -> Any:
        advantages.nan_to_num_()
        return logp_policy.sum()

    inputs = {"logp_policy": X, "advantages": np.array([np.nan, 1.0])}
    assert observe(wrap(loss, "loss", {}), inputs).modified == ("advantages",)


def test_the_callers_own_arrays_are_never_changed() -> None:
    given = {"logp_policy": X.copy(), "advantages": np.array([1.0, 2.0])}

    def loss(logp_policy: Any, advantages: Any) -> Any:
        advantages.zero_()
        return logp_policy.sum()

    observe(wrap(loss, "loss", {}), given)
    assert given["advantages"].tolist() == [1.0, 2.0]


def test_what_it_prints_and_warns_of_stays_out_of_the_report(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def loss(logp_policy: Any) -> Any:
        print("a metric")
        warnings.warn("old", DeprecationWarning, stacklevel=1)
        return square(logp_policy)

    assert seen(loss).error == ""
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_floating_point_inputs_come_in_the_dtype_and_others_as_they_are(dtype: str) -> None:
    got: dict[str, str] = {}

    def loss(logp_policy: Any, advantages: Any, mask: Any, target: Any) -> Any:
        tensors = {"x": logp_policy, "a": advantages, "mask": mask, "target": target}
        got.update({name: str(tensor.dtype) for name, tensor in tensors.items()})
        return square(logp_policy)

    inputs = {"logp_policy": X, "advantages": X[0], "mask": MASK, "target": np.array([[1, 2]])}
    outcome = observe(wrap(loss, "loss", {}), inputs, dtype=dtype)
    kind = f"torch.{dtype}"
    assert got == {"x": kind, "a": kind, "mask": "torch.bool", "target": "torch.int64"}
    assert outcome.dtype == dtype
    assert outcome.value.dtype == outcome.gradient.dtype == np.float64


def test_inputs_are_rounded_to_the_dtype() -> None:
    # 1 + 2^-9 lies halfway between 1 and 1 + 2^-8 and below bfloat16's step of 2^-7: it is 1.
    inputs = {"logp_policy": np.array([[1.0 + 2.0**-9]])}
    assert float(observe(wrap(square, "loss", {}), inputs, dtype="bfloat16").value) == 1.0
    assert float(observe(wrap(square, "loss", {}), inputs).value) == (1.0 + 2.0**-9) ** 2


def test_a_loss_that_computes_in_another_dtype_shows_it() -> None:
    def loss(logp_policy: Any) -> Any:
        return square(logp_policy.float())

    outcome = seen(loss)
    assert outcome.dtype == "float32"
    assert outcome.gradient.tolist() == (2 * X).tolist()


def test_inputs_that_are_not_asked_for_are_left_out() -> None:
    def loss(**given: Any) -> Any:
        assert set(given) == {"logp_policy", "clip_low"}
        return square(given["logp_policy"])

    asks = Implementation("loss", loss, ("logp_policy",), {"clip_low": 0.2})
    assert observe(asks, {"logp_policy": X, "advantages": X, "mask": MASK}).error == ""


def test_parameters_replace_those_of_the_implementation() -> None:
    def loss(logp_policy: Any, beta: float = 2.0, norm: float = 1.0) -> Any:
        return beta * logp_policy.sum() / norm

    # The sum of X is 10.
    assert float(seen(loss).value) == 20.0
    assert float(seen(loss, norm=4.0).value) == 5.0


def test_it_is_differentiated_by_another_input_where_asked() -> None:
    def loss(logp_policy: Any, logp_base: Any) -> Any:
        return (logp_policy * logp_base**2).sum()

    inputs = {"logp_policy": X, "logp_base": 2 * X}
    # d(x b^2) / db = 2 x b = 4 x^2 at b = 2 x; d / dx = b^2, the same number.
    for wrt in ("logp_base", ""):
        outcome = observe(wrap(loss, "loss", {}), inputs, wrt=wrt)
        assert outcome.gradient.tolist() == (4 * X**2).tolist()

    def frozen(logp_policy: Any, logp_base: Any) -> Any:
        return (logp_policy * logp_base.detach()).sum()

    assert not observe(wrap(frozen, "loss", {}), inputs, wrt="logp_base").attached


def test_logits_are_differentiated_where_there_is_no_policy() -> None:
    def loss(logits: Any) -> Any:
        return square(logits)

    assert observe(wrap(loss, "loss", {}), {"logits": X}).gradient.tolist() == (2 * X).tolist()


def test_what_is_a_function_of_rewards_may_return_an_array() -> None:
    def advantages(rewards: Any) -> Any:
        return rewards - rewards.mean(-1, keepdim=True)

    outcome = observe(wrap(advantages, "advantages", {}), {"rewards": X})
    assert outcome.value.tolist() == [[-0.5, 0.5], [-0.5, 0.5]]
    assert outcome.gradient.size == 0
    assert outcome.error == ""


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_a_value_or_gradient_that_is_no_number_is_not_finite(number: float) -> None:
    def value(logp_policy: Any) -> Any:
        return logp_policy.sum() * 0.0 + number

    def gradient(logp_policy: Any) -> Any:
        return torch.where(logp_policy > 0, logp_policy, (logp_policy - 4).sqrt()).sum()

    assert not seen(value).finite
    assert np.isfinite(seen(gradient).value)
    assert not seen(gradient).finite
