"""One TAR trace under recomputation: short names for what every part of it needs."""

from collections.abc import Mapping
from typing import Any

from rlvraudit.audit.evidence.tar_trace import TarTrace
from rlvraudit.audit.recomputation.model import Model
from rlvraudit.audit.recomputation.recomputed import Place, Recomputed, Value
from rlvraudit.audit.runs.tar_recipe import RECIPE
from rlvraudit.kernels.bounds import Ball, exact


class Workbench:
    """One trace under recomputation: short names for what every part needs."""

    def __init__(self, trace: TarTrace) -> None:
        """Prepare `trace`, which must have no misfits."""
        self.trace, self.model = trace, Model(trace)
        self.settings = self.model.settings
        self.dtype: str = trace.document["dtype"]
        self.updates: list[Mapping[str, Any]] = trace.document["updates"]

    @property
    def has_model(self) -> bool:
        """Whether the recipe is known, so that the policy itself can be run again."""
        return bool(self.trace.document["recipe"] == RECIPE)

    def at(self, pointer: str) -> Place:
        """Return a place in the trace's document."""
        return Place(self.trace.path, pointer)

    def array(self, name: str) -> Place:
        """Return the place of an array."""
        return Place(self.trace.tensors_path, f"/{name}")

    def tensor(self, rule: str, what: str, name: str, value: Any, **more: Any) -> Recomputed:
        """Compare a recorded array with a recomputed one, a ball or exact values."""
        return Recomputed(
            rule, what, self.array(name), self.trace.tensors[name], as_value(value), **more
        )

    def number(self, rule: str, what: str, pointer: str, value: Any, **more: Any) -> Recomputed:
        """Compare a number of the document with a recomputed one."""
        recorded: Any = self.trace.document
        for key in pointer.split("/")[1:]:
            recorded = recorded[int(key) if isinstance(recorded, list) else key]
        return Recomputed(rule, what, self.at(pointer), recorded, as_value(value), **more)

    def ball(self, values: Any) -> Ball:
        """Return recorded values as exact balls in the trace's dtype."""
        return exact(values, self.dtype)

    def used(self, *names: str) -> tuple[Place, ...]:
        """Return the places of settings."""
        return tuple(self.at(f"/settings/{name}") for name in names)


def as_value(value: Any) -> Value:
    """Return expectation and bound: twice a ball's radius, since both sides have rounded."""
    return Value(value.centre, 2 * value.radius) if isinstance(value, Ball) else Value(value)
