"""What follows from recorded log-probabilities, rewards and gradients: no model is needed."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from rlvraudit.audit.evidence.tar_trace import TERMS
from rlvraudit.audit.recomputation.model import alive
from rlvraudit.audit.recomputation.recomputed import Result, Wrong
from rlvraudit.audit.recomputation.workbench import Workbench
from rlvraudit.audit.runs.tar_recipe import initial_parameters
from rlvraudit.kernels.objectives import OBJECTIVES


def replay(work: Workbench) -> Iterator[Result]:
    """Yield gates, weights, replay loss and its gradient by the log-probabilities."""
    mask = work.model.mask[work.trace.bank_rows()]
    for index in range(len(work.updates)):
        inputs = {
            "logp_policy": work.trace.update(index, "replay.logp_policy"),
            "logp_base": work.trace.tensors["replay.logp_base"],
            "mask": mask,
        }
        balls = {k: v if k == "mask" else work.ball(v) for k, v in inputs.items()}
        yield from _gates_and_weights(work, index, inputs, balls)
        yield from _replay_loss(work, index, inputs, balls)


def _gates_and_weights(
    work: Workbench, index: int, inputs: Mapping[str, Any], balls: Mapping[str, Any]
) -> Iterator[Result]:
    name = f"update.{index}.replay"
    gate = OBJECTIVES["tar.gate"].evaluate(**balls)["gate"]
    variants = _variants("tar.gate", "gate", inputs, {})
    yield work.tensor("RA410", "trajectory gate", f"{name}.gate", gate, variants=variants)
    recorded = int(np.sum(work.trace.update(index, "replay.gate") > 0))
    pointer = f"/updates/{index}/active_gates"
    yield work.number("RA410", "count of open gates", pointer, recorded)
    weights = OBJECTIVES["tar.token_weights"].evaluate(**balls)["token_weights"]
    variants = _variants("tar.token_weights", "token_weights", inputs, {})
    yield work.tensor("RA411", "token weight", f"{name}.token_weights", weights, variants=variants)


def _replay_loss(
    work: Workbench, index: int, inputs: Mapping[str, Any], balls: Mapping[str, Any]
) -> Iterator[Result]:
    epsilon = {"denominator_epsilon": work.settings.denominator_epsilon}
    replayed = OBJECTIVES["tar.replay_nll"].evaluate(**balls, **epsilon)
    is_open = bool(np.any(work.trace.update(index, "replay.gate") > 0))
    yield work.number(
        "RA412",
        "replay loss",
        f"/updates/{index}/loss/replay",
        replayed["loss"],
        notices=work.used(*(("denominator_epsilon",) if is_open else ())),
        variants=_variants("tar.replay_nll", "loss", inputs, epsilon),
    )
    yield work.tensor(
        "RA420",
        "gradient of the replay loss",
        f"update.{index}.replay.grad_logp",
        replayed["grad_logp_policy"],
        variants=_variants("tar.replay_nll", "grad_logp_policy", inputs, epsilon),
    )


def _variants(
    objective: str, output: str, inputs: Mapping[str, Any], params: Mapping[str, Any]
) -> Callable[[], Iterator[tuple[str, Any]]]:
    """Return how to compute what the known wrong variants of an objective give for one output."""

    def values() -> Iterator[tuple[str, Any]]:
        from rlvraudit.audit.implementations.variants import VARIANTS  # only a mismatch needs them

        for variant in VARIANTS.values():
            if variant.objective == objective:
                outputs = variant.evaluate(**inputs, **params)
                if output in outputs:
                    yield variant.sentence, outputs[output]

    return values


def advantages(work: Workbench) -> Iterator[Result]:
    """Yield advantages from rewards, and every zero-variance group that was used."""
    s = work.settings
    for index in range(len(work.updates)):
        rewards = work.trace.update(index, "attempts.rewards")
        groups = rewards[work.trace.accepted(index)]
        results = [
            OBJECTIVES["grpo.advantages"].evaluate(
                rewards=work.ball(group),
                scale="std",
                ddof=s.advantage_ddof,
                epsilon=s.advantage_epsilon,
            )
            for group in groups
        ]
        for position, group in zip(work.trace.accepted(index), results, strict=True):
            if group["zero_variance"]:
                yield Wrong(
                    "RA418",
                    work.at(f"/updates/{index}/attempts/{position}/accepted"),
                    "a zero-variance group carries no signal, and this one was used",
                )
        xp = results[0]["advantages"].__array_namespace__()
        advantages = xp.concat([group["advantages"] for group in results])
        yield work.tensor(
            "RA418",
            "advantage",
            f"update.{index}.advantages",
            advantages,
            notices=work.used("advantage_ddof", "advantage_epsilon"),
        )
        rejected = sum(1 for group in rewards if np.all(group == group[0]))
        pointer = f"/updates/{index}/rejected"
        yield work.number("RA418", "count of zero-variance groups rejected", pointer, rejected)


def surrogate(work: Workbench) -> Iterator[Result]:
    """Yield the surrogate loss and its gradient by the log-probabilities."""
    s = work.settings
    for index in range(len(work.updates)):
        inputs = {
            "logp_policy": work.trace.update(index, "logp_policy"),
            "logp_old": work.trace.update(index, "logp_old"),
            "advantages": work.trace.update(index, "advantages"),
            "mask": work.model.mask[work.model.group_rows(index)],
        }
        params = {
            "clip_low": s.clip_low,
            "clip_high": s.clip_high,
            "aggregation": work.trace.settings["aggregation"],
        }
        balls = {k: v if k == "mask" else work.ball(v) for k, v in inputs.items()}
        result = OBJECTIVES["grpo.surrogate"].evaluate(**balls, **params)
        yield work.number(
            "RA416",
            "surrogate loss",
            f"/updates/{index}/loss/surrogate",
            result["loss"],
            notices=work.used(*_clipped_sides(inputs, s.clip_low, s.clip_high)),
            variants=_variants("grpo.surrogate", "loss", inputs, params),
        )
        yield work.tensor(
            "RA420",
            "gradient of the surrogate",
            f"update.{index}.grad_logp",
            result["grad_logp_policy"],
            variants=_variants("grpo.surrogate", "grad_logp_policy", inputs, params),
        )


def _clipped_sides(inputs: Mapping[str, Any], low: float, high: float) -> tuple[str, ...]:
    """Return the clip bounds that some token's loss depends on."""
    ratio = np.exp(np.where(inputs["mask"], inputs["logp_policy"] - inputs["logp_old"], 0.0))
    advantages = inputs["advantages"][:, None]
    below = bool(np.any((ratio < 1 - low) & (advantages < 0)))
    above = bool(np.any((ratio > 1 + high) & (advantages > 0)))
    return tuple(n for n, used in (("clip_low", below), ("clip_high", above)) if used)


