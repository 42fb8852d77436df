import json
from pathlib import Path
from typing import Any

import pytest

from rlvraudit.audit.errors import Exit, NothingToCheckError, UnreadableError
from rlvraudit.audit.implementations.vector_files import find, read
from rlvraudit.audit.implementations.vectors import replay

CASE: dict[str, Any] = {
    "id": 1,
    "comment": "",
    "flags": [],
    "dtype": "float16",
    "params": {"scale": "none", "ddof": 0, "epsilon": 0.0},
    "inputs": {"rewards": [1.0, 0.0]},
    "result": "valid",
    "expected": {"advantages": ["0.5", "-0.5"], "zero_variance": False},
}
FILE: dict[str, Any] = {
    "format": "rlvr-vectors/1",
    "objective": "grpo.advantages",
    "title": "",
    "cases": [CASE],
}


def write(folder: Path, document: Any, name: str = "v.json") -> Path:
    path = folder / name
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def case(**changes: Any) -> dict[str, Any]:
    merged = {**CASE, **changes}
    return {**FILE, "cases": [{k: v for k, v in merged.items() if v is not ...}]}


def test_a_file_of_the_format_is_read(tmp_path: Path) -> None:
    file = read(write(tmp_path, FILE))
    assert (file.name, len(file.cases)) == ("grpo.advantages", 1)
    assert replay([tmp_path]).exit == Exit.PASSED


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("{", "v.json:1:2: "),
        ("[]", "format is 'list'; expected 'rlvr-vectors/1'"),
        ('{"a": NaN}', "NaN"),
        ('{"a": 1, "a": 2}', "twice"),
        ({**FILE, "format": "rlvr-vectors/2"}, "format is 'rlvr-vectors/2'"),
        ({**FILE, "objective": 3}, "objective is 3"),
        ({**FILE, "cases": []}, "cases is empty"),
        ({**FILE, "cases": {}}, "cases is empty or missing"),
        ({**FILE, "cases": [CASE, CASE]}, "case 1 appears twice"),
        ({**FILE, "cases": ["x"]}, "no integer id"),
        (case(id="1"), "no integer id"),
        (case(id=True), "no integer id"),
        (case(dtype="float128"), "case 1: dtype is 'float128'; expected one of float16"),
        (case(dtype=...), "dtype is None"),
        (case(result="maybe"), "result is 'maybe'"),
        (case(result=...), "result is None"),
        (case(expected=...), "case 1: expected is missing or empty"),
        (case(expected={}), "expected is missing or empty"),
        (case(expected={"advantages": [0.5, -0.5]}), "expected advantages holds '0.5'"),
        (case(expected={"advantages": ["half"]}), "expected advantages holds 'half'"),
        (case(expected={"advantages": ["nan"]}), "expected advantages holds 'nan'"),
        (case(inputs=...), "inputs is NoneType"),
        (case(inputs={}), "inputs lacks 'rewards'"),
        (case(inputs={"reward": [1.0]}), "inputs holds an unknown 'reward'; expected rewards"),
        (case(inputs={"rewards": [0.1]}), r"rewards\[0\] is 0.1; expected a number of float16"),
        (case(inputs={"rewards": [1e5]}), "expected a number of float16"),
        (case(inputs={"rewards": [1.0, "x"]}), "case 1: rewards: 'x' is no number"),
        (case(inputs={"rewards": [1.0, None]}), "rewards holds what is no number"),
        (case(inputs={"rewards": {"a": 1}}), "rewards holds what is no number"),
        (case(inputs={"rewards": [[1.0], [1.0, 2.0]]}), "numbers in a rectangle"),
        (case(params=...), "params is NoneType"),
        (case(params={"scale": "std"}), "params lacks 'ddof'"),
        (case(params={**CASE["params"], "eps": 1}), "params holds an unknown 'eps'"),
    ],
)
def test_what_is_not_of_the_format_is_refused_with_file_case_and_expectation(
    tmp_path: Path, document: Any, message: str
) -> None:
    path = write(tmp_path, document)
    with pytest.raises(UnreadableError, match=message) as error:
        read(path)
    assert str(path) in str(error.value)
    assert error.value.exit == Exit.INCOMPLETE


@pytest.mark.parametrize(
    "expected",
    [
        {"advantages": ["0.5", "-0.5"]},
        {**CASE["expected"], "loss": "1"},
    ],
)
def test_expected_must_hold_exactly_the_outputs(tmp_path: Path, expected: dict[str, Any]) -> None:
    with pytest.raises(UnreadableError, match=r"case 1: expected holds .*zero_variance"):
        replay([write(tmp_path, case(expected=expected))])


def test_an_unknown_objective_is_not_run_and_never_a_pass(tmp_path: Path) -> None:
    write(tmp_path, FILE)
    write(tmp_path, {**FILE, "objective": "loss.of_tomorrow"}, "w.json")
    result = replay([tmp_path])
    assert all(r.passed for r in result.results)
    assert [item.what for item in result.not_run] == [str(tmp_path / "w.json")]
    assert result.exit == Exit.INCOMPLETE
    assert replay([tmp_path / "w.json"]).exit == Exit.INCOMPLETE


def test_an_empty_folder_is_nothing_to_check(tmp_path: Path) -> None:
    with pytest.raises(NothingToCheckError, match="no vector file") as error:
        find([tmp_path])
    assert error.value.exit == Exit.NOTHING_TO_CHECK
    with pytest.raises(NothingToCheckError):
        find([])


def test_a_missing_path_is_unreadable(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="No such file"):
        read(tmp_path / "absent.json")


def test_folders_are_searched_and_nothing_is_replayed_twice(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    path = write(tmp_path / "deep", FILE)
    assert find([tmp_path, path]) == (path,)
