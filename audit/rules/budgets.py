"""What a receipt says was spent, beside what the trace that it binds shows."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from rlvraudit.audit.evidence.receipt import Receipt, receipts
from rlvraudit.audit.evidence.supplement import Evidence
from rlvraudit.audit.evidence.tar_trace import TarTrace, misfits, tar_traces
from rlvraudit.audit.rules.rule import Discrepancy, Held, Outcome, Problem

BUDGET = "/predicate/buildDefinition/externalParameters/budget"
COST = "/predicate/outcome/cost"
SETTINGS = {
    "steps": "updates",
    "groups": "groups",
    "group": "group_size",
    "candidates": "candidates",
    "max_tokens": "max_tokens",
}
"""Entries of a budget, and the settings of a trace that they must equal."""


def spent(evidence: Evidence) -> Iterator[Outcome]:
    """Yield whether budgets and costs of receipts are those of their TAR traces, for RA402."""
    traces = {trace.path: trace for trace in tar_traces(evidence) if not any(misfits(trace))}
    for receipt in receipts(evidence):
        for subject in receipt.subjects:
            if subject.name in traces:
                yield from _of_trace(receipt, traces[subject.name])


def _of_trace(receipt: Receipt, trace: TarTrace) -> Iterator[Outcome]:
    cost = receipt.predicate.get("outcome", {}).get("cost", {})
    budget = receipt.parameters.get("budget", {})
    shown = {name: trace.settings[setting] for name, setting in SETTINGS.items()}
    yield from _compare(receipt.path, BUDGET, budget, shown)
    yield from _compare(receipt.path, COST, cost, _costs(trace))


def _costs(trace: TarTrace) -> Mapping[str, int]:
    masks = [mask for name, mask in trace.tensors.items() if name.endswith(".mask")]
    return {
        "generated_tokens": int(sum(np.count_nonzero(mask) for mask in masks)),
        "rejected": sum(update["rejected"] for update in trace.document["updates"]),
    }


def _compare(
    path: str, place: str, stated: Mapping[str, Any], shown: Mapping[str, int]
) -> Iterator[Outcome]:
    for name in sorted(stated.keys() & shown.keys()):
        pointer = f"{place}/{name}"
        if stated[name] == shown[name]:
            yield Held(path, pointer, numbers=True)
        else:
            message = f"the receipt says {stated[name]!a}; its trace shows {shown[name]}"
            found = Discrepancy(str(stated[name])[:60], str(shown[name]), "0")
            yield Problem(path, message, pointer, discrepancy=found)
