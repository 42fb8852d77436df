"""The examples of wrong and right losses, audited once for all tests of a process.

`python tests/support/faults.py` writes what each probe catches into docs/implementations.md.
"""

import json
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from rlvraudit.audit.implementations.families import Declared
from rlvraudit.audit.implementations.inspection import Inspection, inspect_implementation
from rlvraudit.audit.implementations.loading import load_implementation
from rlvraudit.fixtures import ROOT

PAGE = Path(__file__).parents[2] / "docs" / "implementations.md"
HEAD = "| probe | wrong losses it catches | it alone catches | one of these |\n|---|---|---|---|\n"


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


def caught() -> dict[str, list[str]]:
    """Return the wrong losses that each probe catches."""
    found: dict[str, list[str]] = {}
    for function, seen in inspections("faults").items():
        for probe in {fault.probe for fault in seen.faults}:
            found.setdefault(probe, []).append(function)
    return found


def only_catchers() -> dict[str, list[str]]:
    """Return, for each probe, the wrong losses that it alone catches."""
    every = caught()
    shared = {function: sum(function in found for found in every.values()) for function in _all()}
    return {probe: [f for f in found if shared[f] == 1] for probe, found in every.items()}


def _all() -> list[str]:
    return [example.function for example in examples("faults")]


def table() -> str:
    """Return what each probe is worth, as a table for the page."""
    every, alone = caught(), only_catchers()
    rows = [
        f"| {probe} | {len(every[probe])} | {len(alone[probe])} | "
        f"{f'`{alone[probe][0]}`' if alone[probe] else ''} |"
        for probe in sorted(every, key=lambda probe: -len(every[probe]))
    ]
    return HEAD + "\n".join(rows) + "\n"


def main() -> None:
    """Write the table into the page."""
    text = PAGE.read_text("utf-8")
    PAGE.write_text(text[: text.rindex("| probe |")] + table())


if __name__ == "__main__":
    main()
