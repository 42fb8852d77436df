"""What a probe is given and what it answers."""

from collections.abc import Iterable
from dataclasses import dataclass

from rlvraudit.audit.implementations.judgement import Judgement
from rlvraudit.audit.implementations.vector_files import Case
from rlvraudit.kernels.objective import Objective


@dataclass(frozen=True, slots=True)
class Subject:
    """An objective and the valid inputs that it is probed with."""

    objective: Objective
    cases: tuple[Case, ...]

    def of_dtype(self, dtype: str) -> tuple[Case, ...]:
        """Return the cases of one dtype."""
        return tuple(case for case in self.cases if case.dtype == dtype)


@dataclass(frozen=True, slots=True)
class Observation:
    """What a probe saw in one case; trivial where there was nothing to see but zeros."""

    case: int
    trivial: bool
    judgement: Judgement


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The answer of one probe for one objective on one backend in one dtype."""

    probe: str
    objective: str
    backend: str
    dtype: str
    observations: tuple[Observation, ...]

    @property
    def worst(self) -> Observation | None:
        """The case with the largest error as a multiple of its bound."""
        return max(self.observations, key=lambda o: o.judgement.worst, default=None)

    @property
    def faults(self) -> tuple[str, ...]:
        """What is wrong, in words; seeing only zeros is wrong as well."""
        found = [f"case {o.case}: {o.judgement.fault}" for o in self.observations if _bad(o)]
        if all(o.trivial for o in self.observations):
            found.append("it saw nothing but zeros, which shows nothing")
        return tuple(found)

    @property
    def passed(self) -> bool:
        """Whether it looked at something and found all of it right."""
        return not self.faults


def _bad(observation: Observation) -> bool:
    return not observation.judgement.passed


def worst_of(judgements: Iterable[Judgement]) -> Judgement:
    """Return several judgements of one case as one."""
    known = list(judgements)
    faults = "; ".join(j.fault for j in known if j.fault)
    return Judgement(max((j.worst for j in known), default=0.0), faults)
