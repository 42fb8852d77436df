"""slime: `loss_function` of its Megatron backend, on log-probabilities of the responses.

The module imports Megatron; the functions are taken alone from the checkout, for one rank. Samples
are not padded in slime but concatenated: a row is passed as one response, of which a part is masked
as the output of a tool is.
"""

import ast
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rlvraudit.audit.implementations.adapters import checkouts, light
from rlvraudit.audit.implementations.adapters.adapter import Adapter, AdapterError
from rlvraudit.audit.implementations.implementation import Implementation

KNOWN = ("624b824a898ab0ec1fcb4d373004c7f3852bf515",)
BACKEND = "slime/backends/megatron_utils"
REWARDS = "RolloutManager._post_process_rewards"
PER_TOKEN = {"seq-mean-token-mean": False, "token-mean": True}
"""By the tool's name of an aggregation, `calculate_per_token_loss`."""
SCALES = {"std": True, "none": False}
"""By the tool's name, `grpo_std_normalization`."""
SETTINGS = {
    "clip_low": "--eps-clip",
    "clip_high": "--eps-clip-high",
    "dual_clip": "--eps-clip-c",
    "beta": "--kl-loss-coef",
    "estimator": "--kl-loss-type",
    "use_unbiased_kl": "--use-unbiased-kl",
}
"""By the name of the parameter, the option."""
OFF = (
    "use_rollout_logprobs",
    "use_opsm",
    "get_mismatch_metrics",
    "use_tis",
    "custom_pg_loss_reducer_function_path",
    "recompute_loss_function",
    "allgather_cp",
)
"""What changes the loss and is off unless it is asked for."""

Tensor = Any


