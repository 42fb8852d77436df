"""Claimed intervals beside their recomputation."""

from pathlib import Path

import pytest
from rich.cells import cell_len

from rlvraudit.audit.errors import Exit
from rlvraudit.audit.reports.intervals import as_document, as_text, recheck_intervals
from rlvraudit.audit.reports.terminal import Page
from rlvraudit.audit.supplements import open_supplement
from rlvraudit.fixtures import ROOT

RIGHT = ROOT / "rules" / "RA502" / "pass"
WRONG = ROOT / "rules" / "RA502" / "fail"
NO_BASELINE = ROOT / "rules" / "RA604" / "fail"
NONE = ROOT / "rules" / "RA609" / "pass"


@pytest.mark.parametrize(
    ("folder", "status", "said"),
    [
        (RIGHT, Exit.PASSED, "recomputed"),
        (WRONG, Exit.FINDINGS, "rlvr-audit explain RA502"),
        (NO_BASELINE, Exit.INCOMPLETE, "not checked"),
        (NONE, Exit.NOTHING_TO_CHECK, "nothing to check"),
    ],
)
def test_only_intervals_that_recompute_pass(folder: Path, status: Exit, said: str) -> None:
    rechecked = recheck_intervals(open_supplement(folder))
    assert rechecked.exit is status
    assert said in as_text([rechecked], Page()).splitlines()[-1]


def test_a_wrong_interval_stands_beside_the_right_one() -> None:
    [interval] = as_document([recheck_intervals(open_supplement(WRONG))])["supplements"][0][
        "intervals"
    ]
    # The example moves the upper end of RA601's interval, [0.05, 0.425] for its items, by 0.025.
    assert interval["recorded"] == ["0.0500", "0.4500"]
    assert [float(end) for end in interval["recomputed"]] == [0.05, 0.425]
    assert interval["holds"] is False


@pytest.mark.parametrize("width", [20, 40, 80, 200])
@pytest.mark.parametrize("folder", [RIGHT, WRONG, NO_BASELINE, NONE])
def test_no_line_is_wider_than_the_page(folder: Path, width: int) -> None:
    printed = as_text([recheck_intervals(open_supplement(folder))], Page(width))
    assert max(map(cell_len, printed.splitlines())) <= width
