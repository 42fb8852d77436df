"""Bounds must hold for every computation in a narrow dtype, and not be so wide that all pass."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rlvraudit.kernels.arrays import namespace
from rlvraudit.kernels.bounds import FORMATS, Ball, exact, output_bound

mpmath: Any = pytest.importorskip("mpmath")
VALUES = arrays(np.float32, 7, elements=st.floats(-30, 30, width=32))
CHAINS: dict[str, Any] = {
    "sum of exponentials": lambda xp, x: xp.sum(xp.exp(x)),
    "cancelling sum": lambda xp, x: xp.sum(x) / 7 + 1,
    "running mean": lambda xp, x: xp.cumulative_sum(x) * 0.1,
    "expm1 of products": lambda xp, x: xp.expm1(x * 0.3 - 1.7),
    "softmax": lambda xp, x: xp.exp(x - xp.max(x)) / xp.sum(xp.exp(x - xp.max(x))),
    "log of a sum": lambda xp, x: xp.log(xp.sum(xp.exp(x))),
    "root of squares": lambda xp, x: xp.sqrt(xp.sum(x * x)),
    "hyperbolic": lambda xp, x: xp.tanh(x / 3),
    "rectified": lambda xp, x: xp.maximum(x - 0.7, xp.zeros_like(x)) * 1.1,
    "product": lambda xp, x: xp.reshape(x[:6], (2, 3)) @ xp.reshape(x[:6], (3, 2)),
    "mean": lambda xp, x: xp.mean(x) * 0.3,
}


@pytest.mark.parametrize("name", CHAINS)
@given(x=VALUES)
def test_the_bound_of_single_precision_holds(name: str, x: Any) -> None:
    chain = CHAINS[name]
    # FP64 is 2**29 times finer: its own error does not count here.
    truth = np.asarray(chain(np, x.astype(np.float64)))
    computed = np.asarray(chain(np, x), np.float64)
    ball = chain(namespace(exact(x, "float32")), exact(x, "float32"))
    assert np.all(np.abs(computed - truth) <= ball.radius + np.spacing(np.abs(truth)))


@given(x=arrays(np.float64, 5, elements=st.floats(-20, 20)))
def test_the_bound_of_double_precision_holds_against_fifty_digits(x: Any) -> None:
    computed = float(np.sum(np.expm1(x) * x) / 3)
    with mpmath.workdps(50):
        truth = mpmath.fsum(mpmath.expm1(mpmath.mpf(v)) * mpmath.mpf(v) for v in x.tolist()) / 3
        error = float(abs(mpmath.mpf(computed) - truth))
    ball = exact(x, "float64")
    xp = namespace(ball)
    assert error <= float((xp.sum(xp.expm1(ball) * ball) / 3).radius)


@pytest.mark.parametrize(("dtype", "relative"), [("float32", 1e-5), ("float64", 1e-14)])
def test_the_bound_is_a_few_roundings_and_not_more(dtype: str, relative: float) -> None:
    x = exact(np.array([0.5, 1.5, 2.5]), dtype)
    total = namespace(x).sum(namespace(x).exp(x))
    assert 0 < float(total.radius) < relative * float(total)


def test_large_terms_of_both_signs_are_allowed_an_error_of_their_size() -> None:
    x = exact(np.array([1e8, 1.0, -1e8]), "float32")
    assert float(namespace(x).sum(x).radius) > 1.0


def test_an_exact_selection_allows_nothing() -> None:
    x = exact(np.array([-1.0, 2.0]), "float32")
    xp = namespace(x)
    chosen = xp.where(np.array([True, False]), x, xp.zeros_like(x))
    assert chosen.radius.tolist() == [0.0, 0.0]


def test_a_rectified_negative_number_is_exactly_zero() -> None:
    ball = Ball(np.array([-5.0]), np.array([1e-3]), FORMATS["float32"])
    rectified = namespace(ball).maximum(ball, namespace(ball).zeros_like(ball))
    assert (rectified.centre.item(), rectified.radius.item()) == (0.0, 0.0)


def test_a_rectified_number_near_zero_keeps_its_uncertainty() -> None:
    ball = Ball(np.array([-1e-9]), np.array([1e-3]), FORMATS["float32"])
    rectified = namespace(ball).maximum(ball, namespace(ball).zeros_like(ball))
    assert rectified.radius.item() == pytest.approx(1e-3, rel=1e-5)


def test_a_parameter_that_the_dtype_cannot_hold_counts_as_rounded() -> None:
    x = exact(np.array([1.0]), "float32")
    # 0.1 as FP32 is off by 1.49e-9; 0.5 is exact.
    assert x.lift(0.1).radius == pytest.approx(1.4901161e-09)
    assert x.lift(0.5).radius == 0.0
    assert exact(np.array([1.0]), "float64").lift(0.1).radius == 0.0


def test_a_gradient_in_half_precision_is_allowed_one_rounding_of_it() -> None:
    ball = Ball(np.array([1.0]), np.array([0.0]), FORMATS["float32"])
    assert output_bound(ball, "float16").item() == pytest.approx(2.0**-11, rel=1e-3)
    assert output_bound(ball, "bfloat16").item() == pytest.approx(2.0**-8, rel=1e-3)
    assert output_bound(ball, "float32").item() == 0.0


def test_an_overflow_is_an_infinite_ball_without_a_warning() -> None:
    x = exact(np.array([1e4]), "float64")
    assert np.isinf(namespace(x).exp(x).centre).all()
    assert not np.isnan(namespace(x).expm1(-exact(np.array([3e300]), "float64") * 1.5).radius).any()


def test_an_array_on_the_left_leaves_the_work_to_the_ball() -> None:
    ball = np.array([1.0, 2.0]) * exact(np.array([3.0, 4.0]), "float32")
    assert isinstance(ball, Ball)
    assert ball.centre.tolist() == [3.0, 8.0]
