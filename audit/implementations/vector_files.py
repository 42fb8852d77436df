"""Files of test vectors (`rlvr-vectors/1`), read strictly: what is not understood is refused."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvraudit.audit.errors import NothingToCheckError, UnreadableError
from rlvraudit.audit.evidence import strict_json
from rlvraudit.audit.evidence.intake import LIMITS, MalformedError
from rlvraudit.audit.evidence.tree import read_named
from rlvraudit.audit.implementations.backend import DTYPES
from rlvraudit.kernels.objective import Objective
from rlvraudit.kernels.objectives import OBJECTIVES

FORMAT = "rlvr-vectors/1"
SPECIAL = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf}
DECIMAL = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
Refuse = Callable[[str, str], UnreadableError]


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One test vector: inputs as NumPy arrays, and what an implementation must make of them.

    `expected` is None where the input must be refused. Its leaves are decimal strings,
    integers, booleans, or None where nothing is specified. Two cases are equal if they are one.
    """

    id: int
    dtype: str
    inputs: Mapping[str, NDArray[Any]]
    params: Mapping[str, Any]
    expected: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class VectorFile:
    """The vectors of one objective; no cases where the objective is not known here."""

    path: str
    name: str
    cases: tuple[Case, ...]

    @property
    def objective(self) -> Objective | None:
        """The objective, if it is one of ours."""
        return OBJECTIVES.get(self.name)


