"""Let tests import the modules in `support`, and say at the end what was caught."""

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parent / "support"))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print what the examples of losses and the mutations of numbers came to, of all workers."""
    reports: list[pytest.TestReport] = terminalreporter.getreports("passed")
    reports += terminalreporter.getreports("failed")
    properties: list[tuple[str, Any]] = [p for r in reports for p in r.user_properties]
    for name, line in properties:
        if name == "losses":
            terminalreporter.write_line(f"losses: {line}")
    tallies = [tally for name, tally in properties if name == "mutation"]
    if tallies:
        mutants, killed, recomputed = (
            sum(tally[key] for tally in tallies) for key in ("mutants", "killed", "recomputed")
        )
        terminalreporter.write_line(
            f"mutation: {killed:,} of {mutants:,} changed numbers raised a finding "
            f"({killed / mutants:.1%}); audit coverage calls {recomputed:,} of them recomputed"
        )
