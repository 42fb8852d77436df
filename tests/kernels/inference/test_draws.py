"""The index stream against the one that it must equal: NumPy's own."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvraudit.kernels.inference.draws import IndexStream


@given(
    st.integers(0, 2**64),
    st.integers(1, 2**32 - 1),
    st.lists(st.integers(0, 300), min_size=1, max_size=4),
)
def test_the_stream_is_that_of_numpy_whatever_the_pieces(
    seed: int, n: int, counts: list[int]
) -> None:
    stream = IndexStream(seed)
    pieces = np.concatenate([stream.draw(n, count) for count in counts])
    expected = np.random.default_rng(seed).integers(0, n, sum(counts))
    np.testing.assert_array_equal(pieces, expected)


@pytest.mark.parametrize("n", [2, 3, 30, 1319, 2**16, 2**31 + 1, 3 * 2**30])
def test_long_streams_agree(n: int) -> None:
    # Of 3 * 2**30 a quarter of all bits is thrown away, of 2**31 + 1 almost a half.
    np.testing.assert_array_equal(
        IndexStream(1273).draw(n, 200_001), np.random.default_rng(1273).integers(0, n, 200_001)
    )


def test_a_change_of_n_goes_on_in_the_stream() -> None:
    stream, generator = IndexStream(5), np.random.default_rng(5)
    for n, count in ((1319, 7), (1, 4), (3 * 2**30, 11), (2, 5), (198, 1000)):
        np.testing.assert_array_equal(stream.draw(n, count), generator.integers(0, n, count))


def test_indices_are_what_numpy_gathers_with() -> None:
    assert IndexStream(0).draw(9, 10).dtype == np.int64
