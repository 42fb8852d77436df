"""RA4, the rows themselves: counts, finite numbers, complete groups, nothing counted twice."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from rlvraudit.audit.evidence.supplement import MANIFEST, Evidence
from rlvraudit.audit.results.item import Items, RowFault, duplicates, non_finite
from rlvraudit.audit.results.pairing import scores_by_item
from rlvraudit.audit.rules.budgets import spent
from rlvraudit.audit.rules.reported import (
    Entry,
    UnavailableError,
    UnresolvedError,
    entries,
    pairs_of,
    tables_of,
)
from rlvraudit.audit.rules.rule import Discrepancy, Held, Outcome, Problem, Skipped, rule
from rlvraudit.audit.rules.training import trace_layout

NO_ITEMS = "no item results"
Sample = tuple[str | None, str | None]


@rule("RA402", "count-mismatch")
def count_mismatch(evidence: Evidence) -> Iterator[Outcome]:
    """Declared items and rollouts equal the rows found; budgets and costs, the trace's.

    n is the number of items, not of rows: five rollouts of 198 items are 198 items. A wrong
    count hides dropped items, and moves every standard error that somebody computes from it. A
    receipt's budget and cost are those of the run that its trace shows.

    Passes: `"n": 198, "rollouts": 5` for 990 rows of a method.
    Fails: `"n": 990` for the same; `"rollouts": 4` where every item has 5.

    How to fix: state the number of items and of rollouts per item that the file has, or add
    the rows that are missing.

    When to suppress: never; the numbers can simply be right.
    """
    seen = False
    for claim, pointer, entry in entries(evidence, "mean", "difference"):
        seen = True
        try:
            found = _counts(evidence, claim, entry)
        except (UnavailableError, UnresolvedError):
            yield Skipped("counts of numbers that can't be recomputed, which RA401 or RA406 says")
            continue
        for field, values in found.items():
            if field in entry:
                yield _count_outcome(claim.id, f"{pointer}/{field}", entry[field], values)
    for outcome in spent(evidence):
        seen = True
        yield outcome
    if not seen:
        yield Skipped("no claim reports a mean or a difference, and no receipt is about a trace")


def _counts(evidence: Evidence, claim: Any, entry: Entry) -> Mapping[str, list[int]]:
    """Return the numbers of items and of scores per item that occur."""
    if entry["quantity"] == "difference":
        return {"n": [len(pairs_of(evidence, claim, entry).items)]}
    scores = scores_by_item(tables_of(evidence, claim, entry), entry["method"])
    if not scores:
        raise UnresolvedError("no such method")
    return {"n": [len(scores)], "rollouts": sorted({len(s) for s in scores.values()})}


def _count_outcome(claim: str, pointer: str, stated: int, found: list[int]) -> Outcome:
    if found == [stated]:
        return Held(MANIFEST, pointer, numbers=True)
    told = " to ".join(f"{n:,}" for n in dict.fromkeys((found[0], found[-1])))
    what = "items" if pointer.endswith("/n") else "rollouts of each item"
    message = f"claim {claim} declares {stated:,} {what}; its results hold {told}"
    return Problem(MANIFEST, message, pointer, discrepancy=Discrepancy(str(stated), told, "0"))


@rule("RA403", "non-finite")
def non_finite_numbers(evidence: Evidence) -> Iterator[Outcome]:
    """There is no NaN or infinity in raw or derived numbers.

    Comparisons with NaN are false, so that one NaN among thirty scores turned the p-value of
    five published tools into 0.0001. JSON can't hold one; CSV files and tensors can.

    Passes: every score and every element of a tensor is finite.
    Fails: a CSV file with a score of `nan`; a tensor with an infinity.

    How to fix: find out why the number is missing; then record the failure as the score that
    the protocol gives it, or leave the item out on both sides and say so.

    When to suppress: never.
    """
    seen = False
    for path, document in sorted(evidence.documents.items()):
        if isinstance(document.value, Items):
            seen = True
            yield from _rows(path, tuple(non_finite([document.value])))
        for name, tensor in _tensors(document.value):
            seen = True
            yield _tensor_outcome(path, name, tensor)
    if not seen:
        yield Skipped("no item results and no tensors")


def _tensors(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for name, part in value.items():
            if isinstance(part, np.ndarray) and part.dtype.kind == "f":
                yield str(name), part


def _tensor_outcome(path: str, name: str, tensor: Any) -> Outcome:
    bad = np.argwhere(~np.isfinite(tensor))
    if not len(bad):
        return Held(path, f"/{name}")
    at = tuple(int(i) for i in bad[0])
    place = f"/{name}[{', '.join(map(str, at))}]"
    return Problem(path, f"{len(bad):,} numbers are not finite, first {tensor[at]}", place)


@rule("RA407", "group-invariant")
def group_invariant(evidence: Evidence) -> Iterator[Outcome]:
    """Groups have the declared size: each item has the same rollouts, numbered without a gap.

    Item results of one method are a rectangle of items by rollouts (and seeds). An item with
    fewer rollouts than the others had some dropped, often those that failed; a gap in the
    numbering is the same fault for all items at once. A trace of a run has as many updates,
    groups, members and tokens as its settings say, and its arrays have the shapes that follow;
    a trace that contradicts itself there is not recomputed further.

    Passes: every item of a method has rollouts 0 to 4; two groups of six give twelve rows.
    Fails: one item lacks rollout 3; every item has rollouts 0, 1 and 3; a trace with five
    members in a group of six.

    How to fix: add the rollouts that are missing, scored as the protocol scores a failure;
    record every member of every group.

    When to suppress: where the protocol samples items unequally on purpose, and says so.
    """
    tables = [d.value for d in evidence.of_type("item-results") if isinstance(d.value, Items)]
    if not tables:
        yield Skipped(NO_ITEMS)
    for table in tables:
        problems = tuple(_uneven_groups(table))
        yield from problems or (Held(table.source),)
    yield from trace_layout(evidence)


def _uneven_groups(table: Items) -> Iterator[Problem]:
    groups: defaultdict[str, dict[str, set[Sample]]] = defaultdict(dict)
    for method, seed, item, rollout in table.keys:
        groups[method].setdefault(item, set()).add((seed, rollout))
    for method, of_method in groups.items():
        usual = set.union(*of_method.values())
        odd = [item for item, samples in of_method.items() if samples != usual]
        if odd:
            lacking = ", ".join(sorted(_name(s) for s in usual - of_method[odd[0]])[:3])
            message = (
                f"{len(odd):,} of {len(of_method):,} items of {method!r} lack rollouts that "
                f"others have, first {odd[0]!r}: {lacking}"
            )
            first = next(
                i for i, k in enumerate(table.keys) if (k.method, k.item) == (method, odd[0])
            )
            yield Problem(table.source, message, line=table.lines[first])
        elif gap := _gap(usual):
            yield Problem(table.source, f"every item of {method!r} lacks rollout {gap}")


def _name(sample: Sample) -> str:
    seed, rollout = sample
    parts = (("seed", seed), ("rollout", rollout))
    return " ".join(f"{name} {value}" for name, value in parts if value is not None)


def _gap(samples: set[Sample]) -> str:
    """Return the first number missing among integer rollouts of some seed, or nothing."""
    by_seed: defaultdict[str | None, set[int]] = defaultdict(set)
    for seed, rollout in samples:
        if rollout is None or not rollout.isascii() or not rollout.isdigit():
            return ""
        by_seed[seed].add(int(rollout))
    for _, numbers in sorted(by_seed.items(), key=lambda pair: pair[0] or ""):
        first = min(numbers)
        missing = (n for n in range(first, first + len(numbers)) if n not in numbers)
        if (gap := next(missing, None)) is not None:
            return str(gap)
    return ""


@rule("RA409", "duplicate-rows")
def duplicate_rows(evidence: Evidence) -> Iterator[Outcome]:
    """Ids are unique: no completion is counted twice.

    A row that is there twice, in one file or in two that a claim puts together, counts twice
    in every mean. Harnesses that append to an existing file, or log one row for each answer
    filter, write such files.

    Passes: every combination of method, seed, item and rollout occurs once.
    Fails: two rows for item 17, rollout 0 of one method; a claim that rests on two copies of
    one file.

    How to fix: keep the row that the protocol means; number repeated samples in a column
    `rollout`.

    When to suppress: never.
    """
    tables = [d.value for d in evidence.of_type("item-results") if isinstance(d.value, Items)]
    if not tables:
        yield Skipped(NO_ITEMS)
    for table in tables:
        yield from _rows(table.source, tuple(duplicates([table])))
    by_path = {table.source: table for table in tables}
    for claim in evidence.claims:
        together = [by_path[path] for path in dict.fromkeys(claim.evidence) if path in by_path]
        if len(together) > 1 and not any(any(duplicates([t])) for t in together):
            yield from _rows(together[-1].source, tuple(duplicates(together)))


def _rows(path: str, faults: tuple[RowFault, ...]) -> Iterator[Outcome]:
    """Yield the first of the faults and how many there are, or that there is none."""
    if not faults:
        yield Held(path, "/score")
        return
    first, more = faults[0], len(faults) - 1
    message = first.problem + (f" (and {more:,} rows more)" if more else "")
    yield Problem(first.table.source, message, "/score", first.table.lines[first.row])
