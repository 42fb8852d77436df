"""Claimed intervals beside their recomputation."""

import csv
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from rich.cells import cell_len

from rlvraudit.audit.errors import Exit, NothingToCheckError
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
    ],
)
def test_only_intervals_that_recompute_pass(folder: Path, status: Exit, said: str) -> None:
    [rechecked] = recheck_intervals([open_supplement(folder)])
    assert rechecked.exit is status
    assert said in as_text([rechecked], Page()).splitlines()[-1]


def test_supplements_that_claim_no_interval_are_nothing_to_check_unless_another_does() -> None:
    right, none = open_supplement(RIGHT), open_supplement(NONE)
    with pytest.raises(NothingToCheckError, match="no claim of pass states an interval"):
        recheck_intervals([none])
    assert len(recheck_intervals([none, right])) == 1


def differences(items: Path) -> NDArray[np.float64]:
    """Return tapo minus grpo per item, in order of id, read without the toolkit's readers."""
    with items.open(encoding="utf-8") as file:
        scores = {(r["method"], int(r["item"])): float(r["score"]) for r in csv.DictReader(file)}
    ids = sorted({item for _, item in scores})
    return np.array([scores["tapo", item] - scores["grpo", item] for item in ids])


def test_a_wrong_interval_stands_beside_the_right_one() -> None:
    [supplement] = as_document(recheck_intervals([open_supplement(WRONG)]))["supplements"]
    [interval] = supplement["intervals"]
    drawn = differences(WRONG / "items.csv")
    indices = np.random.default_rng(1273).integers(0, drawn.size, size=(10000, drawn.size))
    right = np.quantile(drawn[indices].mean(axis=1), [0.025, 0.975])
    assert [float(end) for end in interval["recomputed"]] == pytest.approx(right, abs=1e-9)
    assert interval["recorded"] == ["0.0500", "0.4500"]
    assert interval["holds"] is False


@pytest.mark.parametrize("width", [20, 40, 80, 200])
@pytest.mark.parametrize("folder", [RIGHT, WRONG, NO_BASELINE])
def test_no_line_is_wider_than_the_page(folder: Path, width: int) -> None:
    printed = as_text(recheck_intervals([open_supplement(folder)]), Page(width))
    assert max(map(cell_len, printed.splitlines())) <= width
