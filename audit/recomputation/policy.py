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
    s, model, passes = work.settings, work.model, work.model.passes
    shape = (len(s.prompts), s.candidates)
    rows = np.arange(shape[0] * shape[1])
    base, chosen = passes[0], work.trace.bank_rows()
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
            "logp_old": passes[max(index - 1, 0)].logp[groups],
            "logp_policy": passes[index].logp[groups],
            "logp_base": base.logp[groups],
            "replay.logp_policy": passes[index].logp[chosen],
        }
        for name, value in named.items():
            what = "log-probability of the recorded parameters"
            yield work.tensor("RA401", what, f"update.{index}.{name}", value)


def gradients(work: Workbench) -> Iterator[Result]:
    """Yield the KL to the base, and every parameter gradient by backpropagation."""
    for index in range(len(work.updates)):
        kl, grad_kl = _divergence(work, index)
        yield work.number(
            "RA401", "full-vocabulary KL to the base", f"/updates/{index}/loss/kl", kl
        )
        parts = _backward(work, index, grad_kl)
        total = parts[0] + parts[1] * work.settings.kl_beta + parts[2] * work.settings.replay_lambda
        xp = total.__array_namespace__()
        yield work.tensor(
            "RA420",
            "gradient by backpropagation (surrogate, KL, replay, total)",
            f"update.{index}.gradients",
            xp.stack([*parts, total]),
        )


def _divergence(work: Workbench, index: int) -> tuple[Ball, Ball]:
    """Return KL(policy || base) of the groups' positions and its gradient by the logits."""
    rows, vocabulary = work.model.group_rows(index), work.settings.vocabulary
    policy, base = (work.model.passes[i].logits[rows] for i in (index, 0))
    xp = policy.__array_namespace__()
    result = OBJECTIVES["kl.full"].evaluate(
        logits_policy=xp.reshape(policy, (-1, vocabulary)),
        logits_reference=xp.reshape(base, (-1, vocabulary)),
        mask=work.model.mask[rows].reshape(-1),
    )
    return result["value"], xp.reshape(result["grad_logits_policy"], policy.shape)


def _backward(work: Workbench, index: int, grad_kl: Ball) -> list[Ball]:
    """Return the parameter gradients of surrogate, KL and replay, by backpropagation in time."""
    model, trace = work.model, work.trace
    groups, chosen = model.group_rows(index), trace.bank_rows()
    scored = model.passes[index]
    xp = scored.logits.__array_namespace__()

    def through(name: str, rows: Integers) -> Ball:
        one_hot = model.tokens[rows][..., None] == np.arange(work.settings.vocabulary)
        upstream = work.ball(trace.update(index, name))[..., None]
        product: Ball = upstream * (one_hot.astype(np.float64) - xp.exp(scored.log_probs[rows]))
        return product

    inner = xp.concat([through("grad_logp", groups), grad_kl, through("replay.grad_logp", chosen)])
    rows = np.concatenate([groups, groups, chosen])
    before = xp.asarray(np.zeros((len(rows), model.prompts.shape[1] - 1, inner.shape[2])))
    after = xp.asarray(np.zeros((len(rows), 1, inner.shape[2])))
    gradient = gru.backward(
        model.parameters(index),
        gru.take(scored.run, rows),
        xp.concat([before, inner, after], axis=1),
    )
    edges = np.cumsum([0, len(groups), len(groups), len(chosen)])
    return [xp.sum(gradient[a:b], axis=0) for a, b in pairwise(edges)]
