"""What follows from recorded parameters, tokens and the seed: the policy is run again."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from rlvraudit.audit.recomputation.model import Integers, expected_tokens
from rlvraudit.audit.recomputation.recomputed import Recomputed, Result
from rlvraudit.audit.recomputation.workbench import Workbench
from rlvraudit.audit.runs.tar_recipe import (
    attempt_prompt,
    bank_uniforms,
    group_uniforms,
    verify,
)
from rlvraudit.kernels import gru
from rlvraudit.kernels.bounds import Ball
from rlvraudit.kernels.objectives import OBJECTIVES


def samples(work: Workbench) -> Iterator[Result]:
    """Yield the tokens that the recorded policies draw with the uniforms of the seed."""
    seed, s, model = work.trace.document["seed"], work.settings, work.model
    rows = np.arange(len(s.prompts) * s.candidates)
    tokens = expected_tokens(model, 0, rows, bank_uniforms(seed, s))
    yield _drawn(work, "bank", rows, tokens)
    total = sum(len(update["attempts"]) for update in work.updates)
    uniforms, start = group_uniforms(seed, s, total), 0
    for index, update in enumerate(work.updates):
        rows, count = model.attempt_rows(index), len(update["attempts"])
        drawn = uniforms[start : start + count]
        behaviour = max(index - 1, 0)
        yield work.number(
            "RA401", "index of the behaviour policy", f"/updates/{index}/behaviour", behaviour
        )
        for position in range(count):
            pointer = f"/updates/{index}/attempts/{position}/prompt"
            which = attempt_prompt(start + position, s)
            yield work.number("RA401", "index of the prompt", pointer, which)
        tokens = expected_tokens(model, behaviour, rows, drawn)
        yield _drawn(work, f"update.{index}.attempts", rows, tokens)
        start += count


def _drawn(work: Workbench, name: str, rows: Integers, tokens: Integers) -> Recomputed:
    recorded = work.trace.tensors[f"{name}.tokens"]
    return work.tensor(
        "RA401",
        "sampled token",
        f"{name}.tokens",
        tokens.reshape(recorded.shape),
        notices=() if len(rows) == 0 else (work.at("/seed"),),
    )


def verdicts(work: Workbench) -> Iterator[Result]:
    """Yield the bits and rewards of the external verifier."""
    s, model = work.settings, work.model
    bits = verify(model.prompts, model.tokens, model.mask, s)
    shape = (len(s.prompts), s.candidates)
    noticed = work.used("verifier_modulus")
    yield work.tensor(
        "RA418",
        "verifier bit",
        "bank.correct",
        bits[: shape[0] * shape[1]].reshape(shape),
        notices=noticed,
    )
    for index in range(len(work.updates)):
        name = f"update.{index}.attempts.rewards"
        rewards = bits[model.attempt_rows(index)].reshape(-1, s.group_size)
        yield work.tensor("RA418", "reward", name, rewards.astype(np.float64), notices=noticed)


def scores(work: Workbench) -> Iterator[Result]:
    """Yield log-probabilities and hidden states of the recorded parameters."""
    s, model, scored = work.settings, work.model, work.model.scored
    shape = (len(s.prompts), s.candidates)
    rows = np.arange(shape[0] * shape[1])
    base, chosen = scored[0], work.trace.bank_rows()
    xp = base.logp.__array_namespace__()
    prompts = tuple(
        work.at(f"/settings/prompts/{i}/{j}")
        for i, prompt in enumerate(s.prompts)
        for j in range(len(prompt))
    )
    logp = xp.reshape(base.logp[rows], (*shape, s.max_tokens))
    yield work.tensor(
        "RA401", "log-probability of the base policy", "bank.logp_base", logp, notices=prompts
    )
    states = xp.reshape(base.states[rows], (*shape, s.hidden))
    yield work.tensor("RA401", "hidden state of the base policy", "bank.embeddings", states)
    yield work.tensor(
        "RA401", "log-probability of the base policy", "replay.logp_base", base.logp[chosen]
    )
    for index in range(len(work.updates)):
        groups = model.group_rows(index)
        named = {
            "logp_old": scored[max(index - 1, 0)].logp[groups],
            "logp_policy": scored[index].logp[groups],
            "logp_base": base.logp[groups],
            "replay.logp_policy": scored[index].logp[chosen],
        }
        for name, value in named.items():
            what = "log-probability of the recorded parameters"
            yield work.tensor("RA401", what, f"update.{index}.{name}", value)


def gradients(work: Workbench) -> Iterator[Result]:
    """Yield the KL to the base, and every parameter gradient by backpropagation."""
    divergences = [_divergence(work, index) for index in range(len(work.updates))]
    parts = _backward(work, [gradient for _, gradient in divergences])
    total = parts[0] + parts[1] * work.settings.kl_beta + parts[2] * work.settings.replay_lambda
    stacked = total.__array_namespace__().stack([*parts, total], axis=1)
    for index, (kl, _) in enumerate(divergences):
        yield work.number(
            "RA401", "full-vocabulary KL to the base", f"/updates/{index}/loss/kl", kl
        )
        yield work.tensor(
            "RA420",
            "gradient by backpropagation (surrogate, KL, replay, total)",
            f"update.{index}.gradients",
            stacked[index],
        )


def _divergence(work: Workbench, index: int) -> tuple[Ball, Ball]:
    """Return KL(policy || base) of the groups' positions and its gradient by the logits."""
    rows, vocabulary = work.model.group_rows(index), work.settings.vocabulary
    policy, base = (work.model.scored[i].logits[rows] for i in (index, 0))
    xp = policy.__array_namespace__()
    result = OBJECTIVES["kl.full"].evaluate(
        logits_policy=xp.reshape(policy, (-1, vocabulary)),
        logits_reference=xp.reshape(base, (-1, vocabulary)),
        mask=work.model.mask[rows].reshape(-1),
    )
    return result["value"], xp.reshape(result["grad_logits_policy"], policy.shape)


