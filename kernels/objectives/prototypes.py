"""Farthest-point prototypes of the correct base candidates (TAR, arXiv 2610.24236).

Cosine distance 1 - <u, v> / (|u| |v|). Greedy: start, then repeatedly the correct candidate whose
distance to the nearest chosen one is largest. The paper is silent on start and ties; here the
start is the first correct candidate, and candidates that are equally far to within rounding
error are a tie, which goes to the lowest index. Distances are computed in FP64 whatever the
input's dtype, so that rounding makes no tie out of what is none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlvraudit.kernels.arrays import (
    Array,
    InvalidInputError,
    compute_dtype,
    integer,
    namespace,
    refuse_dtype,
    refuse_shape,
    refuse_where,
)
from rlvraudit.kernels.objective import objective

ROUNDOFF = 2.0**-53
SMALLEST_SQUARE = 2.0**-900
"""Of a vector's norm: above it, and below its reciprocal, FP64 squares are as good as exact."""


@dataclass(frozen=True, slots=True)
class Prototypes:
    """The chosen candidates in order, and each one's distance to the nearest chosen before it.

    The first has no distance: NaN. `distances` are in the compute dtype.
    """

    indices: tuple[int, ...]
    distances: Array


@dataclass(frozen=True, slots=True)
class Misfit:
    """A recorded pick that no greedy farthest-point selection makes, and why.

    There is no `index` where nothing was picked although something could be.
    """

    position: int
    index: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class SelectionAudit:
    """What a recorded selection started from, and where it fails; sound if nowhere."""

    start: str
    misfits: tuple[Misfit, ...]


@dataclass(frozen=True, slots=True)
class _Directions:
    """The correct candidates' vectors, `[C, D]`, scaled, and the norms of what is scaled, `[C]`."""

    vectors: Array
    norms: Array


@np.errstate(over="ignore")
def farthest_point(
    embeddings: Array, correct: Array, k: int = 3, start: str | int = "first"
) -> Prototypes:
    """Return up to `k` prototypes; none where no candidate is correct.

    Args:
        embeddings: One vector per candidate, `[N, D]`; those of incorrect ones are never read.
        correct: The verifier's bits, `[N]` bool.
        k: At least 1.
        start: "first", the first correct candidate, or the index of a correct candidate.

    Raises:
        InvalidInputError: A correct candidate's vector is zero, not finite, or has a norm that
            overflows in the compute dtype; or another argument is wrong.
    """
    candidates = _correct_indices(embeddings, correct)
    wanted = min(integer(k, "k", 1), len(candidates))
    first = _first(start, candidates)
    directions = _directions(embeddings, candidates)
    xp = namespace(embeddings)
    chosen, found = [first] if wanted else [], []
    nearest = _distances(directions, first) if wanted else directions.norms
    for _ in range(1, wanted):
        far = xp.max(nearest)
        found.append(far)
        tied = nearest >= far - _slack(embeddings.shape[1], ROUNDOFF)
        chosen.append(int(namespace(tied).argmax(namespace(tied).astype(tied, xp.int64))))
        nearest = xp.minimum(nearest, _distances(directions, chosen[-1]))
    undefined = [xp.ones_like(nearest[0]) * float("nan")] if wanted else []
    distances = xp.stack([*undefined, *found]) if wanted else nearest
    return Prototypes(
        tuple(candidates[c] for c in chosen),
        xp.astype(distances, compute_dtype(embeddings), copy=False),
    )


@np.errstate(over="ignore")
def audit_selection(
    embeddings: Array, correct: Array, indices: Sequence[int], k: int = 3
) -> SelectionAudit:
    """Return whether `indices` are a greedy farthest-point selection, whatever start and tie rule.

    Each pick must attain the largest distance to the nearest earlier one to within the rounding
    error of the compute dtype.

    Raises:
        InvalidInputError: As `farthest_point`.
    """
    candidates = _correct_indices(embeddings, correct)
    wanted = min(integer(k, "k", 1), len(candidates))
    misfits = _count_misfits(indices, wanted) + _identity_misfits(indices, candidates)
    if not misfits and indices:
        directions = _directions(embeddings, candidates)
        rows = [candidates.index(i) for i in indices]
        slack = _slack(embeddings.shape[1], _roundoff(embeddings))
        misfits = _distance_misfits(directions, rows, indices, slack)
    start = "none"
    if indices:
        start = "first" if candidates and indices[0] == candidates[0] else f"index {indices[0]}"
    return SelectionAudit(start, misfits)


def _correct_indices(embeddings: Array, correct: Array) -> list[int]:
    refuse_dtype(embeddings, "real floating", "embeddings")
    refuse_dtype(correct, "bool", "correct")
    if embeddings.ndim != 2 or embeddings.shape[1] == 0:
        raise InvalidInputError("embeddings", f"of shape {tuple(embeddings.shape)}", "shape [N, D]")
    refuse_shape(correct, (embeddings.shape[0],), "correct")
    return [int(i) for i in namespace(correct).nonzero(correct)[0]]


