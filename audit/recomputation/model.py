"""Recompute what the policy of a TAR trace computed, from its recorded parameters and tokens.

Everything is in balls (`kernels.bounds`): values with the error that the recorded
computation, in the trace's dtype, and this one may have made.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvraudit.audit.evidence.tar_trace import TarTrace
from rlvraudit.audit.runs.tar_recipe import END, TarSettings
from rlvraudit.kernels import gru
from rlvraudit.kernels.bounds import Ball, exact
from rlvraudit.kernels.objectives.likelihood import log_softmax

Integers = NDArray[np.int64]
Bits = NDArray[np.bool_]


def settings_of(trace: TarTrace) -> TarSettings:
    """Return the recorded settings as the recipe's record."""
    known: dict[str, Any] = {k: v for k, v in trace.settings.items() if k != "aggregation"}
    known["prompts"] = tuple(tuple(prompt) for prompt in known["prompts"])
    return TarSettings(**known)


@dataclass(frozen=True)
class Model:
    """The policy of one trace at each of its snapshots, over all of its responses.

    Rows are responses: first every bank candidate, then every attempt of every update.
    """

    trace: TarTrace

    @cached_property
    def settings(self) -> TarSettings:
        """The recipe's settings."""
        return settings_of(self.trace)

    @cached_property
    def prompts(self) -> Integers:
        """The prompt of each row, `[R, P]`."""
        s = self.settings
        which = [index for index in range(len(s.prompts)) for _ in range(s.candidates)]
        for update in self.trace.document["updates"]:
            for attempt in update["attempts"]:
                which += [attempt["prompt"] % len(s.prompts)] * s.group_size
        return np.asarray(s.prompts, np.int64)[which]

    @cached_property
    def tokens(self) -> Integers:
        """The response of each row, `[R, T]`."""
        return self._rows("tokens")

    @cached_property
    def mask(self) -> Bits:
        """The active tokens of each row, `[R, T]`."""
        return self._rows("mask")

    def _rows(self, name: str) -> NDArray[Any]:
        updates = range(len(self.trace.document["updates"]))
        parts = [self.trace.tensors[f"bank.{name}"]]
        parts += [self.trace.update(index, f"attempts.{name}") for index in updates]
        return np.concatenate([part.reshape(-1, part.shape[-1]) for part in parts])

    def attempt_rows(self, update: int) -> Integers:
        """Return the rows of every attempt of one update."""
        s, updates = self.settings, self.trace.document["updates"]
        before = sum(len(u["attempts"]) for u in updates[:update])
        start = len(s.prompts) * s.candidates + before * s.group_size
        return start + np.arange(len(updates[update]["attempts"]) * s.group_size)

    def group_rows(self, update: int) -> Integers:
        """Return the rows of the groups that one update learnt from."""
        attempts = self.attempt_rows(update).reshape(-1, self.settings.group_size)
        return attempts[self.trace.accepted(update)].reshape(-1)

    @cached_property
    def parameters(self) -> gru.Gru:
        """The recorded parameters of every snapshot that an update starts from, exact balls."""
        used = self.trace.tensors["parameters"][: self.settings.updates]
        flat = exact(used, self.trace.document["dtype"])
        return gru.unpack(flat, self.settings.vocabulary, self.settings.hidden)

    @cached_property
    def run(self) -> gru.Pass:
        """The forward pass of every snapshot over every row, prompt and response."""
        return gru.forward(self.parameters, np.concatenate([self.prompts, self.tokens], axis=1))

    @cached_property
    def scored(self) -> tuple["ScoredRows", ...]:
        """What each snapshot says of the responses."""
        length = self.prompts.shape[1]
        logits = self.run.logits[..., length - 1 : -1, :]
        log_probs = log_softmax(logits)
        xp = log_probs.__array_namespace__()
        at = np.broadcast_to(self.tokens[..., None], (*log_probs.shape[:-1], 1))
        chosen = xp.take_along_axis(log_probs, at, axis=-1)[..., 0]
        logp = xp.where(self.mask, chosen, 0.0)
        last = length - 1 + self.mask.sum(axis=1)
        states = self.run.hidden[:, np.arange(len(last)), last]
        return tuple(
            ScoredRows(logits[i], log_probs[i], logp[i], states[i])
            for i in range(self.settings.updates)
        )


@dataclass(frozen=True, slots=True)
class ScoredRows:
    """What one snapshot says: logits and log-probabilities `[R, T, V]`, the chosen `[R, T]`.

    `states` are the hidden states after the last active token, `[R, H]`.
    """

    logits: Ball
    log_probs: Ball
    logp: Ball
    states: Ball


def expected_tokens(model: Model, snapshot: int, rows: Integers, uniforms: Any) -> Integers:
    """Return the tokens that the recorded policy draws, given the tokens before each.

    A recorded token is kept where the uniform lies within rounding error of its bounds.
    """
    scored = model.scored[snapshot]
    xp = scored.logits.__array_namespace__()
    cumulative = xp.cumulative_sum(xp.exp(scored.log_probs[rows]), axis=-1)
    tokens, drawn = model.tokens[rows], uniforms.reshape(len(rows), -1)
    above = cumulative.centre + cumulative.radius
    below = np.concatenate(
        [np.full((*drawn.shape, 1), -1.0), (cumulative.centre - cumulative.radius)[..., :-1]], -1
    )
    above[..., -1] = np.inf
    at = tokens[..., None]
    fits = (drawn >= np.take_along_axis(below, at, -1)[..., 0]) & (
        drawn < np.take_along_axis(above, at, -1)[..., 0]
    )
    passed = np.sum(cumulative.centre <= drawn[..., None], axis=-1)
    nearest = np.minimum(passed, cumulative.shape[-1] - 1)
    return np.where(alive(tokens), np.where(fits, tokens, nearest), END)


def alive(tokens: Integers) -> Bits:
    """Return the mask that tokens imply: active up to and with the first end token."""
    ended = np.cumsum(tokens == END, axis=-1) - (tokens == END)
    mask: Bits = ended == 0
    return mask
