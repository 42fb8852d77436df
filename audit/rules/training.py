"""RA4, traces of training runs: does each recorded number follow from those before it?"""

from collections.abc import Iterator

import numpy as np

from rlvraudit.audit.evidence.supplement import Evidence
from rlvraudit.audit.evidence.tar_trace import TarTrace, misfits, tar_traces
from rlvraudit.audit.recomputation.tar import recomputations
from rlvraudit.audit.rules.discrepancies import outcomes
from rlvraudit.audit.rules.rule import Held, Outcome, Problem, Skipped, rule

NO_TRACE = "no trace of a training run"
UNFIT = "a trace contradicts itself in shape or count (RA407)"
LAYOUT = ("vocabulary", "hidden", "max_tokens", "candidates", "updates", "groups", "group_size")


def _recomputed(evidence: Evidence, code: str) -> Iterator[Outcome]:
    """Yield what the recomputation of every trace says to one rule."""
    yield from outcomes(recomputations(evidence), code)
    yield from _not_recomputed(evidence)


def _not_recomputed(evidence: Evidence) -> Iterator[Skipped]:
    traces = list(tar_traces(evidence))
    if not traces:
        yield Skipped(NO_TRACE)
    elif any(any(misfits(trace)) for trace in traces):
        yield Skipped(UNFIT)


def trace_layout(evidence: Evidence) -> Iterator[Outcome]:
    """Yield where a trace's document and arrays do not fit, for RA407."""
    for trace in tar_traces(evidence):
        found = [Problem(m.path, m.message, m.pointer) for m in misfits(trace)]
        yield from found
        if not found:
            yield Held(trace.path, "/settings")
            for name in LAYOUT:
                yield Held(trace.path, f"/settings/{name}", numbers=True)


def trace_values(evidence: Evidence) -> Iterator[Outcome]:
    """Yield the recorded values that no other rule owns, for RA401."""
    yield from outcomes(recomputations(evidence), "RA401")
    if any(any(misfits(trace)) for trace in tar_traces(evidence)):
        yield Skipped(UNFIT)


@rule("RA410", "gate-mismatch")
def gate_mismatch(evidence: Evidence) -> Iterator[Outcome]:
    """Every recorded trajectory gate recomputes from the recorded log-probabilities.

    The gate of TAR is max(1 - exp(-z), 0) of the mean difference between base and current
    log-probability over the active tokens: it says whether a trajectory is suppressed at all.
    A gate from other numbers replays what the policy still does, or forgets what it lost.

    Passes: a gate of 0.0952 where the mean difference is 0.1.
    Fails: a gate of 0.1 there (the mean itself), or a mean that counts padding.

    How to fix: recompute the gate in FP32 or better from the log-probabilities that you record,
    over active tokens only, with the base policy frozen at the start of the run.

    When to suppress: never; a trace without gates is not a TAR trace.
    """
    yield from _recomputed(evidence, "RA410")


@rule("RA411", "token-weight-mismatch")
def token_weight_mismatch(evidence: Evidence) -> Iterator[Outcome]:
    """Every recorded token weight recomputes from the recorded log-probabilities.

    The weight of a token is max(1 - exp(-delta), 0) of its own difference: it puts the replay
    gradient on suppressed tokens. Weights of one turn TAR into plain imitation of the bank.

    Passes: weight 0 where the policy gives the token at least the base's probability.
    Fails: weight 1 everywhere (constant supervised fine-tuning).

    How to fix: recompute the weights from the log-probabilities that you record, detached, and
    leave inactive positions at zero.

    When to suppress: never; the weights decide what was learnt.
    """
    yield from _recomputed(evidence, "RA411")


@rule("RA412", "replay-loss-mismatch")
def replay_loss_mismatch(evidence: Evidence) -> Iterator[Outcome]:
    """The recorded replay loss recomputes, averaged over all replayed trajectories.

    The mean runs over every sampled bank trajectory, those with a closed gate included.
    Renormalising over active ones makes replay strongest when it is needed least.

    Passes: one suppressed trajectory of four contributes a quarter of its loss.
    Fails: it contributes all of it (mean over active trajectories only).

    How to fix: divide by the number of replayed trajectories and keep 1e-8 in the denominator
    of the token weights in FP32 or better: it underflows to zero in FP16.

    When to suppress: never.
    """
    yield from _recomputed(evidence, "RA412")


@rule("RA413", "prototype-selection")
def prototype_selection(evidence: Evidence) -> Iterator[Outcome]:
    """The recorded prototypes are a greedy farthest-point selection of correct base candidates.

    Candidates are the base policy's own samples that the verifier accepts. Each pick after the
    first attains, within rounding error, the largest cosine distance to those before it,
    whatever the start and the tie rule. Wrong or hand-written candidates in the bank teach what
    the base never did.

    Passes: indices 2, 7, 5 where 7 is farthest from 2, and 5 farthest from both.
    Fails: an index whose verifier bit is 0; a nearer candidate before a farther one; two picks
    where three correct candidates exist and k is 3.

    How to fix: select again from the recorded embeddings and bits, at most k, none where no
    candidate is correct, and record indices and distances of that selection.

    When to suppress: never.
    """
    yield from _recomputed(evidence, "RA413")


