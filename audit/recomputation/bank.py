"""The bank: are the recorded prototypes a farthest-point selection of correct candidates?"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from rlvraudit.audit.recomputation.recomputed import Result, Wrong
from rlvraudit.audit.recomputation.workbench import Workbench
from rlvraudit.kernels.bounds import Ball
from rlvraudit.kernels.objectives.prototypes import audit_selection


def selection(work: Workbench) -> Iterator[Result]:
    """Yield the audit of each prompt's selection, with its distances and counts."""
    embeddings = work.trace.tensors["bank.embeddings"]
    correct = work.trace.tensors["bank.correct"]
    k = work.settings.prototypes
    for position, entry in enumerate(work.trace.document["bank"]):
        pointer, bits = f"/bank/{position}", correct[position]
        yield work.number("RA413", "index of the prompt", f"{pointer}/prompt", position)
        noticed = work.used("prototypes") if np.sum(bits) > k else ()
        yield work.number(
            "RA413",
            "count of correct candidates",
            f"{pointer}/correct",
            int(np.sum(bits)),
            notices=noticed,
        )
        audit = audit_selection(embeddings[position], bits, entry["indices"], k)
        wrong = {misfit.position: misfit for misfit in audit.misfits}
        for misfit in audit.misfits:
            if misfit.position >= len(entry["indices"]):
                place, reason = work.at(f"{pointer}/indices"), misfit.reason
            else:
                place = work.at(f"{pointer}/indices/{misfit.position}")
                reason = f"candidate {misfit.index} is no farthest point: {misfit.reason}"
            yield Wrong("RA413", place, reason)
        if not wrong:
            yield from _distances(work, pointer, entry, embeddings[position])


def _distances(work: Workbench, pointer: str, entry: Any, embeddings: Any) -> Iterator[Result]:
    chosen = work.ball(embeddings[entry["indices"]])
    nearest = nearest_before(chosen)
    for place, index in enumerate(entry["indices"]):
        at = f"{pointer}/indices/{place}"
        yield work.number("RA413", "prototype", at, index)
        at = f"{pointer}/distances/{place}"
        if place:
            yield work.number("RA413", "distance of a prototype", at, nearest[place - 1])
        elif entry["distances"][0] is not None:
            reason = "the first prototype has no distance; expected null"
            yield Wrong("RA413", work.at(at), reason)


def nearest_before(vectors: Ball) -> list[Ball]:
    """Return the cosine distance of each vector but the first to the nearest one before it."""
    xp = vectors.__array_namespace__()
    if not len(vectors.shape) or vectors.shape[0] < 2:
        return []
    unit = vectors / xp.sqrt(xp.sum(vectors * vectors, axis=1, keepdims=True))
    distances = 1 - unit @ xp.matrix_transpose(unit)
    return [-xp.max(-distances[i, :i]) for i in range(1, vectors.shape[0])]
