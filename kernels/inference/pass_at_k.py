"""pass@k: the chance that at least one of k samples solves the item."""

import math

from rlvraudit.kernels.arrays import InvalidInputError
from rlvraudit.kernels.inference.estimate import whole_number


def pass_at_k(n: int, c: int, k: int) -> float:
    """Return the unbiased pass@k of one item, 1 - C(n-c, k) / C(n, k) (Chen et al. 2021, Eq. 1).

    The ratio is a product of min(c, k) factors, because C(n-c, k) / C(n, k) is symmetric in c
    and k; taken through log1p and expm1 it neither overflows nor cancels.

    Args:
        n: Samples drawn.
        c: How many of them are correct.
        k: Samples allowed.

    Raises:
        InvalidInputError: Not integers, no sample, c outside [0, n] or k outside [1, n]: with
            fewer than k samples pass@k can't be estimated.
    """
    n, c, k = whole_number(n, "n", 1), whole_number(c, "c", 0), whole_number(k, "k", 1)
    if c > n:
        raise InvalidInputError("c", str(c), f"at most n = {n} correct samples")
    if k > n:
        raise InvalidInputError("k", str(k), f"at most n = {n}: fewer samples can't estimate it")
    if n - c < k:
        return 1.0
    fewer, more = min(c, k), max(c, k)
    return -math.expm1(math.fsum(math.log1p(-more / (n - i)) for i in range(fewer)))
