import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlvraudit.kernels.arrays import InvalidInputError
from rlvraudit.kernels.objectives import surrogate

OLD = np.array([[math.log(0.2), math.log(0.4)], [math.log(0.5), math.log(0.5)]])
NEW = np.array([[math.log(0.3), math.log(0.4)], [math.log(0.25), math.log(0.5)]])
MASK = np.ones((2, 2), np.bool_)
A = np.array([1.0, -1.0])
GRPO = {"clip_low": 0.2, "clip_high": 0.28}
TAPO = {"clip_min": 0.1, "clip_max": 0.3}


def test_grpo_equals_a_derivation_by_hand() -> None:
    # Ratios 1.5, 1, 0.5, 1. A = 1: min(1.5, 1.28), 1. A = -1: max(0.5, 0.8), 1, negated.
    result = surrogate.grpo(NEW, OLD, A, MASK, **GRPO, aggregation="token-mean")
    assert float(result.loss) == pytest.approx(-(1.28 + 1 - 0.8 - 1) / 4)
    np.testing.assert_allclose(result.grad_logp_policy, [[0, -0.25], [0, 0.25]], rtol=1e-14)
    np.testing.assert_array_equal(result.clipped, [[True, False], [True, False]])
    np.testing.assert_allclose(result.ratio, [[1.5, 1.0], [0.5, 1.0]], rtol=1e-14)


def test_gspo_gives_every_token_the_ratio_of_its_sequence() -> None:
    # Sequence ratios sqrt(1.5) and sqrt(0.5), both beyond a clip of 0.1 on the side that counts.
    result = surrogate.gspo(NEW, OLD, A, MASK, clip_low=0.1, clip_high=0.1)
    assert float(result.loss) == pytest.approx(-(1.1 - 0.9) / 2)
    assert not np.any(result.grad_logp_policy)
    wide = surrogate.gspo(NEW, OLD, A, MASK, clip_low=0.5, clip_high=0.5)
    r = [math.sqrt(1.5), math.sqrt(0.5)]
    assert float(wide.loss) == pytest.approx(-(r[0] - r[1]) / 2)
    expected = [[-r[0] / 4] * 2, [r[1] / 4] * 2]
    np.testing.assert_allclose(wide.grad_logp_policy, expected, rtol=1e-14)


def test_tapo_has_the_prefix_ratio_and_neither_one_over_t_nor_terms_of_other_positions() -> None:
    # T = 2: eps_1 = 0.3, eps_2 = 0.1. Row 0: R = 1.5 (clipped at 1.3), sqrt(1.5) (at 1.1).
    # Row 1, A = -1: R = 0.5 (clipped at 0.7), sqrt(0.5) = 0.707 (at 0.9).
    result = surrogate.tapo(NEW, OLD, A, MASK, **TAPO, aggregation="token-mean")
    assert float(result.loss) == pytest.approx(-(1.3 + 1.1 - 0.7 - 0.9) / 4)
    flipped = surrogate.tapo(NEW, OLD, -A, MASK, **TAPO, aggregation="token-mean")
    expected = [[1.5 / 4, math.sqrt(1.5) / 4], [-0.5 / 4, -math.sqrt(0.5) / 4]]
    np.testing.assert_allclose(flipped.grad_logp_policy, expected, rtol=1e-14)


