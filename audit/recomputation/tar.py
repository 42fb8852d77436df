"""Every number of a TAR trace, recomputed: from the recorded numbers before it, not from scratch.

Each quantity is recomputed from its recorded inputs, so that a finding names the first wrong
number and not everything that follows from it.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np

from rlvraudit.audit.evidence.supplement import Evidence
from rlvraudit.audit.evidence.tar_trace import TarTrace, misfits, tar_traces
from rlvraudit.audit.recomputation import bank, losses, policy
from rlvraudit.audit.recomputation.recomputed import Omitted, Result, Wrong
from rlvraudit.audit.recomputation.workbench import Workbench
from rlvraudit.kernels.arrays import InvalidInputError

Part = Callable[[Workbench], Iterator[Result]]

RECORDED_PARTS: tuple[tuple[str, Part], ...] = (
    ("RA410", losses.replay),
    ("RA413", bank.selection),
    ("RA418", losses.advantages),
    ("RA416", losses.surrogate),
    ("RA401", losses.totals),
    ("RA419", losses.steps),
    ("RA419", losses.digests),
    ("RA401", losses.padding),
)
MODEL_PARTS: tuple[tuple[str, Part], ...] = (
    ("RA401", policy.samples),
    ("RA418", policy.verdicts),
    ("RA401", policy.scores),
    ("RA420", policy.gradients),
)
"""With the rule that speaks where a part's inputs are invalid."""


def recomputations(evidence: Evidence) -> tuple[Result, ...]:
    """Return every recomputation of every TAR trace that fits its own document."""
    results: list[Result] = []
    for trace in tar_traces(evidence):
        if not any(misfits(trace)):
            digests = (evidence.files[p].sha256 for p in (trace.path, trace.tensors_path))
            results += _recompute(_Key(trace, *digests))
    return tuple(results)


class _Key:
    """A trace that equals another where the bytes behind it do."""

    def __init__(self, trace: TarTrace, *digests: str) -> None:
        self.trace, self.identity = trace, (trace.path, *digests)

    def __hash__(self) -> int:
        return hash(self.identity)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self.identity == other.identity


@lru_cache(maxsize=16)
def _recompute(key: _Key) -> tuple[Result, ...]:
    """Return the recomputations of one trace; every rule asks, the work is done once."""
    work = Workbench(key.trace)
    parts = [*RECORDED_PARTS, *(MODEL_PARTS if work.has_model else ())]
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return tuple(result for rule, part in parts for result in _part(rule, part, work))


def _part(rule: str, part: Part, work: Workbench) -> Iterator[Result]:
    try:
        yield from part(work)
    except InvalidInputError as error:
        if error.argument.startswith("logp"):
            yield Omitted(rule, "a log-probability is invalid (RA417)")
        else:
            yield Wrong(rule, work.at(""), f"it can't be recomputed: {error}")
