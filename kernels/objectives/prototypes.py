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


@dataclass(frozen=True, slots=True)
class Prototypes:
    """The chosen candidates in order, and each one's distance to the nearest chosen before it.

    The first has no distance: NaN. `distances` are in the compute dtype.
    """

    indices: tuple[int, ...]
    distances: Array


@dataclass(frozen=True, slots=True)
class Misfit:
    """A recorded pick that no greedy farthest-point selection makes, and why."""

    position: int
    index: int
    reason: str


@dataclass(frozen=True, slots=True)
class SelectionAudit:
    """What a recorded selection started from, and where it fails; sound if nowhere."""

    start: str
    misfits: tuple[Misfit, ...]


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
    unit = _unit_vectors(embeddings, candidates)
    xp = namespace(embeddings)
    chosen, found = [first] if wanted else [], []
    nearest = _distances(unit, first) if wanted else unit[:, 0]
    for _ in range(1, wanted):
        far = xp.max(nearest)
        found.append(far)
        tied = nearest >= far - _slack(unit.shape[1], ROUNDOFF)
        chosen.append(int(namespace(tied).argmax(namespace(tied).astype(tied, xp.int64))))
        nearest = xp.minimum(nearest, _distances(unit, chosen[-1]))
    undefined = [xp.ones_like(nearest[0]) * float("nan")] if wanted else []
    distances = xp.stack([*undefined, *found]) if wanted else nearest
    return Prototypes(
        tuple(candidates[c] for c in chosen),
        xp.astype(distances, compute_dtype(embeddings), copy=False),
    )


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
        unit = _unit_vectors(embeddings, candidates)
        slack = _slack(unit.shape[1], _roundoff(embeddings))
        misfits = _distance_misfits(unit, [candidates.index(i) for i in indices], indices, slack)
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


def _unit_vectors(embeddings: Array, candidates: list[int]) -> Array:
    """Return the candidates' vectors divided by their norms, `[len(candidates), D]`, in FP64."""
    xp = namespace(embeddings)
    vectors = xp.astype(embeddings[candidates, :], xp.float64)
    _refuse_rows(~xp.isfinite(vectors), vectors, candidates, "a finite number")
    # Scaled to a largest component of 1 first: a square can neither overflow nor vanish.
    peak = xp.max(xp.abs(vectors), axis=1, keepdims=True) if candidates else vectors[:, :1]
    _refuse_rows(peak == 0, peak, candidates, "a vector that is not zero")
    scaled = vectors / peak
    length = xp.sqrt(xp.sum(scaled * scaled, axis=1, keepdims=True))
    largest = float(xp.finfo(compute_dtype(embeddings)).max)
    _refuse_rows(peak > largest / length, peak, candidates, "a vector whose norm does not overflow")
    return scaled / length


def _refuse_rows(bad: Array, vectors: Array, candidates: list[int], expected: str) -> None:
    try:
        refuse_where(bad, vectors, "embeddings", expected)
    except InvalidInputError as error:
        row, column = error.at
        at = (candidates[row], column)
        found = f"{float(vectors[error.at]):g}"
        raise InvalidInputError("embeddings", found, expected, at) from None


def _distances(unit: Array, chosen: int) -> Array:
    return 1.0 - unit @ unit[chosen, :]


def _slack(dimension: int, roundoff: float) -> float:
    """Return the error bound of the difference of two distances.

    A component of a unit vector has relative error (D/2 + 4) u, a product of two of them and
    the sum of D products D u more, and the products' magnitudes sum to at most 1.
    """
    return 2 * (2 * dimension + 9) * roundoff


def _roundoff(embeddings: Array) -> float:
    return float(namespace(embeddings).finfo(compute_dtype(embeddings)).eps) / 2


def _count_misfits(indices: Sequence[int], wanted: int) -> tuple[Misfit, ...]:
    if len(indices) == wanted:
        return ()
    return (
        Misfit(
            len(indices),
            indices[-1] if indices else -1,
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
    unit: Array, rows: list[int], indices: Sequence[int], slack: float
) -> tuple[Misfit, ...]:
    xp = namespace(unit)
    misfits = []
    nearest = _distances(unit, rows[0])
    for position, row in enumerate(rows[1:], start=1):
        far, here = float(xp.max(nearest)), float(nearest[row])
        if here < far - slack:
            reason = f"its distance is {here:.9g}, the largest one {far:.9g}, bound {slack:.2g}"
            misfits.append(Misfit(position, indices[position], reason))
        nearest = xp.minimum(nearest, _distances(unit, row))
    return tuple(misfits)


@objective("fps.cosine", source="TAR, arXiv 2610.24236: cosine farthest-point sampling")
def fps_cosine(
    embeddings: Array, correct: Array, *, k: int, start: str | int = "first"
) -> Mapping[str, Any]:
    """The prototypes' indices and distances."""
    prototypes = farthest_point(embeddings, correct, k, start)
    return {"indices": prototypes.indices, "distances": prototypes.distances}
