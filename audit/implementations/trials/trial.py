"""What a trial is: one question to an implementation whose closed form was looked for."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rlvraudit.audit.implementations.card import Example, Fault, Finding
from rlvraudit.audit.implementations.families.family import Recovery
from rlvraudit.audit.implementations.implementation import Outcome
from rlvraudit.audit.implementations.recovery.bench import Bench, Inputs
from rlvraudit.audit.implementations.recovery.examples import difference


@dataclass(frozen=True, slots=True)
class Trial:
    """A question, and what asks it.

    Attributes:
        name: "padding".
        question: In words, for people.
        ask: Puts it to the implementation.
    """

    name: str
    question: str
    ask: Callable[[Bench, Recovery], Finding]


def answered(bench: Bench, recovery: Recovery) -> Iterator[tuple[str, Inputs, Outcome]]:
    """Yield the batches on which the implementation gives finite numbers, and what it gives."""
    for name, inputs in recovery.batches.items():
        outcome = bench.run(inputs)
        if not outcome.error and outcome.finite:
            yield name, inputs, outcome


def changed(
    bench: Bench,
    inputs: Inputs,
    expected: Outcome,
    kind: str,
    sentence: str,
    slack: float = 0.0,
) -> Fault | None:
    """Return the fault that an input gives another outcome than `expected`, if it does."""
    actual = bench.run(inputs)
    words = difference(bench, expected, actual, slack)
    if not words:
        return None
    shown = bench.shown(inputs)
    return Fault(kind, sentence, Example(shown, expected, actual, words))
