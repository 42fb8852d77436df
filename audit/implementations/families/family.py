"""What a family of objectives is, what a caller declares, and what is recovered of a loss."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rlvraudit.audit.implementations.card import Finding
from rlvraudit.audit.implementations.recovery.bench import Bench, Inputs
from rlvraudit.audit.implementations.recovery.evaluate import Form


@dataclass(frozen=True, slots=True)
class Declared:
    """What a loss is said to be.

    Attributes:
        objective: Named by the caller, or None.
        parameters: Values that the caller declares.
        called: Values that the implementation is called with: it must act on them too.
        light: Whether numbers are all that is asked for: no examples, nothing twice.
    """

    objective: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    called: Mapping[str, Any] = field(default_factory=dict)
    light: bool = False


@dataclass(frozen=True, slots=True)
class Recovery:
    """What was recovered of a loss.

    Attributes:
        objective: The one that it computes; "" where it is none.
        finding: The lines of the card, and what is wrong.
        form: The closed form that reproduces it, faults included; None where there is none.
        right: The closed form that it should have.
        batches: Inputs on which they were compared.
        variable: What the loss is differentiated with respect to.
        numbers: What was recovered, by the objective's names of parameters.
        normaliser: What the loss divides by when it is added up over micro-batches: "tokens",
            "trajectories" or "" for a sum; None where that is not known.
    """

    objective: str
    finding: Finding
    form: Form | None
    right: Form
    batches: Mapping[str, Inputs]
    variable: str = "logp_policy"
    numbers: Mapping[str, Any] = field(default_factory=dict)
    normaliser: str | None = None


@dataclass(frozen=True, slots=True)
class Family:
    """Objectives that are recovered alike.

    Attributes:
        name: Of the family.
        objectives: Those in it.
        requires: The inputs that a function of this family asks for at least.
        knows: Those that it may ask for as well, and that are looked at.
        recover: Finds out what a loss computes, against what is declared.
        sample: A batch of 8 trajectories of up to so many tokens, from a seed.
        variations: Other values of parameters by which it must follow when they are set.
    """

    name: str
    objectives: tuple[str, ...]
    requires: tuple[str, ...]
    knows: tuple[str, ...]
    recover: Callable[[Bench, Declared], Recovery]
    sample: Callable[[int, int], Inputs]
    variations: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
