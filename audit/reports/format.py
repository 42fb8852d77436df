"""What a report format is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rlvraudit.audit.check import Audit
from rlvraudit.audit.reports.terminal import Page

Render = Callable[[Sequence[Audit], Page], str]


@dataclass(frozen=True, slots=True)
class Report:
    """A way to write audits down: one text for all the supplements that were checked."""

    name: str
    render: Render


def report(name: str) -> Callable[[Render], Report]:
    """Turn a function into a `Report`."""
    return lambda render: Report(name, render)