def _first(start: str | int, candidates: list[int]) -> int:
    if start == "first":
        return 0
    expected = '"first" or the index of a correct candidate'
    if isinstance(start, str) or integer(start, "start", 0) not in candidates:
        raise InvalidInputError("start", repr(start), expected)
    return candidates.index(int(start))


def _directions(embeddings: Array, candidates: list[int]) -> _Directions:
    """Return the candidates' vectors in FP64, scaled where their squares would leave its range."""
    xp = namespace(embeddings)
    vectors = xp.astype(embeddings[candidates, :], xp.float64)
    squares = xp.vecdot(vectors, vectors)
    plain = _Directions(vectors, xp.sqrt(squares))
    largest = float(xp.finfo(compute_dtype(embeddings)).max)
    ordinary = (squares > SMALLEST_SQUARE) & (squares < 1.0 / SMALLEST_SQUARE)
    if bool(namespace(ordinary).all(ordinary & (plain.norms < largest))):
        return plain
    return _scaled_directions(vectors, candidates, largest)


def _scaled_directions(vectors: Array, candidates: list[int], largest: float) -> _Directions:
    """Return each vector divided by its largest component, after refusing those without one."""
    xp = namespace(vectors)
    _refuse_rows(~xp.isfinite(vectors), vectors, candidates, "a finite number")
    peak = xp.max(xp.abs(vectors), axis=1, keepdims=True)
    _refuse_rows(peak == 0, peak, candidates, "a vector that is not zero")
    scaled = vectors / peak
    norms = xp.sqrt(xp.vecdot(scaled, scaled))
    overflows = peak > largest / xp.reshape(norms, (-1, 1))
    _refuse_rows(overflows, peak, candidates, "a vector whose norm does not overflow")
    return _Directions(scaled, norms)


def _refuse_rows(bad: Array, vectors: Array, candidates: list[int], expected: str) -> None:
    try:
        refuse_where(bad, vectors, "embeddings", expected)
    except InvalidInputError as error:
        row, column = error.at
        at = (candidates[row], column)
        found = f"{float(vectors[error.at]):g}"
        raise InvalidInputError("embeddings", found, expected, at) from None


def _distances(directions: _Directions, chosen: int) -> Array:
    vectors, norms = directions.vectors, directions.norms
    return 1.0 - vectors @ vectors[chosen, :] / (norms * norms[chosen])


def _slack(dimension: int, roundoff: float) -> float:
    """Return the error bound of the difference of two distances.

    A sum of D products has relative error (D + 2) u in terms of the products' magnitudes, which
    sum to at most the norms' product; each norm has (D/2 + 2) u; the rest is a few roundings.
    """
    return 2 * (2 * dimension + 12) * roundoff


def _roundoff(embeddings: Array) -> float:
    return float(namespace(embeddings).finfo(compute_dtype(embeddings)).eps) / 2


def _count_misfits(indices: Sequence[int], wanted: int) -> tuple[Misfit, ...]:
    if len(indices) == wanted:
        return ()
    return (
        Misfit(
            len(indices),
            indices[-1] if indices else None,
            f"{len(indices)} prototypes are recorded; {wanted} can be chosen",
        ),
    )


def _identity_misfits(indices: Sequence[int], candidates: list[int]) -> tuple[Misfit, ...]:
    return tuple(
        Misfit(position, index, reason)
        for position, index in enumerate(indices)
        for wrong, reason in (
            (index not in candidates, "it is no correct candidate"),
            (index in indices[:position], "it was chosen before"),
        )
        if wrong
    )


def _distance_misfits(
    directions: _Directions, rows: list[int], indices: Sequence[int], slack: float
) -> tuple[Misfit, ...]:
    xp = namespace(directions.norms)
    misfits = []
    nearest = _distances(directions, rows[0])
    for position, row in enumerate(rows[1:], start=1):
        far, here = float(xp.max(nearest)), float(nearest[row])
        if here < far - slack:
            reason = f"its distance is {here:.9g}, the largest one {far:.9g}, bound {slack:.2g}"
            misfits.append(Misfit(position, indices[position], reason))
        nearest = xp.minimum(nearest, _distances(directions, row))
    return tuple(misfits)


@objective("fps.cosine", source="TAR, arXiv 2610.24236: cosine farthest-point sampling")
def fps_cosine(
    embeddings: Array, correct: Array, *, k: int, start: str | int = "first"
) -> Mapping[str, Any]:
    """The prototypes' indices and distances."""
    prototypes = farthest_point(embeddings, correct, k, start)
    return {"indices": prototypes.indices, "distances": prototypes.distances}