@pytest.mark.parametrize(
    ("loss", "params"),
    [
        (surrogate.grpo, {**GRPO, "aggregation": "token-mean"}),
        (surrogate.gspo, GRPO),
        (surrogate.tapo, {**TAPO, "aggregation": "token-mean"}),
    ],
)
class TestEverySurrogate:
    def test_an_advantage_of_zero_gives_exact_zeros_even_where_the_ratio_overflows(
        self, loss: Any, params: dict[str, Any]
    ) -> None:
        new, old = np.full((1, 2), -1.0, np.float32), np.full((1, 2), -300.0, np.float32)
        result = loss(new, old, np.zeros(1, np.float32), MASK[:1], **params)
        assert float(result.loss) == 0.0
        np.testing.assert_array_equal(result.grad_logp_policy, [[0.0, 0.0]])

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
    def test_a_ratio_that_overflows_where_it_is_clipped_gives_no_nan_in_autograd(
        self, loss: Any, params: dict[str, Any], dtype: Any
    ) -> None:
        new = torch.full((1, 2), -1.0, dtype=dtype, requires_grad=True)
        old = torch.full((1, 2), -5000.0, dtype=dtype)
        result = loss(new, old, torch.ones(1, dtype=dtype), torch.ones((1, 2)) > 0, **params)
        result.loss.backward()
        assert bool(torch.isfinite(result.loss))
        assert new.grad is not None
        assert not bool(new.grad.any())
        assert not bool(result.grad_logp_policy.any())

    def test_a_ratio_that_overflows_unclipped_is_infinite_and_not_nan(
        self, loss: Any, params: dict[str, Any]
    ) -> None:
        new, old = np.full((1, 2), -1.0, np.float32), np.full((1, 2), -300.0, np.float32)
        result = loss(new, old, -np.ones(1, np.float32), MASK[:1], **params)
        assert float(result.loss) == np.inf
        assert (result.grad_logp_policy == np.inf).all()

    @pytest.mark.parametrize("garbage", [np.nan, np.inf, 3.0])
    def test_what_stands_at_padding_reaches_neither_value_nor_gradient(
        self, loss: Any, params: dict[str, Any], garbage: float
    ) -> None:
        wide = {
            "logp_policy": np.hstack([NEW, np.full((2, 2), garbage)]),
            "logp_old": np.hstack([OLD, np.full((2, 2), -garbage)]),
            "advantages": np.hstack([np.tile(A[:, None], 2), np.full((2, 2), garbage)]),
            "mask": np.hstack([MASK, np.zeros((2, 2), np.bool_)]),
        }
        plain, padded = loss(NEW, OLD, A, MASK, **params), loss(**wide, **params)
        np.testing.assert_allclose(padded.loss, plain.loss, rtol=1e-14)
        np.testing.assert_allclose(
            padded.grad_logp_policy[:, :2], plain.grad_logp_policy, rtol=1e-14
        )
        assert (padded.grad_logp_policy[:, 2:] == 0).all()
        variable = torch.tensor(wide["logp_policy"], requires_grad=True)
        rest = {k: torch.tensor(v) for k, v in wide.items() if k != "logp_policy"}
        loss(variable, **rest, **params).loss.backward()
        assert variable.grad is not None
        assert (variable.grad[:, 2:] == 0).all()

    def test_an_advantage_per_token_may_differ_within_a_trajectory(
        self, loss: Any, params: dict[str, Any]
    ) -> None:
        per_token = np.tile(A[:, None], 2)
        np.testing.assert_array_equal(
            loss(NEW, OLD, per_token, MASK, **params).grad_logp_policy,
            loss(NEW, OLD, A, MASK, **params).grad_logp_policy,
        )
        per_token[0, 1] = 0.0
        assert loss(NEW, OLD, per_token, MASK, **params).grad_logp_policy[0, 1] == 0.0

    @given(st.integers(0, 2**32), st.integers(1, 4), st.integers(1, 6))
    def test_the_order_of_rows_changes_nothing(
        self, loss: Any, params: dict[str, Any], seed: int, rows: int, columns: int
    ) -> None:
        rng = np.random.default_rng(seed)
        old = -rng.exponential(size=(rows, columns)) - 0.5
        new = old + 0.4 * (rng.random((rows, columns)) - 0.5)
        a = rng.normal(size=rows)
        mask = rng.random((rows, columns)) < 0.7
        mask[:, -1] = True
        order = rng.permutation(rows)
        plain = loss(new, old, a, mask, **params)
        moved = loss(new[order], old[order], a[order], mask[order], **params)
        np.testing.assert_allclose(moved.loss, plain.loss, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(
            moved.grad_logp_policy, plain.grad_logp_policy[order], rtol=1e-12
        )

    @pytest.mark.parametrize(
        ("name", "value", "message"),
        [
            ("logp_policy", np.array([[-1.0, -1.0], [0.5, -1.0]]), r"logp_policy\[1, 0\] is 0.5"),
            ("logp_old", np.array([[-1.0, np.nan], [-1.0, -1.0]]), r"logp_old\[0, 1\] is nan"),
            ("advantages", np.array([1.0, np.inf]), r"advantages\[1\] is inf"),
            ("advantages", np.array([[1.0, 2.0], [np.nan, 1.0]]), r"advantages\[1, 0\] is nan"),
            (
                "advantages",
                np.array([1.0]),
                r"advantages is of shape \(1,\); expected shape \(2,\)",
            ),
            ("advantages", np.ones((2, 3)), "advantages is of shape"),
            ("advantages", np.array([1, 1]), "advantages is an array of int64"),
            ("advantages", 1.0, "advantages is a float"),
            ("logp_old", np.ones((2, 3)) * -1, "logp_old is of shape"),
            ("mask", np.array([[1, 1], [1, 1]]), "mask is an array of int64"),
            ("mask", np.array([[True, True], [False, False]]), r"mask\[1\]"),
        ],
    )
    def test_bad_inputs_are_refused_with_argument_and_place(
        self, loss: Any, params: dict[str, Any], name: str, value: Any, message: str
    ) -> None:
        inputs = {"logp_policy": NEW, "logp_old": OLD, "advantages": A, "mask": MASK, name: value}
        with pytest.raises(InvalidInputError, match=message):
            loss(**inputs, **params)


@pytest.mark.parametrize(
    ("loss", "params"),
    [(surrogate.grpo, {**GRPO, "aggregation": "token-mean"}), (surrogate.gspo, GRPO)],
)
@pytest.mark.parametrize(
    ("name", "value"),
    [("clip_low", -0.1), ("clip_low", 1.0), ("clip_low", np.nan), ("clip_high", -1e-9)],
)
def test_clip_bounds_outside_their_range_are_refused(
    loss: Any, params: dict[str, Any], name: str, value: float
) -> None:
    with pytest.raises(InvalidInputError, match=name):
        loss(NEW, OLD, A, MASK, **{**params, name: value})


@pytest.mark.parametrize("params", [{"clip_min": 0.3, "clip_max": 0.1}, {**TAPO, "clip_max": 1.0}])
def test_tapo_refuses_widths_out_of_order(params: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match="clip_m"):
        surrogate.tapo(NEW, OLD, A, MASK, **params, aggregation="token-mean")


def test_unknown_aggregations_and_missing_norms_are_refused() -> None:
    for loss, params in ((surrogate.grpo, GRPO), (surrogate.tapo, TAPO)):
        with pytest.raises(InvalidInputError, match="aggregation"):
            loss(NEW, OLD, A, MASK, **params, aggregation="sum")
        with pytest.raises(InvalidInputError, match="norm"):
            loss(NEW, OLD, A, MASK, **params, aggregation="seq-mean-token-sum-norm")
