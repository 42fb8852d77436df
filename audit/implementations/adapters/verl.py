"""verl: its actor's loss, `verl.workers.utils.losses.ppo_loss`, and what that is made of.

Importing verl imports ray, tensordict, omegaconf and transformers. The functions on arrays are
taken alone from the installed source, with a config that holds the defaults of `ActorConfig`.
"""

import math
from collections import defaultdict
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

from rlvraudit.audit.implementations.adapters import light
from rlvraudit.audit.implementations.adapters.adapter import Adapter
from rlvraudit.audit.implementations.implementation import Implementation

KNOWN = ("0.9.1",)
CORE = "verl/trainer/ppo/core_algos.py"
MASKED = ("masked_sum", "masked_mean")
LOSSES = ("vanilla", "gspo")
ADVANTAGES = "compute_grpo_outcome_advantage"
AGGREGATIONS = {
    name: name
    for name in (
        "token-mean",
        "token-sum",
        "seq-mean-token-sum",
        "seq-mean-token-mean",
        "seq-mean-token-sum-norm",
    )
}
"""verl's names are the tool's."""
SCALES = {"std": True, "none": False}
"""By the tool's name, `norm_adv_by_std_in_grpo`."""
SETTINGS = {
    "clip_low": "clip_ratio_low",
    "clip_high": "clip_ratio_high",
    "dual_clip": "clip_ratio_c",
    "aggregation": "loss_agg_mode",
    "norm": "loss_scale_factor",
}
"""By the tool's name, the field of `ActorConfig`."""

Tensor = Any


class ActorConfig(light.Given):
    """Stands for verl's class of this name, which its losses check for."""

    def get(self, name: str, default: Any = None) -> Any:
        """Return an attribute; `default` would be a guess, and is not used."""
        return getattr(self, name)


def _core(*names: str) -> dict[str, Any]:
    """Return functions of `core_algos`, in a namespace that holds what they name."""
    import torch

    what = f"verl {light.installed('verl')}"
    path = light.source("verl", "verl/utils/torch_functional.py")
    masked = light.extract(path, MASKED, {"torch": torch}, what)
    namespace = {
        "torch": torch,
        "Enum": Enum,
        "defaultdict": defaultdict,
        "verl_F": light.Given(what, "verl.utils.torch_functional", **masked),
        "ActorConfig": ActorConfig,
        "AlgoConfig": type("AlgoConfig", (), {}),
        "POLICY_LOSS_REGISTRY": {},
        "ADV_ESTIMATOR_REGISTRY": {},
    }
    return light.extract(light.source("verl", CORE), names, namespace, what)


def _ppo_loss(what: str) -> Any:
    """Return `ppo_loss`, which chooses the policy loss and adds the KL term."""
    core = _core(
        "register_policy_loss",
        "get_policy_loss_fn",
        "agg_loss",
        "kl_penalty_forward",
        "kl_penalty",
        *(f"compute_policy_loss_{name}" for name in LOSSES),
    )
    metric = light.load(light.source("verl", "verl/utils/metric/utils.py"), {})
    path = light.source("verl", "verl/workers/utils/losses.py")
    namespace = {
        **core,
        "Metric": light.needed(metric, "Metric", what),
        "AggregationType": light.needed(metric, "AggregationType", what),
        "no_padding_2_padding": lambda tensor, _: tensor,  # it is padded already
    }
    return light.extract(path, ("ppo_loss",), namespace, what)["ppo_loss"]


def _surrogate(checkout: Path | None, *, mode: str) -> Implementation:
    version = light.installed("verl")
    what = f"verl {version}"
    names = ("use_kl_loss", "kl_loss_coef", "kl_loss_type", *SETTINGS.values())
    path = light.source("verl", "verl/workers/config/actor.py")
    config = light.field_defaults(path, "ActorConfig", names, what)
    parameters = {ours: config[theirs] for ours, theirs in SETTINGS.items()}
    if mode != "vanilla":  # the others read no clip_ratio_c
        del parameters["dual_clip"]
    beta = config["kl_loss_coef"] if config["use_kl_loss"] else 0.0
    return Implementation(
        name="verl",
        call=partial(_call, _ppo_loss(what), what, mode, config["kl_loss_type"]),
        inputs=("logp_policy", "logp_old", "logp_reference", "advantages", "mask"),
        parameters={**parameters, "beta": beta},
        called=(
            f"{what}, verl.workers.utils.losses.ppo_loss, loss_mode {mode}, "
            f"kl_loss_type {config['kl_loss_type']}"
        ),
        # no_padding_2_padding and to_padded_tensor fill padding with 0.
        finite_padding=True,
        unknown=light.unfamiliar("verl", version, KNOWN),
    )


