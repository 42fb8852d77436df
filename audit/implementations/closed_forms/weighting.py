"""The weight of each token's term in a loss: a monomial of what can be counted in a batch.

    w = constant * B^rows * T_b^tokens * N^total * T^width

B trajectories, T_b active tokens of one, N of all, T the padded width. Every published aggregation
is one; what is not published is still written down exactly.
"""

from dataclasses import dataclass
from typing import Any

PUBLISHED = {
    (0, 0, -1, 0): "token-mean",
    (-1, -1, 0, 0): "seq-mean-token-mean",
    (-1, 0, 0, 0): "seq-mean-token-sum",
    (0, 0, 0, 0): "token-sum",
    (0, -1, 0, 0): "seq-sum-token-mean",
}
"""By exponents. The last three may be divided by a constant, which the caller chooses."""
NORMED = ("seq-mean-token-sum", "token-sum", "seq-sum-token-mean")


@dataclass(frozen=True, slots=True)
class Weighting:
    """Exponents of B, T_b, N and T, a constant, and what is added to the denominator."""

    exponents: tuple[int, int, int, int]
    constant: float = 1.0
    epsilon: float = 0.0
    drops_empty: bool = False

    @property
    def name(self) -> str:
        """The aggregation, as the objectives call it; the formula where it is none of them."""
        known = PUBLISHED.get(self.exponents, "")
        if known == "seq-mean-token-sum" and self.constant != 1.0:
            return "seq-mean-token-sum-norm"
        return known or self.formula

    @property
    def norm(self) -> float:
        """The constant that a sum is divided by."""
        return 1.0 / self.constant

    @property
    def formula(self) -> str:
        """The weight as a formula."""
        powers = [
            (letter, -exponent)
            for letter, exponent in zip("BTNW", self.exponents, strict=True)
            if exponent
        ]
        names = {"B": "B", "T": "T_b", "N": "N", "W": "T"}
        below = [names[x] if n == 1 else f"{names[x]}^{n}" for x, n in powers if n > 0]
        above = [names[x] if n == -1 else f"{names[x]}^{-n}" for x, n in powers if n < 0]
        head = (
            " ".join([f"{self.constant:.6g}", *above]) if self.constant != 1.0 else " ".join(above)
        )
        return f"{head or '1'} / ({' '.join(below)})" if below else head or "1"

    def of(self, mask: Any, dtype: Any) -> Any:
        """Return the weight of each token, `[B, T]`, 0 at inactive positions."""
        lengths = mask.sum(1, keepdim=True).double()
        rows = float((lengths > 0).sum() if self.drops_empty else mask.shape[0])
        counted = (rows, lengths.clamp(min=1), lengths.sum().clamp(min=1), float(mask.shape[1]))
        weight = mask.double() * self.constant
        for number, exponent in zip(counted, self.exponents, strict=True):
            weight = weight * (number + self.epsilon * (exponent < 0)) ** exponent
        return weight.to(dtype)
