"""SkyRL: the loss of its worker, `PolicyWorkerBase._forward_backward_micro`.

A policy loss of SkyRL is a masked sum: the mean lies in the advantages, which the trainer scales
first. The worker adds the KL term. Its modules import ray, jaxtyping and flash-attn; the functions
on arrays are taken alone from the installed source, and the loss is taken where the worker would
differentiate it.
"""

from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any

from rlvraudit.audit.implementations.adapters import light
from rlvraudit.audit.implementations.adapters.adapter import Adapter
from rlvraudit.audit.implementations.implementation import Implementation

KNOWN = ("0.3.0",)
TRAIN = "skyrl/backends/skyrl_train"
METHOD = "PolicyWorkerBase._forward_backward_micro"
REDUCE = "apply_loss_reduction_to_advantages_minibatch"
ADVANTAGES = "compute_grpo_outcome_advantage"
REGISTERS = ("register_policy_loss", "register_advantage_estimator")
LOSSES = {"regular": "ppo_policy_loss", "gspo": "gspo_policy_loss"}
"""By `policy_loss_type`, the function."""
AGGREGATIONS = {
    "token-mean": "token_mean",
    "seq-mean-token-mean": "sequence_mean",
    "seq-mean-token-sum-norm": "seq_mean_token_sum_norm",
}
"""By the tool's name, `loss_reduction`."""
SCALES = {"std": True, "none": False}
"""By the tool's name, `grpo_norm_by_std`."""
SETTINGS = (
    "eps_clip_low",
    "eps_clip_high",
    "loss_reduction",
    "max_seq_len",
    "use_kl_loss",
    "kl_loss_coef",
)
"""Those of `AlgorithmConfig` that are parameters under the tool's names."""
LEFT = ("kl_estimator_type", "temperature", "use_entropy_loss", "entropy_loss_coef")
"""Those that stay as they are."""

Tensor = Any


def _what() -> str:
    return f"skyrl {light.installed('skyrl')}"


def _utils(*names: str) -> dict[str, Any]:
    """Return functions of `ppo_utils`, in a namespace that holds what they name."""
    import torch

    common = {"torch": torch, "defaultdict": defaultdict}
    for file, functions in (
        ("torch_utils", ("masked_mean", "safe_exp_delta")),
        ("off_policy_correction_utils", ("apply_off_policy_correction",)),
    ):
        path = light.source("skyrl", f"{TRAIN}/utils/{file}.py")
        common |= light.extract(path, functions, common, _what())
    path = light.source("skyrl", f"{TRAIN}/utils/ppo_utils.py")
    return common | light.extract(path, names, common, _what(), REGISTERS)


def _config(*names: str) -> dict[str, Any]:
    path = light.source("skyrl", "skyrl/train/config/config.py")
    return light.field_defaults(path, "AlgorithmConfig", names, _what())


def _worker(utils: dict[str, Any]) -> Any:
    """Return the worker's method, on whatever device the batch is."""
    import torch

    cuda = light.Given(_what(), "torch.cuda", current_device=lambda: None)
    namespace = {
        **utils,
        "torch": light.stub("torch", **{**vars(torch), "cuda": cuda}),
        "compute_minibatch_rollout_logprob_diff_metrics": lambda *_: {},
    }
    path = light.source("skyrl", f"{TRAIN}/workers/worker.py")
    return light.extract(path, (METHOD,), namespace, _what())[METHOD]


def _surrogate(checkout: Path | None, *, kind: str) -> Implementation:
    utils = _utils("reduce_loss", "compute_approx_kl", REDUCE, LOSSES[kind])
    config = _config(*SETTINGS, *LEFT)
    left = {name: config[name] for name in LEFT}
    parameters = {
        "clip_low": config["eps_clip_low"],
        "clip_high": config["eps_clip_high"],
        "aggregation": light.named(AGGREGATIONS, config["loss_reduction"], _what()),
        "norm": config["max_seq_len"],
        "beta": config["kl_loss_coef"] if config["use_kl_loss"] else 0.0,
    }
    if kind == "regular":
        parameters["dual_clip"] = None  # a loss type of its own, dual_clip
    return Implementation(
        name="skyrl",
        call=partial(
            _call, _worker(utils), utils[REDUCE], utils[LOSSES[kind]], _what(), kind, left
        ),
        inputs=("logp_policy", "logp_old", "logp_reference", "advantages", "mask"),
        parameters=parameters,
        called=(
            f"{_what()}, {TRAIN.replace('/', '.')}.workers.worker.{METHOD}, policy_loss_type "
            f"{kind}, on advantages scaled by {REDUCE}"
        ),
        # The model gives every position a log-probability, pad_input and rollouts give 0.
        finite_padding=True,
        unknown=light.unfamiliar("skyrl", light.installed("skyrl"), KNOWN),
    )


class _Model:
    """Stands for the policy: its log-probabilities are there already."""

    def __init__(self, logp: Tensor) -> None:
        self._logp = logp

    def train(self) -> None:
        """Change nothing: there is no dropout."""

    def __call__(self, *_: Any, **__: Any) -> tuple[Tensor, dict[str, Tensor]]:
        rows, width = self._logp.shape
        return self._logp, {"entropy": self._logp.detach().new_zeros(rows, width + 1)}


