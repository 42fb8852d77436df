"""Unsloth: `grpo_compute_loss` of unsloth_zoo, which replaces the loss of TRL's trainer.

Importing the package needs a GPU, and its licence is the AGPL or the LGPL (its source says both):
the function is read from where the user installed it, and nothing of it is kept here.
"""

import ast
import math
from functools import partial
from pathlib import Path
from typing import Any

from rlvraudit.audit.implementations.adapters import light
from rlvraudit.audit.implementations.adapters.adapter import Adapter, AdapterError
from rlvraudit.audit.implementations.implementation import Implementation

KNOWN = ("2026.10.9",)
PACKAGE = "unsloth_zoo"
FILE = "unsloth_zoo/rl_replacements.py"
LOSS = "grpo_compute_loss"
LOSS_TYPES = {
    "token-mean": "dapo",
    "seq-mean-token-mean": "grpo",
    "seq-mean-token-sum": "luspo",
    "seq-mean-token-sum-norm": "dr_grpo",
}
"""By the tool's name of an aggregation, the `loss_type` that aggregates so."""
SETTINGS = {
    "clip_low": "epsilon_low",
    "clip_high": "epsilon_high",
    "norm": "max_completion_length",
    "dual_clip": "delta",
    "use_bias_correction_kl": "use_bias_correction_kl",
}
"""By the name of the parameter, the keyword argument."""

Tensor = Any


def _what() -> str:
    return f"{PACKAGE} {light.installed(PACKAGE)}"


def _defaults(path: Path, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the defaults of keyword arguments, which the function gets by `kwargs.get`.

    Raises:
        AdapterError: It does not get one of them so, with a literal.
    """
    found = {}
    for node in ast.walk(ast.parse(path.read_text("utf-8"), str(path))):
        if isinstance(node, ast.FunctionDef) and node.name == LOSS:
            found = dict(_got(node))
    for name in names:
        if name not in found:
            raise AdapterError(f"{_what()} needs a default of {name} in {LOSS}, which is not there")
    return {name: found[name] for name in names}


def _got(function: ast.FunctionDef) -> Any:
    for node in ast.walk(function):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="kwargs"), attr="get"),
                args=[ast.Constant(value=name), ast.Constant(value=default)],
            ):
                yield name, default


def _surrogate(checkout: Path | None, *, level: str) -> Implementation:
    import torch

    path = light.source(PACKAGE, FILE)
    loss = light.extract(path, (LOSS,), {"torch": torch, "math": math}, _what())[LOSS]
    defaults = _defaults(path, ("loss_type", *SETTINGS.values()))
    return Implementation(
        name="unsloth",
        call=partial(_call, loss, level),
        inputs=("logp_policy", "logp_old", "logp_reference", "advantages", "mask"),
        parameters={
            **{ours: defaults[theirs] for ours, theirs in SETTINGS.items()},
            "aggregation": light.named(LOSS_TYPES, defaults["loss_type"], _what()),
            "beta": 0.0,  # it has no default; this is that of TRL's config, which is passed on
        },
        called=(
            f"{_what()}, unsloth_zoo.rl_replacements.{LOSS}, importance_sampling_level {level}; "
            "defaults are the function's own, where its trainer passes on those of TRL"
        ),
        # The model gives every position a log-probability, and a packed batch has 0 there.
        finite_padding=True,
        unknown=light.unfamiliar(PACKAGE, light.installed(PACKAGE), KNOWN),
    )


def _call(
    loss: Any,
    level: str,
    *,
    logp_policy: Tensor,
    logp_old: Tensor,
    advantages: Tensor,
    mask: Tensor,
    logp_reference: Tensor = None,
    aggregation: str,
    beta: float,
    **parameters: Any,
) -> Tensor:
    """Call the function as one process without gradient accumulation does."""
    completion = mask.long()  # the trainer's completion_mask
    return loss(
        logp_reference,
        logp_policy,
        logp_old,
        None,  # log-probabilities of another sampler
        completion,  # token ids, which it reads no more
        completion,
        beta,
        advantages,
        loss_type=light.translated(LOSS_TYPES, aggregation, "unsloth"),
        importance_sampling_level=level,
        num_items_in_batch=completion.sum(),
        **{SETTINGS[name]: value for name, value in parameters.items()},
    )[0]


UNSLOTH = Adapter(
    name="unsloth",
    package=PACKAGE,
    known=KNOWN,
    losses={
        "grpo.surrogate": partial(_surrogate, level="token"),
        "gspo.surrogate": partial(_surrogate, level="sequence"),
    },
)
