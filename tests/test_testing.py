"""For people's own tests: `assert_implements` and `cases`, against losses right and wrong."""

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from rlvraudit.audit.errors import UsageError
from rlvraudit.audit.implementations.backend import on_host
from rlvraudit.kernels.objectives import OBJECTIVES
from rlvraudit.testing import Case, assert_implements, cases

torch: Any = pytest.importorskip("torch", reason="losses are called with torch tensors")

Tensor = Any
ARRAYS = (
    "fps.cosine",
    "grpo.advantages",
    "kl.full",
    "tapo.clip_width",
    "tapo.prefix_ratio",
    "tar.gate",
    "tar.token_weights",
)
"""Objectives whose first output is an array or a number that nothing is trained by."""
LOSSES = (
    "grpo.surrogate",
    "gspo.surrogate",
    "tapo.surrogate",
    "tar.replay_nll",
    "kl.estimate",
    "nll.from_logits",
)


def surrogate(
    logp_policy: Tensor,
    logp_old: Tensor,
    advantages: Tensor,
    mask: Tensor,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
) -> Tensor:
    """Return GRPO's loss under a mean over tokens."""
    ratio = (logp_policy - logp_old).masked_fill(~mask, 0.0).exp()
    a = advantages if advantages.ndim == 2 else advantages[:, None]
    gain = torch.minimum(ratio * a, ratio.clamp(1 - clip_low, 1 + clip_high) * a)
    return -gain.masked_fill(~mask, 0.0).sum() / mask.sum()


def detached(logp_policy: Tensor, logp_old: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    """Return the right value with half of its gradient."""
    value = surrogate(logp_policy, logp_old, advantages, mask)
    return (value + value.detach()) / 2


# --- assert_implements ---------------------------------------------------------------------------


def test_a_right_loss_passes_with_the_parameters_that_it_is_held_to() -> None:
    assert_implements(surrogate, "grpo.surrogate", dtypes=())
    declared = {"clip_low": 0.1, "clip_high": 0.3, "aggregation": "token-mean"}
    assert_implements(surrogate, "grpo.surrogate", dtypes=(), **declared)


def test_rounding_is_compared_unless_told_otherwise() -> None:
    def coarse(logp_policy: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
        if logp_policy.dtype == torch.float16:
            raise TypeError("no float16")
        return surrogate(logp_policy, logp_policy.detach(), advantages, mask, 0.2, 0.2)

    assert_implements(coarse, "grpo.surrogate", dtypes=("float32",))
    with pytest.raises(AssertionError, match="raises-in-dtype"):
        assert_implements(coarse, "grpo.surrogate")


def test_a_wrong_loss_fails_and_the_message_is_the_report() -> None:
    with pytest.raises(AssertionError) as caught:
        assert_implements(detached, "grpo.surrogate", dtypes=())
    said = str(caught.value)
    for part in ("detached   on cpu", "convention card", "fault  "):
        assert part in said
    assert said.rstrip().splitlines()[-1].endswith((" fault.", " faults."))


@pytest.mark.parametrize(
    ("objective", "declared", "kind"),
    [
        ("tapo.surrogate", {}, "other-objective"),
        ("grpo.surrogate", {"aggregation": "seq-mean-token-mean"}, "not-as-declared"),
        ("grpo.surrogate", {"dual_clip": 3.0}, "not-as-declared"),
    ],
)
def test_a_loss_that_is_not_what_it_is_said_to_be_fails(
    objective: str, declared: dict[str, Any], kind: str
) -> None:
    with pytest.raises(AssertionError, match=kind):
        assert_implements(surrogate, objective, dtypes=(), **declared)


def test_a_slip_of_the_pen_is_no_pass() -> None:
    with pytest.raises((UsageError, AssertionError), match="agregation"):
        assert_implements(surrogate, "grpo.surrogate", dtypes=(), agregation="token-mean")


def test_a_parameter_may_be_called_function_or_objective() -> None:
    def loss(
        logp_policy: Tensor, advantages: Tensor, mask: Tensor, *, function: str, objective: str
    ) -> Tensor:
        assert (function, objective) == ("a", "b")
        return surrogate(logp_policy, logp_policy.detach(), advantages, mask)

    # They belong to no objective, which may be refused, but not as a clash of names.
    with contextlib.suppress(UsageError):
        assert_implements(loss, "grpo.surrogate", dtypes=(), function="a", objective="b")


def test_a_class_with_a_call_is_a_loss_like_a_function() -> None:
    class Loss:
        def __call__(
            self, logp_policy: Tensor, logp_old: Tensor, advantages: Tensor, mask: Tensor
        ) -> Tensor:
            return detached(logp_policy, logp_old, advantages, mask)

    with pytest.raises(AssertionError, match="Loss"):
        assert_implements(Loss(), "grpo.surrogate", dtypes=())


@pytest.mark.parametrize("objective", ["ppo.surrogate", "pass_at_k", "", "GRPO.surrogate"])
def test_an_objective_that_cannot_be_audited_is_a_wrong_usage(objective: str) -> None:
    with pytest.raises(UsageError, match="can be audited; there are"):
        assert_implements(surrogate, objective)


def test_a_function_that_cannot_be_called_is_a_wrong_usage() -> None:
    def loss(logits: Tensor, labels: Tensor) -> Tensor: ...

    with pytest.raises(UsageError, match="'labels'"):
        assert_implements(loss, "nll.from_logits")


# --- cases ---------------------------------------------------------------------------------------


def reference(case: Case) -> tuple[Tensor, Tensor]:
    """Return value and gradient as our own reference gives them on torch tensors."""
    objective = OBJECTIVES[case.objective]
    inputs = {
        name: tensor.detach() if isinstance(tensor, torch.Tensor) else tensor
        for name, tensor in case.tensors().items()
    }
    outputs = dict(objective.evaluate(**inputs, **case.parameters))
    value = next(v for name, v in outputs.items() if not name.startswith("grad_"))
    return value, outputs.get(f"grad_{objective.wrt}")


def as_tensor(value: Any) -> Tensor:
    return value if isinstance(value, torch.Tensor) else torch.tensor(on_host(value))


@pytest.mark.parametrize("objective", LOSSES)
def test_the_reference_passes_every_case_in_value_and_gradient(objective: str) -> None:
    found = cases(objective)
    assert len(found) > 3
    for case in found:
        value, gradient = reference(case)
        case.check(value, gradient)
        case.check(value)


@pytest.mark.parametrize("objective", ARRAYS)
def test_the_reference_passes_every_case_of_an_array(objective: str) -> None:
    found = cases(objective)
    assert found
    for case in found:
        case.check(as_tensor(reference(case)[0]))


@pytest.mark.parametrize("objective", LOSSES)
def test_a_value_or_a_gradient_that_is_off_by_a_millionth_fails(objective: str) -> None:
    for case in cases(objective):
        value, gradient = reference(case)
        size = 1e-6 * (1.0 + abs(float(value)))
        with pytest.raises(AssertionError, match=str(case)):
            case.check(value + size)
        with pytest.raises(AssertionError, match="grad_"):
            case.check(value, gradient + 1e-6 * (1.0 + gradient.abs()))


@pytest.mark.parametrize(
    "break_",
    [
        lambda value, gradient: (value * torch.nan, gradient),
        lambda value, gradient: (value, gradient * torch.nan),
        lambda value, gradient: (value * torch.inf, gradient),
        lambda value, gradient: (value * 1e30, gradient),
        lambda value, gradient: (value, gradient * 1e30),
        lambda value, gradient: (value.reshape(1), gradient),
        lambda value, gradient: (value, gradient.reshape(-1)),
        lambda value, gradient: (-value, -gradient),
    ],
)
def test_what_is_not_finite_far_off_or_of_another_shape_fails(
    break_: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]],
) -> None:
    """However large what is checked, the bound is that of what is right."""
    for case in cases("grpo.surrogate"):
        value, gradient = reference(case)
        if float(value) == 0.0 or not gradient.any():
            continue
        with pytest.raises(AssertionError):
            case.check(*break_(value, gradient))


