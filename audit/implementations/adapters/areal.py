"""AReaL: `ppo_actor_loss_fn` and the class `Normalization`.

Importing them imports the command line and the data code of AReaL, with what those need; they
are taken alone from the installed source. AReaL puts a KL penalty into rewards, not into the loss.
"""

from functools import partial
from pathlib import Path
from typing import Any

from rlvraudit.audit.implementations.adapters import light
from rlvraudit.audit.implementations.adapters.adapter import Adapter
from rlvraudit.audit.implementations.implementation import Implementation

KNOWN = ("1.0.4",)
LOSS = "ppo_actor_loss_fn"
AGGREGATIONS = {"token-mean": "token mean"}
"""It has no other, and no option for one."""
SCALES = {"std": "group", "none": None}
"""By the tool's name, the `std_level` of groups."""

Tensor = Any


def _what() -> str:
    return f"areal {light.installed('areal')}"


def _config(name: str, fields: tuple[str, ...]) -> dict[str, Any]:
    path = light.source("areal", "areal/api/cli_args.py")
    return light.field_defaults(path, name, fields, _what())


def _surrogate(checkout: Path | None, *, level: str) -> Implementation:
    import torch

    path = light.source("areal", "areal/utils/functional/functional.py")
    names = ("_compute_sequence_level_ratio_and_advantages", LOSS)
    loss = light.extract(path, names, {"torch": torch}, _what())[LOSS]
    config = _config("PPOActorConfig", ("eps_clip", "eps_clip_higher", "c_clip"))
    low, high = config["eps_clip"], config["eps_clip_higher"]
    return Implementation(
        name="areal",
        call=partial(_call, loss, level),
        inputs=("logp_policy", "logp_old", "advantages", "mask"),
        parameters={
            "clip_low": low,
            "clip_high": low if high is None else high,  # as the function has it
            "aggregation": "token-mean",
            "dual_clip": config["c_clip"],
        },
        called=(
            f"{_what()}, areal.utils.functional.functional.{LOSS}, "
            f"importance_sampling_level {level}"
        ),
        # Masked positions hold the prompt: the model's own log-probabilities, and 0 for old ones.
        finite_padding=True,
        unknown=light.unfamiliar("areal", light.installed("areal"), KNOWN),
    )


def _call(
    loss: Any,
    level: str,
    *,
    logp_policy: Tensor,
    logp_old: Tensor,
    advantages: Tensor,
    mask: Tensor,
    clip_low: float,
    clip_high: float,
    aggregation: str,
    dual_clip: float | None,
) -> Tensor:
    """Call the loss as it is called without decoupling: the proximal policy is the old one."""
    light.translated(AGGREGATIONS, aggregation, "areal")
    per_token = advantages.ndim == 2
    value, _ = loss(
        logprobs=logp_policy,
        proximal_logprobs=logp_old,
        old_logprobs=logp_old,
        advantages=advantages if per_token else advantages.unsqueeze(-1).expand_as(logp_policy),
        eps_clip=clip_low,
        eps_clip_higher=clip_high,
        loss_mask=mask,
        c_clip=dual_clip,
        importance_sampling_level=level,
    )
    return value


def _advantages(checkout: Path | None) -> Implementation:
    import numpy as np
    import torch

    what = _what()
    namespace = {"torch": torch, "np": np, "dist": torch.distributed}
    path = light.source("areal", "areal/utils/data.py")
    normalization = light.extract(path, ("Normalization",), namespace, what)["Normalization"]
    config = _config("NormConfig", ("mean_leave1out", "std_unbiased", "eps"))

    def call(*, rewards: Tensor, scale: str, ddof: int, epsilon: float, leave_one_out: bool) -> Any:
        of_groups = light.Given(
            what,
            "NormConfig",
            mean_level="group",
            mean_leave1out=leave_one_out,
            std_level=light.translated(SCALES, scale, "areal"),
            std_unbiased=bool(ddof),
            group_size=rewards.shape[1],
            eps=epsilon,
        )
        return normalization(of_groups)(rewards.reshape(-1)).reshape(rewards.shape)

    return Implementation(
        name="areal",
        call=call,
        inputs=("rewards",),
        parameters={
            "scale": "std",
            "ddof": int(config["std_unbiased"]),
            "epsilon": config["eps"],
            "leave_one_out": config["mean_leave1out"],
        },
        called=f"{what}, areal.utils.data.Normalization, mean_level and std_level group",
        unknown=light.unfamiliar("areal", light.installed("areal"), KNOWN),
    )


AREAL = Adapter(
    name="areal",
    package="areal",
    known=KNOWN,
    losses={
        "grpo.surrogate": partial(_surrogate, level="token"),
        "gspo.surrogate": partial(_surrogate, level="sequence"),
        "grpo.advantages": _advantages,
    },
)
