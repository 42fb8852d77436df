import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, rel_entr, softmax

from rlvraudit.kernels.arrays import InvalidInputError
from rlvraudit.kernels.objectives.divergence import estimate_kl, full_kl
from rlvraudit.kernels.objectives.likelihood import nll_from_logits

RNG = np.random.default_rng(5)
P, Q = RNG.normal(size=(2, 4, 6))
MASK = np.array([True, False, True, True])


def test_the_estimators_equal_their_definitions_by_hand() -> None:
    # d = log 2: k1 = log 2, k2 = log(2)^2 / 2, k3 = 1/2 - 1 + log 2; slopes 1, log 2, 1/2.
    policy, reference = np.array([[math.log(0.5)]]), np.array([[math.log(0.25)]])
    d = math.log(2)
    for name, value, slope in (("k1", d, 1.0), ("k2", d * d / 2, d), ("k3", d - 0.5, 0.5)):
        kl = estimate_kl(policy, reference, np.array([[True]]), estimator=name)
        assert float(kl.value) == pytest.approx(value, rel=1e-14)
        assert float(kl.gradient[0, 0]) == pytest.approx(slope, rel=1e-14)


def test_estimates_are_averaged_over_active_tokens_of_the_batch() -> None:
    policy = np.array([[-1.0, -2.0, np.nan], [-3.0, np.inf, np.nan]])
    reference = np.array([[-1.5, -2.5, np.nan], [-2.0, 9.0, np.nan]])
    mask = np.array([[True, True, False], [True, False, False]])
    kl = estimate_kl(policy, reference, mask, estimator="k1")
    assert float(kl.value) == pytest.approx((0.5 + 0.5 - 1.0) / 3, abs=1e-15)
    np.testing.assert_allclose(kl.gradient, np.where(mask, 1 / 3, 0.0), rtol=1e-15)


def test_k3_that_overflows_is_infinite_and_not_nan() -> None:
    policy, reference = np.array([[-300.0]], np.float32), np.array([[-1.0]], np.float32)
    kl = estimate_kl(policy, reference, np.array([[True]]), estimator="k3")
    assert float(kl.value) == np.inf
    assert float(kl.gradient[0, 0]) == -np.inf


def test_full_kl_agrees_with_scipy() -> None:
    rows = rel_entr(softmax(P, axis=1), softmax(Q, axis=1)).sum(axis=1)
    kl = full_kl(P, Q, MASK)
    assert float(kl.value) == pytest.approx(rows[MASK].mean(), rel=1e-13)
    p = softmax(P, axis=1)
    expected = p * (log_softmax(P, axis=1) - log_softmax(Q, axis=1) - rows[:, None]) / 3
    np.testing.assert_allclose(kl.gradient, np.where(MASK[:, None], expected, 0.0), rtol=1e-11)


def test_full_kl_of_equal_logits_is_zero_and_of_batches_the_same_as_of_rows() -> None:
    assert float(full_kl(P, P, MASK).value) == 0.0
    stacked = full_kl(P.reshape(2, 2, 6), Q.reshape(2, 2, 6), MASK.reshape(2, 2))
    np.testing.assert_allclose(stacked.value, full_kl(P, Q, MASK).value, rtol=1e-14)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_logits_at_the_edge_of_the_range_give_no_nan(dtype: Any) -> None:
    edge = float(np.finfo(dtype).max)
    one_sided = np.array([[edge, -edge, 0.0]], dtype)
    mask = np.array([True])
    with np.errstate(over="ignore"):
        kl = full_kl(one_sided, np.zeros((1, 3), dtype), mask)
        nll = nll_from_logits(one_sided, np.array([0]), mask)
    assert float(kl.value) == pytest.approx(math.log(3), rel=1e-6)
    assert np.isfinite(kl.gradient).all()
    assert float(nll.value) == 0.0
    assert np.isfinite(nll.grad_logits).all()


def test_nll_agrees_with_scipy_and_inactive_rows_are_never_read() -> None:
    logits = P.copy()
    logits[1] = np.nan
    target = np.array([0, 999, 5, 2])
    nll = nll_from_logits(logits, target, MASK)
    logp = log_softmax(P, axis=1)
    chosen = [logp[0, 0], logp[2, 5], logp[3, 2]]
    assert float(nll.value) == pytest.approx(-np.mean(chosen), rel=1e-14)
    expected = softmax(P, axis=1)
    expected[[0, 2, 3], [0, 5, 2]] -= 1.0
    expected[1] = 0.0
    np.testing.assert_allclose(nll.grad_logits, expected / 3, rtol=1e-12)


def test_the_reference_gets_no_gradient() -> None:
    policy = torch.tensor(P, requires_grad=True)
    reference = torch.tensor(Q, requires_grad=True)
    full_kl(policy, reference, torch.tensor(MASK)).value.backward()
    assert reference.grad is None
    assert policy.grad is not None


BAD_LOGITS = P.copy()
BAD_LOGITS[2, 3] = -np.inf


@pytest.mark.parametrize(
    ("policy", "reference", "mask", "message"),
    [
        (BAD_LOGITS, Q, MASK, r"logits_policy\[2, 3\] is -inf"),
        (P, BAD_LOGITS, MASK, r"logits_reference\[2, 3\] is -inf"),
        (P, Q[:, :5], MASK, "logits_reference is of shape"),
        (P, Q, MASK[:3], "mask is of shape"),
        (P, Q, np.zeros(4, np.bool_), "mask is false everywhere"),
        (P, Q, MASK.astype(np.int64), "mask is an array of int64"),
        (P[0], Q[0], MASK, "logits_policy is of shape"),
        (np.ones((4, 0)), Q, MASK, "logits_policy is of shape"),
        (P.astype(np.int64), Q, MASK, "logits_policy is an array of int64"),
    ],
)
def test_bad_logits_are_refused_with_their_place(
    policy: Any, reference: Any, mask: Any, message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        full_kl(policy, reference, mask)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (np.array([0, 0, 6, 0]), r"target\[2\] is 6; expected a token in \[0, 6\)"),
        (np.array([-1, 0, 0, 0]), r"target\[0\] is -1"),
        (np.array([0.0, 0.0, 0.0, 0.0]), "target is an array of float64"),
        (np.array([0, 0, 0]), "target is of shape"),
        ([0, 0, 0, 0], "target is a list"),
    ],
)
def test_targets_outside_the_vocabulary_are_refused(target: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        nll_from_logits(P, target, MASK)


def test_an_unknown_estimator_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidInputError, match=r"estimator is 'k4'.*k1.*k3"):
        estimate_kl(P, Q, np.ones((4, 6), np.bool_), estimator="k4")
