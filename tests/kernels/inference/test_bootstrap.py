"""The paired bootstrap against its definition in plain NumPy, against vectors and theory."""

import json
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rlvraudit.fixtures import ROOT
from rlvraudit.kernels.arrays import InvalidInputError
from rlvraudit.kernels.inference import bootstrap
from rlvraudit.kernels.inference.bootstrap import (
    paired_bootstrap,
    percentiles,
    resampled_means,
)
from rlvraudit.kernels.inference.draws import IndexStream

Floats = NDArray[np.float64]
VECTORS = json.loads((ROOT / "vectors" / "bootstrap-paired_items.json").read_text("utf-8"))
VALID = [case for case in VECTORS["cases"] if case["result"] == "valid"]
INVALID = [case for case in VECTORS["cases"] if case["result"] == "invalid"]


def definition(differences: Floats, seed: int, resamples: int) -> Floats:
    """The definition, word for word: the whole index matrix at once."""
    n = differences.size
    index = np.random.default_rng(seed).integers(0, n, size=(resamples, n))
    means: Floats = differences[index].mean(axis=1)
    return means


def seeded_means(differences: Floats, seed: int, resamples: int) -> Floats:
    (means,) = resampled_means([differences], IndexStream(seed), resamples)
    return means


def score_pairs() -> dict[str, tuple[Floats, Floats]]:
    rng = np.random.default_rng(0)
    return {
        "zeros and ones": (rng.integers(0, 2, 137) / 1.0, rng.integers(0, 2, 137) / 1.0),
        "averages of eight": (rng.integers(0, 9, 50) / 8, rng.integers(0, 9, 50) / 8),
        "averages of five": (rng.integers(0, 6, 51) / 5, rng.integers(0, 6, 51) / 5),
        "arbitrary": (rng.normal(size=33), rng.normal(size=33)),
        "large and small": (rng.normal(size=21) * 1e12, rng.normal(size=21)),
        "tiny steps": (np.zeros(9), rng.integers(0, 5, 9) * 2.0**-40),
        "one item": (np.array([1.0]), np.array([0.25])),
    }


PAIRS = score_pairs()


@pytest.mark.parametrize("case", VALID, ids=lambda case: case["comment"])
def test_vectors_are_reproduced(case: dict[str, Any]) -> None:
    found = paired_bootstrap(**case["inputs"], **case["params"])
    for name, expected in case["expected"].items():
        assert getattr(found, name) == pytest.approx(float(expected), rel=0, abs=1e-12), name


@pytest.mark.parametrize("case", INVALID, ids=lambda case: case["comment"])
def test_invalid_vectors_are_refused(case: dict[str, Any]) -> None:
    inputs: dict[str, Any] = {
        name: [float(x) for x in values] for name, values in case["inputs"].items()
    }
    with pytest.raises(InvalidInputError):
        paired_bootstrap(**inputs, **case["params"])


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("resamples", [1, 2, 997])
def test_every_bit_is_that_of_the_definition(name: str, resamples: int) -> None:
    baseline, treatment = PAIRS[name]
    expected = definition(treatment - baseline, 1273, resamples)
    found = seeded_means(treatment - baseline, 1273, resamples)
    assert found.tobytes() == expected.tobytes()
    low, high = np.quantile(expected, [0.025, 0.975])
    drawn = paired_bootstrap(baseline, treatment, resamples=resamples)
    assert (drawn.ci_low, drawn.ci_high) == (low, high)