def _options(checkout: Path | None, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the defaults of command-line options.

    Raises:
        AdapterError: One of them has no literal default.
    """
    path = light.in_checkout(checkout, "slime", "slime/utils/arguments.py")
    found: dict[str, Any] = {}
    for node in ast.walk(ast.parse(path.read_text("utf-8"), str(path))):
        match node:
            case ast.Call(
                func=ast.Attribute(attr="add_argument"), args=[ast.Constant(value=str(name)), *_]
            ):
                words = {word.arg: word.value for word in node.keywords}
                default = words.get("default")
                if isinstance(default, ast.Constant):
                    found[name] = default.value
    for name in names:
        if name not in found:
            raise AdapterError(f"{_what(checkout)} needs a default of {name}, which is not there")
    return {name: found[name] for name in names}


def _what(checkout: Path | None) -> str:
    return checkouts.described("slime", checkout)


def _utils(checkout: Path | None) -> dict[str, Any]:
    """Return the functions on tensors, and the reducer as the only rank has it."""
    import torch

    what = _what(checkout)
    path = light.in_checkout(checkout, "slime", "slime/utils/ppo_utils.py")
    kernels = ("compute_approx_kl", "compute_gspo_kl", "compute_policy_loss")
    # Compiled functions are run as they stand: a compiler is not what is audited.
    found = light.extract(path, kernels, {"torch": torch}, what, without=("torch.compile",))
    mpu = light.Given(
        what,
        "megatron.core.mpu",
        get_context_parallel_world_size=lambda: 1,
        get_context_parallel_group=lambda: None,
        get_data_parallel_world_size=lambda with_context_parallel: 1,
    )
    path = light.in_checkout(checkout, "slime", f"{BACKEND}/cp_utils.py")
    namespace = {"torch": torch, "mpu": mpu}
    reducers = ("get_sum_of_sample_mean", "all_gather_with_cp")
    return {**namespace, **found, **light.extract(path, reducers, namespace, what)}


def _loss(checkout: Path | None) -> Any:
    """Return `loss_function`, for logits that are the log-probabilities of the responses."""

    def get_log_probs_and_entropy(rows: Tensor, **_: Any) -> tuple[None, dict[str, list[Tensor]]]:
        return None, {"log_probs": list(rows), "entropy": [0.0 * row.detach() for row in rows]}

    namespace = {
        **_utils(checkout),
        "get_log_probs_and_entropy": get_log_probs_and_entropy,
        "_LOG_PROB_CAPTURE": None,  # it is for debugging
    }
    path = light.in_checkout(checkout, "slime", f"{BACKEND}/loss.py")
    names = (
        "_maybe_capture_log_probs",
        "get_rollout_top_p_logprob_kwargs",
        "policy_loss_function",
        "loss_function",
    )
    return light.extract(path, names, namespace, _what(checkout))["loss_function"]


def _surrogate(checkout: Path | None, *, kind: str) -> Implementation:
    what = _what(checkout)
    loss = _loss(checkout)
    options = _options(checkout, tuple(SETTINGS.values()))
    parameters = {ours: options[theirs] for ours, theirs in SETTINGS.items()}
    if parameters["clip_high"] is None:  # as the command line is completed
        parameters["clip_high"] = parameters["clip_low"]
    return Implementation(
        name="slime",
        call=partial(_call, loss, what, kind),
        inputs=("logp_policy", "logp_old", "logp_reference", "advantages", "mask"),
        parameters={**parameters, "aggregation": "seq-mean-token-mean"},
        called=(
            f"{what}, {BACKEND.replace('/', '.')}.loss.loss_function, advantage_estimator {kind}, "
            "functions not compiled"
        ),
        # There is no padding: what is masked in a response has the models' own log-probabilities.
        finite_padding=True,
        unknown=light.unfamiliar("slime", checkouts.commit(checkout), KNOWN),
    )


def _call(
    loss: Any,
    what: str,
    kind: str,
    *,
    logp_policy: Tensor,
    logp_old: Tensor,
    advantages: Tensor,
    mask: Tensor,
    logp_reference: Tensor = None,
    clip_low: float,
    clip_high: float,
    aggregation: str,
    dual_clip: float | None,
    beta: float,
    estimator: str,
    use_unbiased_kl: bool,
) -> Tensor:
    """Call the loss as one rank does that has the whole batch as one micro-batch."""
    per_token = light.translated(PER_TOKEN, aggregation, "slime")
    args = light.Given(
        what,
        "args",
        **dict.fromkeys(OFF),
        loss_type="policy_loss",
        advantage_estimator=kind,
        calculate_per_token_loss=per_token,
        eps_clip=clip_low,
        eps_clip_high=clip_high,
        eps_clip_c=dual_clip,
        entropy_coef=0.0,
        use_kl_loss=beta != 0.0,
        kl_loss_coef=beta,
        kl_loss_type=estimator,
        use_unbiased_kl=use_unbiased_kl,
        rollout_top_p=1.0,
    )
    wide = advantages if advantages.ndim == 2 else advantages.unsqueeze(-1).expand_as(logp_policy)
    batch = _batch(mask, log_probs=logp_old, advantages=wide, ref_log_probs=logp_reference)
    value, normalizer, _ = loss(args, batch, 1, len(mask), logp_policy)
    return value / normalizer  # as Megatron does: the number of tokens, or 1


def _batch(mask: Tensor, **tensors: Tensor) -> dict[str, Any]:
    """Return rows as a micro-batch, each a rollout of its own."""
    lengths = [mask.shape[1]] * len(mask)
    loss_masks = list(mask.int())  # as the actor has them
    return {
        "response_lengths": lengths,
        "total_lengths": lengths,
        "unconcat_tokens": None,
        "loss_masks": loss_masks,
        "rollout_mask_sums": [row.sum() for row in loss_masks],
        **{name: None if rows is None else list(rows) for name, rows in tensors.items()},
    }


def _kl(checkout: Path | None) -> Implementation:
    utils = _utils(checkout)

    def call(
        *, logp_policy: Tensor, logp_reference: Tensor, mask: Tensor, estimator: str
    ) -> Tensor:
        batch = _batch(mask)
        reduce = utils["get_sum_of_sample_mean"](
            batch["total_lengths"],
            batch["response_lengths"],
            batch["loss_masks"],
            calculate_per_token_loss=True,
        )
        flat = logp_policy.reshape(-1), logp_reference.reshape(-1)
        return reduce(utils["compute_approx_kl"](*flat, estimator)) / mask.sum()

    return Implementation(
        name="slime",
        call=call,
        inputs=("logp_policy", "logp_reference", "mask"),
        parameters={"estimator": _options(checkout, ("--kl-loss-type",))["--kl-loss-type"]},
        called=(
            f"{_what(checkout)}, slime.utils.ppo_utils.compute_approx_kl and "
            f"{BACKEND.replace('/', '.')}.cp_utils.get_sum_of_sample_mean over all tokens, "
            "divided by their number"
        ),
        finite_padding=True,  # as for the surrogates
        unknown=light.unfamiliar("slime", checkouts.commit(checkout), KNOWN),
    )


def _advantages(checkout: Path | None) -> Implementation:
    import torch

    path = light.in_checkout(checkout, "slime", "slime/ray/rollout.py")
    what = _what(checkout)
    process = light.extract(path, (REWARDS,), {"torch": torch}, what)[REWARDS]

    def call(*, rewards: Tensor, scale: str) -> Tensor:
        args = light.Given(
            what,
            "args",
            advantage_estimator="grpo",
            rewards_normalization=True,
            grpo_std_normalization=light.translated(SCALES, scale, "slime"),
            n_samples_per_prompt=rewards.shape[1],
            rollout_batch_size=len(rewards),
        )
        manager = light.Given(
            what, "RolloutManager", args=args, custom_reward_post_process_func=None
        )
        samples = [
            SimpleNamespace(get_reward_value=lambda _, reward=reward: reward)
            for reward in rewards.reshape(-1).tolist()
        ]
        _, advantages = process(manager, samples)
        return torch.tensor(advantages).reshape(rewards.shape)  # FP32, as for the trainer

    return Implementation(
        name="slime",
        call=call,
        inputs=("rewards",),
        parameters={"scale": "std"},
        called=f"{what}, slime.ray.rollout.{REWARDS}",
        unknown=light.unfamiliar("slime", checkouts.commit(checkout), KNOWN),
    )


SLIME = Adapter(
    name="slime",
    package="",
    known=KNOWN,
    losses={
        "grpo.surrogate": partial(_surrogate, kind="grpo"),
        "gspo.surrogate": partial(_surrogate, kind="gspo"),
        "kl.estimate": _kl,
        "grpo.advantages": _advantages,
    },
)
