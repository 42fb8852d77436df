"""What an adapter is: how the losses of one framework are found and called."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rlvraudit.audit.errors import AuditError
from rlvraudit.audit.implementations.implementation import Implementation

Loss = Callable[[Path | None], Implementation]


class AdapterError(AuditError):
    """The framework is not there, or lacks what the adapter calls: nothing can be audited."""


@dataclass(frozen=True, slots=True)
class Adapter:
    """The losses of one framework, by the objective that each is meant to be.

    Attributes:
        name: What a user types: "trl".
        package: The distribution that holds it, for its version; "" where only a checkout does.
        known: The versions that the adapter was written for; of a checkout, its commits.
        losses: By objective, what returns the implementation, given the checkout if there is
            one; the first is what is audited unless the user names an objective.
    """

    name: str
    package: str
    known: tuple[str, ...]
    losses: Mapping[str, Loss]