@pytest.mark.parametrize("chunk", [1, 3, 7, 64, 989])
@pytest.mark.parametrize("name", ["zeros and ones", "averages of five"])
def test_the_chunk_size_changes_nothing(
    name: str, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 137 and 51 items: most of these chunks hold less than one row, and none a whole number.
    baseline, treatment = PAIRS[name]
    expected = definition(treatment - baseline, 7, 20)
    monkeypatch.setattr(bootstrap, "CHUNK", chunk)
    assert seeded_means(treatment - baseline, 7, 20).tobytes() == expected.tobytes()


def test_more_items_than_a_chunk_holds_give_the_same_bits() -> None:
    differences = np.random.default_rng(3).normal(size=bootstrap.CHUNK + 4321)
    expected = definition(differences, 1273, 3)
    assert seeded_means(differences, 1273, 3).tobytes() == expected.tobytes()


def test_several_differences_see_the_same_draws() -> None:
    vectors = [PAIRS[name][0][:33] for name in ("zeros and ones", "arbitrary", "averages of five")]
    found = resampled_means(vectors, IndexStream(7), 50)
    for vector, means in zip(vectors, found, strict=True):
        assert means.tobytes() == definition(vector, 7, 50).tobytes()


def test_a_stream_is_drawn_from_where_it_stands() -> None:
    vector, stream = PAIRS["arbitrary"][0], IndexStream(7)
    halves = [resampled_means([vector], stream, 25)[0] for _ in range(2)]
    assert np.concatenate(halves).tobytes() == definition(vector, 7, 50).tobytes()


def test_the_index_stream_of_the_seed_is_the_one_that_was_published() -> None:
    # The first draws of default_rng(1273) over eight items, by NumPy 2.4.6. NumPy promises no
    # stability of this stream, so a change must show here and not in somebody's paper.
    index = np.random.default_rng(1273).integers(0, 8, size=12)
    means = seeded_means(np.arange(8.0), 1273, 1)
    assert means[0] == index[:8].mean()
    assert index.tolist() == [7, 5, 1, 5, 1, 1, 0, 0, 0, 6, 1, 1]


def test_p_values_count_both_sides_and_the_observed_sample() -> None:
    # Six equal wins: every mean is 1, none lies at or below 0, so p = 2 (0 + 1) / (B + 1);
    # none is as far from 1 as 0 is, so the centred p is 1 / (B + 1).
    drawn = paired_bootstrap([0.0] * 6, [1.0] * 6, resamples=99)
    assert (drawn.p_value, drawn.p_centred) == (2 / 100, 1 / 100)


def test_identical_methods_have_p_of_one() -> None:
    drawn = paired_bootstrap([0.0, 1.0, 1.0], [0.0, 1.0, 1.0])
    assert (drawn.p_value, drawn.p_centred, drawn.ci_low, drawn.ci_high) == (1, 1, 0, 0)


def test_shares_at_exactly_zero_count_for_both_sides() -> None:
    # Two items, +1 and -1: the mean is -1, 0, 1 with probabilities 1/4, 1/2, 1/4, so each side
    # holds three quarters and p is 1. Counting zero on neither side would give about 1/2.
    assert paired_bootstrap([1.0, 0.0], [0.0, 1.0]).p_value == 1


def test_exchanging_the_sides_mirrors_the_interval() -> None:
    baseline, treatment = PAIRS["averages of eight"]
    one, other = paired_bootstrap(baseline, treatment), paired_bootstrap(treatment, baseline)
    assert other.difference == -one.difference
    # The two quantiles are interpolated from opposite ends, which rounds differently.
    assert (-other.ci_high, -other.ci_low) == pytest.approx((one.ci_low, one.ci_high), abs=1e-15)
    assert (other.p_value, other.p_centred) == (one.p_value, one.p_centred)


def test_the_interval_of_many_items_is_that_of_the_normal_theory() -> None:
    # Standard error of a mean of 4,000: sd / sqrt(n); the endpoints' Monte Carlo error at
    # 10,000 resamples is about 1 % of the width.
    differences = np.random.default_rng(5).normal(0.1, 1.0, 4000)
    drawn = paired_bootstrap(np.zeros(4000), differences)
    half = 1.959964 * differences.std() / np.sqrt(4000)
    assert drawn.ci_high - drawn.ci_low == pytest.approx(2 * half, rel=0.03, abs=0)


def test_percentiles_are_rounded_once() -> None:
    assert percentiles(0.95) == (0.025, 0.975)
    assert percentiles(0.9) == (0.05, 0.95)
    assert percentiles(0.99) == (0.005, 0.995)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"baseline": [], "treatment": []}, "baseline is empty"),
    ({"treatment": [1.0]}, "treatment is of length 1; expected length 2"),
    ({"baseline": [1.0, float("nan")]}, r"baseline\[1\] is nan"),
    ({"treatment": [float("inf"), 1.0]}, r"treatment\[0\] is inf"),
    ({"baseline": [[1.0], [0.0]]}, r"baseline is of shape \(2, 1\)"),
    ({"baseline": ["a", "b"]}, "baseline is not an array of numbers"),
    ({"baseline": [-1e308, 0.0], "treatment": [1e308, 0.0]}, "too large to add up"),
    ({"seed": -1}, "seed is -1"),
    ({"seed": 1.5}, "seed is 1.5"),
    ({"seed": True}, "seed is True"),
    ({"resamples": 0}, "resamples is 0"),
    ({"resamples": 10.0}, "resamples is 10.0"),
    ({"confidence": 0.0}, "confidence is 0.0"),
    ({"confidence": 1.0}, "confidence is 1.0"),
    ({"confidence": float("nan")}, "confidence is nan"),
    ({"confidence": "high"}, "confidence is 'high'"),
]


@pytest.mark.parametrize(("change", "message"), REFUSED)
def test_bad_input_is_refused_with_name_place_and_value(
    change: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        paired_bootstrap(**{"baseline": [0.0, 1.0], "treatment": [1.0, 1.0], **change})


def test_global_random_state_is_left_alone() -> None:
    np.random.seed(1)  # noqa: NPY002
    expected = np.random.random()  # noqa: NPY002
    np.random.seed(1)  # noqa: NPY002
    paired_bootstrap([0.0, 1.0], [1.0, 1.0])
    assert np.random.random() == expected  # noqa: NPY002
