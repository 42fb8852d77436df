"""NeMo-RL: `ClippedPGLossFn`, `calculate_kl` and the advantages of `GRPOAdvantageEstimator`.

Their modules import pydantic, transformers and half of NeMo-RL; the classes and functions are taken
alone from the checkout. Every tensor of its batch but the policy's holds one position more, the
first, which the loss cuts off.
"""

import enum
from functools import partial
from pathlib import Path
from typing import Any

from rlvraudit.audit.implementations.adapters import checkouts, light
from rlvraudit.audit.implementations.adapters.adapter import Adapter
from rlvraudit.audit.implementations.implementation import Implementation

KNOWN = ("7ea279abfbeb698b092856d0dab61e7cf39bc909",)
FOLDER = "nemo_rl/algorithms"
LOSS = "ClippedPGLossFn"
ESTIMATOR = "GRPOAdvantageEstimator"
TOKEN_LEVEL = {"token-mean": True, "seq-mean-token-mean": False}
"""By the tool's name of an aggregation, `token_level_loss`."""
SCALES = {"std": True, "none": False}
"""By the tool's name, `normalize_rewards`."""
SETTINGS = {
    "clip_low": "ratio_clip_min",
    "clip_high": "ratio_clip_max",
    "dual_clip": "ratio_clip_c",
    "beta": "reference_policy_kl_penalty",
    "estimator": "reference_policy_kl_type",
}
"""By the name of the parameter, the field of `ClippedPGLossConfig`."""
LEFT = (
    "disable_ppo_ratio",
    "kl_input_clamp_value",
    "kl_output_clamp_value",
    "use_kl_in_reward",
    "use_importance_sampling_correction",
    "truncated_importance_sampling_type",
    "truncated_importance_sampling_ratio",
    "truncated_importance_sampling_ratio_min",
    "use_on_policy_kl_approximation",
    "force_on_policy_ratio",
    "use_cispo",
    "positive_example_nll_weight",
)
"""The fields that stay as they are."""

Tensor = Any


def _what(checkout: Path | None) -> str:
    return checkouts.described("NeMo-RL", checkout)


def _file(checkout: Path | None, path: str) -> Path:
    return light.in_checkout(checkout, "nemo-rl", f"{FOLDER}/{path}")


def _utils(checkout: Path | None, *names: str) -> dict[str, Any]:
    import torch

    return light.extract(_file(checkout, "utils.py"), names, {"torch": torch}, _what(checkout))


def _config(checkout: Path | None, *names: str) -> dict[str, Any]:
    path = _file(checkout, "loss/loss_functions.py")
    return light.field_defaults(path, "ClippedPGLossConfig", names, _what(checkout))


def _loss(checkout: Path | None) -> Any:
    """Return the class of the loss."""
    import torch

    what = _what(checkout)
    enums = ("LossType", "MetricNormalizer", "LossInputType")
    path = _file(checkout, "loss/interfaces.py")
    namespace = {
        "torch": torch,
        "LossFunction": object,  # a protocol
        **light.extract(path, enums, {"enum": enum}, what),
        **_utils(checkout, "calculate_kl", "masked_mean"),
    }
    path = _file(checkout, "loss/loss_functions.py")
    return light.extract(path, (LOSS,), namespace, what)[LOSS]


def _surrogate(checkout: Path | None, *, sequence: bool) -> Implementation:
    what = _what(checkout)
    loss = _loss(checkout)
    config = _config(checkout, *SETTINGS.values(), *LEFT, "token_level_loss")
    parameters = {ours: config[theirs] for ours, theirs in SETTINGS.items()}
    if not sequence:  # GSPO refuses token_level_loss
        parameters["aggregation"] = light.named(TOKEN_LEVEL, config["token_level_loss"], what)
    return Implementation(
        name="nemo-rl",
        call=partial(_call, loss, what, sequence, {name: config[name] for name in LEFT}),
        inputs=("logp_policy", "logp_old", "logp_reference", "advantages", "mask"),
        parameters=parameters,
        called=(
            f"{what}, {FOLDER.replace('/', '.')}.loss.loss_functions.{LOSS}, "
            f"sequence_level_importance_ratios {sequence}"
        ),
        # The model gives every position a log-probability, and its workers fill the others with 0.
        finite_padding=True,
        unknown=light.unfamiliar("NeMo-RL", checkouts.commit(checkout), KNOWN),
    )


