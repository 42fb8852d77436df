"""Negative controls: each known wrong variant must fail where the objective passes."""

from collections.abc import Iterable
from dataclasses import dataclass

from rlvraudit.audit.implementations.allowance import bounds
from rlvraudit.audit.implementations.backend import on_host
from rlvraudit.audit.implementations.judgement import Judgement, judge
from rlvraudit.audit.implementations.probes.probe import Subject
from rlvraudit.audit.implementations.variants import Variant
from rlvraudit.audit.implementations.vector_files import Case
from rlvraudit.kernels.objective import Objective


@dataclass(frozen=True, slots=True)
class Control:
    """Whether a wrong variant was caught, and by which cases."""

    variant: Variant
    caught_by: tuple[int, ...]
    example: str

    @property
    def caught(self) -> bool:
        """Whether any case gave it away."""
        return bool(self.caught_by)


def control(variant: Variant, subjects: Iterable[Subject]) -> Control:
    """Return which FP64 cases of its objective catch `variant`, with the first one's finding."""
    caught, example = [], ""
    for subject in subjects:
        if subject.objective.name == variant.objective:
            for case in subject.of_dtype("float64"):
                judgement = judge_variant(variant, subject.objective, case)
                if not judgement.passed:
                    example = example or f"case {case.id}: {judgement.fault}"
                    caught.append(case.id)
    return Control(variant, tuple(caught), example)


def judge_variant(variant: Variant, objective: Objective, case: Case) -> Judgement:
    """Return how the variant's outputs compare with the expected ones."""
    outputs = variant.evaluate(**case.inputs, **case.params)
    host = {name: on_host(value) for name, value in outputs.items()}
    return judge(host, case.expected or {}, bounds(objective, case), case.dtype)
