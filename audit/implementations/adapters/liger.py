"""Liger: the pure torch core of its fused GRPO loss, `LigerFusedLinearGRPOFunction.ppo_loss_fn`.

It takes log-probabilities; the projection around it, and torch.compile, are not called. Its two
files are loaded without the package, which would look for Triton.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from rlvraudit.audit.implementations.adapters import light
from rlvraudit.audit.implementations.adapters.adapter import Adapter
from rlvraudit.audit.implementations.implementation import Implementation

PACKAGE = "liger-kernel"
KNOWN = ("0.8.5",)
CLASS = "LigerFusedLinearGRPOFunction"
CHUNKED = "liger_kernel.chunked_loss"
LOSS_TYPES = {
    "token-mean": "dapo",
    "seq-mean-token-mean": "grpo",
    "seq-mean-token-sum": "luspo",
    "seq-mean-token-sum-norm": "dr_grpo",
}
"""By the tool's name of an aggregation, the `loss_type` that is meant to aggregate so."""
ARGUMENTS = {
    "clip_low": "epsilon_low",
    "clip_high": "epsilon_high",
    "norm": "max_completion_length",
    # A cap of the ratio before the minimum: dual clip, where it is above 1 + epsilon_high.
    "dual_clip": "delta",
    "beta": "beta",
    "use_bias_correction_kl": "use_bias_correction_kl",
}
"""By the tool's name, the argument of `ppo_loss_fn`."""

Tensor = Any


def _function(version: str) -> Callable[..., tuple[Tensor, list[Tensor]]]:
    """Return `ppo_loss_fn`, loaded with its base class alone."""
    folder = CHUNKED.replace(".", "/")
    base = light.load(light.source(PACKAGE, f"{folder}/fused_linear_ppo.py"), {})
    stubs = {
        "liger_kernel": light.stub("liger_kernel"),
        CHUNKED: light.stub(CHUNKED),
        f"{CHUNKED}.fused_linear_ppo": base,
    }
    module = light.load(light.source(PACKAGE, f"{folder}/grpo_loss.py"), stubs)
    found = light.needed(module, CLASS, f"{PACKAGE} {version}")
    function: Callable[..., tuple[Tensor, list[Tensor]]] = light.needed(
        found, "ppo_loss_fn", f"{PACKAGE} {version}"
    )
    return function


def _surrogate(checkout: Path | None, *, level: str) -> Implementation:
    version = light.installed(PACKAGE)
    what = f"{PACKAGE} {version}"
    function = _function(version)
    names = ("loss_type", *ARGUMENTS.values())
    defaults = light.argument_defaults(function, names, f"{what}, ppo_loss_fn,")
    return Implementation(
        name="liger",
        call=partial(_call, function, level),
        inputs=("logp_policy", "logp_old", "logp_reference", "advantages", "mask"),
        parameters={
            "aggregation": light.named(LOSS_TYPES, defaults["loss_type"], what),
            **{ours: defaults[theirs] for ours, theirs in ARGUMENTS.items()},
        },
        called=(
            f"{what}, {CHUNKED}.grpo_loss.{CLASS}.ppo_loss_fn, loss_type {defaults['loss_type']}, "
            f"importance_sampling_level {level}"
        ),
        # Its own fused path takes every log-probability from logits, which are finite at padding.
        finite_padding=True,
        unknown=light.unfamiliar(PACKAGE, version, KNOWN),
    )


def _call(
    function: Callable[..., tuple[Tensor, list[Tensor]]],
    level: str,
    *,
    logp_policy: Tensor,
    logp_old: Tensor,
    advantages: Tensor,
    mask: Tensor,
    logp_reference: Tensor = None,
    aggregation: str,
    **parameters: Any,
) -> Tensor:
    """Call the function with one chunk, the whole batch."""
    if advantages.ndim != 1:  # it would broadcast [B, T] to [B, B, T] without a word
        raise ValueError("liger takes one advantage per trajectory, of shape [B]")
    attention = mask.long()
    loss, _ = function(
        per_token_logps=logp_policy,
        attention_mask=attention,
        advantages=advantages,
        full_attention_mask=attention,
        ref_per_token_logps=logp_reference,
        old_per_token_logps=logp_old,
        loss_type=light.translated(LOSS_TYPES, aggregation, "liger"),
        importance_sampling_level=level,
        **{ARGUMENTS[name]: value for name, value in parameters.items()},
    )
    return loss


LIGER = Adapter(
    name="liger",
    package=PACKAGE,
    known=KNOWN,
    losses={
        "grpo.surrogate": partial(_surrogate, level="token"),
        "gspo.surrogate": partial(_surrogate, level="sequence"),
    },
)
