from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from rlvraudit import fixtures
from rlvraudit.audit.implementations.allowance import bounds
from rlvraudit.audit.implementations.judgement import judge
from rlvraudit.audit.implementations.probes.controls import control
from rlvraudit.audit.implementations.probes.probe import Subject
from rlvraudit.audit.implementations.variants import VARIANTS, replay, surrogate, trajectory
from rlvraudit.audit.implementations.vector_files import Case, read
from rlvraudit.kernels.objectives import OBJECTIVES

DEMANDED = {
    "constant SFT": "tar.replay_nll.constant-sft",
    "gate not detached": "tar.replay_nll.gate-attached",
    "weights not detached": "tar.replay_nll.weights-attached",
    "mean over active trajectories only": "tar.replay_nll.active-mean",
    "epsilon lost to FP16": "tar.replay_nll.fp16-epsilon",
    "prefix ratio not detached": "tapo.surrogate.prefix-attached",
    "gradient divided by t": "tapo.surrogate.gradient-over-t",
    "product instead of geometric mean": "tapo.surrogate.product",
    "GSPO's ratio in place of the prefix": "tapo.surrogate.whole-sequence",
    "positions that count padding": "tapo.surrogate.padding-positions",
    "fixed clip width": "tapo.surrogate.fixed-width",
    "clip bounds swapped": "grpo.surrogate.swapped-bounds",
    "NaN * 0 at padding": "tapo.surrogate.nan-times-zero",
}


def subject(objective: str) -> Subject:
    file = read(fixtures.ROOT / "vectors" / f"{objective.replace('.', '-')}.json")
    valid = tuple(case for case in file.cases if case.expected is not None)
    return Subject(OBJECTIVES[objective], valid)


def wrong(outputs: Mapping[str, Any], of: Subject, case: Case) -> bool:
    host = {name: np.asarray(value) for name, value in outputs.items()}
    return not judge(host, case.expected or {}, bounds(of.objective, case), "float64").passed


@pytest.mark.parametrize("name", VARIANTS)
def test_every_known_wrong_variant_is_caught(name: str) -> None:
    variant = VARIANTS[name]
    caught = control(variant, [subject(variant.objective)])
    assert caught.caught
    assert "expected" in caught.example


@pytest.mark.parametrize("fault", DEMANDED)
def test_each_fault_that_is_demanded_has_a_variant(fault: str) -> None:
    assert DEMANDED[fault] in VARIANTS


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_gives_the_objectives_outputs_and_a_sentence_with_its_fault(name: str) -> None:
    variant = VARIANTS[name]
    case = subject(variant.objective).of_dtype("float64")[0]
    outputs = variant.evaluate(**case.inputs, **case.params)
    assert set(outputs) == set(case.expected or ())
    assert name.startswith(f"{variant.objective}.")
    assert variant.sentence.endswith(".")


@pytest.mark.parametrize("objective", ["grpo.surrogate", "gspo.surrogate", "tapo.surrogate"])
def test_a_surrogate_variant_without_its_fault_is_the_objective(objective: str) -> None:
    terms: Any = {
        "grpo.surrogate": surrogate.grpo_terms,
        "gspo.surrogate": surrogate.gspo_terms,
        "tapo.surrogate": trajectory.tapo_terms,
    }[objective]
    of = subject(objective)
    for case in of.of_dtype("float64"):
        with np.errstate(invalid="ignore"):  # what stands at padding is subtracted, then masked
            outputs = surrogate.outputs(terms(**case.inputs, **case.params))
        assert not wrong(outputs, of, case)


def test_a_control_that_nothing_is_wrong_with_is_not_caught() -> None:
    of = subject("grpo.surrogate")
    innocent = VARIANTS["grpo.surrogate.swapped-bounds"]
    symmetric = [
        Case(c.id, c.dtype, c.inputs, {**c.params, "clip_low": 0.2, "clip_high": 0.2}, c.expected)
        for c in of.of_dtype("float64")
        if c.id in _on_policy(of)
    ]
    assert symmetric
    assert not control(innocent, [Subject(of.objective, tuple(symmetric))]).caught


def _on_policy(of: Subject) -> list[int]:
    return [
        case.id
        for case in of.of_dtype("float64")
        if np.array_equal(case.inputs["logp_policy"], case.inputs["logp_old"], equal_nan=True)
    ]


def test_attached_gate_and_weights_equal_what_autograd_finds_without_detaching() -> None:
    import torch

    rng = np.random.default_rng(3)
    policy, base = -rng.exponential(size=(2, 3, 4))
    mask = rng.random((3, 4)) < 0.8
    mask[:, 0] = True

    def phi(z: Any) -> Any:
        return -torch.expm1(-torch.clamp(z, min=0))

    def gradient(hold_gate: bool, hold_weights: bool) -> Any:
        x = torch.tensor(policy, requires_grad=True)
        m = torch.tensor(mask)
        delta = torch.where(m, torch.tensor(base) - x, 0.0)
        g, w = phi(delta.sum(1) / m.sum(1)), phi(delta)
        g, w = (g.detach() if hold_gate else g), (w.detach() if hold_weights else w)
        (g * (w * -x).sum(1) / (1e-8 + w.sum(1))).mean().backward()
        return x.grad

    inputs = {"logp_policy": policy, "logp_base": base, "mask": mask}
    for variant, held in ((replay.attached_gate, (0, 1)), (replay.attached_weights, (1, 0))):
        outputs = variant.evaluate(**inputs)
        expected = gradient(bool(held[0]), bool(held[1]))
        np.testing.assert_allclose(outputs["grad_logp_policy"], expected, rtol=1e-12, atol=1e-16)


def test_an_attached_prefix_equals_what_autograd_finds_without_detaching() -> None:
    import torch

    rng = np.random.default_rng(4)
    old = -rng.exponential(size=(2, 5)) - 1
    new = old + 0.02 * rng.normal(size=(2, 5))
    a, mask = np.array([1.0, -0.5]), np.ones((2, 5), np.bool_)
    x: Any = torch.tensor(new, requires_grad=True)
    t = torch.arange(1, 6)
    ratio = torch.exp(torch.cumsum(x - torch.tensor(old), 1) / t)
    loss: Any = -(ratio * torch.tensor(a)[:, None]).mean(1).mean()
    loss.backward()
    params = {"clip_min": 0.9, "clip_max": 0.9, "aggregation": "seq-mean-token-mean"}
    outputs = trajectory.attached.evaluate(new, old, a, mask, **params)
    np.testing.assert_allclose(outputs["grad_logp_policy"], x.grad, rtol=1e-12)
