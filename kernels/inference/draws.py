"""The index stream of `numpy.random.default_rng(seed).integers(0, n, size)`, drawn faster.

NumPy turns 32 random bits into an index below n by Lemire's method (ACM TOMACS 29, 2019): the
high half of their product with n, unless its low half is below 2**32 mod n, when the bits are
thrown away. The bits are the halves of PCG64's words, the low one first. NumPy does so one index
at a time; done for a whole block it takes half the time. And it rests on the bit generator alone,
whose stream NumPy keeps stable across versions, as it does not keep that of `integers`.
"""

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]
HALF = np.uint64(32)


class IndexStream:
    """Indices in the order in which `default_rng(seed)` gives them; it stands where it was left."""

    def __init__(self, seed: int) -> None:
        """Begin the stream of `seed`, a non-negative integer."""
        self._words = np.random.PCG64(seed)
        self._left = np.empty(0, np.uint32)

    def draw(self, n: int, count: int) -> Indices:
        """Return the next `count` indices below `n`, at least 1 and below 2**32."""
        if n == 1:
            return np.zeros(count, np.int64)  # no bits are spent on what is certain
        drawn = [self._attempt(n, count)]
        missing = count - drawn[0].size
        while missing:
            drawn.append(self._attempt(n, missing))
            missing -= drawn[-1].size
        return drawn[0] if len(drawn) == 1 else np.concatenate(drawn)

    def _attempt(self, n: int, count: int) -> Indices:
        """Return what the next `count` pieces of 32 bits give, thrown away ones left out."""
        products = np.multiply(self._bits(count), np.uint64(n), dtype=np.uint64)
        threshold = 2**32 % n
        if threshold:
            thrown_away = products.astype(np.uint32) < threshold  # the low halves
            if thrown_away.any():
                products = products[~thrown_away]
        return np.right_shift(products, HALF, out=products).view(np.int64)

    def _bits(self, count: int) -> NDArray[np.uint32]:
        """Return the next `count` pieces of 32 bits; a half that is over waits for the next."""
        words = self._words.random_raw((count - self._left.size + 1) // 2)
        halves = words.astype("<u8", copy=False).view("<u4").astype(np.uint32, copy=False)
        bits = np.concatenate([self._left, halves]) if self._left.size else halves
        self._left = bits[count:].copy()
        return bits[:count]