def _call(
    loss: Any,
    what: str,
    sequence: bool,
    left: dict[str, Any],
    *,
    logp_policy: Tensor,
    logp_old: Tensor,
    advantages: Tensor,
    mask: Tensor,
    logp_reference: Tensor = None,
    aggregation: str = "seq-mean-token-mean",
    **parameters: Any,
) -> Tensor:
    """Call the loss as one worker does that has the whole batch, sampled from the old policy."""
    config = light.Given(
        what,
        "ClippedPGLossConfig",
        **left,
        sequence_level_importance_ratios=sequence,
        token_level_loss=light.translated(TOKEN_LEVEL, aggregation, "nemo-rl"),
        **{SETTINGS[name]: value for name, value in parameters.items()},
    )
    token_mask = mask.long()  # made from token ids
    sample_mask = mask.new_ones(len(mask)).float()
    wide = advantages if advantages.ndim == 2 else advantages.unsqueeze(-1).expand_as(logp_policy)
    data = {
        "token_mask": _shifted(token_mask),
        "sample_mask": sample_mask,
        "advantages": _shifted(wide),
        "prev_logprobs": _shifted(logp_old),
        "generation_logprobs": _shifted(logp_old),
        **(
            {}
            if logp_reference is None
            else {"reference_policy_logprobs": _shifted(logp_reference)}
        ),
    }
    tokens = (token_mask * sample_mask.unsqueeze(-1)).sum()
    value, _ = loss(config)(logp_policy, data, sample_mask.sum(), tokens)
    return value


def _shifted(tensor: Tensor) -> Tensor:
    """Return the tensor after one more position, that of the first token, which none predicts."""
    import torch

    return torch.cat([torch.zeros_like(tensor[:, :1]), tensor], 1)


def _kl(checkout: Path | None) -> Implementation:
    utils = _utils(checkout, "calculate_kl", "masked_mean")
    defaults = light.argument_defaults(utils["calculate_kl"], ("kl_type",), _what(checkout))

    def call(
        *, logp_policy: Tensor, logp_reference: Tensor, mask: Tensor, estimator: str
    ) -> Tensor:
        estimate = utils["calculate_kl"](logp_policy, logp_reference, kl_type=estimator)
        return utils["masked_mean"](estimate, mask.long())

    return Implementation(
        name="nemo-rl",
        call=call,
        inputs=("logp_policy", "logp_reference", "mask"),
        parameters={"estimator": defaults["kl_type"]},
        called=f"{_what(checkout)}, {FOLDER.replace('/', '.')}.utils.calculate_kl and masked_mean",
        finite_padding=True,  # as for the surrogates
        unknown=light.unfamiliar("NeMo-RL", checkouts.commit(checkout), KNOWN),
    )


def _advantages(checkout: Path | None) -> Implementation:
    import torch

    what = _what(checkout)
    namespace = {"torch": torch, **_utils(checkout, "calculate_baseline_and_std_per_prompt")}
    path = _file(checkout, "advantage_estimator.py")
    estimator = light.extract(path, (ESTIMATOR,), namespace, what)[ESTIMATOR]
    names = ("normalize_rewards", "use_leave_one_out_baseline")
    config = light.field_defaults(path, "AdvEstimatorConfig", names, what)

    def call(*, rewards: Tensor, groups: Tensor = None, scale: str, leave_one_out: bool) -> Tensor:
        if groups is None:
            groups = torch.arange(len(rewards)).repeat_interleave(rewards.shape[1])
        given = light.Given(
            what,
            "AdvEstimatorConfig",
            normalize_rewards=light.translated(SCALES, scale, "nemo-rl"),
            use_leave_one_out_baseline=leave_one_out,
        )
        flat = rewards.reshape(-1).float()  # as its environments return them; it takes no FP64
        prompts = groups.reshape(-1, 1).to(flat.device)
        found = estimator(given, None).compute_advantage(prompts, flat, flat.unsqueeze(-1))
        return found.reshape(rewards.shape)

    return Implementation(
        name="nemo-rl",
        call=call,
        inputs=("rewards", "groups"),
        parameters={
            "scale": light.named(SCALES, config["normalize_rewards"], what),
            "leave_one_out": config["use_leave_one_out_baseline"],
        },
        called=f"{what}, {FOLDER.replace('/', '.')}.advantage_estimator.{ESTIMATOR}",
        unknown=light.unfamiliar("NeMo-RL", checkouts.commit(checkout), KNOWN),
    )


NEMO_RL = Adapter(
    name="nemo-rl",
    package="",
    known=KNOWN,
    losses={
        "grpo.surrogate": partial(_surrogate, sequence=False),
        "gspo.surrogate": partial(_surrogate, sequence=True),
        "kl.estimate": _kl,
        "grpo.advantages": _advantages,
    },
)
