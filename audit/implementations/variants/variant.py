"""What a known wrong variant is: an objective with one fault, and a sentence that names it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Evaluate = Callable[..., Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Variant:
    """A wrong way to compute an objective.

    `evaluate` takes what the objective takes, as NumPy arrays, and returns the wrong outputs
    under the objective's own names, in FP64.
    """

    name: str
    objective: str
    sentence: str
    evaluate: Evaluate


def variant(name: str, objective: str, sentence: str) -> Callable[[Evaluate], Variant]:
    """Turn `evaluate` into a `Variant`; what overflows or divides by zero in it stays so."""
    quiet = np.errstate(all="ignore")
    return lambda evaluate: Variant(name, objective, sentence, quiet(evaluate))
