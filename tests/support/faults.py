"""The examples of wrong and right losses, audited once for all tests of a process."""

import json
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from rlvraudit.audit.implementations.families import Declared
from rlvraudit.audit.implementations.inspection import Inspection, inspect_implementation
from rlvraudit.audit.implementations.loading import load_implementation
from rlvraudit.fixtures import ROOT


@dataclass(frozen=True, slots=True)
class Example:
    """A loss, what it is said to be, and for a wrong one the name of its fault."""

    folder: str
    function: str
    objective: str | None
    declared: dict[str, Any]
    kind: str = ""
    corpus: tuple[int, ...] = ()

    @property
    def spec(self) -> str:
        return str(Path(ROOT) / self.folder / self.function)


@lru_cache
def examples(folder: str) -> tuple[Example, ...]:
    entries = json.loads((Path(ROOT) / folder / f"{folder}.json").read_text("utf-8"))
    return tuple(
        Example(
            folder,
            entry["function"],
            entry["objective"],
            entry["set"],
            entry.get("kind", ""),
            tuple(entry.get("corpus", ())),
        )
        for entry in entries
    )


@cache
def inspections(folder: str) -> dict[str, Inspection]:
    """Return the audit of every example of a folder, by function."""
    return {example.function: inspected(example) for example in examples(folder)}


def inspected(example: Example) -> Inspection:
    loss = load_implementation(example.spec, example.objective, example.declared)
    return inspect_implementation(loss, Declared(example.objective, example.declared))


def only_catchers() -> dict[str, list[str]]:
    """Return, for each probe, the wrong losses that it alone catches."""
    found: dict[str, list[str]] = {}
    for function, seen in inspections("faults").items():
        probes = {fault.probe for fault in seen.faults}
        for probe in probes:
            found.setdefault(probe, [])
        if len(probes) == 1:
            found[probes.pop()].append(function)
    return found
