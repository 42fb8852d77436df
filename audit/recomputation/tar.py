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
Parts = tuple[tuple[tuple[str, ...], Part], ...]

RECORDED_PARTS: Parts = (
    (("RA410", "RA411", "RA412", "RA420"), losses.replay),
    (("RA413",), bank.selection),
    (("RA418",), losses.advantages),
    (("RA416", "RA420"), losses.surrogate),
    (("RA401", "RA420"), losses.totals),
    (("RA419",), losses.steps),
    (("RA419",), losses.digests),
    (("RA401",), losses.padding),
)
MODEL_PARTS: Parts = (
    (("RA401",), policy.samples),
    (("RA418",), policy.verdicts),
    (("RA401",), policy.scores),
    (("RA401", "RA420"), policy.gradients),
)
"""With the rules that a part's results belong to: all hear of it where it can't be computed."""


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
        results = [result for rules, part in parts for result in _part(rules, part, work)]
    if not work.has_model:
        results += _without_policy(key.trace)
    return tuple(results)


def _part(rules: tuple[str, ...], part: Part, work: Workbench) -> Iterator[Result]:
    try:
        yield from part(work)
    except InvalidInputError as error:
        if error.argument.startswith("logp"):
            reason = f"a log-probability of {work.trace.path} is invalid (RA417)"
            yield from (Omitted(rule, reason) for rule in rules)
        else:
            yield Wrong(rules[0], work.at(""), f"it can't be recomputed: {error}")
            yield from (Omitted(rule, f"what {rules[0]} found invalid") for rule in rules[1:])


def _without_policy(trace: TarTrace) -> Iterator[Omitted]:
    recipe = trace.document["recipe"]
    reason = f"the recipe {recipe} of {trace.path} is unknown: its policy was not run again"
    for rule in sorted({rule for rules, _ in MODEL_PARTS for rule in rules}):
        yield Omitted(rule, reason)
