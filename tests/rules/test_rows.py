"""RA402, RA403, RA407, RA409: counts, finite numbers, complete groups, no row twice."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from itemised import claim, of_items, problems, recomputed, supplement, table

DATA = table("0011", "0111")


def rollouts(*rows: str) -> bytes:
    return "\n".join(["method,item,rollout,score", *rows, ""]).encode()


SQUARE = rollouts("a,1,0,1", "a,1,1,0", "a,2,0,1", "a,2,1,1")


def counts(data: bytes, tmp_path: Path, **entry: Any) -> list[str]:
    reported = {"quantity": "mean", "method": "a", "value": "0.75", "n": 2, **entry}
    found = problems(of_items(tmp_path, data, claim(reported)), "RA402")
    return [problem.pointer.rpartition("/")[2] for problem in found]


def test_items_are_counted_and_not_rows(tmp_path: Path) -> None:
    assert counts(SQUARE, tmp_path, n=2, rollouts=2) == []
    assert counts(SQUARE, tmp_path, n=4, rollouts=2) == ["n"]
    assert counts(SQUARE, tmp_path, n=2, rollouts=1) == ["rollouts"]
    assert counts(SQUARE, tmp_path, n=3, rollouts=3) == ["n", "rollouts"]


def test_unequal_rollouts_equal_no_declared_number(tmp_path: Path) -> None:
    data = rollouts("a,1,0,1", "a,1,1,0", "a,2,0,1")
    assert counts(data, tmp_path, rollouts=2) == ["rollouts"]
    assert counts(data, tmp_path, rollouts=1) == ["rollouts"]
    assert counts(data, tmp_path) == []


def test_right_counts_are_recomputed(tmp_path: Path) -> None:
    entry = {"quantity": "difference", "value": "0.25", "n": 4}
    evidence = of_items(tmp_path, DATA, claim(entry))
    assert recomputed(evidence, "RA402") == {"/claims/0/reported/0/n"}


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_scores_that_are_not_finite_are_found_with_their_line(tmp_path: Path, value: str) -> None:
    data = DATA.replace(b"base,3,1\n", f"base,3,{value}\n".encode())
    (found,) = problems(of_items(tmp_path, data), "RA403")
    assert (found.path, found.line) == ("items.csv", 4)
    assert "item '3'" in found.message


def test_tensors_that_are_not_finite_are_found_with_their_index(tmp_path: Path) -> None:
    values = np.array([[1.0, 2.0], [3.0, np.inf]], "<f8")
    header = b'{"x": {"dtype": "F64", "shape": [2, 2], "data_offsets": [0, 32]}}'
    data = struct.pack("<Q", len(header)) + header + values.tobytes()
    evidence = supplement(tmp_path, {"run.safetensors": ("tensors", data)})
    (found,) = problems(evidence, "RA403")
    assert found.pointer == "/x[1, 1]"


GROUPS = [
    (SQUARE, None),
    (table("01", "10"), None),
    (rollouts("a,1,5,1", "a,1,6,0", "a,2,5,1", "a,2,6,1"), None),
    (rollouts("a,1,x,1", "a,1,y,0", "a,2,x,1", "a,2,y,1"), None),
    (rollouts("a,1,0,1", "a,2,0,1", "b,1,0,1", "b,1,1,1", "b,2,0,1", "b,2,1,1"), None),
    (rollouts("a,1,0,1", "a,1,1,0", "a,2,0,1"), "first '2': rollout 1"),
    (rollouts("a,1,x,1", "a,1,y,0", "a,2,x,1"), "first '2': rollout y"),
    (rollouts("a,1,0,1", "a,1,2,0", "a,2,0,1", "a,2,2,1"), "lacks rollout 1"),
]


@pytest.mark.parametrize(("data", "message"), GROUPS)
def test_groups_are_rectangles_without_gaps(
    tmp_path: Path, data: bytes, message: str | None
) -> None:
    found = problems(of_items(tmp_path, data), "RA407")
    assert bool(found) == (message is not None)
    assert all(message is not None and message in problem.message for problem in found)


def test_an_item_without_one_seed_is_incomplete(tmp_path: Path) -> None:
    data = b"method,seed,item,score\na,1,1,1\na,2,1,1\na,1,2,0\n"
    (found,) = problems(of_items(tmp_path, data), "RA407")
    assert "seed 2" in found.message


def test_a_repeated_row_is_found_with_both_lines(tmp_path: Path) -> None:
    data = DATA + b"new,4,0\n"
    (found,) = problems(of_items(tmp_path, data), "RA409")
    assert found.line == 10
    assert "already at items.csv:9" in found.message


def test_two_files_with_the_same_rows_are_counted_twice_only_by_a_claim_on_both(
    tmp_path: Path,
) -> None:
    files = {"items.csv": ("item-results", DATA), "again.csv": ("item-results", DATA)}
    entry = {"quantity": "difference", "artifact": "items.csv", "value": "0.25", "n": 4}
    assert not problems(supplement(tmp_path, files, claim(entry)), "RA409")
    both = claim(entry, evidence=["items.csv", "again.csv"])
    (found,) = problems(supplement(tmp_path, files, both), "RA409")
    assert "8 rows" in found.message or "7 rows more" in found.message
