"""The TAR component run: what it records, what it never does, and that it repeats itself."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the run trains a torch.nn.GRU")

from rlvraudit.audit.runs import tar_sampling, tar_training
from rlvraudit.audit.runs.tar_recipe import END, TarSettings, initial_parameters, verify
from rlvraudit.audit.runs.tar_sampling import RunError, Trainer
from rlvraudit.audit.runs.tar_training import Trace, train


@pytest.fixture(scope="module")
def trace() -> Trace:
    return train(42, "cpu")


def test_the_same_seed_gives_the_same_bytes(trace: Trace) -> None:
    again = train(42, "cpu")
    assert again.document == trace.document
    assert {k: v.tobytes() for k, v in again.tensors.items()} == {
        k: v.tobytes() for k, v in trace.tensors.items()
    }


def test_another_seed_gives_another_run(trace: Trace) -> None:
    other = train(43, "cpu")
    assert np.any(other.tensors["parameters"][0] != trace.tensors["parameters"][0])


def test_the_run_is_the_one_of_the_recipe(trace: Trace) -> None:
    settings = trace.document["settings"]
    assert (settings["vocabulary"], settings["hidden"], settings["candidates"]) == (16, 8, 8)
    assert (settings["updates"], settings["groups"], settings["group_size"]) == (3, 2, 6)
    assert (settings["prototypes"], settings["replay_lambda"]) == (3, 1.0)
    assert len(trace.document["updates"]) == 3
    assert all(len(entry["indices"]) <= 3 for entry in trace.document["bank"])


def test_the_base_is_the_initial_policy_and_gets_no_gradient(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[Trainer] = []
    start = tar_training._start

    def remember(*arguments: Any) -> Trainer:
        started.append(start(*arguments))
        return started[-1]

    monkeypatch.setattr(tar_training, "_start", remember)
    train(42, "cpu")
    (trainer,) = started
    np.testing.assert_array_equal(trainer.base.flat(), initial_parameters(42, TarSettings()))
    assert all(parameter.grad is None for parameter in trainer.base.parameters())
    assert np.any(trainer.policy.flat() != trainer.base.flat())


def test_replay_is_exactly_zero_while_the_policy_equals_the_base(trace: Trace) -> None:
    first = trace.document["updates"][0]
    assert first["loss"]["replay"] == 0
    assert first["loss"]["kl"] == 0
    assert not trace.tensors["update.0.replay.gate"].any()
    assert any(update["loss"]["replay"] > 0 for update in trace.document["updates"])


def test_the_bank_holds_only_sampled_candidates_that_the_verifier_accepts(trace: Trace) -> None:
    for position, entry in enumerate(trace.document["bank"]):
        assert all(trace.tensors["bank.correct"][position][entry["indices"]])


def test_a_prompt_without_a_correct_candidate_has_no_bank() -> None:
    banks = [train(seed, "cpu").document["bank"] for seed in (42, 43, 44)]
    empty = [entry for bank in banks for entry in bank if entry["correct"] == 0]
    assert empty
    assert all(entry["indices"] == [] for entry in empty)


def test_the_policy_samples_the_same_whatever_the_verifier_says(
    trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tar_sampling, "verify", lambda *a: ~verify(*a))
    other = train(42, "cpu")
    np.testing.assert_array_equal(other.tensors["bank.tokens"], trace.tensors["bank.tokens"])
    assert np.any(other.tensors["bank.correct"] != trace.tensors["bank.correct"])


def test_groups_without_variance_are_rejected_and_counted(trace: Trace) -> None:
    rejected = 0
    for index, update in enumerate(trace.document["updates"]):
        rewards = trace.tensors[f"update.{index}.attempts.rewards"]
        equal = (rewards == rewards[:, :1]).all(axis=1)
        assert [a["accepted"] for a in update["attempts"]] == list(~equal)
        assert update["rejected"] == equal.sum()
        rejected += update["rejected"]
    assert rejected > 0


def test_responses_end_with_the_end_token_and_are_padded_with_it(trace: Trace) -> None:
    tokens, mask = trace.tensors["bank.tokens"], trace.tensors["bank.mask"]
    assert np.all(tokens[~mask] == END)
    before_last = mask.copy()
    before_last[..., :-1] &= mask[..., 1:]
    before_last[..., -1] = False
    assert np.all(tokens[before_last] != END)


def test_nothing_to_replay_stops_the_run() -> None:
    # Sums of at most six tokens below 16 and three prompt tokens never agree modulo 997.
    hopeless = replace(TarSettings(), verifier_modulus=997, prompts=((15, 15, 15),) * 4)
    hopeless = replace(hopeless, max_tokens=2)
    with pytest.raises(RunError, match="no base candidate"):
        train(42, "cpu", hopeless)


def test_groups_that_never_carry_signal_stop_the_run() -> None:
    # Modulo 1 every response is correct, so that no group has variance.
    with pytest.raises(RunError, match="without enough signal"):
        train(42, "cpu", replace(TarSettings(), verifier_modulus=1))