def _backward(work: Workbench, grad_kl: list[Ball]) -> list[Ball]:
    """Return each update's gradient of surrogate, KL and replay by the parameters, `[U, P]` each.

    Backpropagation in time, of all updates at once: each from the snapshot that it started from.
    """
    model, chosen = work.model, work.trace.bank_rows()
    xp = grad_kl[0].__array_namespace__()
    groups = [model.group_rows(index) for index in range(len(grad_kl))]
    rows = np.stack([np.concatenate([rows, rows, chosen]) for rows in groups])
    upstream = xp.stack(
        [
            xp.concat(
                [
                    _by_logits(work, index, "grad_logp", groups[index]),
                    gradient,
                    _by_logits(work, index, "replay.grad_logp", chosen),
                ]
            )
            for index, gradient in enumerate(grad_kl)
        ]
    )
    before = xp.asarray(np.zeros((*rows.shape, model.prompts.shape[1] - 1, upstream.shape[-1])))
    after = xp.asarray(np.zeros((*rows.shape, 1, upstream.shape[-1])))
    whole = xp.concat([before, upstream, after], axis=2)
    gradient = gru.backward(model.parameters, gru.take(model.run, rows), whole)
    edges = np.cumsum([0, len(groups[0]), len(groups[0]), len(chosen)])
    return [xp.sum(gradient[:, a:b], axis=1) for a, b in pairwise(edges)]


def _by_logits(work: Workbench, index: int, name: str, rows: Integers) -> Ball:
    """Return the gradient by the logits of a loss whose gradient by the chosen logp is recorded."""
    probabilities = work.model.scored[index].log_probs[rows]
    xp = probabilities.__array_namespace__()
    one_hot = work.model.tokens[rows][..., None] == np.arange(work.settings.vocabulary)
    by_logp = work.ball(work.trace.update(index, name))[..., None]
    product: Ball = by_logp * (one_hot.astype(np.float64) - xp.exp(probabilities))
    return product
