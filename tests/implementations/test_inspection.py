"""The audit of one loss: what its card says is what the code says, and so is the verdict."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rlvraudit.audit.errors import Exit, UsageError
from rlvraudit.audit.implementations.families import Declared
from rlvraudit.audit.implementations.inspection import Inspection, inspect_implementation
from rlvraudit.audit.implementations.loading import wrap

torch: Any = pytest.importorskip("torch", reason="losses are called with torch tensors")

Tensor = Any
Loss = Callable[..., Tensor]


def inspected(loss: Loss, objective: str | None = None, /, **declared: Any) -> Inspection:
    implementation = wrap(loss, loss.__name__, declared)
    return inspect_implementation(implementation, Declared(objective, declared), ())


def card(seen: Inspection) -> dict[str, str]:
    """Return the lines of the card, none of which may be marked as wrong."""
    assert [entry.name for entry in seen.entries if entry.fault] == []
    return {entry.name: entry.words for entry in seen.entries}


def kinds(seen: Inspection) -> set[str]:
    return {fault.kind for fault in seen.faults}


# --- Losses as people write them -----------------------------------------------------------------


def log_ratio(logp_policy: Tensor, logp_old: Tensor, mask: Tensor) -> Tensor:
    return (logp_policy - logp_old).masked_fill(~mask, 0.0)


def clipped(ratio: Tensor, advantages: Tensor, low: float, high: float) -> Tensor:
    """Return -min(r A, clip(r) A)."""
    a = advantages if advantages.ndim == 2 else advantages[:, None]
    return -torch.minimum(ratio * a, ratio.clamp(1 - low, 1 + high) * a)


def summed(term: Tensor, mask: Tensor) -> Tensor:
    return term.masked_fill(~mask, 0.0).sum()


def token_mean(term: Tensor, mask: Tensor) -> Tensor:
    return summed(term, mask) / mask.sum()


def grpo(
    logp_policy: Tensor,
    logp_old: Tensor,
    advantages: Tensor,
    mask: Tensor,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
) -> Tensor:
    ratio = log_ratio(logp_policy, logp_old, mask).exp()
    return token_mean(clipped(ratio, advantages, clip_low, clip_high), mask)


def gspo(logp_policy: Tensor, logp_old: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    mean = log_ratio(logp_policy, logp_old, mask).sum(1) / mask.sum(1)
    ratio = mean.exp()
    bounded = ratio.clamp(1 - 3e-4, 1 + 4e-4)
    return -torch.minimum(ratio * advantages, bounded * advantages).mean()


def dual_clipped(logp_policy: Tensor, logp_old: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    ratio = log_ratio(logp_policy, logp_old, mask).exp()
    a = advantages if advantages.ndim == 2 else advantages[:, None]
    term = clipped(ratio, advantages, 0.2, 0.2)
    return token_mean(torch.where(a < 0, torch.minimum(term, -3.0 * a), term), mask)


def clamped(logp_policy: Tensor, logp_old: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    ratio = log_ratio(logp_policy, logp_old, mask).clamp(-20.0, 20.0).exp()
    return token_mean(clipped(ratio, advantages, 0.2, 0.2), mask)


def with_kl(
    logp_policy: Tensor, logp_old: Tensor, logp_reference: Tensor, advantages: Tensor, mask: Tensor
) -> Tensor:
    term = clipped(log_ratio(logp_policy, logp_old, mask).exp(), advantages, 0.2, 0.2)
    d = log_ratio(logp_policy, logp_reference, mask)
    k3 = (torch.expm1(-d) + d).clamp(max=10.0)
    return token_mean(term + 0.04 * k3, mask)


def with_epsilon(logp_policy: Tensor, logp_old: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    term = clipped(log_ratio(logp_policy, logp_old, mask).exp(), advantages, 0.2, 0.2)
    return summed(term, mask) / (mask.to(term.dtype).sum() + 1e-8)


def over_512(logp_policy: Tensor, logp_old: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    term = clipped(log_ratio(logp_policy, logp_old, mask).exp(), advantages, 0.2, 0.2)
    return summed(term, mask) / (512 * mask.shape[0])


def added_up(logp_policy: Tensor, logp_old: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    term = clipped(log_ratio(logp_policy, logp_old, mask).exp(), advantages, 0.2, 0.2)
    return summed(term, mask)


def in_float32(logp_policy: Tensor, logp_old: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    ratio = log_ratio(logp_policy.float(), logp_old.float(), mask).exp()
    return token_mean(clipped(ratio, advantages.float(), 0.2, 0.2), mask)


def per_token(logp_policy: Tensor, logp_old: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    if advantages.shape != mask.shape:
        raise ValueError(f"advantages of shape {tuple(advantages.shape)}")
    ratio = log_ratio(logp_policy, logp_old, mask).exp()
    return token_mean(clipped(ratio, advantages, 0.2, 0.2), mask)


def broadcast(logp_policy: Tensor, logp_old: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    ratio = log_ratio(logp_policy, logp_old, mask).exp()
    gain = torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)
    return token_mean(-gain, mask)


def on_policy(logp_policy: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    ratio = log_ratio(logp_policy, logp_policy.detach(), mask).exp()
    return token_mean(-ratio * advantages[:, None], mask)


# --- Cards ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "objective", "lines"),
    [
        (
            grpo,
            "grpo.surrogate",
            {
                "ratio": "token: exp(logp_policy - logp_old)",
                "clip": "[1 - 0.2, 1 + 0.28]",
                "dual clip": "none",
                "log-ratio clamp": "none",
                "aggregation": "token-mean",
                "precision": "that of the inputs",
                "padding": "not read; gradient there exactly 0",
                "micro-batches": "additive when weighted by tokens",
                "detached": "nothing: the gradient is the slope of the value",
                "advantages": "[B] or [B, T]",
            },
        ),
        (
            gspo,
            "gspo.surrogate",
            {
                "ratio": "sequence: geometric mean over the response",
                "clip": "[1 - 0.0003, 1 + 0.0004]",
                "aggregation": "seq-mean-token-mean",
                "micro-batches": "additive when weighted by trajectories",
            },
        ),
        (dual_clipped, "grpo.surrogate", {"dual clip": "3", "clip": "[1 - 0.2, 1 + 0.2]"}),
        (clamped, "grpo.surrogate", {"log-ratio clamp": "at 20"}),
        (
            with_kl,
            "grpo.surrogate",
            {
                "KL": "k3: exp(-d) - 1 + d, weight 0.04; value clamped at 10; no gradient there",
                "aggregation": "token-mean",
            },
        ),
        (with_epsilon, "grpo.surrogate", {"aggregation": "token-mean, denominator + 1e-08"}),
        (over_512, "grpo.surrogate", {"aggregation": "seq-mean-token-sum-norm, norm 512"}),
        (added_up, "grpo.surrogate", {"aggregation": "token-sum", "micro-batches": "additive"}),
        (in_float32, "grpo.surrogate", {"precision": "float32 inside, whatever comes in"}),
        (per_token, "grpo.surrogate", {"advantages": "[B, T]"}),
        (
            on_policy,
            "grpo.surrogate",
            {"ratio": "none: 1 by construction, on policy", "clip": "none"},
        ),
    ],
)
def test_the_card_says_what_the_code_says(
    loss: Loss, objective: str, lines: dict[str, str]
) -> None:
    seen = inspected(loss)
    assert (seen.faults, seen.objective, seen.exit) == ((), objective, Exit.PASSED)
    lines_seen = card(seen)
    assert {name: lines_seen[name] for name in lines} == lines


def test_an_advantage_that_is_broadcast_along_tokens_is_a_fault() -> None:
    # [B, T] times [B] takes advantages for those of columns, where B = T; else it raises.
    assert "broadcast" in kinds(inspected(broadcast))


def test_a_kl_weight_of_0_by_default_is_looked_at_all_the_same() -> None:
    def loss(
        logp_policy: Tensor,
        logp_old: Tensor,
        logp_reference: Tensor,
        advantages: Tensor,
        mask: Tensor,
        beta: float = 0.0,
    ) -> Tensor:
        term = clipped(log_ratio(logp_policy, logp_old, mask).exp(), advantages, 0.2, 0.2)
        d = log_ratio(logp_policy, logp_reference, mask)
        return token_mean(term + beta * d * d / 2, mask)

    seen = inspected(loss)
    assert seen.exit == Exit.PASSED
    assert card(seen)["KL"].startswith("k2: d^2 / 2, weight 1")


# --- What is declared ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("declared", "kind"),
    [
        ({"clip_low": 0.1}, "not-as-declared"),
        ({"clip_high": 0.2}, "not-as-declared"),
        ({"aggregation": "seq-mean-token-mean"}, "not-as-declared"),
        ({"dual_clip": 3.0}, "not-as-declared"),
        ({"beta": 0.04}, "not-as-declared"),
        ({"clip_low": 0.28, "clip_high": 0.2}, "bounds-swapped"),
    ],
)
def test_a_declared_value_that_is_not_what_acts_is_a_fault(
    declared: dict[str, Any], kind: str
) -> None:
    def fixed(logp_policy: Tensor, logp_old: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
        return grpo(logp_policy, logp_old, advantages, mask)

    seen = inspected(fixed, "grpo.surrogate", **declared)
    assert kinds(seen) == {kind}
    assert seen.exit == Exit.FINDINGS


def test_declared_values_that_act_pass_and_are_what_it_is_called_with() -> None:
    seen = inspected(grpo, "grpo.surrogate", clip_low=0.1, clip_high=0.3, aggregation="token-mean")
    assert seen.faults == ()
    assert card(seen)["clip"] == "[1 - 0.1, 1 + 0.3]"
    assert seen.implementation.parameters == {"clip_low": 0.1, "clip_high": 0.3}


def test_a_parameter_that_is_taken_and_not_followed_is_a_fault() -> None:
    def loss(
        logp_policy: Tensor,
        logp_old: Tensor,
        advantages: Tensor,
        mask: Tensor,
        clip_low: float = 0.2,
        clip_high: float = 0.28,
    ) -> Tensor:
        return grpo(logp_policy, logp_old, advantages, mask, clip_low, 0.28)

    seen = inspected(loss, "grpo.surrogate")
    assert kinds(seen) == {"parameter-without-effect"}
    assert [fault.about for fault in seen.faults] == ["clip_high"]
    # Declared with another value, the same is said once, not twice.
    assert kinds(inspected(loss, "grpo.surrogate", clip_high=0.5)) == {"parameter-without-effect"}


@pytest.mark.parametrize("declared", [{"clip_hgih": 0.9}, {"temperature": 2}])
def test_a_declared_name_that_nothing_is_held_to_is_refused(declared: dict[str, Any]) -> None:
    """Else a slip of the pen is a pass."""
    with pytest.raises(UsageError, match=next(iter(declared))):
        inspected(grpo, "grpo.surrogate", **declared)


@pytest.mark.parametrize("declared", [{"aggregation": "token-men"}, {"estimator": "k9"}])
def test_a_declared_value_that_nothing_has_is_never_a_pass(declared: dict[str, Any]) -> None:
    try:
        seen = inspected(with_kl, "grpo.surrogate", **declared)
    except UsageError:
        return
    assert seen.exit != Exit.PASSED


@pytest.mark.parametrize("objective", ["gspo.surrogate", "tapo.surrogate"])
def test_an_objective_that_it_is_not_is_a_fault(objective: str) -> None:
    seen = inspected(grpo, objective)
    assert kinds(seen) == {"other-objective"}
    assert objective in seen.faults[0].sentence
    assert seen.objective == "grpo.surrogate"
    assert seen.exit == Exit.FINDINGS


# --- What can't be audited -----------------------------------------------------------------------


def refused(loss: Loss, objective: str | None = None) -> str:
    with pytest.raises(UsageError) as caught:
        inspected(loss, objective)
    return str(caught.value)


def test_an_objective_that_does_not_exist_is_answered_with_those_that_do() -> None:
    said = refused(grpo, "ppo.surrogate")
    assert said.startswith("no objective 'ppo.surrogate' can be audited; there are ")
    assert "tapo.surrogate" in said


def test_an_objective_whose_inputs_are_not_asked_for_names_them() -> None:
    assert refused(grpo, "tar.replay_nll").endswith("tar.replay_nll needs logp_base too")


def test_a_loss_without_a_mask_is_refused() -> None:
    def loss(logp_policy: Tensor, logp_old: Tensor, advantages: Tensor) -> Tensor: ...

    assert "takes no mask" in refused(loss)


def test_a_sum_of_objectives_is_refused_and_its_surplus_named() -> None:
    def loss(
        logp_policy: Tensor, logp_old: Tensor, logp_base: Tensor, advantages: Tensor, mask: Tensor
    ) -> Tensor: ...

    assert "a sum of objectives; audit its terms apart" in refused(loss)


def test_inputs_of_no_objective_are_answered_with_those_of_each() -> None:
    def loss(logp_policy: Tensor, mask: Tensor) -> Tensor: ...

    said = refused(loss)
    assert "asks for logp_policy, mask only; expected one of " in said
    assert "surrogate: logp_policy, advantages" in said


# --- What gives no card --------------------------------------------------------------------------


def test_a_loss_that_always_raises_is_a_fault_with_what_it_raised() -> None:
    def loss(logp_policy: Tensor, logp_old: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
        raise LookupError("no such loss")

    seen = inspected(loss)
    assert kinds(seen) == {"raises"}
    assert "LookupError: no such loss" in seen.faults[0].sentence
    assert (seen.objective, seen.exit) == ("", Exit.FINDINGS)


def test_a_loss_that_exits_is_a_fault_and_never_a_pass() -> None:
    def loss(logp_policy: Tensor, logp_old: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
        raise SystemExit(0)

    assert inspected(loss).exit == Exit.FINDINGS


def test_a_loss_that_is_never_a_number_is_a_fault() -> None:
    def loss(logp_policy: Tensor, logp_old: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
        return logp_policy.sum() * torch.nan

    assert kinds(inspected(loss)) == {"not-finite"}


def test_a_loss_that_draws_at_random_is_a_fault() -> None:
    draw = np.random.default_rng(0)

    def loss(logp_policy: Tensor, logp_old: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
        return grpo(logp_policy, logp_old, advantages, mask) * draw.uniform()

    assert kinds(inspected(loss)) == {"not-repeatable"}


def test_a_loss_that_is_none_of_these_is_never_a_pass() -> None:
    def loss(logp_policy: Tensor, logp_old: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
        x = log_ratio(logp_policy, logp_old, mask)
        return token_mean(-torch.tanh(3 * x) * advantages[:, None], mask)

    seen = inspected(loss)
    assert seen.objective == ""
    assert seen.exit == Exit.FINDINGS


# --- Exit statuses -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def passing() -> Inspection:
    return inspected(grpo)


def test_a_pass_gives_0_and_a_fault_1(passing: Inspection) -> None:
    assert int(passing.exit) == 0
    assert inspected(added_up, "grpo.surrogate", aggregation="token-mean").exit == 1


def test_an_unfamiliar_version_gives_3_whatever_was_seen(passing: Inspection) -> None:
    unknown = replace(passing.implementation, unknown="version 9 is not known")
    assert replace(passing, implementation=unknown).exit == 3


def test_what_is_none_of_these_by_its_own_account_gives_3_unless_it_is_one(
    passing: Inspection,
) -> None:
    unlike = replace(passing.implementation, unlike="a loss of its own")
    as_one = replace(passing, implementation=unlike)
    assert (as_one.unlike, as_one.exit) == ("", Exit.PASSED)
    none = replace(as_one, objective="")
    assert (none.unlike, none.exit) == ("a loss of its own", Exit.INCOMPLETE)


def test_every_step_is_told() -> None:
    steps: list[str] = []
    loss = wrap(on_policy, "on_policy", {})
    inspect_implementation(loss, Declared(), (), progress=steps.append)
    assert (steps[0], steps[-1]) == ("what it computes", "its rounding")
    assert "the order of the rows" in steps


# --- Rounding ------------------------------------------------------------------------------------


def test_only_the_dtypes_that_are_asked_for_are_compared() -> None:
    loss = wrap(on_policy, "on_policy", {})
    seen = inspect_implementation(loss, Declared(), ("float32",))
    assert [precision.dtype for precision in seen.precisions] == ["float32"]
    assert seen.precisions[0].fault is None
    assert inspect_implementation(loss, Declared(), ()).precisions == ()


def test_a_dtype_in_which_it_raises_is_a_fault() -> None:
    def loss(logp_policy: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
        if logp_policy.dtype == torch.bfloat16:
            raise TypeError("no bfloat16")
        return on_policy(logp_policy, advantages, mask)

    seen = inspect_implementation(wrap(loss, "loss", {}), Declared(), ("float32", "bfloat16"))
    assert kinds(seen) == {"raises-in-dtype"}
    (fault,) = seen.faults
    assert fault.example is not None
    assert fault.example.dtype == "bfloat16"


def test_nan_at_padding_is_a_note_where_padding_is_finite_on_the_codes_own_path() -> None:
    def loss(logp_policy: Tensor, logp_old: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
        wide = advantages if advantages.ndim == 2 else advantages[:, None]
        ratio = (logp_policy - logp_old).exp()
        gain = torch.minimum(ratio * wide, ratio.clamp(0.8, 1.2) * wide)
        return -(gain * mask).sum() / mask.sum()

    own = wrap(loss, "own", {})
    assert kinds(inspect_implementation(own, Declared(), ())) == {"nan-times-zero"}
    framework = replace(own, finite_padding=True)
    seen = inspect_implementation(framework, Declared(), ())
    assert seen.exit == Exit.PASSED
    assert any("robustness" in note for note in seen.notes)
