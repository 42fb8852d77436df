import copy
import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from rlvraudit import fixtures
from rlvraudit.audit.errors import DeviceError, Exit
from rlvraudit.audit.implementations import backend as backend_module
from rlvraudit.audit.implementations import vectors
from rlvraudit.audit.implementations.vector_files import find
from rlvraudit.audit.implementations.vectors import replay
from rlvraudit.audit.reports.terminal import Page
from rlvraudit.audit.reports.vectors import as_document, as_text
from rlvraudit.kernels.objectives import OBJECTIVES

FOLDER = fixtures.ROOT / "vectors"
FILES = find([FOLDER])
GRPO = FOLDER / "grpo-surrogate.json"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_shipped_vector_passes_on_both_backends(path: Path) -> None:
    result = replay([path])
    assert [r.error for r in result.results if not r.passed] == []
    assert set(result.backends) == {"numpy", "torch"}
    cases = len(json.loads(path.read_text())["cases"])
    assert len(result.results) == 2 * cases
    assert result.exit == Exit.PASSED


def test_there_are_vectors_for_every_objective() -> None:
    assert {json.loads(path.read_text())["objective"] for path in FILES} == set(OBJECTIVES)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, Mapping | list):
        for key in value if isinstance(value, Mapping) else range(len(value)):
            yield from leaves(value[key], (*path, key))
    elif value is not None:
        yield path