@rule("RA416", "surrogate-mismatch")
def surrogate_mismatch(evidence: Evidence) -> Iterator[Outcome]:
    """The recorded surrogate loss recomputes for the declared aggregation and clip bounds.

    Passes: the clipped surrogate of the recorded log-probabilities and advantages, averaged as
    the settings say.
    Fails: the same terms averaged over all tokens where the mean of trajectory means is
    declared, or clipped with the bounds swapped.

    How to fix: record the loss before it is scaled for accumulation, together with the
    aggregation and the clip bounds that produced it.

    When to suppress: never; declare the convention that was used instead.
    """
    yield from _recomputed(evidence, "RA416")


@rule("RA417", "invalid-log-probability")
def invalid_log_probability(evidence: Evidence) -> Iterator[Outcome]:
    """Log-probabilities at active positions are finite and not positive.

    A positive log-probability is no probability; it makes a replay loss negative. A NaN or an
    infinity there makes every loss that reads it meaningless.

    Passes: -0.35 at every active token, anything at all at padding.
    Fails: 0.01, NaN or -inf at an active token.

    How to fix: find where the value comes from (a wrong shift of the labels, logits in a
    narrow dtype, a mask that is off by one); never clamp it.

    When to suppress: never.
    """
    for trace in tar_traces(evidence):
        if not any(misfits(trace)):
            yield from _log_probabilities(trace)
    yield from _not_recomputed(evidence)


def _log_probabilities(trace: TarTrace) -> Iterator[Outcome]:
    for name, mask in _logp_arrays(trace):
        values = trace.tensors[name]
        bad = np.argwhere(mask & ~(np.isfinite(values) & (values <= 0)))
        if len(bad):
            at = tuple(int(i) for i in bad[0])
            found = f"{float(values[at])!r} at an active token"
            message = f"{found}; expected a finite log-probability, at most 0"
            yield Problem(trace.tensors_path, message, f"/{name}[{', '.join(map(str, at))}]")
        else:
            yield Held(trace.tensors_path, f"/{name}")


def _logp_arrays(trace: TarTrace) -> Iterator[tuple[str, np.ndarray]]:
    candidates = trace.tensors["bank.mask"]
    bank = candidates.reshape(-1, candidates.shape[-1])[trace.bank_rows()]
    yield "bank.logp_base", candidates
    yield "replay.logp_base", bank
    for index in range(len(trace.document["updates"])):
        yield f"update.{index}.replay.logp_policy", bank
        attempts = trace.update(index, "attempts.mask")[trace.accepted(index)]
        for name in ("logp_old", "logp_policy", "logp_base"):
            yield f"update.{index}.{name}", attempts.reshape(-1, attempts.shape[-1])


@rule("RA418", "advantage-mismatch")
def advantage_mismatch(evidence: Evidence) -> Iterator[Outcome]:
    """Advantages recompute from rewards, and no zero-variance group was used as signal.

    An advantage is the reward less its group's mean, divided by the group's standard deviation
    plus epsilon, by the declared convention. A group whose rewards are all equal says nothing
    about what to prefer; rounding can turn it into a gradient all the same.

    Passes: rewards 1, 0, 0, 0 with ddof 1 and epsilon 1e-4 give 1.4997 and -0.4999.
    Fails: 1.7321 there (ddof 0), or an accepted group of six equal rewards.

    How to fix: recompute with the declared ddof and epsilon, group by group, and reject groups
    without variance before the update.

    When to suppress: never; declare the convention that was used instead.
    """
    yield from _recomputed(evidence, "RA418")


@rule("RA419", "no-real-update")
def no_real_update(evidence: Evidence) -> Iterator[Outcome]:
    """A run recorded as successful changed its parameters, by the step that it recorded.

    The digests before and after differ and are those of the recorded parameters, the gradient
    is not zero, and each snapshot is the one before less learning rate times gradient. A loop
    whose optimiser steps over nothing logs plausible losses too.

    Passes: two digests, a gradient norm of 0.31, and parameters that moved by 0.5 times it.
    Fails: equal digests; a norm of zero; a snapshot that no recorded step leads to.

    How to fix: check that the optimiser holds the policy's parameters and that the loss is
    attached to them; record parameters after the step.

    When to suppress: never.
    """
    yield from _recomputed(evidence, "RA419")


@rule("RA420", "gradient-mismatch")
def gradient_mismatch(evidence: Evidence) -> Iterator[Outcome]:
    """Recorded gradients and gradient norms recompute from the closed form.

    For TAR the gradient by a token's log-probability is -g w / (B (1e-8 + sum w)); gate and
    weights are constants. A loss can be right and its gradient wrong: a gate that is not
    detached shows only here.

    Passes: autograd's gradient equals the closed form within its rounding error.
    Fails: a gradient that holds the derivative of the gate, or a norm of other numbers.

    How to fix: detach gate, weights, base and behaviour log-probabilities; take norms before
    clipping, in the dtype of the gradient or better.

    When to suppress: never.
    """
    yield from _recomputed(evidence, "RA420")
