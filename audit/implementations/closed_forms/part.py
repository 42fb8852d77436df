"""What a part of a closed form is: one published convention, or one known fault."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Tensor = Any


@dataclass(frozen=True, slots=True)
class Part:
    """One way to compute one part of a loss.

    Attributes:
        part: Which part: "ratio", "rule", "estimator".
        name: Of the convention, or of the fault.
        words: As the card shows it.
        build: Computes it, on torch tensors, with the gradient that it has.
        fault: A sentence that names the fault; empty for a published convention.
        instead: The name of the convention that should stand there.
    """

    part: str
    name: str
    words: str
    build: Callable[..., Tensor]
    fault: str = ""
    instead: str = ""


def part(
    which: str, name: str, words: str, fault: str = "", instead: str = ""
) -> Callable[[Callable[..., Tensor]], Part]:
    """Turn a function into a `Part`."""
    return lambda build: Part(which, name, words, build, fault, instead)