def changed(value: Any) -> Any:
    """One part in a thousand for numbers, one for integers, the other for booleans."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    number = Decimal(value)
    return str(number * Decimal("1.001")) if number else "0.001"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_expected_value_changed_by_a_thousandth_fails(path: Path, tmp_path: Path) -> None:
    document = json.loads(path.read_text())
    valid = [c for c in document["cases"] if c["result"] == "valid" and _in_range(c)]
    mutants: list[dict[str, Any]] = []
    for case in valid[:: max(1, len(valid) // 12)]:
        for place in list(leaves(case["expected"]))[:6]:
            mutant = copy.deepcopy(case)
            *parents, last = place
            target: Any = mutant["expected"]
            for key in parents:
                target = target[key]
            target[last] = changed(target[last])
            mutants.append({**mutant, "id": len(mutants)})
    file = tmp_path / path.name
    file.write_text(json.dumps({**document, "cases": mutants}))
    result = replay([file])
    assert mutants
    assert [(r.id, r.backend) for r in result.results if r.passed] == []
    assert result.exit == Exit.FINDINGS


def _in_range(case: Mapping[str, Any]) -> bool:
    """Leave out numbers that underflow: a thousandth of them is nothing in their dtype."""
    numbers = [leaf for leaf in _values(case["expected"]) if isinstance(leaf, str)]
    return not any(abs(float(n)) < 1e-30 and n != "0" for n in numbers)


def _values(value: Any) -> Iterator[Any]:
    for place in leaves(value):
        found = value
        for key in place:
            found = found[key]
        if not isinstance(found, bool):
            yield found


def test_an_invalid_case_that_is_accepted_fails(tmp_path: Path) -> None:
    document = json.loads(GRPO.read_text())
    case = {**document["cases"][0], "result": "invalid"}
    del case["expected"]
    file = tmp_path / "v.json"
    file.write_text(json.dumps({**document, "cases": [case]}))
    result = replay([file])
    assert {r.error for r in result.results} == {"it accepts what must be refused"}
    assert not any(r.passed for r in result.results)
    assert all(r.outputs is not None and r.worst is None for r in result.results)


def test_a_valid_case_that_is_refused_fails_with_the_message(tmp_path: Path) -> None:
    document = json.loads(GRPO.read_text())
    case = copy.deepcopy(document["cases"][0])
    case["params"]["clip_low"] = 1.0
    file = tmp_path / "v.json"
    file.write_text(json.dumps({**document, "cases": [case]}))
    for result in replay([file]).results:
        assert not result.passed
        assert result.error is not None
        assert result.error.startswith("clip_low is 1.0")


def test_a_crash_is_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: Any) -> Any:
        raise RuntimeError("boom")

    monkeypatch.setattr(vectors, "inputs_on", crash)
    result = replay([GRPO])
    assert {r.error for r in result.results} == {"RuntimeError: boom"}
    assert not any(r.passed for r in result.results)


def test_without_torch_the_other_backend_still_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_module, "torch_module", lambda: None)
    result = replay([GRPO])
    assert result.backends == ("numpy",)
    assert result.exit == Exit.PASSED
    with pytest.raises(DeviceError, match="not installed"):
        replay([GRPO], "cuda")


def test_cuda_is_never_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = backend_module.torch_module()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(DeviceError, match=r"no CUDA device.*nothing was run") as error:
        replay([GRPO], "cuda")
    assert error.value.exit == Exit.INCOMPLETE
    with pytest.raises(DeviceError, match="'tpu'"):
        replay([GRPO], "tpu")


def test_progress_is_told_file_by_file() -> None:
    told: list[str] = []
    replay([GRPO], progress=told.append)
    assert told == ["grpo.surrogate"]


def test_the_document_has_every_output_under_the_vectors_name() -> None:
    document = as_document(replay([GRPO]))
    text = json.dumps(document, allow_nan=False)
    assert json.loads(text)["backends"] == ["numpy", "torch"]
    first = document["cases"][0]
    keys = ["id", "objective", "file", "backend", "dtype", "outputs", "error", "passed", "worst"]
    assert list(first) == keys
    assert set(first["outputs"]) == {"loss", "grad_logp_policy"}
    refused = [c for c in document["cases"] if c["outputs"] is None]
    assert refused
    assert all(c["error"] and c["passed"] and c["worst"] is None for c in refused)


def test_what_is_not_finite_is_written_as_a_string() -> None:
    document = as_document(replay([FOLDER / "fps-cosine.json"]))
    distances = [c["outputs"]["distances"] for c in document["cases"] if c["outputs"]]
    assert {d[0] for d in distances if d} == {"nan"}


def test_the_table_fits_eighty_columns_and_says_which_case_is_worst() -> None:
    text = as_text(replay([FOLDER]), Page(80))
    assert max(map(len, text.splitlines())) <= 80
    row = next(line for line in text.splitlines() if "grpo.surrogate" in line)
    assert row.split()[:4] == ["grpo.surrogate", "float16", "26/26", "26/26"]
    assert "passed on numpy, torch" in text.splitlines()[-1]


def test_failures_and_what_was_not_run_are_told(tmp_path: Path) -> None:
    document = json.loads(GRPO.read_text())
    document["cases"][0]["expected"]["loss"] = "7"
    (tmp_path / "a.json").write_text(json.dumps(document))
    (tmp_path / "b.json").write_text(json.dumps({**document, "objective": "x.\x1b[31m"}))
    # Wide enough for any temporary folder: a path longer than a line is broken inside a word.
    text = as_text(replay([tmp_path]), Page(240))
    assert "a.json case 1, numpy, float16" in " ".join(text.split())
    assert "expected 7, bound" in " ".join(text.split())
    assert "not run" in text
    assert "this is no pass" in text
    assert "\x1b" not in text


def test_a_broken_file_hides_no_other_and_is_no_pass(tmp_path: Path) -> None:
    good = fixtures.ROOT / "vectors" / "pass_at_k.json"
    (tmp_path / "good.json").write_bytes(good.read_bytes())
    (tmp_path / "broken.json").write_text("{")
    replayed = replay([tmp_path])
    assert replayed.results
    assert all(result.passed for result in replayed.results)
    assert [Path(item.what).name for item in replayed.not_run] == ["broken.json"]
    assert replayed.exit == Exit.INCOMPLETE