def _call(
    worker: Any,
    reduce: Any,
    loss: Any,
    what: str,
    kind: str,
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
    norm: int | None,
    beta: float,
    dual_clip: float | None = None,
) -> Tensor:
    """Take the loss where one worker that has the whole mini-batch would differentiate it."""
    if kind == "gspo" and dual_clip is not None:
        raise ValueError("skyrl clips twice in a loss type of its own, which is not gspo")
    given = partial(light.Given, what)
    reduction = light.translated(AGGREGATIONS, aggregation, "skyrl")
    algorithm = given(
        "cfg.algorithm",
        **left,
        policy_loss_type=kind if dual_clip is None else "dual_clip",
        loss_reduction=reduction,
        eps_clip_low=clip_low,
        eps_clip_high=clip_high,
        clip_ratio_c=dual_clip,
        use_kl_loss=beta != 0.0,
        kl_loss_coef=beta,
        off_policy_correction=None,  # read where there are rollout_logprobs
    )
    loss_mask = mask.float()  # as convert_prompts_responses_to_batch_tensors has it
    wide = advantages if advantages.ndim == 2 else advantages.unsqueeze(-1).expand_as(mask)
    experience = given(
        "Experience",
        to_device=lambda _: None,
        action_log_probs=logp_old,
        base_action_log_probs=logp_reference,
        advantages=reduce(wide, loss_mask, reduction, len(mask), norm),
        num_actions=mask.shape[1],
        loss_mask=loss_mask,
        action_mask=None,
        rollout_logprobs=None,
        **dict.fromkeys(("sequences", "attention_mask", "pixel_values", "image_grid_thw")),
    )
    taken: list[Tensor] = []
    policy = given(
        "PolicyWorkerBase",
        cfg=given("cfg", algorithm=algorithm),
        model=_Model(logp_policy),
        policy_loss_fn=loss,
        mesh_rank=given("mesh_rank", dp_size=1),
        strategy=given("strategy", backward=lambda value, *_: taken.append(value)),
        optimizer=None,
        scheduler=given("scheduler", get_last_lr=lambda: [0.0]),
    )
    logger = given("loguru.logger", warning=lambda _: None)  # that GSPO wants sequence_mean
    with light.standing_in({"loguru": light.stub("loguru", logger=logger)}):
        worker(policy, experience, 1.0)
    return taken[0]


def _kl(checkout: Path | None) -> Implementation:
    utils = _utils("compute_approx_kl")

    def call(
        *, logp_policy: Tensor, logp_reference: Tensor, mask: Tensor, estimator: str
    ) -> Tensor:
        loss_mask = mask.float()
        estimate = utils["compute_approx_kl"](logp_policy, logp_reference, loss_mask, estimator)
        return utils["masked_mean"](estimate, loss_mask)

    return Implementation(
        name="skyrl",
        call=call,
        inputs=("logp_policy", "logp_reference", "mask"),
        parameters={"estimator": _config("kl_estimator_type")["kl_estimator_type"]},
        called=(
            f"{_what()}, {TRAIN.replace('/', '.')}.utils.ppo_utils.compute_approx_kl and "
            "masked_mean over all tokens"
        ),
        finite_padding=True,  # as for the surrogates
        unknown=light.unfamiliar("skyrl", light.installed("skyrl"), KNOWN),
    )


def _advantages(checkout: Path | None) -> Implementation:
    found = _utils(ADVANTAGES)[ADVANTAGES]
    defaults = light.argument_defaults(found, ("epsilon", "grpo_norm_by_std"), _what())

    def call(*, rewards: Tensor, groups: Tensor = None, scale: str, epsilon: float) -> Tensor:
        import torch

        if groups is None:
            groups = torch.arange(len(rewards)).repeat_interleave(rewards.shape[1])
        scores = rewards.reshape(-1, 1)  # of one token each
        advantages, _ = found(
            scores,
            torch.ones_like(scores),
            groups.reshape(-1).cpu().numpy(),
            epsilon=epsilon,
            grpo_norm_by_std=light.translated(SCALES, scale, "skyrl"),
        )
        return advantages.reshape(rewards.shape)

    return Implementation(
        name="skyrl",
        call=call,
        inputs=("rewards", "groups"),
        parameters={
            "scale": light.named(SCALES, defaults["grpo_norm_by_std"], _what()),
            "epsilon": defaults["epsilon"],
        },
        called=f"{_what()}, {TRAIN.replace('/', '.')}.utils.ppo_utils.{ADVANTAGES}",
        unknown=light.unfamiliar("skyrl", light.installed("skyrl"), KNOWN),
    )


SKYRL = Adapter(
    name="skyrl",
    package="skyrl",
    known=KNOWN,
    losses={
        "grpo.surrogate": partial(_surrogate, kind="regular"),
        "gspo.surrogate": partial(_surrogate, kind="gspo"),
        "kl.estimate": _kl,
        "grpo.advantages": _advantages,
    },
)
