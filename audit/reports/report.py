"""What a report format is."""

from collections.abc import Callable
from dataclasses import dataclass

from rlvraudit.audit.check import Audit

Render = Callable[[Audit], str]


@dataclass(frozen=True, slots=True)
class Report:
    """A way to write an audit down."""

    name: str
    render: Render


def report(name: str) -> Callable[[Render], Report]:
    """Turn a function into a `Report`."""
    return lambda render: Report(name, render)
