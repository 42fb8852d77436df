"""Replay test vectors through every backend that is present."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvraudit.audit.errors import Exit, UnreadableError
from rlvraudit.audit.implementations.allowance import bounds
from rlvraudit.audit.implementations.backend import Backend, backends, inputs_on, on_host
from rlvraudit.audit.implementations.judgement import judge
from rlvraudit.audit.implementations.vector_files import Case, VectorFile, find, read
from rlvraudit.kernels.arrays import InvalidInputError
from rlvraudit.kernels.objective import Objective

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class CaseResult:
    """What one backend made of one case.

    `outputs` are all that it computed, on the host, or None; `error` is why there are none, or
    what is wrong with them. `worst` is the largest error as a multiple of its bound.
    """

    id: int
    objective: str
    file: str
    backend: str
    dtype: str
    outputs: Mapping[str, NDArray[Any]] | None
    error: str | None
    passed: bool
    worst: float | None


@dataclass(frozen=True, slots=True)
class NotRun:
    """Something that was asked for and not done, and why."""

    what: str
    reason: str


@dataclass(frozen=True, slots=True)
class Replay:
    """The results of all cases on all backends, and what was not run."""

    backends: tuple[str, ...]
    results: tuple[CaseResult, ...]
    not_run: tuple[NotRun, ...]

    @property
    def exit(self) -> Exit:
        """The exit status: what was not run comes before what failed, and neither ever passes."""
        if self.not_run or not self.results:
            return Exit.INCOMPLETE
        return Exit.PASSED if all(r.passed for r in self.results) else Exit.FINDINGS


def replay(paths: Iterable[Path], device: str = "cpu", progress: Progress | None = None) -> Replay:
    """Replay the vectors in `paths`, files or folders.

    A file that is not what it should be is not run, and said so; the others are.

    Raises:
        NothingToCheckError: There are no vectors.
        UnreadableError: There is one file, and it is not what it should be.
        DeviceError: The device is not there.
    """
    libraries = backends(device)
    files, unread = _read_all(find(paths))
    results: list[CaseResult] = []
    for file in files:
        if progress:
            progress(file.name)
        results.extend(replay_file(file, libraries))
    return Replay(
        tuple(b.name for b in libraries), tuple(results), (*unread, *unknown_objectives(files))
    )


def _read_all(paths: tuple[Path, ...]) -> tuple[list[VectorFile], list[NotRun]]:
    files: list[VectorFile] = []
    unread: list[NotRun] = []
    for path in paths:
        try:
            files.append(read(path))
        except UnreadableError as error:
            if len(paths) == 1:
                raise
            reason = str(error).removeprefix(str(path)).removeprefix(":").strip()
            unread.append(NotRun(str(path), reason))
    return files, unread


def unknown_objectives(files: Iterable[VectorFile]) -> tuple[NotRun, ...]:
    """Return the files whose objective is none of ours; they are never a pass."""
    return tuple(
        NotRun(file.path, f"its objective {file.name!r} is not known here")
        for file in files
        if file.objective is None
    )


def replay_file(file: VectorFile, libraries: Iterable[Backend]) -> list[CaseResult]:
    """Return the results of one file's cases on each backend."""
    if file.objective is None:
        return []
    return [
        _replay(file, file.objective, case, backend) for case in file.cases for backend in libraries
    ]


def _replay(file: VectorFile, objective: Objective, case: Case, backend: Backend) -> CaseResult:
    outputs, error, refused = _run(objective, case, backend)
    passed, worst = case.expected is None and refused, None
    if outputs is not None:
        if case.expected is None:
            error = "it accepts what must be refused"
        else:
            _refuse_outputs(file, case, outputs)
            judgement = judge(outputs, case.expected, bounds(objective, case), case.dtype)
            passed, worst = judgement.passed, judgement.worst
            error = judgement.fault or None
    return CaseResult(
        case.id, file.name, file.path, backend.name, case.dtype, outputs, error, passed, worst
    )


def _run(
    objective: Objective, case: Case, backend: Backend
) -> tuple[Mapping[str, NDArray[Any]] | None, str | None, bool]:
    """Return the outputs, or an error and whether it is a proper refusal."""
    try:
        with np.errstate(all="ignore"):
            inputs = inputs_on(backend, case.inputs, case.dtype)
            outputs = objective.evaluate(**inputs, **case.params)
        return {name: on_host(value) for name, value in outputs.items()}, None, False
    except InvalidInputError as error:
        return None, str(error), True
    except Exception as error:  # a crash is a failure of this case, not of the replay
        return None, f"{type(error).__name__}: {error}", False


def _refuse_outputs(file: VectorFile, case: Case, outputs: Mapping[str, Any]) -> None:
    known, given = set(outputs), set(case.expected or ())
    if known != given:
        raise UnreadableError(
            f"{file.path}: case {case.id}: expected holds {', '.join(sorted(given))}; "
            f"expected the outputs of {file.name}: {', '.join(sorted(known))}"
        )
