"""TRL: the loss of its GRPO trainer, `GRPOTrainer._compute_loss`.

The trainer needs a model, a tokenizer and half of the ecosystem; the method needs arrays and a
few settings. It is taken alone from the installed source and called with a stub `self` whose
settings are the defaults of the installed `GRPOConfig`.
"""

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from rlvraudit.audit.implementations.adapters import light
from rlvraudit.audit.implementations.adapters.adapter import Adapter
from rlvraudit.audit.implementations.implementation import Implementation

KNOWN = ("1.16.0",)
METHOD = "GRPOTrainer._compute_loss"
LOSS_TYPES = {
    "token-mean": "dapo",
    "seq-mean-token-mean": "grpo",
    "seq-mean-token-sum": "luspo",
    "seq-mean-token-sum-norm": "dr_grpo",
}
"""By the tool's name of an aggregation, the `loss_type` that aggregates so."""
SETTINGS = ("loss_type", "epsilon", "epsilon_high", "delta", "beta", "max_completion_length")
"""Those of `GRPOConfig` that are parameters under the tool's names."""
LEFT = ("top_entropy_quantile", "off_policy_mask_threshold", "use_vllm")
"""Those that stay as they are."""

Tensor = Any


def _method(what: str) -> Callable[..., Tensor]:
    """Return `_compute_loss` as a function of `self`, the model and the inputs."""
    import torch

    utils, trainer = (
        light.source("trl", f"trl/trainer/{name}.py") for name in ("utils", "grpo_trainer")
    )
    metrics = light.extract(utils, ("nanmin", "nanmax"), {"torch": torch}, what)
    found = light.extract(trainer, (METHOD,), {"torch": torch, **metrics}, what)
    method: Callable[..., Tensor] = found[METHOD]
    return method


def _surrogate(checkout: Path | None, *, level: str) -> Implementation:
    version = light.installed("trl")
    what = f"trl {version}"
    names = (*SETTINGS, *LEFT, "use_bias_correction_kl")
    path = light.source("trl", "trl/trainer/grpo_config.py")
    config = light.field_defaults(path, "GRPOConfig", names, what)
    low, high = config["epsilon"], config["epsilon_high"]
    return Implementation(
        name="trl",
        call=partial(_call, _method(what), what, level, {name: config[name] for name in LEFT}),
        inputs=("logp_policy", "logp_old", "logp_reference", "advantages", "mask"),
        parameters={
            "clip_low": low,
            "clip_high": low if high is None else high,  # as the trainer's __init__ has it
            "aggregation": light.named(LOSS_TYPES, config["loss_type"], what),
            "norm": config["max_completion_length"],
            "dual_clip": config["delta"],
            "beta": config["beta"],
            "use_bias_correction_kl": config["use_bias_correction_kl"],
        },
        called=(
            f"{what}, trl.trainer.grpo_trainer.{METHOD}, loss_type {config['loss_type']}, "
            f"importance_sampling_level {level}"
        ),
        # The model returns log-probability 0 at labels of -100, which is what padding gets.
        finite_padding=True,
        unknown=light.unfamiliar("trl", version, KNOWN),
    )


def _call(
    method: Callable[..., Tensor],
    what: str,
    level: str,
    left: dict[str, Any],
    *,
    logp_policy: Tensor,
    logp_old: Tensor,
    advantages: Tensor,
    mask: Tensor,
    logp_reference: Tensor = None,
    clip_low: float,
    clip_high: float,
    aggregation: str,
    norm: float,
    dual_clip: float | None,
    beta: float,
    use_bias_correction_kl: bool,
) -> Tensor:
    """Call the method as one process without gradient accumulation does."""
    given = partial(light.Given, what)
    entropies = logp_policy.detach().new_zeros(logp_policy.shape)  # for a metric alone
    trainer = given(
        "GRPOTrainer",
        **left,
        loss_type=light.translated(LOSS_TYPES, aggregation, "trl"),
        importance_sampling_level=level,
        epsilon_low=clip_low,
        epsilon_high=clip_high,
        beta=beta,
        max_completion_length=norm,
        args=given(
            "GRPOTrainer.args",
            # A cap of the ratio before the minimum: dual clip, where it is above 1 + epsilon_high.
            delta=dual_clip,
            use_bias_correction_kl=use_bias_correction_kl,
            steps_per_generation=1,
        ),
        current_gradient_accumulation_steps=1,
        model=given("GRPOTrainer.model", training=True),
        accelerator=given(
            "GRPOTrainer.accelerator",
            num_processes=1,
            gather=lambda tensor: tensor,
            reduce=lambda tensor, reduction: tensor,
        ),
        aux_loss_enabled=False,
        _entropy_bonus_enabled=False,
        _get_per_token_logps_and_entropies=lambda *_, **__: (logp_policy, entropies, None),
        _metrics={"train": defaultdict(list)},
    )
    inputs = _inputs(mask, advantages=advantages, old_per_token_logps=logp_old)
    return method(trainer, None, {**inputs, "ref_per_token_logps": logp_reference})


def _inputs(mask: Tensor, **tensors: Tensor) -> dict[str, Tensor]:
    """Return a batch as the trainer prepares it; its token ids are only passed to the model."""
    completion = mask.long()
    prompt = completion[:, :1]
    return {
        "prompt_ids": prompt,
        "prompt_mask": prompt,
        "completion_ids": completion,
        "completion_mask": completion,
        "num_items_in_batch": completion.sum(),
        **tensors,
    }


TRL = Adapter(
    name="trl",
    package="trl",
    known=KNOWN,
    losses={
        "grpo.surrogate": partial(_surrogate, level="token"),
        "gspo.surrogate": partial(_surrogate, level="sequence"),
    },
)
