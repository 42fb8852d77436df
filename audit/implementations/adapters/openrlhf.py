"""OpenRLHF: `PolicyLoss`, `compute_approx_kl`, and the advantages of its experience maker.

Importing it imports DeepSpeed, PEFT and ray; the functions are taken alone from the installed
source.
"""

import itertools
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rlvraudit.audit.implementations.adapters import light
from rlvraudit.audit.implementations.adapters.adapter import Adapter
from rlvraudit.audit.implementations.implementation import Implementation

KNOWN = ("0.11.2",)
AGGREGATIONS = {
    "ppo": {"token-mean": True, "seq-mean-token-mean": False},
    "gspo": {"seq-mean-token-mean": False},
}
"""By `policy_loss_type` and the tool's name, `token_level_loss`; GSPO turns it off always."""
SETTINGS = {
    "clip_low": "clip_eps_low",
    "clip_high": "clip_eps_high",
    "dual_clip": "dual_clip",
}
"""By the tool's name, the argument of `PolicyLoss`."""
ESTIMATORS = {"std": "group_norm", "none": "dr_grpo"}
"""By the scale of the advantages, its advantage estimator."""
MAKER = "RemoteExperienceMaker"

Tensor = Any


def _what() -> str:
    return f"openrlhf {light.installed('openrlhf')}"


def _utils(*names: str) -> dict[str, Any]:
    import torch

    path = light.source("openrlhf", "openrlhf/models/utils.py")
    return light.extract(path, names, {"torch": torch}, _what())


def _loss(*names: str) -> dict[str, Any]:
    import torch

    path = light.source("openrlhf", "openrlhf/models/loss.py")
    namespace = {"torch": torch, "nn": torch.nn, **_utils("masked_mean")}
    return light.extract(path, names, namespace, _what())


def _surrogate(checkout: Path | None, *, kind: str) -> Implementation:
    version = light.installed("openrlhf")
    what = f"openrlhf {version}"
    loss = _loss("aggregate_loss", "PolicyLoss")["PolicyLoss"]
    names = (*SETTINGS.values(), "token_level_loss")
    defaults = light.argument_defaults(loss, names, f"{what}, PolicyLoss,")
    parameters = {ours: defaults[theirs] for ours, theirs in SETTINGS.items()}
    level = defaults["token_level_loss"] and kind == "ppo"
    aggregation = light.named(AGGREGATIONS[kind], level, what)
    return Implementation(
        name="openrlhf",
        call=partial(_call, loss, kind),
        inputs=("logp_policy", "logp_old", "advantages", "mask"),
        parameters={**parameters, "aggregation": aggregation},
        called=f"{what}, openrlhf.models.loss.PolicyLoss, policy_loss_type {kind}",
        # Actor.forward multiplies log-probabilities by the mask, and batches are padded with 0.
        finite_padding=True,
        unknown=light.unfamiliar("openrlhf", version, KNOWN),
    )


def _call(
    loss: Any,
    kind: str,
    *,
    logp_policy: Tensor,
    logp_old: Tensor,
    advantages: Tensor,
    mask: Tensor,
    aggregation: str,
    **parameters: Any,
) -> Tensor:
    """Call the loss as one process does that has the whole batch: without global counts."""
    policy = loss(
        policy_loss_type=kind,
        token_level_loss=light.translated(AGGREGATIONS[kind], aggregation, f"openrlhf {kind}"),
        **{SETTINGS[name]: value for name, value in parameters.items()},
    )
    per_token = advantages.ndim == 2
    return policy(
        logp_policy,
        logp_old,
        advantages if per_token else advantages.unsqueeze(-1).expand_as(logp_policy),
        action_mask=mask.long(),  # its masks are made from token ids
    )[0]


def _kl(checkout: Path | None) -> Implementation:
    version = light.installed("openrlhf")
    what = f"openrlhf {version}"
    estimate = _utils("compute_approx_kl")["compute_approx_kl"]
    aggregate = _loss("aggregate_loss")["aggregate_loss"]
    defaults = light.argument_defaults(estimate, ("kl_estimator",), f"{what}, compute_approx_kl,")

    def call(
        *, logp_policy: Tensor, logp_reference: Tensor, mask: Tensor, estimator: str
    ) -> Tensor:
        return aggregate(estimate(logp_policy, logp_reference, kl_estimator=estimator), mask.long())

    return Implementation(
        name="openrlhf",
        call=call,
        inputs=("logp_policy", "logp_reference", "mask"),
        parameters={"estimator": defaults["kl_estimator"]},
        called=f"{what}, openrlhf.models.utils.compute_approx_kl and aggregate_loss",
        finite_padding=True,  # as for the surrogates
        unknown=light.unfamiliar("openrlhf", version, KNOWN),
    )


def _advantages(checkout: Path | None) -> Implementation:
    import torch

    version = light.installed("openrlhf")
    what = f"openrlhf {version}"
    path = light.source("openrlhf", "openrlhf/trainer/ppo_utils/experience_maker.py")
    methods = tuple(
        f"{MAKER}.{name}" for name in ("compute_advantages_and_returns", "get_cumulative_returns")
    )
    namespace = {
        "torch": torch,
        "itertools": itertools,
        "apply_length_penalties": lambda experiences, args: None,  # off by default
        **_utils("compute_reward"),
    }
    found = light.extract(path, methods, namespace, what)
    return Implementation(
        name="openrlhf",
        call=partial(_call_advantages, what, *(found[name] for name in methods)),
        inputs=("rewards",),
        parameters={"scale": "std"},
        called=(
            f"{what}, openrlhf.trainer.ppo_utils.experience_maker.{methods[0]}, "
            f"estimator {ESTIMATORS['std']}"
        ),
        unknown=light.unfamiliar("openrlhf", version, KNOWN),
    )


def _call_advantages(
    what: str, compute: Any, returns: Any, *, rewards: Tensor, scale: str
) -> Tensor:
    """Call the method with one experience that holds every response, of one token each."""
    import torch

    given = partial(light.Given, what)
    estimator = light.translated(ESTIMATORS, scale, "openrlhf")
    advantage = given("args.algo.advantage", estimator=estimator, gamma=1.0)
    args = given(
        "args",
        algo=given("args.algo", advantage=advantage),
        rollout=given("args.rollout", n_samples_per_prompt=rewards.shape[1]),
        reward=given("args.reward", clip_range=(-10.0, 10.0)),  # the default
    )
    maker: light.Given = given(
        MAKER,
        strategy=given(f"{MAKER}.strategy", args=args),
        advantage_estimator=estimator,
        kl_ctl=given(f"{MAKER}.kl_ctl", value=0.0),  # no penalty in the reward
        get_cumulative_returns=lambda *arguments: returns(maker, *arguments),
    )
    flat = rewards.reshape(-1)
    experience = SimpleNamespace(
        index=list(range(len(flat))),
        rewards=flat,
        kl=torch.zeros_like(flat).unsqueeze(-1),  # its dtype is that of the advantages
        action_mask=torch.ones_like(flat, dtype=torch.long).unsqueeze(-1),
        info={},
    )
    compute(maker, [experience])
    return experience.advantages.reshape(rewards.shape)


OPENRLHF = Adapter(
    name="openrlhf",
    package="openrlhf",
    known=KNOWN,
    losses={
        "grpo.surrogate": partial(_surrogate, kind="ppo"),
        "gspo.surrogate": partial(_surrogate, kind="gspo"),
        "kl.estimate": _kl,
        "grpo.advantages": _advantages,
    },
)
