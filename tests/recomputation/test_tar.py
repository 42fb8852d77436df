"""The recomputation of a TAR trace: silent on a right one, loud on each wrong number."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the traces come from an actual run, which needs PyTorch")

from traces import small_trace, write_trace

from rlvraudit.audit.evidence.supplement import Evidence
from rlvraudit.audit.rules import RULES
from rlvraudit.audit.rules.rule import Held, Problem, Skipped
from rlvraudit.audit.rules.training import trace_layout, trace_values
from rlvraudit.audit.supplements import open_supplement

TRACE_RULES = ("RA410", "RA411", "RA412", "RA413", "RA416", "RA417", "RA418", "RA419", "RA420")
Change = Callable[[dict[str, Any], dict[str, Any]], None]


def audited(folder: Path) -> Iterator[tuple[str, Problem | Held]]:
    """Yield what each rule over traces says of the supplement in `folder`."""
    evidence: Evidence = open_supplement(folder)
    assert not evidence.faults
    checks = {code: RULES[code].check for code in TRACE_RULES}
    for code, check in {**checks, "RA407": trace_layout, "RA401": trace_values}.items():
        for outcome in check(evidence):
            if isinstance(outcome, Problem | Held):
                yield code, outcome


def problems(tmp_path: Path, change: Change) -> dict[str, Problem]:
    document, tensors = small_trace()
    change(document, tensors)
    found = audited(write_trace(tmp_path / "supplement", document, tensors))
    return {code: outcome for code, outcome in found if isinstance(outcome, Problem)}


def test_a_right_trace_gives_no_problem_and_nearly_every_number_is_recomputed(
    tmp_path: Path,
) -> None:
    folder = write_trace(tmp_path / "supplement", *small_trace())
    outcomes = [outcome for _, outcome in audited(folder)]
    assert not [o for o in outcomes if isinstance(o, Problem)]
    marked = [np.asarray(o.numbers) for o in outcomes if isinstance(o, Held)]
    assert sum(int(m.sum()) for m in marked) > 0.9 * sum(m.size for m in marked if m.any())


def scale(name: str, index: tuple[int, ...]) -> Change:
    def change(document: dict[str, Any], tensors: dict[str, Any]) -> None:
        tensors[name][index] *= 1.001

    return change


def largest(name: str) -> Change:
    """Scale the element of largest magnitude."""

    def change(document: dict[str, Any], tensors: dict[str, Any]) -> None:
        at = np.unravel_index(np.argmax(np.abs(tensors[name])), tensors[name].shape)
        tensors[name][at] *= 1.001

    return change


def set_to(pointer: str, value: Any) -> Change:
    def change(document: dict[str, Any], tensors: dict[str, Any]) -> None:
        *parents, last = pointer.split("/")[1:]
        place: Any = document
        for key in parents:
            place = place[int(key) if isinstance(place, list) else key]
        place[int(last) if isinstance(place, list) else last] = value

    return change


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (largest("update.1.replay.gate"), "RA410"),
        (largest("update.1.replay.token_weights"), "RA411"),
        (set_to("/updates/1/loss/replay", 0.123), "RA412"),
        (set_to("/updates/1/active_gates", 99), "RA410"),
        (set_to("/bank/0/distances/1", 0.5), "RA413"),
        (set_to("/bank/0/correct", 1), "RA413"),
        (set_to("/updates/1/loss/surrogate", 0.123), "RA416"),
        (largest("update.1.advantages"), "RA418"),
        (largest("update.0.attempts.rewards"), "RA418"),
        (set_to("/updates/0/rejected", 17), "RA418"),
        (set_to("/updates/0/parameters_after", "0" * 64), "RA419"),
        (largest("parameters"), "RA419"),
        (set_to("/settings/learning_rate", 1.999), "RA419"),
        (set_to("/seed", 8), "RA419"),
        (largest("update.1.gradients"), "RA420"),
        (largest("update.1.grad_logp"), "RA420"),
        (largest("update.1.replay.grad_logp"), "RA420"),
        (set_to("/updates/1/gradient_norm/total", 0.1), "RA420"),
        (set_to("/updates/1/loss/kl", 0.1), "RA401"),
        (set_to("/updates/1/loss/total", 0.1), "RA401"),
        (largest("bank.logp_base"), "RA401"),
        (largest("bank.embeddings"), "RA401"),
        (largest("update.1.logp_old"), "RA401"),
        (set_to("/updates/1/behaviour", 1), "RA401"),
        (set_to("/settings/groups", 2), "RA407"),
        (set_to("/settings/hidden", 4), "RA407"),
        (set_to("/settings/candidates", 5), "RA407"),
        (set_to("/settings/prompts", [[1, 2], [3, 99]]), "RA407"),
        (set_to("/bank/0/indices", [77]), "RA407"),
    ],
)
def test_a_wrong_number_is_a_problem_of_its_rule(tmp_path: Path, change: Change, code: str) -> None:
    assert code in problems(tmp_path, change)


def test_a_flipped_verifier_bit_is_found(tmp_path: Path) -> None:
    def flip(document: dict[str, Any], tensors: dict[str, Any]) -> None:
        tensors["bank.correct"][0, 0] ^= True

    assert {"RA413", "RA418"} & problems(tmp_path, flip).keys()


def test_a_token_that_the_seed_does_not_draw_is_found(tmp_path: Path) -> None:
    def swap(document: dict[str, Any], tensors: dict[str, Any]) -> None:
        tensors["bank.tokens"][0, 0, 0] = 4 - tensors["bank.tokens"][0, 0, 0]

    assert "RA401" in problems(tmp_path, swap)


def test_a_missing_and_an_unknown_array_are_named(tmp_path: Path) -> None:
    def rename(document: dict[str, Any], tensors: dict[str, Any]) -> None:
        tensors["update.0.gates"] = tensors.pop("update.0.replay.gate")

    folder = write_trace(tmp_path / "supplement", *changed(rename))
    found = [o for _, o in audited(folder) if isinstance(o, Problem)]
    assert {"/update.0.gates", "/update.0.replay.gate"} == {p.pointer for p in found}


def changed(change: Change) -> tuple[dict[str, Any], dict[str, Any]]:
    document, tensors = small_trace()
    change(document, tensors)
    return document, tensors


def test_the_mean_over_active_trajectories_is_named(tmp_path: Path) -> None:
    document, tensors = small_trace()
    gates = tensors["update.1.replay.gate"]
    active = int((gates > 0).sum())
    assert 0 < active < len(gates), "the example needs an open and a closed gate"
    wrong = document["updates"][1]["loss"]["replay"] * len(gates) / active
    found = problems(tmp_path, set_to("/updates/1/loss/replay", wrong))["RA412"]
    assert found.discrepancy is not None
    assert "active" in found.discrepancy.variant


def test_a_gate_of_one_everywhere_is_named_constant_imitation(tmp_path: Path) -> None:
    def constant(document: dict[str, Any], tensors: dict[str, Any]) -> None:
        tensors["update.1.replay.gate"][:] = 1.0

    folder = write_trace(tmp_path / "supplement", *changed(constant))
    found = [o for _, o in audited(folder) if isinstance(o, Problem) and o.discrepancy]
    assert any(p.discrepancy and "constant SFT" in p.discrepancy.variant for p in found)


@pytest.mark.parametrize("value", [0.25, np.nan, -np.inf])
def test_an_invalid_log_probability_is_reported_where_it_stands(
    tmp_path: Path, value: float
) -> None:
    def spoil(document: dict[str, Any], tensors: dict[str, Any]) -> None:
        document["recipe"] = "external:unknown"
        tensors["update.1.logp_policy"][2, 0] = value

    found = problems(tmp_path, spoil)
    assert found["RA417"].pointer == "/update.1.logp_policy[2, 0]"


def test_a_zero_variance_group_used_as_signal_is_rejected(tmp_path: Path) -> None:
    def use(document: dict[str, Any], tensors: dict[str, Any]) -> None:
        document["recipe"] = "external:unknown"
        tensors["update.1.attempts.rewards"][:] = 1.0

    assert "RA418" in problems(tmp_path, use)


def skips(folder: Path) -> dict[str, list[str]]:
    evidence = open_supplement(folder)
    return {
        code: [o.reason for o in RULES[code].check(evidence) if isinstance(o, Skipped)]
        for code in ("RA401", "RA410", "RA411", "RA412", "RA416", "RA418", "RA420")
    }


def test_an_unknown_recipe_is_said_by_every_rule_that_needs_the_policy(tmp_path: Path) -> None:
    folder = write_trace(tmp_path / "s", *changed(set_to("/recipe", "external:unknown")))
    said = skips(folder)
    for code in ("RA401", "RA418", "RA420"):
        assert any("external:unknown" in reason for reason in said[code]), code
    assert not said["RA412"]


def test_every_rule_of_a_quantity_says_that_its_input_is_invalid(tmp_path: Path) -> None:
    def spoil(document: dict[str, Any], tensors: dict[str, Any]) -> None:
        for index in range(2):
            tensors[f"update.{index}.replay.logp_policy"][0, 0] = 0.5

    said = skips(write_trace(tmp_path / "s", *changed(spoil)))
    for code in ("RA410", "RA411", "RA412", "RA420"):
        assert any("RA417" in reason for reason in said[code]), code


def test_a_number_that_nothing_bounds_does_not_pass(tmp_path: Path) -> None:
    def overflow(document: dict[str, Any], tensors: dict[str, Any]) -> None:
        # Their squares overflow, so that the norm's expectation and bound are infinite.
        tensors["update.1.gradients"][:] = 1e300
        for term in document["updates"][1]["gradient_norm"]:
            document["updates"][1]["gradient_norm"][term] = 1.0

    folder = write_trace(tmp_path / "s", *changed(overflow))
    found = [o for _, o in audited(folder) if isinstance(o, Problem)]
    assert any("/gradient_norm/" in problem.pointer for problem in found)


def test_without_a_known_recipe_the_policy_is_not_run_again_but_the_losses_are(
    tmp_path: Path,
) -> None:
    def unknown(document: dict[str, Any], tensors: dict[str, Any]) -> None:
        document["recipe"] = "external:unknown"
        tensors["bank.embeddings"] *= 1.001
        document["updates"][1]["loss"]["total"] *= 1.001

    assert problems(tmp_path, unknown).keys() == {"RA401"}