def find(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Return the vector files that `paths` name: files as they are, folders searched for JSON.

    Raises:
        NothingToCheckError: A folder holds none.
    """
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(p for p in path.rglob("*") if p.suffix.lower() == ".json")
            if not inside:
                raise NothingToCheckError(f"{path}: no vector file (*.json) below this folder")
            found.extend(inside)
        else:
            found.append(path)
    if not found:
        raise NothingToCheckError("no vectors were named")
    return tuple(dict.fromkeys(found))


def read(path: Path) -> VectorFile:
    """Return the vectors of one file.

    Raises:
        UnreadableError: The file can't be read, or something in it is not of the format; the
            message names the file, the case and what was expected.
    """
    document = _document(path)
    name, cases = document.get("objective"), document.get("cases")
    if not isinstance(name, str):
        raise UnreadableError(f"{path}: objective is {name!r}; expected a name")
    if not isinstance(cases, list) or not cases:
        raise UnreadableError(f"{path}: cases is empty or missing; expected a list of cases")
    if name not in OBJECTIVES:
        return VectorFile(str(path), name, ())
    read_cases = tuple(_case(path, OBJECTIVES[name], entry) for entry in cases)
    _refuse_duplicates(path, [case.id for case in read_cases])
    return VectorFile(str(path), name, read_cases)


def _document(path: Path) -> Mapping[str, Any]:
    try:
        document = strict_json.loads(read_named(path, LIMITS.json_bytes))
    except MalformedError as error:
        place = f":{error.line}:{error.column}" if error.line else ""
        raise UnreadableError(f"{path}{place}: {error}") from error
    found = document.get("format") if isinstance(document, dict) else type(document).__name__
    if found != FORMAT:
        raise UnreadableError(f"{path}: format is {found!r}; expected {FORMAT!r}")
    return document  # type: ignore[no-any-return]


def _refuse_duplicates(path: Path, ids: list[int]) -> None:
    for index, id_ in enumerate(ids):
        if id_ in ids[:index]:
            raise UnreadableError(f"{path}: case {id_} appears twice; expected distinct ids")


def _case(path: Path, objective: Objective, entry: Any) -> Case:
    if not isinstance(entry, dict) or not _is_id(entry.get("id")):
        raise UnreadableError(f"{path}: a case has no integer id: {str(entry)[:60]}")

    def refuse(found: str, expected: str) -> UnreadableError:
        return UnreadableError(f"{path}: case {entry['id']}: {found}; expected {expected}")

    dtype, result = entry.get("dtype"), entry.get("result")
    if dtype not in DTYPES:
        raise refuse(f"dtype is {dtype!r}", f"one of {', '.join(DTYPES)}")
    if result not in ("valid", "invalid"):
        raise refuse(f"result is {result!r}", "valid or invalid")
    return Case(
        entry["id"],
        dtype,
        _inputs(entry.get("inputs"), objective, dtype, refuse),
        _params(entry.get("params"), objective, refuse),
        _expected(entry.get("expected"), refuse) if result == "valid" else None,
    )


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _names(objective: Objective, *, keyword_only: bool) -> dict[str, bool]:
    """Return the names of the parameters, or of the inputs, and which of them are required."""
    return {
        name: parameter.default is Parameter.empty
        for name, parameter in signature(objective.evaluate).parameters.items()
        if (parameter.kind is Parameter.KEYWORD_ONLY) == keyword_only
    }


def _refuse_names(
    given: Any, known: Mapping[str, bool], what: str, refuse: Refuse
) -> Mapping[str, Any]:
    listed = ", ".join(known) or "none"
    if not isinstance(given, dict):
        raise refuse(f"{what} is {type(given).__name__}", f"an object with {listed}")
    for name in given:
        if name not in known:
            raise refuse(f"{what} holds an unknown {name!r}", listed)
    for name, required in known.items():
        if required and name not in given:
            raise refuse(f"{what} lacks {name!r}", listed)
    return given


def _inputs(
    given: Any, objective: Objective, dtype: str, refuse: Refuse
) -> dict[str, NDArray[Any]]:
    known = _names(objective, keyword_only=False)
    return {
        name: _array(name, value, name in objective.integral, dtype, refuse)
        for name, value in _refuse_names(given, known, "inputs", refuse).items()
    }


def _params(given: Any, objective: Objective, refuse: Refuse) -> dict[str, Any]:
    known = _names(objective, keyword_only=True)
    params = _refuse_names(given, known, "params", refuse)
    return {name: _special(value) for name, value in params.items()}


def _special(value: Any) -> Any:
    return SPECIAL.get(value, value) if isinstance(value, str) else value


def _array(name: str, value: Any, integral: bool, dtype: str, refuse: Refuse) -> NDArray[Any]:
    try:
        array = np.asarray(_numbers(value))
    except (ValueError, OverflowError) as error:
        raise refuse(f"{name}: {error}", "numbers in a rectangle") from error
    if array.dtype.kind not in "biuf":
        raise refuse(f"{name} holds what is no number", 'numbers, booleans, "nan" or "inf"')
    if array.dtype.kind == "b" or integral or (array.ndim == 0 and array.dtype.kind != "f"):
        return array
    wide = array.astype(np.float64)
    _refuse_unrepresentable(name, wide, dtype, refuse)
    return wide


def _numbers(value: Any) -> Any:
    if isinstance(value, list):
        return [_numbers(part) for part in value]
    if isinstance(value, str) and value not in SPECIAL:
        raise ValueError(f"{value!r} is no number")
    return _special(value)


def _refuse_unrepresentable(
    name: str, wide: NDArray[np.float64], dtype: str, refuse: Refuse
) -> None:
    with np.errstate(over="ignore"):
        held = wide.astype(dtype).astype(np.float64)
    bad = np.argwhere((held != wide) & ~np.isnan(wide))
    if len(bad):
        at = tuple(int(i) for i in bad[0])
        raise refuse(f"{name}{list(at)} is {float(wide[at])!r}", f"a number of {dtype}")


def _expected(given: Any, refuse: Refuse) -> Mapping[str, Any]:
    if not isinstance(given, dict) or not given:
        raise refuse("expected is missing or empty", "every output of a valid case")
    for name, value in given.items():
        _refuse_leaves(name, value, refuse)
    return given


def _refuse_leaves(name: str, value: Any, refuse: Refuse) -> None:
    if isinstance(value, list):
        for part in value:
            _refuse_leaves(name, part, refuse)
    elif isinstance(value, float | dict) or (
        isinstance(value, str) and not DECIMAL.fullmatch(value)
    ):
        raise refuse(
            f"expected {name} holds {str(value)[:40]!r}",
            "decimal strings, integers, booleans or null",
        )