def test_a_loss_of_ones_own_goes_through_the_cases_of_its_aggregation() -> None:
    found = [c for c in cases("grpo.surrogate") if c.parameters["aggregation"] == "token-mean"]
    assert found
    for case in found:
        tensors = case.tensors()
        policy = tensors["logp_policy"]
        bounds = {name: case.parameters[name] for name in ("clip_low", "clip_high")}
        value = surrogate(**tensors, **bounds)
        (gradient,) = torch.autograd.grad(value, policy)
        inactive = torch.isnan(gradient) & ~tensors["mask"]
        case.check(value, gradient.masked_fill(inactive, 0.0))


@pytest.mark.parametrize("objective", [*LOSSES, *ARRAYS])
def test_cases_are_valid_vectors_in_fp64_with_names_of_their_own(objective: str) -> None:
    found = cases(objective)
    assert len({str(case) for case in found}) == len(found)
    for case in found:
        assert str(case).startswith(f"{objective}-")
        kinds = {t.dtype for t in case.tensors().values() if t.is_floating_point()}
        assert kinds <= {torch.float64}


@pytest.mark.parametrize("objective", LOSSES)
def test_what_is_differentiated_asks_for_a_gradient_and_nothing_else_does(objective: str) -> None:
    asking = {n for n, tensor in cases(objective)[0].tensors().items() if tensor.requires_grad}
    assert asking == {OBJECTIVES[objective].wrt}


def test_tensors_are_new_each_time() -> None:
    case = cases("grpo.surrogate")[0]
    with torch.no_grad():
        case.tensors()["advantages"].zero_()
    assert case.tensors()["advantages"].any()


@pytest.mark.parametrize("objective", ["ppo.surrogate", "", "../vectors/grpo.surrogate", "grpo"])
def test_an_objective_without_vectors_is_answered_with_those_that_have_some(objective: str) -> None:
    with pytest.raises(UsageError) as caught:
        cases(objective)
    said = str(caught.value)
    assert said.startswith(f"there are no vectors of {objective!r}; there are ")
    listed = said.partition("there are no vectors of ")[2].partition("; there are ")[2].split(", ")
    # Whatever is offered must be had.
    for name in listed:
        assert cases(name), name