class _Batch(dict[str, Any]):
    """Stands for a TensorDict whose tensors are padded already."""

    def select(self, *names: str) -> "_Batch":
        """Return these fields alone."""
        return _Batch({name: self[name] for name in names})

    def to_padded_tensor(self) -> "_Batch":
        """Return the batch, as it is padded."""
        return self


def _call(
    ppo_loss: Any,
    what: str,
    mode: str,
    estimator: str,
    *,
    logp_policy: Tensor,
    logp_old: Tensor,
    advantages: Tensor,
    mask: Tensor,
    logp_reference: Tensor = None,
    beta: float,
    **parameters: Any,
) -> Tensor:
    """Call the loss as one process does that has the whole batch: without global counts."""
    light.translated(AGGREGATIONS, parameters["aggregation"], "verl")
    if "dual_clip" in parameters and parameters["dual_clip"] is None:
        parameters["dual_clip"] = math.inf  # it can't be turned off; this bounds nothing
    config = ActorConfig(
        what,
        "ActorConfig",
        clip_ratio=None,  # for bounds that are not given
        use_kl_loss=beta != 0.0,
        kl_loss_coef=beta,
        kl_loss_type=estimator,
        policy_loss=ActorConfig(what, "ActorConfig.policy_loss", loss_mode=mode),
        global_batch_info={},
        **{SETTINGS[name]: value for name, value in parameters.items()},
    )
    batch = _Batch(
        dp_size=1,
        batch_num_tokens=None,
        global_batch_size=None,
        old_log_probs=logp_old,
        advantages=_per_token(advantages, logp_policy),
        response_mask=mask,
        **({} if logp_reference is None else {"ref_log_prob": logp_reference}),
    )
    loss, _ = ppo_loss(config, {"log_probs": logp_policy}, batch)
    return loss


def _per_token(advantages: Tensor, logp: Tensor) -> Tensor:
    """Return the advantages as verl has them, one for each token."""
    return advantages if advantages.ndim == 2 else advantages.unsqueeze(-1).expand_as(logp)


def _kl(checkout: Path | None) -> Implementation:
    version = light.installed("verl")
    what = f"verl {version}"
    core = _core("agg_loss", "kl_penalty_forward", "kl_penalty")
    path = light.source("verl", "verl/workers/config/actor.py")
    kind = light.field_defaults(path, "ActorConfig", ("kl_loss_type",), what)["kl_loss_type"]

    def call(
        *, logp_policy: Tensor, logp_reference: Tensor, mask: Tensor, estimator: str
    ) -> Tensor:
        estimate = core["kl_penalty"](logp_policy, logp_reference, estimator)
        return core["agg_loss"](estimate, mask, "token-mean")

    return Implementation(
        name="verl",
        call=call,
        inputs=("logp_policy", "logp_reference", "mask"),
        parameters={"estimator": "k3" if kind == "low_var_kl" else kind},  # its other name
        called=f"{what}, verl.trainer.ppo.core_algos.kl_penalty and agg_loss, token-mean",
        finite_padding=True,  # as for the surrogates
        unknown=light.unfamiliar("verl", version, KNOWN),
    )


def _advantages(checkout: Path | None) -> Implementation:
    version = light.installed("verl")
    what = f"verl {version}"
    found = _core("AdvantageEstimator", "register_adv_est", ADVANTAGES)[ADVANTAGES]
    names = ("epsilon", "norm_adv_by_std_in_grpo")
    defaults = light.argument_defaults(found, names, f"{what}, {ADVANTAGES},")

    def call(*, rewards: Tensor, groups: Tensor = None, scale: str, epsilon: float) -> Tensor:
        import torch

        if groups is None:
            groups = torch.arange(len(rewards)).repeat_interleave(rewards.shape[1])
        scores = rewards.reshape(-1, 1)  # one token each
        advantages, _ = found(
            scores,
            torch.ones_like(scores),
            groups.reshape(-1).cpu().numpy(),
            epsilon=epsilon,
            norm_adv_by_std_in_grpo=light.translated(SCALES, scale, "verl"),
        )
        return advantages.reshape(rewards.shape)

    return Implementation(
        name="verl",
        call=call,
        inputs=("rewards", "groups"),
        parameters={
            "scale": light.named(SCALES, defaults["norm_adv_by_std_in_grpo"], what),
            "epsilon": defaults["epsilon"],
        },
        called=f"{what}, verl.trainer.ppo.core_algos.{ADVANTAGES}",
        unknown=light.unfamiliar("verl", version, KNOWN),
    )


VERL = Adapter(
    name="verl",
    package="verl",
    known=KNOWN,
    losses={
        "grpo.surrogate": partial(_surrogate, mode="vanilla"),
        "gspo.surrogate": partial(_surrogate, mode="gspo"),
        "kl.estimate": _kl,
        "grpo.advantages": _advantages,
    },
)
