"""The TAR component run itself: bank, updates and everything recorded on the way.

Importing this module imports torch. It writes nothing: `tar` does.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlvraudit.audit.errors import AuditError
from rlvraudit.audit.runs.gru_policy import GruPolicy, Responses, Scored, flatten
from rlvraudit.audit.runs.tar_recipe import (
    RECIPE,
    Floats,
    TarSettings,
    attempt_prompt,
    bank_uniforms,
    group_uniforms,
    initial_parameters,
    verify,
)
from rlvraudit.kernels.objectives import OBJECTIVES

AGGREGATION = "seq-mean-token-mean"
MAX_ATTEMPTS = 64
TERMS = ("surrogate", "kl", "replay")


class RunError(AuditError):
    """The run can't go on: there is nothing to replay, or no group carries signal."""


@dataclass(frozen=True, slots=True)
class Trace:
    """What a run leaves: a JSON document, and named arrays beside it."""

    document: Mapping[str, Any]
    tensors: Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Bank:
    """The replayed prototypes: their responses and base log-probabilities `[N, T]`."""

    responses: Responses
    logp_base: Tensor
    record: tuple[Mapping[str, Any], ...]
    tensors: Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups that an update learns from, and every attempt at sampling one."""

    responses: Responses
    advantages: Tensor
    logp_old: Tensor
    record: tuple[Mapping[str, Any], ...]
    tensors: Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Trainer:
    """A run in progress: its recipe, its device, the frozen base and the policy in training."""

    seed: int
    settings: TarSettings
    device: torch.device
    base: GruPolicy
    policy: GruPolicy

    def tensor(self, array: Any) -> Tensor:
        """Return `array` on the run's device."""
        return torch.as_tensor(array, device=self.device)

    def of_base(self, responses: Responses) -> Scored:
        """Return what the base says, as constants.

        Detached rather than frozen: PyTorch takes another path where no gradient is asked for,
        and equal policies shall differ by exactly nothing.
        """
        return Scored(*(part.detach() for part in self.base.score(responses)))

    def prompts(self, index: int, count: int) -> Tensor:
        """Return one prompt, repeated, `[count, P]`."""
        return self.tensor(self.settings.prompts[index]).expand(count, -1)


def train(seed: int, device: str, settings: TarSettings | None = None) -> Trace:
    """Run the recipe for one seed and return its trace.

    Raises:
        RunError: No base candidate is correct, or no group with signal could be sampled.
    """
    trainer = _start(seed, torch.device(device), settings or TarSettings())
    bank = _build_bank(trainer)
    snapshots = [trainer.policy.flat()]
    updates, tensors, attempts = [], dict(bank.tensors), 0
    for index in range(trainer.settings.updates):
        groups = _sample_groups(trainer, snapshots[max(index - 1, 0)], attempts)
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


def _build_bank(trainer: Trainer) -> Bank:
    """Sample the base, verify, and keep the farthest-point prototypes of each prompt."""
    settings = trainer.settings
    sampled = trainer.tensor(bank_uniforms(trainer.seed, settings))
    kept, records, columns = [], [], []
    for index in range(len(settings.prompts)):
        prompts = trainer.prompts(index, settings.candidates)
        responses = trainer.base.sample(prompts, sampled[index])
        scored = trainer.of_base(responses)
        correct = _verified(responses, settings)
        chosen = OBJECTIVES["fps.cosine"].evaluate(
            embeddings=scored.embeddings.cpu().numpy(),
            correct=correct,
            k=settings.prototypes,
            start="first",
        )
        indices = [int(i) for i in chosen["indices"]]
        records.append({"prompt": index, "correct": int(correct.sum())} | _plain(chosen))
        columns.append(_columns(responses, logp_base=scored.logp, embeddings=scored.embeddings))
        columns[-1]["correct"] = correct
        kept.append(Responses(*(part[indices] for part in responses)))
    bank = Responses(*(torch.cat(parts) for parts in zip(*kept, strict=True)))
    if not len(bank.tokens):
        raise RunError("no base candidate of any prompt is correct: there is nothing to replay")
    tensors = {f"bank.{k}": np.stack([column[k] for column in columns]) for k in columns[0]}
    logp_base = trainer.of_base(bank).logp
    tensors["replay.logp_base"] = logp_base.cpu().numpy()
    return Bank(bank, logp_base, tuple(records), tensors)


def _plain(chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return a prototype selection as JSON: the first pick has no distance."""
    distances = [None if d is None or np.isnan(d) else float(d) for d in chosen["distances"]]
    return {"indices": [int(i) for i in chosen["indices"]], "distances": distances}


def _verified(responses: Responses, settings: TarSettings) -> NDArray[np.bool_]:
    prompts, tokens, mask = (part.cpu().numpy() for part in responses)
    return verify(prompts, tokens, mask, settings)


def _columns(responses: Responses, **more: Tensor) -> dict[str, NDArray[Any]]:
    named = {"tokens": responses.tokens, "mask": responses.mask, **more}
    return {name: tensor.detach().cpu().numpy() for name, tensor in named.items()}


def _sample_groups(trainer: Trainer, behaviour: Floats, attempts: int) -> Groups:
    """Sample groups from the behaviour policy until enough of them carry signal."""
    settings = trainer.settings
    old = GruPolicy(settings.vocabulary, settings.hidden, trainer.device)
    old.load(behaviour)
    sampled = list(_attempts(trainer, old, attempts))
    accepted = [s for s in sampled if not s[2]["zero_variance"]]
    responses = Responses(*(torch.cat(p) for p in zip(*(s[0] for s in accepted), strict=True)))
    advantages = np.concatenate([s[2]["advantages"] for s in accepted])
    with torch.no_grad():
        logp_old = old.score(responses).logp
    record = tuple({"prompt": s[1], "accepted": not s[2]["zero_variance"]} for s in sampled)
    columns = [_columns(s[0]) | {"rewards": s[3]} for s in sampled]
    tensors = {f"attempts.{k}": np.stack([c[k] for c in columns]) for k in columns[0]}
    tensors["advantages"] = advantages
    return Groups(responses, trainer.tensor(advantages), logp_old, record, tensors)


def _attempts(
    trainer: Trainer, old: GruPolicy, start: int
) -> Iterator[tuple[Responses, int, Mapping[str, Any], Floats]]:
    settings, accepted = trainer.settings, 0
    for attempt in range(start, start + MAX_ATTEMPTS):
        uniforms = group_uniforms(trainer.seed, settings, attempt + 1)[attempt]
        index = attempt_prompt(attempt, settings)
        prompts = trainer.prompts(index, settings.group_size)
        responses = old.sample(prompts, trainer.tensor(uniforms))
        rewards = _verified(responses, settings).astype(np.float64)
        advantages = OBJECTIVES["grpo.advantages"].evaluate(
            rewards=rewards,
            scale="std",
            ddof=settings.advantage_ddof,
            epsilon=settings.advantage_epsilon,
        )
        yield responses, index, advantages, rewards
        accepted += not advantages["zero_variance"]
        if accepted == settings.groups:
            return
    raise RunError(f"{MAX_ATTEMPTS} groups in a row were sampled without enough signal")


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