def totals(work: Workbench) -> Iterator[Result]:
    """Yield total losses from their terms, and gradient norms from the gradients."""
    s = work.settings
    for index, update in enumerate(work.updates):
        loss = {term: work.ball(update["loss"][term]) for term in TERMS}
        total = loss["surrogate"] + loss["kl"] * s.kl_beta + loss["replay"] * s.replay_lambda
        terms = [("kl_beta", "kl"), ("replay_lambda", "replay")]
        noticed = [name for name, term in terms if abs(update["loss"][term]) > 1e-6]
        yield work.number(
            "RA401",
            "total loss",
            f"/updates/{index}/loss/total",
            total,
            notices=work.used(*noticed),
        )
        recorded = work.trace.update(index, "gradients")
        gradients = work.ball(recorded)
        xp = gradients.__array_namespace__()
        norms = xp.sqrt(xp.sum(gradients * gradients, axis=1))
        for position, term in enumerate(TERMS):
            pointer = f"/updates/{index}/gradient_norm/{term}"
            yield work.number("RA420", f"gradient norm ({term})", pointer, norms[position])


def steps(work: Workbench) -> Iterator[Result]:
    """Yield the parameters: the first from the seed, each next from the one before and its step."""
    flat = work.trace.tensors["parameters"]
    before = work.ball(flat[:-1])
    xp = before.__array_namespace__()
    updates = range(len(work.updates))
    gradients = np.stack([work.trace.update(index, "gradients")[-1] for index in updates])
    after = before - work.ball(gradients) * work.settings.learning_rate
    if work.has_model:
        first = work.ball(initial_parameters(work.trace.document["seed"], work.settings))
        notices = (work.at("/seed"), *work.used("init_scale", "learning_rate"))
    else:
        first, notices = work.ball(flat[0]), work.used("learning_rate")
    expected = xp.concat([xp.expand_dims(first, axis=0), after])
    yield work.tensor(
        "RA419",
        "parameter (from the seed, then each update's step)",
        "parameters",
        expected,
        notices=notices,
    )


def digests(work: Workbench) -> Iterator[Result]:
    """Yield every parameter digest that is not the recorded parameters', and idle updates."""
    digests = [hashlib.sha256(s.tobytes()).hexdigest() for s in work.trace.tensors["parameters"]]
    for index, update in enumerate(work.updates):
        for name, digest in zip(("before", "after"), digests[index : index + 2], strict=True):
            if update[f"parameters_{name}"] != digest:
                yield Wrong(
                    "RA419",
                    work.at(f"/updates/{index}/parameters_{name}"),
                    f"another digest than the recorded parameters have: {digest}",
                )
        if digests[index] == digests[index + 1] or not update["gradient_norm"]["total"] > 0:
            yield Wrong("RA419", work.at(f"/updates/{index}"), "the update changed no parameter")


def padding(work: Workbench) -> Iterator[Result]:
    """Yield the masks that the tokens imply."""
    names = ["bank", *(f"update.{index}.attempts" for index in range(len(work.updates)))]
    for name in names:
        tokens = work.trace.tensors[f"{name}.tokens"]
        yield work.tensor("RA401", "mask (from the end token)", f"{name}.mask", alive(tokens))
