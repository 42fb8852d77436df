import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvraudit.kernels.arrays import InvalidInputError
from rlvraudit.kernels.objectives import packed, replay


def padded(values: Any, lengths: Any) -> tuple[Any, Any]:
    mask = np.arange(max(lengths)) < np.asarray(lengths)[:, None]
    wide = np.full(mask.shape, np.nan)
    wide[mask] = values
    return wide, mask


@given(st.integers(0, 2**32), st.lists(st.integers(1, 9), min_size=1, max_size=8))
def test_packed_replay_equals_the_padded_reference_across_chunks(
    seed: int, lengths: list[int]
) -> None:
    rng = np.random.default_rng(seed)
    policy, base = -rng.exponential(size=(2, sum(lengths)))
    weights = np.full(sum(lengths), np.nan)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packed, "CHUNK", 4)  # so that trajectories span chunks, and end on them
        result = packed.packed_replay(policy, base, np.array(lengths), out=weights)
    wide, mask = padded(policy, lengths)
    expected = replay.replay_nll(wide, padded(base, lengths)[0], mask)
    np.testing.assert_allclose(result.loss, expected.loss, rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(result.gate, expected.gate, rtol=1e-12, atol=1e-15)
    np.testing.assert_array_equal(weights, expected.token_weights[mask])
    assert not np.signbit(weights).any()


def test_sums_that_overflow_still_have_a_mean() -> None:
    policy = np.array([-1.7e308, -1.7e308, -1.0, -1.7e308, -1.7e308])
    base = np.array([-1.0, -1.0, -1.7e308, -0.5e308, -0.5e308])
    result = packed.packed_replay(policy, base, np.array([3, 2]))
    np.testing.assert_array_equal(result.gate, [1.0, 1.0])
    # Each trajectory's weighted mean NLL is 1.7e308: their mean, too.
    assert result.loss == pytest.approx(1.7e308, rel=1e-7)


def test_memory_does_not_grow_with_the_number_of_tokens() -> None:
    peaks = []
    for tokens in (1 << 18, 1 << 20):
        policy = np.full(tokens, -1.5)
        base = np.full(tokens, -1.0)
        lengths = np.full(4, tokens // 4)
        tracemalloc.start()
        packed.packed_replay(policy, base, lengths)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.1 * peaks[0]


def test_single_precision_is_computed_in_double() -> None:
    policy, base = np.array([-1.1], np.float32), np.array([-1.0], np.float32)
    result = packed.packed_replay(policy, base, np.array([1]))
    delta = float(base[0]) - float(policy[0])
    assert result.gate.item() == pytest.approx(-np.expm1(-delta), rel=1e-15)


@pytest.mark.parametrize(
    ("policy", "base", "lengths", "message"),
    [
        ([-1.0, 0.5], [-1.0, -1.0], [2], r"logp_policy\[1\] is 0.5"),
        ([-1.0, np.nan], [-1.0, -1.0], [2], r"logp_policy\[1\] is nan"),
        ([-1.0, -1.0], [-np.inf, -1.0], [2], r"logp_base\[0\] is -inf"),
        ([-1.0, -1.0], [-1.0, -1.0], [2, 0], r"lengths\[1\] is 0"),
        ([-1.0, -1.0], [-1.0, -1.0], [3], "logp_policy is of shape"),
        ([-1.0, -1.0], [-1.0], [2], "logp_base is of shape"),
        ([-1.0], [-1.0], [1.0], "lengths is float64"),
        ([], [], [], "lengths is"),
    ],
)
def test_bad_input_is_refused_with_its_place(
    policy: list[float], base: list[float], lengths: list[Any], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        packed.packed_replay(np.array(policy), np.array(base), np.array(lengths))


def test_the_place_of_a_bad_value_counts_from_the_start_of_the_file() -> None:
    policy = np.full(packed.CHUNK + 10, -1.0)
    policy[packed.CHUNK + 3] = np.nan
    with pytest.raises(InvalidInputError, match=rf"logp_policy\[{packed.CHUNK + 3}\]"):
        packed.packed_replay(policy, np.full(policy.size, -1.0), np.array([policy.size]))
