"""The TAR component run itself: its updates and everything recorded on the way.

Importing this module imports torch. It writes nothing: `tar` does.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlvraudit.audit.runs.gru_policy import GruPolicy, Scored, flatten
from rlvraudit.audit.runs.tar_recipe import RECIPE, Floats, TarSettings, initial_parameters
from rlvraudit.audit.runs.tar_sampling import Bank, Groups, Trainer, build_bank, sample_groups
from rlvraudit.kernels.objectives import OBJECTIVES

AGGREGATION = "seq-mean-token-mean"
TERMS = ("surrogate", "kl", "replay")


@dataclass(frozen=True, slots=True)
class Trace:
    """What a run leaves: a JSON document, and named arrays beside it."""

    document: Mapping[str, Any]
    tensors: Mapping[str, NDArray[Any]]


def train(seed: int, device: str, settings: TarSettings | None = None) -> Trace:
    """Run the recipe for one seed and return its trace.

    Raises:
        RunError: No base candidate is correct, or no group with signal could be sampled.
    """
    trainer = _start(seed, torch.device(device), settings or TarSettings())
    bank = build_bank(trainer)
    snapshots = [trainer.policy.flat()]
    updates, tensors, attempts = [], dict(bank.tensors), 0
    for index in range(trainer.settings.updates):
        groups = sample_groups(trainer, snapshots[max(index - 1, 0)], attempts)
        attempts += len(groups.record)
        record, arrays = _update(trainer, bank, groups)
        tensors |= {f"update.{index}.{k}": v for k, v in {**groups.tensors, **arrays}.items()}
        snapshots.append(trainer.policy.flat())
        updates.append({"behaviour": max(index - 1, 0), **record, **_digests(snapshots)})
    tensors["parameters"] = np.stack(snapshots)
    return Trace(_document(trainer, bank, updates), tensors)


def _start(seed: int, device: torch.device, settings: TarSettings) -> Trainer:
    flat = initial_parameters(seed, settings)
    base = GruPolicy(settings.vocabulary, settings.hidden, device)
    policy = GruPolicy(settings.vocabulary, settings.hidden, device)
    base.load(flat)
    policy.load(flat)
    return Trainer(seed, settings, device, base, policy)


def _update(
    trainer: Trainer, bank: Bank, groups: Groups
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Take one gradient step on the total loss and record it."""
    settings, policy = trainer.settings, trainer.policy
    scored, replayed = policy.score(groups.responses), policy.score(bank.responses)
    reference = trainer.of_base(groups.responses)
    losses = _losses(trainer, bank, groups, (scored, replayed, reference))
    weights = (1.0, settings.kl_beta, settings.replay_lambda)
    total = sum((w * loss for w, loss in zip(weights, losses, strict=True)), torch.zeros(()))
    gradients = np.stack([_gradient(loss, policy) for loss in losses])
    whole = _gradient(total, policy)
    token_gradients = (
        _with_respect_to(losses[0], scored.logp),
        _with_respect_to(losses[2], replayed.logp),
    )
    policy.load(policy.flat() - settings.learning_rate * whole)
    gates = OBJECTIVES["tar.gate"].evaluate(**_replay_inputs(bank, replayed))["gate"]
    weights_ = OBJECTIVES["tar.token_weights"].evaluate(**_replay_inputs(bank, replayed))
    arrays = {
        "logp_old": groups.logp_old,
        "logp_policy": scored.logp,
        "logp_base": reference.logp,
        "grad_logp": token_gradients[0],
        "replay.logp_policy": replayed.logp,
        "replay.gate": gates,
        "replay.token_weights": weights_["token_weights"],
        "replay.grad_logp": token_gradients[1],
    }
    norms = [float(np.linalg.norm(g)) for g in (*gradients, whole)]
    record = {
        "attempts": list(groups.record),
        "rejected": sum(not a["accepted"] for a in groups.record),
        "active_gates": int((gates > 0).sum()),
        "loss": dict(zip((*TERMS, "total"), (x.item() for x in (*losses, total)), strict=True)),
        "gradient_norm": dict(zip((*TERMS, "total"), norms, strict=True)),
    }
    named = {name: tensor.detach().cpu().numpy() for name, tensor in arrays.items()}
    return record, named | {"gradients": np.concatenate([gradients, whole[None]])}


def _losses(
    trainer: Trainer, bank: Bank, groups: Groups, scores: tuple[Scored, Scored, Scored]
) -> tuple[Tensor, Tensor, Tensor]:
    scored, replayed, reference = scores
    settings = trainer.settings
    mask = groups.responses.mask
    surrogate = _forward(
        "grpo.surrogate",
        logp_policy=scored.logp,
        logp_old=groups.logp_old,
        advantages=groups.advantages,
        mask=mask,
        clip_low=settings.clip_low,
        clip_high=settings.clip_high,
        aggregation=AGGREGATION,
    )
    kl = _forward(
        "kl.full",
        logits_policy=scored.logits.reshape(-1, settings.vocabulary),
        logits_reference=reference.logits.reshape(-1, settings.vocabulary),
        mask=mask.reshape(-1),
    )
    replay = _forward(
        "tar.replay_nll",
        **_replay_inputs(bank, replayed, detach=False),
        denominator_epsilon=settings.denominator_epsilon,
    )
    return surrogate, kl, replay


def _replay_inputs(bank: Bank, replayed: Scored, *, detach: bool = True) -> dict[str, Tensor]:
    logp = replayed.logp.detach() if detach else replayed.logp
    return {"logp_policy": logp, "logp_base": bank.logp_base, "mask": bank.responses.mask}


def _forward(name: str, **arguments: Any) -> Tensor:
    forward = OBJECTIVES[name].forward
    if forward is None:
        raise LookupError(f"{name} has no differentiable value")
    value: Tensor = forward(**arguments)
    return value


def _gradient(loss: Tensor, policy: GruPolicy) -> Floats:
    parameters = policy.ordered()
    grads = torch.autograd.grad(loss, parameters, retain_graph=True, materialize_grads=True)
    return flatten(list(grads))


def _with_respect_to(loss: Tensor, tensor: Tensor) -> Tensor:
    return torch.autograd.grad(loss, tensor, retain_graph=True, materialize_grads=True)[0]


def _digests(snapshots: list[Floats]) -> dict[str, str]:
    before, after = (hashlib.sha256(s.tobytes()).hexdigest() for s in snapshots[-2:])
    return {"parameters_before": before, "parameters_after": after}


def _document(trainer: Trainer, bank: Bank, updates: list[dict[str, Any]]) -> Mapping[str, Any]:
    settings = asdict(trainer.settings) | {"aggregation": AGGREGATION}
    ran = trainer.policy.head.weight.device.type
    return {
        "format": "tar-trace/1",
        "recipe": RECIPE,
        "level": "L1",
        "diagnostic_only": True,
        "formal_comparison": False,
        "seed": trainer.seed,
        "dtype": "float64",
        "device": {"requested": trainer.device.type, "kind": ran},
        "settings": settings,
        "bank": list(bank.record),
        "updates": updates,
        "outcome": {"status": "completed"},
    }
