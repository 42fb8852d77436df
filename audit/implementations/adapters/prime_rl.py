"""prime-rl: `compute_loss` with `default_loss_fn`, and the advantages of `GRPOAlgorithm`.

Its default loss is not GRPO's: tokens whose probability moved too far to the harmful side are
left out, the ratio of the others is not clipped, and the squared log-ratio to the sampling policy
is added. The module imports beartype, jaxtyping and prime-rl's configs; the functions are taken
alone from the checkout.
"""

import asyncio
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rlvraudit.audit.implementations.adapters import checkouts, light
from rlvraudit.audit.implementations.adapters.adapter import Adapter
from rlvraudit.audit.implementations.implementation import Implementation

KNOWN = ("559b44772e471d1538537b8805cc77f3824a5e64",)
CONFIGS = "packages/prime-rl-configs/src/prime_rl/configs"
ADVANTAGES = "GRPOAlgorithm.score_group"
AGGREGATIONS = {"token-mean": "sum over the number of tokens"}
"""It has no other, and no option for one."""
SETTINGS = ("dppo_mask_low", "dppo_mask_high", "adv_tau", "kl_tau")
"""The fields of `DefaultLossConfig`; none is a parameter that GRPO has."""

Tensor = Any


def _what(checkout: Path | None) -> str:
    return checkouts.described("prime-rl", checkout)


def _file(checkout: Path | None, path: str) -> Path:
    return light.in_checkout(checkout, "prime-rl", path)


def _surrogate(checkout: Path | None) -> Implementation:
    import torch

    what = _what(checkout)
    names = (
        "LossInputs",
        "LossOutputs",
        "_safe_mean",
        "compute_importance_ratio_and_mismatch_kl",
        "default_loss_fn",
        "compute_loss",
    )
    namespace = {"torch": torch, "dataclass": dataclass, "field": field}
    path = _file(checkout, "src/prime_rl/trainer/rl/loss.py")
    found = light.extract(path, names, namespace, what)
    path = _file(checkout, f"{CONFIGS}/trainer.py")
    defaults = light.field_defaults(path, "DefaultLossConfig", SETTINGS, what)
    return Implementation(
        name="prime-rl",
        call=partial(_call, found["compute_loss"], found["default_loss_fn"], what),
        inputs=("logp_policy", "logp_old", "advantages", "mask"),
        parameters={**defaults, "aggregation": "token-mean"},
        called=f"{what}, prime_rl.trainer.rl.loss.compute_loss with default_loss_fn",
        unlike="DPPO with a binary total-variation mask and a squared log-ratio, not GRPO's loss",
        # Samples are packed; what is masked is the prompt, or padding whose old logprobs are 0.
        finite_padding=True,
        unknown=light.unfamiliar("prime-rl", checkouts.commit(checkout), KNOWN),
    )


def _call(
    compute: Any,
    loss: Any,
    what: str,
    *,
    logp_policy: Tensor,
    logp_old: Tensor,
    advantages: Tensor,
    mask: Tensor,
    aggregation: str,
    **settings: Any,
) -> Tensor:
    """Call the loss as one rank does that has the whole batch."""
    light.translated(AGGREGATIONS, aggregation, "prime-rl")
    config = light.Given(what, "DefaultLossConfig", **settings)
    wide = advantages if advantages.ndim == 2 else advantages.unsqueeze(-1).expand_as(logp_policy)
    value, _ = compute(
        trainer_logprobs=list(logp_policy),
        inference_logprobs=list(logp_old),
        ref_logprobs=None,
        advantages=list(wide),
        loss_mask=list(mask),
        rl_weights=None,
        ce_weights=None,
        ref_kl_weights=None,
        rl_loss_fn=partial(loss, loss_config=config),
        rl_scale=max(int(mask.sum()), 1),  # as the trainer counts
        ce_scale=1,
        ref_kl_scale=1,
    )
    return value


def _advantages(checkout: Path | None) -> Implementation:
    import torch

    what = _what(checkout)
    path = _file(checkout, f"{CONFIGS}/algorithm.py")
    config = light.field_defaults(path, "GRPOAlgoConfig", ("length_penalty",), what)
    assigned: list[float] = []
    namespace = {
        "torch": torch,
        "iter_trainable_traces": lambda traces: [(None, trace) for trace in traces],
        "assign_advantages": lambda _, advantage: assigned.append(advantage),
    }
    path = _file(checkout, "src/prime_rl/orchestrator/algo/grpo.py")
    score = light.extract(path, (ADVANTAGES,), namespace, what)[ADVANTAGES]

    def call(*, rewards: Tensor) -> Tensor:
        assigned.clear()
        algorithm = light.Given(what, "GRPOAlgorithm", **config)
        for group in rewards.tolist():
            asyncio.run(score(algorithm, [SimpleNamespace(reward=reward) for reward in group]))
        return torch.tensor(assigned).reshape(rewards.shape)  # FP32, as they are made

    return Implementation(
        name="prime-rl",
        call=call,
        inputs=("rewards",),
        called=f"{what}, prime_rl.orchestrator.algo.grpo.{ADVANTAGES}",
        unknown=light.unfamiliar("prime-rl", checkouts.commit(checkout), KNOWN),
    )


PRIME_RL = Adapter(
    name="prime-rl",
    package="",
    known=KNOWN,
    losses={"grpo.surrogate": _surrogate, "grpo.advantages": _advantages},
)
