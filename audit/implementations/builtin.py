"""The audit of the built-in kernels: vectors, two second opinions, padding, negative controls."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rlvraudit.audit.errors import Exit
from rlvraudit.audit.implementations.backend import Backend, backends
from rlvraudit.audit.implementations.probes.autograd import autograd
from rlvraudit.audit.implementations.probes.controls import Control, control
from rlvraudit.audit.implementations.probes.differences import differences
from rlvraudit.audit.implementations.probes.padding import padding
from rlvraudit.audit.implementations.probes.probe import ProbeResult, Subject
from rlvraudit.audit.implementations.variants import VARIANTS
from rlvraudit.audit.implementations.vector_files import VectorFile, find, read
from rlvraudit.audit.implementations.vectors import (
    NotRun,
    Progress,
    Replay,
    replay_file,
    unknown_objectives,
)
from rlvraudit.kernels.objectives import OBJECTIVES


@dataclass(frozen=True, slots=True)
class KernelAudit:
    """Everything that the audit of the built-in kernels saw."""

    device: str
    vectors: Replay
    probes: tuple[ProbeResult, ...]
    controls: tuple[Control, ...]
    not_run: tuple[NotRun, ...]

    @property
    def passed(self) -> bool:
        """Whether all that ran passed, and something ran in every part."""
        parts = (self.vectors.results, self.probes, self.controls)
        return (
            all(parts)
            and all(result.passed for result in self.vectors.results)
            and all(probe.passed for probe in self.probes)
            and all(item.caught for item in self.controls)
        )

    @property
    def exit(self) -> Exit:
        """The exit status; what was not run comes before what failed."""
        if self.not_run:
            return Exit.INCOMPLETE
        return Exit.PASSED if self.passed else Exit.FINDINGS


def audit_kernels(
    vectors: Path, device: str = "cpu", progress: Progress | None = None
) -> KernelAudit:
    """Audit every objective with the vectors below the folder `vectors`.

    Raises:
        DeviceError: The device is not there; nothing runs in its place.
        NothingToCheckError: There are no vectors.
        UnreadableError: A vector file is not what it should be.
    """
    tell = progress or (lambda _: None)
    libraries = backends(device)
    files = [read(path) for path in find([vectors])]
    results = []
    for file in files:
        tell(f"{file.name}: vectors")
        results.extend(replay_file(file, libraries))
    subjects = tuple(_subjects(files))
    probes: list[ProbeResult] = []
    for subject in subjects:
        tell(f"{subject.objective.name}: probes")
        probes.extend(_probe(subject, libraries))
    tell("negative controls")
    return KernelAudit(
        device,
        Replay(tuple(b.name for b in libraries), tuple(results), ()),
        tuple(probes),
        tuple(control(variant, subjects) for _, variant in sorted(VARIANTS.items())),
        (*unknown_objectives(files), *_without_vectors(files), *_without_torch(libraries)),
    )


def _subjects(files: Iterable[VectorFile]) -> Iterator[Subject]:
    for file in files:
        if file.objective is not None:
            valid = tuple(case for case in file.cases if case.expected is not None)
            yield Subject(file.objective, valid)


def _probe(subject: Subject, libraries: Iterable[Backend]) -> Iterator[ProbeResult]:
    yield from differences(subject)
    for backend in libraries:
        yield from padding(subject, backend)
        if backend.name != "numpy":
            yield from autograd(subject, backend)


def _without_vectors(files: Iterable[VectorFile]) -> Iterator[NotRun]:
    for name in sorted(set(OBJECTIVES) - {file.name for file in files}):
        yield NotRun(name, "there are no vectors for it")


def _without_torch(libraries: tuple[Backend, ...]) -> Iterator[NotRun]:
    if len(libraries) == 1:
        yield NotRun("autograd, BF16 and vectors on torch", "PyTorch is not installed")
