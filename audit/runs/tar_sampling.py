"""What a TAR component run samples: the bank of the base's responses, and groups to learn from.

Importing this module imports torch.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlvraudit.audit.errors import AuditError
from rlvraudit.audit.runs.gru_policy import GruPolicy, Responses, Scored
from rlvraudit.audit.runs.tar_recipe import (
    Floats,
    TarSettings,
    attempt_prompt,
    bank_uniforms,
    group_uniforms,
    verify,
)
from rlvraudit.kernels.objectives import OBJECTIVES

MAX_ATTEMPTS = 64


class RunError(AuditError):
    """The run can't go on: there is nothing to replay, or no group carries signal."""


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


def build_bank(trainer: Trainer) -> Bank:
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


def sample_groups(trainer: Trainer, behaviour: Floats, attempts: int) -> Groups:
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
