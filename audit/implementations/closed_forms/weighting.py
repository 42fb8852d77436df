"""The weight of each token's term in a loss: a monomial of what can be counted in a batch.

    w = constant * B^b * T_b^t * N^n * T^w * L^l

B trajectories, T_b active tokens of one, N of all, T the padded width, L the longest T_b. Every
published aggregation is one; what is not published is still written down exactly.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Exponents = tuple[float, float, float, float, float]

PUBLISHED: dict[Exponents, str] = {
    (0, 0, -1, 0, 0): "token-mean",
    (-1, -1, 0, 0, 0): "seq-mean-token-mean",
    (-1, 0, 0, 0, 0): "seq-mean-token-sum",
    (0, 0, 0, 0, 0): "token-sum",
    (0, -1, 0, 0, 0): "seq-sum-token-mean",
}
"""By exponents. The last three may be divided by a constant, which the caller chooses."""
NAMES = ("B", "T_b", "N", "T", "L")
NORMED = ("seq-mean-token-sum", "token-sum", "seq-sum-token-mean")


def _last(mask: Any) -> Any:
    columns = mask.new_ones(mask.shape).cumsum(1)
    return (columns * mask).amax(1, keepdim=True)


def _span(mask: Any) -> Any:
    before = (mask.cumsum(1) == 0).sum(1, keepdim=True)
    return (_last(mask) - before).clamp(min=0)


LENGTHS: dict[str, Callable[[Any], Any]] = {
    "tokens": lambda mask: mask.sum(1, keepdim=True),
    "last": _last,
    "span": _span,
}


@dataclass(frozen=True, slots=True)
class Weighting:
    """Exponents of B, T_b, N, T and L, a constant, and what is added to the denominator.

    `lengths` says what T_b counts: active "tokens", columns up to the "last" one, or the "span"
    from the first to the last; `rounded` that the weights are float32 whatever comes in, as a
    quotient of Python and integer numbers is in torch.
    """

    exponents: Exponents
    constant: float = 1.0
    epsilon: float = 0.0
    lengths: str = "tokens"
    rounded: bool = False

    @property
    def slack(self) -> float:
        """What a result may differ by: nothing says which denominators hold a small epsilon."""
        return 4.0 * min(self.epsilon, 1e-4) + (2e-7 if self.rounded else 0.0)

    @property
    def name(self) -> str:
        """The aggregation, as the objectives call it; the formula where it is none of them."""
        known = PUBLISHED.get(self.exponents, "")
        if known == "seq-mean-token-sum" and self.constant != 1.0:
            return "seq-mean-token-sum-norm"
        return known or self.formula

    @property
    def normaliser(self) -> str | None:
        """What is divided by when micro-batches are added up: None where that is not known."""
        if self.exponents not in PUBLISHED:
            return None
        rows, _, total, *_ = self.exponents
        return "tokens" if total else "trajectories" if rows else ""

    @property
    def norm(self) -> float:
        """The constant that a sum is divided by."""
        return 1.0 / self.constant

    @property
    def formula(self) -> str:
        """The weight as a formula."""
        powers = [
            (letter, -exponent)
            for letter, exponent in zip(NAMES, self.exponents, strict=True)
            if exponent
        ]
        below = [x if n == 1 else f"{x}^{n:g}" for x, n in powers if n > 0]
        above = [x if n == -1 else f"{x}^{-n:g}" for x, n in powers if n < 0]
        head = (
            " ".join([f"{self.constant:.6g}", *above]) if self.constant != 1.0 else " ".join(above)
        )
        return f"{head or '1'} / ({' '.join(below)})" if below else head or "1"

    def of(self, mask: Any, dtype: Any) -> Any:
        """Return the weight of each token, `[B, T]`, 0 at inactive positions."""
        lengths = LENGTHS[self.lengths](mask).double()
        rows = float(mask.shape[0])
        total, longest = lengths.sum().clamp(min=1), lengths.max().clamp(min=1)
        counted = (rows, lengths.clamp(min=1), total, float(mask.shape[1]), longest)
        weight = mask.double() * self.constant
        below = [i for i, exponent in enumerate(self.exponents) if exponent == -1]
        for i, (number, exponent) in enumerate(zip(counted, self.exponents, strict=True)):
            extra = self.epsilon if below[-1:] == [i] else 0.0
            weight = weight * (number + extra) ** exponent
        return weight.to(dtype)
