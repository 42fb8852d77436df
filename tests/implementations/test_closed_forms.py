"""Closed forms put together from parts: the objectives, and faults that differ from them."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rlvraudit.audit.implementations.closed_forms import PARTS, parts
from rlvraudit.audit.implementations.closed_forms.advantages import Advantages
from rlvraudit.audit.implementations.closed_forms.likelihood import Likelihood
from rlvraudit.audit.implementations.closed_forms.part import Part
from rlvraudit.audit.implementations.closed_forms.replay import Replay
from rlvraudit.audit.implementations.closed_forms.surrogate import Penalty, Surrogate, Width
from rlvraudit.audit.implementations.closed_forms.weighting import Exponents, Weighting
from rlvraudit.audit.implementations.families.divergence import Estimate
from rlvraudit.audit.implementations.implementation import Outcome
from rlvraudit.audit.implementations.recovery.evaluate import Form, evaluate
from rlvraudit.kernels.objectives import OBJECTIVES

torch: Any = pytest.importorskip("torch", reason="closed forms are computed on torch tensors")

Inputs = dict[str, NDArray[Any]]
NORM = 37.0
WEIGHTS: dict[str, Weighting] = {
    "token-mean": Weighting((0, 0, -1, 0, 0)),
    "seq-mean-token-mean": Weighting((-1, -1, 0, 0, 0)),
    "seq-mean-token-sum": Weighting((-1, 0, 0, 0, 0)),
    "seq-mean-token-sum-norm": Weighting((-1, 0, 0, 0, 0), 1 / NORM),
}
UNBOUNDED = Width((math.inf, math.inf), (math.inf, math.inf))
PENALTY = parts("estimator")["k3"]


def batch(seed: int, spread: float = 0.3) -> Inputs:
    """Return a ragged batch with holes, an empty column and a one-token trajectory."""
    rng = np.random.default_rng(seed)
    mask = rng.random((5, 7)) < 0.7
    mask[:, 3] = False
    mask[:, 1] = True
    mask[0] = np.arange(7) == 1
    policy = -rng.exponential(size=mask.shape)
    arrays = {
        "logp_policy": policy,
        "logp_old": policy - np.abs(policy) * rng.uniform(-spread, 1, mask.shape) * spread,
        "logp_reference": np.minimum(policy + rng.normal(0, 2 * spread, mask.shape), 0),
        "logp_base": np.minimum(policy + rng.normal(0.1, 2 * spread, mask.shape), 0),
        "advantages": rng.normal(size=5),
        "mask": mask,
    }
    # What stands at inactive positions must not matter; it is finite, as most code has it.
    return {
        name: np.where(mask, values, -3.0)
        if values.dtype.kind == "f" and values.ndim == 2
        else values
        for name, values in arrays.items()
    }


def logits(seed: int, scale: float = 2.0) -> Inputs:
    mask = batch(seed)["mask"]
    rng = np.random.default_rng(seed + 100)
    return {
        "logits": rng.normal(0, scale, (*mask.shape, 7)),
        "target": rng.integers(0, 7, mask.shape),
        "mask": mask,
    }


def rewards(seed: int) -> Inputs:
    drawn = np.random.default_rng(seed).uniform(-1, 2, (4, 5))
    drawn[2] = 0.3  # no variance
    return {"rewards": drawn}


def assert_is(form: Form, objective: str, inputs: Inputs, **parameters: Any) -> None:
    """Assert that value and gradient are those of the reference."""
    known = OBJECTIVES[objective]
    value, *rest = known.evaluate(**inputs, **parameters).values()
    seen = evaluate(form, inputs)
    np.testing.assert_allclose(seen.value, value, rtol=1e-12, atol=1e-12)
    if known.wrt:
        np.testing.assert_allclose(seen.gradient, rest[0], rtol=1e-12, atol=1e-12)


SURROGATE = ("logp_policy", "logp_old", "advantages", "mask")


def chosen(inputs: Inputs, names: tuple[str, ...]) -> Inputs:
    return {name: inputs[name] for name in names}


# --- Right parts are the objectives --------------------------------------------------------------


def surrogate(level: str, width: Width, aggregation: str = "seq-mean-token-mean") -> Surrogate:
    return Surrogate(parts("ratio")[level], parts("rule")["clipped"], width, WEIGHTS[aggregation])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("aggregation", WEIGHTS)
def test_token_ratios_and_fixed_bounds_are_grpo(aggregation: str, seed: int) -> None:
    form = surrogate("token", Width((0.1, 0.1), (0.15, 0.15)), aggregation)
    parameters = {"clip_low": 0.1, "clip_high": 0.15, "aggregation": aggregation, "norm": NORM}
    assert_is(form, "grpo.surrogate", chosen(batch(seed), SURROGATE), **parameters)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("level", ["sequence", "sequence-token"])
def test_both_sequence_ratios_are_gspo_with_an_advantage_per_trajectory(
    level: str, seed: int
) -> None:
    form = surrogate(level, Width((0.05, 0.05), (0.04, 0.04)))
    inputs = chosen(batch(seed), SURROGATE)
    assert_is(form, "gspo.surrogate", inputs, clip_low=0.05, clip_high=0.04)


def test_the_carried_sequence_ratio_is_gspo_token_with_an_advantage_per_token() -> None:
    inputs = chosen(batch(3), SURROGATE)
    inputs["advantages"] = np.random.default_rng(3).normal(size=inputs["mask"].shape)
    form = surrogate("sequence-token", Width((0.05, 0.05), (0.04, 0.04)))
    assert_is(form, "gspo.surrogate", inputs, clip_low=0.05, clip_high=0.04)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("aggregation", WEIGHTS)
def test_prefix_ratios_and_falling_widths_are_tapo(aggregation: str, seed: int) -> None:
    form = surrogate("prefix", Width((0.02, 0.2), (0.02, 0.2)), aggregation)
    parameters = {"clip_min": 0.02, "clip_max": 0.2, "aggregation": aggregation, "norm": NORM}
    assert_is(form, "tapo.surrogate", chosen(batch(seed), SURROGATE), **parameters)


def test_the_batches_of_these_tests_lie_on_both_sides_of_the_bounds() -> None:
    for seed in range(3):
        inputs = batch(seed)
        on, signal = inputs["mask"], inputs["advantages"][:, None]
        ratio = np.exp(inputs["logp_policy"] - inputs["logp_old"])
        clipped = ((ratio > 1.15) & (signal > 0)) | ((ratio < 0.9) & (signal < 0))
        assert clipped[on].any()
        assert not clipped[on].all()
        assert (~on[:, 2:] & on[:, 2:].any(axis=1, keepdims=True)).any()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("epsilon", [1e-8, 1e-2])
def test_gate_weights_and_mean_are_tar(epsilon: float, seed: int) -> None:
    named = parts("gate")["gate"], parts("token weight")["token-weight"]
    form = Replay(*named, parts("replay mean")["replay-mean"], epsilon)
    inputs = chosen(batch(seed), ("logp_policy", "logp_base", "mask"))
    assert_is(form, "tar.replay_nll", inputs, denominator_epsilon=epsilon)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
def test_an_estimator_under_a_token_mean_is_the_kl_estimate(estimator: str, seed: int) -> None:
    form = Estimate(Penalty(1.0, parts("estimator")[estimator], WEIGHTS["token-mean"]))
    inputs = chosen(batch(seed), ("logp_policy", "logp_reference", "mask"))
    assert_is(form, "kl.estimate", inputs, estimator=estimator)


@pytest.mark.parametrize("seed", range(3))
def test_log_softmax_under_a_token_mean_is_the_nll(seed: int) -> None:
    form = Likelihood(parts("likelihood")["log-softmax"], WEIGHTS["token-mean"])
    assert_is(form, "nll.from_logits", logits(seed))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("std, ddof 0", {"scale": "std", "ddof": 0, "epsilon": 1e-4}),
        ("std, ddof 1", {"scale": "std", "ddof": 1, "epsilon": 1e-2}),
        ("unscaled", {"scale": "none", "ddof": 0, "epsilon": 0.0}),
    ],
)
def test_mean_and_deviation_are_grpos_advantages(
    name: str, parameters: dict[str, Any], seed: int
) -> None:
    form = Advantages(parts("baseline")["mean"], parts("scale")[name], parameters["epsilon"])
    assert_is(form, "grpo.advantages", rewards(seed), **parameters)


@pytest.mark.parametrize("aggregation", WEIGHTS)
def test_a_penalty_adds_its_weight_times_the_aggregated_estimate(aggregation: str) -> None:
    inputs = batch(1)
    plain = surrogate("token", Width((0.1, 0.1), (0.1, 0.1)), aggregation)
    weighting = WEIGHTS[aggregation]
    whole = replace(plain, penalty=Penalty(0.04, PENALTY, weighting))
    alone = evaluate(Estimate(Penalty(1.0, PENALTY, weighting)), inputs)
    without, both = evaluate(plain, inputs), evaluate(whole, inputs)
    np.testing.assert_allclose(both.value, without.value + 0.04 * alone.value, rtol=1e-12)
    expected = without.gradient + 0.04 * alone.gradient
    np.testing.assert_allclose(both.gradient, expected, rtol=1e-12, atol=1e-15)


def test_dual_clip_caps_what_a_negative_advantage_can_cost() -> None:
    # ratio e^2 = 7.39, A = -1: the loss is min(7.39, 3) = 3 and flat there; A = +1: -1.2.
    inputs: Inputs = {
        "logp_policy": np.array([[-1.0], [-1.0]]),
        "logp_old": np.array([[-3.0], [-3.0]]),
        "advantages": np.array([-1.0, 1.0]),
        "mask": np.ones((2, 1), dtype=bool),
    }
    width = Width((0.2, 0.2), (0.2, 0.2))
    form = replace(surrogate("token", width, "seq-mean-token-sum"), dual=3.0)
    seen = evaluate(form, inputs)
    assert float(seen.value) == pytest.approx((3.0 - 1.2) / 2, abs=1e-15)
    assert seen.gradient.tolist() == [[0.0], [0.0]]


# --- Faults differ from what should stand there --------------------------------------------------

WIDE = Width((0.3, 0.3), (0.25, 0.25))
RIGHT = Surrogate(
    parts("ratio")["token"], parts("rule")["clipped"], WIDE, WEIGHTS["seq-mean-token-mean"], 3.0
)
MEAN, DDOF_1 = parts("baseline")["mean"], parts("scale")["std, ddof 1"]
REPLAY = Replay(
    parts("gate")["gate"],
    parts("token weight")["token-weight"],
    parts("replay mean")["replay-mean"],
)
FORMS: dict[str, Callable[[Part], Form]] = {
    "ratio": lambda part: replace(RIGHT, ratio=part, width=UNBOUNDED, dual=math.inf),
    "rule": lambda part: replace(RIGHT, rule=part),
    "estimator": lambda part: Estimate(Penalty(1.0, part, WEIGHTS["token-mean"])),
    "gate": lambda part: replace(REPLAY, gate=part),
    "token weight": lambda part: replace(REPLAY, weight=part),
    "replay mean": lambda part: replace(REPLAY, mean=part),
    "likelihood": lambda part: Likelihood(part, WEIGHTS["token-mean"]),
    "baseline": lambda part: Advantages(part, DDOF_1, 1e-4),
    "scale": lambda part: Advantages(MEAN, part, 1e-4),
}
FAULTS = sorted(name for name, part in PARTS.items() if part.fault)


def batches(which: str) -> list[Inputs]:
    """Return batches on which the faults of a kind of part show."""
    if which in ("baseline", "scale"):
        return [rewards(seed) for seed in range(2)]
    if which == "likelihood":
        return [logits(0), logits(1, scale=12.0)]
    far = batch(2)
    far["logp_old"] = np.where(far["mask"], far["logp_policy"] - 2.0, -3.0)
    return [batch(0), batch(1), far]


def apart(one: Outcome, other: Outcome) -> bool:
    """Whether two outcomes differ by far more than rounding."""
    pairs = ((one.value, other.value), (one.gradient, other.gradient))
    return any(not np.allclose(a, b, rtol=1e-6, atol=1e-8) for a, b in pairs)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_names_a_published_convention_and_differs_from_it(name: str) -> None:
    wrong = PARTS[name]
    right = parts(wrong.part)[wrong.instead]
    assert not right.fault
    form = FORMS[wrong.part]
    pairs = [(evaluate(form(wrong), b), evaluate(form(right), b)) for b in batches(wrong.part)]
    assert all(expected.finite for _, expected in pairs)
    assert any(apart(seen, expected) for seen, expected in pairs)


def test_every_kind_of_part_has_a_form_in_this_test_and_a_published_convention_first() -> None:
    kinds = {part.part for part in PARTS.values()}
    assert kinds == set(FORMS)
    for kind in kinds:
        faulty = [bool(part.fault) for part in parts(kind).values()]
        assert faulty == sorted(faulty)
        assert not faulty[0]


@pytest.mark.parametrize("name", sorted(PARTS))
def test_a_part_says_what_is_wrong_in_a_sentence_or_nothing(name: str) -> None:
    part = PARTS[name]
    assert part.words
    assert bool(part.fault) == bool(part.instead)
    assert not part.fault or part.fault.endswith(".")


def test_two_faults_of_one_kind_never_say_the_same_of_the_card() -> None:
    for kind in {part.part for part in PARTS.values()}:
        words = [part.words for part in parts(kind).values()]
        assert len(words) == len(set(words)), kind


# --- Weights -------------------------------------------------------------------------------------

# B = 2 trajectories of T_b = 2 and 3 tokens, N = 5, padded to T = 4, the longest has L = 3.
MASK = ((True, False, True, False), (True, True, True, False))


def row_weights(weighting: Weighting) -> list[float]:
    """Return the weight of a token of each row, once all tokens of a row are known to agree."""
    mask = torch.tensor(MASK)
    weight = weighting.of(mask, torch.float64)
    assert not weight[~mask].any()
    rows = [weight[b][mask[b]] for b in range(2)]
    assert all((row == row[0]).all() for row in rows)
    return [float(row[0]) for row in rows]


@pytest.mark.parametrize(
    ("exponents", "constant", "epsilon", "expected"),
    [
        ((0, 0, -1, 0, 0), 1.0, 0.0, (1 / 5, 1 / 5)),
        ((-1, -1, 0, 0, 0), 1.0, 0.0, (1 / 4, 1 / 6)),
        ((-1, 0, 0, 0, 0), 1.0, 0.0, (1 / 2, 1 / 2)),
        ((-1, 0, 0, 0, 0), 1 / 64, 0.0, (1 / 128, 1 / 128)),
        ((0, 0, 0, 0, 0), 1.0, 0.0, (1.0, 1.0)),
        ((0, -1, 0, 0, 0), 1.0, 0.0, (1 / 2, 1 / 3)),
        ((0, 0, 0, -1, 0), 1.0, 0.0, (1 / 4, 1 / 4)),
        ((-1, 0, 0, 0, -1), 1.0, 0.0, (1 / 6, 1 / 6)),
        ((0, -0.5, 0, 0, 0), 1.0, 0.0, (2**-0.5, 3**-0.5)),
        ((0, 1, -1, 0, 0), 3.0, 0.0, (6 / 5, 9 / 5)),
        # The epsilon stands beside the innermost count: N, and of B T_b the second one.
        ((0, 0, -1, 0, 0), 1.0, 1.0, (1 / 6, 1 / 6)),
        ((-1, -1, 0, 0, 0), 1.0, 0.5, (1 / 5, 1 / 7)),
    ],
)
def test_a_weight_is_the_product_of_its_powers(
    exponents: Exponents, constant: float, epsilon: float, expected: tuple[float, float]
) -> None:
    seen = row_weights(Weighting(exponents, constant, epsilon))
    assert seen == pytest.approx(expected, rel=1e-15)


def test_an_empty_trajectory_weighs_nothing_and_spoils_nothing() -> None:
    # B = 2 still; T_b = 0 is not divided by.
    mask = torch.tensor([[False, False], [True, True]])
    weight = WEIGHTS["seq-mean-token-mean"].of(mask, torch.float64)
    assert weight.tolist() == [[0.0, 0.0], [0.25, 0.25]]


@pytest.mark.parametrize(
    ("exponents", "constant", "formula", "name", "normaliser"),
    [
        ((0, 0, -1, 0, 0), 1.0, "1 / (N)", "token-mean", "tokens"),
        ((-1, -1, 0, 0, 0), 1.0, "1 / (B T_b)", "seq-mean-token-mean", "trajectories"),
        ((-1, 0, 0, 0, 0), 1.0, "1 / (B)", "seq-mean-token-sum", "trajectories"),
        ((-1, 0, 0, 0, 0), 0.5, "0.5 / (B)", "seq-mean-token-sum-norm", "trajectories"),
        ((0, 0, 0, 0, 0), 1.0, "1", "token-sum", ""),
        ((0, 0, 0, 0, 0), 2.0, "2", "token-sum", ""),
        ((0, -1, 0, 0, 0), 1.0, "1 / (T_b)", "seq-sum-token-mean", ""),
        ((-2, 0, 0, 0, 0), 1.0, "1 / (B^2)", "1 / (B^2)", None),
        ((0, -0.5, 0, 0, 0), 1.0, "1 / (T_b^0.5)", "1 / (T_b^0.5)", None),
        ((-1, 1, 0, -1, 0), 1.0, "T_b / (B T)", "T_b / (B T)", None),
        ((0, 1, 0, 0, 0), 0.25, "0.25 T_b", "0.25 T_b", None),
        ((-1, 0, 0, 0, -1), 1.0, "1 / (B L)", "1 / (B L)", None),
    ],
)
def test_a_weight_has_a_formula_a_name_and_what_micro_batches_divide_by(
    exponents: Exponents, constant: float, formula: str, name: str, normaliser: str | None
) -> None:
    weighting = Weighting(exponents, constant)
    assert (weighting.formula, weighting.name) == (formula, name)
    assert weighting.normaliser == normaliser


def test_the_norm_is_what_a_sum_is_divided_by() -> None:
    assert WEIGHTS["seq-mean-token-sum-norm"].norm == pytest.approx(37.0, rel=1e-15)


# --- Widths --------------------------------------------------------------------------------------

# eps_t = 0.1 + 0.2 (t^-1/2 - T_b^-1/2) / (1 - T_b^-1/2). For T_b = 4 the fraction is
# 2 t^-1/2 - 1: 1, sqrt 2 - 1, 2 / sqrt 3 - 1, 0. For T_b = 2 it is 1, 0.
FOUR = (0.3, 0.1 + 0.2 * (2**0.5 - 1), 0.1 + 0.2 * (2 / 3**0.5 - 1), 0.1)
TAPO = Width((0.1, 0.3), (0.1, 0.3))


def widths(width: Width, mask: Any) -> Any:
    """Return the distance of both bounds from 1."""
    bounds = width.bounds(torch.tensor(mask), torch.float64, math.inf)
    return (1 - bounds.low).numpy(), (bounds.high - 1).numpy()


def test_the_width_falls_from_the_first_to_the_last_active_token() -> None:
    for seen in widths(TAPO, [[True, True, True, True]]):
        np.testing.assert_allclose(seen, [FOUR], rtol=1e-14)


def test_holes_are_skipped_not_counted() -> None:
    mask = np.array(
        [[True, False, True, True, False, True], [False, True, False, True, False, False]]
    )
    for seen in widths(TAPO, mask):
        np.testing.assert_allclose(seen[0][mask[0]], FOUR, rtol=1e-14)
        np.testing.assert_allclose(seen[1][mask[1]], [0.3, 0.1], rtol=1e-14)


@pytest.mark.parametrize(("alone", "expected"), [(1.0, 0.3), (0.0, 0.1)])
def test_a_one_token_trajectory_has_the_first_width_unless_said_otherwise(
    alone: float, expected: float
) -> None:
    for seen in widths(replace(TAPO, alone=alone), [[False, True]]):
        assert seen[0, 1] == pytest.approx(expected, rel=1e-14)


def test_each_side_has_its_own_width() -> None:
    low, high = widths(Width((0.05, 0.05), (0.1, 0.3)), [[True, True]])
    np.testing.assert_allclose(low, [[0.05, 0.05]], rtol=1e-14)
    np.testing.assert_allclose(high, [[0.3, 0.1]], rtol=1e-14)


def test_a_width_may_count_columns_or_the_longest_row() -> None:
    mask = [[True, False, True, False], [True, True, True, True]]
    for seen in widths(replace(TAPO, counted="columns"), mask):
        np.testing.assert_allclose(seen[0], FOUR, rtol=1e-14)
    for seen in widths(replace(TAPO, counted="longest"), mask):
        # The second active token stands in the third column; T_b is taken for 4.
        assert seen[0, 2] == pytest.approx(FOUR[1], rel=1e-14)


def test_a_width_that_is_infinite_bounds_nothing() -> None:
    bounds = UNBOUNDED.bounds(torch.tensor(MASK), torch.float64, math.inf)
    assert (bounds.low == -math.inf).all()
    assert (bounds.high == math.inf).all()


@pytest.mark.parametrize(
    ("width", "fixed"),
    [(Width((0.2, 0.2), (0.28, 0.28)), True), (UNBOUNDED, True), (TAPO, False)],
)
def test_a_width_is_fixed_where_first_and_last_agree(width: Width, fixed: bool) -> None:
    assert width.fixed == fixed


def test_half_precision_bounds_are_rounded_once() -> None:
    bounds = TAPO.bounds(torch.tensor([[True, True, True, True]]), torch.bfloat16, math.inf)
    expected = [[float(torch.tensor(1 + eps, dtype=torch.bfloat16)) for eps in FOUR]]
    assert bounds.high.double().tolist() == expected


# --- Advantages ----------------------------------------------------------------------------------


def value(form: Form, numbers: Any) -> Any:
    inputs: Mapping[str, Any] = {"rewards": np.array(numbers)}
    return evaluate(form, dict(inputs)).value


def test_the_epsilon_may_stand_under_the_root() -> None:
    # Rewards 0 and 2: mean 1, variance 2 with ddof 1; (r - 1) / sqrt(2 + 0.25) = +- 2/3.
    form = Advantages(MEAN, DDOF_1, 0.25, inside=True)
    assert value(form, [[0.0, 2.0]])[0] == pytest.approx([-2 / 3, 2 / 3], rel=1e-15)


def test_advantages_may_be_bounded_and_turned_round() -> None:
    # Rewards 0, 0, 0, 4: centred -1, -1, -1, 3; bounded to 2.
    form = Advantages(MEAN, parts("scale")["unscaled"], 0.0, limit=2.0, sign=-1.0)
    assert value(form, [[0.0, 0.0, 0.0, 4.0]]).tolist() == [[1.0, 1.0, 1.0, -2.0]]


def test_a_leave_one_out_mean_is_that_of_the_others() -> None:
    # Rewards 0, 3, 6: the others' means are 4.5, 3, 1.5.
    form = Advantages(parts("baseline")["leave-one-out"], parts("scale")["unscaled"], 0.0)
    assert value(form, [[0.0, 3.0, 6.0]]).tolist() == [[-4.5, 0.0, 4.5]]


def test_a_group_without_variance_is_exactly_zero() -> None:
    assert value(Advantages(MEAN, DDOF_1, 0.0), [[0.1, 0.1, 0.1]]).tolist() == [[0.0, 0.0, 0.0]]


# --- Likelihood ----------------------------------------------------------------------------------


def one_token(numbers: list[float]) -> Inputs:
    return {
        "logits": np.array([[numbers]]),
        "target": np.zeros((1, 1), dtype=np.int64),
        "mask": np.ones((1, 1), dtype=bool),
    }


def test_logits_may_be_scaled_and_labels_smoothed() -> None:
    inputs = one_token([math.log(4.0), 0.0])
    softmax = parts("likelihood")["log-softmax"]
    # Temperature 2: softmax(log 2, 0) = 2/3, 1/3.
    warm = Likelihood(softmax, WEIGHTS["token-mean"], temperature=2.0)
    assert float(evaluate(warm, inputs).value) == pytest.approx(math.log(1.5), rel=1e-14)
    # Smoothing 0.2: 0.8 (-log 4/5) + 0.2 (-log 4/5 - log 1/5) / 2.
    smooth = Likelihood(softmax, WEIGHTS["token-mean"], smoothing=0.2)
    expected = 0.8 * math.log(5 / 4) + 0.1 * (math.log(5 / 4) + math.log(5))
    assert float(evaluate(smooth, inputs).value) == pytest.approx(expected, rel=1e-14)
