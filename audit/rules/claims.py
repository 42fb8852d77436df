"""RA6: each claim has support, a control to compare with, and a source for what it quotes."""

from collections.abc import Iterator, Mapping
from typing import Any

from rlvraudit.audit.evidence.level import MEASURED, TRACES
from rlvraudit.audit.evidence.supplement import MANIFEST, Claim, Document, Evidence
from rlvraudit.audit.rules.rule import Held, Outcome, Problem, Skipped, rule


@rule("RA602", "claim-without-evidence")
def claim_without_evidence(evidence: Evidence) -> Iterator[Outcome]:
    """Each claim resolves to artifacts and a recomputation.

    A claim that names no artifact, or one that the manifest does not list, cannot be checked
    by anybody. A claim that is not a quotation must also rest on something that a rule
    recomputes: a reported number with its artifact, a trace or a mechanism contract. An
    unsupported claim beside nine supported ones borrows their credit; a contract that failed
    supports nothing.

    Passes: a `comparison` claim that rests on `items.csv` and reports a difference from it.
    Fails: a claim whose `evidence` is empty, or names a file that the manifest does not list; a
    `mechanism` claim on contracts of which a check failed or a negative control escaped.

    How to fix: list in `evidence` the artifacts that the claim rests on, and in `reported`
    the numbers that follow from them; withdraw the claim if there are none.

    When to suppress: never; a reviewer cannot switch it off.
    """
    listed = {artifact.path: artifact.type for artifact in evidence.artifacts}
    if not evidence.claims:
        yield Skipped("no claims")
    for claim in evidence.claims:
        problems = tuple(_unresolved(claim, listed)) or tuple(_unsupported(claim, listed))
        problems += tuple(_failed_contracts(claim, evidence))
        yield from problems or (Held(MANIFEST, claim.pointer),)


def _unresolved(claim: Claim, listed: Mapping[str, str]) -> Iterator[Problem]:
    if not claim.evidence:
        message = f"claim {claim.id} rests on nothing; expected the path of an artifact"
        yield Problem(MANIFEST, message, f"{claim.pointer}/evidence")
        return
    for index, path in enumerate(claim.evidence):
        if path not in listed:
            message = f"claim {claim.id} rests on {path}, which is not among the artifacts"
            yield Problem(MANIFEST, message, f"{claim.pointer}/evidence/{index}")
    for pointer, entry in claim.reported:
        artifact = entry.get("artifact")
        if artifact is not None and artifact not in claim.evidence:
            message = f"claim {claim.id} reports a number of {artifact}, which it does not rest on"
            yield Problem(MANIFEST, message, f"{pointer}/artifact")


def _unsupported(claim: Claim, listed: Mapping[str, str]) -> Iterator[Problem]:
    if claim.kind != "reported" and not _is_recomputed(claim, listed):
        message = (
            f"claim {claim.id}: nothing that it rests on is recomputed; expected a reported "
            "number of item results, a trace or a mechanism contract"
        )
        yield Problem(MANIFEST, message, claim.pointer)


def _failed_contracts(claim: Claim, evidence: Evidence) -> Iterator[Problem]:
    for document in evidence.of_type("mechanism-contracts"):
        path = document.artifact.path
        failed = tuple(_failures(document.value)) if path in claim.evidence else ()
        if failed:
            pointer, what = failed[0]
            count = f"{len(failed)} of its checks failed"
            message = f"claim {claim.id} rests on it, and {count}: {what}"
            yield Problem(path, message, pointer)


def _failures(contracts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the pointer of each contract that did not hold, and what it is about."""
    for i, contract in enumerate(contracts["contracts"]):
        for j, check in enumerate(contract["checks"]):
            if not 0 < check["cases"] == check["passed"]:
                what = f"{check['check']} of {contract['objective']} in {check['dtype']}"
                yield f"/contracts/{i}/checks/{j}", what
    for i, control in enumerate(contracts["negative_controls"]):
        if not control["caught"]:
            yield f"/negative_controls/{i}", f"{control['name']} was not caught"


def _is_recomputed(claim: Claim, listed: Mapping[str, str]) -> bool:
    types = {listed.get(path) for path in claim.evidence}
    if types & {"mechanism-contracts", *TRACES}:
        return True
    numbers = (entry for _, entry in claim.reported if entry["quantity"] != "quote")
    return "item-results" in types and any(True for _ in numbers)


@rule("RA604", "baseline-missing")
def baseline_missing(evidence: Evidence) -> Iterator[Outcome]:
    """An improvement claim includes its control.

    "Better" needs a "than what": both methods, on the same items, in the evidence. A score of
    the treatment alone shows a level, not an improvement, and a baseline that was only quoted
    was not run under the same conditions.

    Passes: a comparison of `tapo` with `grpo` on results that hold rows of both.
    Fails: a comparison whose evidence has rows of `tapo` only, or that names no baseline.

    How to fix: add the baseline's per-item results to the claim's evidence, and name both
    methods in `compares`.

    When to suppress: never; a reviewer cannot switch it off.
    """
    comparisons = [claim for claim in evidence.claims if _is_comparison(claim)]
    if not comparisons:
        yield Skipped("no claim compares methods")
    for claim in comparisons:
        yield _baseline_outcome(claim, evidence)


def _is_comparison(claim: Claim) -> bool:
    if claim.kind == "reported":
        return False
    differs = any(entry["quantity"] == "difference" for _, entry in claim.reported)
    return claim.kind == "comparison" or "compares" in claim.value or differs


def _baseline_outcome(claim: Claim, evidence: Evidence) -> Outcome:
    compares = claim.value.get("compares")
    if compares is None:
        message = f"claim {claim.id} compares, but names no treatment and baseline in `compares`"
        return Problem(MANIFEST, message, claim.pointer)
    pointer = f"{claim.pointer}/compares"
    if compares["treatment"] == compares["baseline"]:
        message = f"claim {claim.id} compares {compares['treatment']} with itself"
        return Problem(MANIFEST, message, f"{pointer}/baseline")
    tables = [d for path in claim.evidence if (d := _items(path, evidence))]
    if not tables and _unread_items(claim, evidence):
        return Skipped("item results could not be read")
    methods = {method for document in tables for method in document.value.methods}
    for side in ("treatment", "baseline"):
        if compares[side] not in methods:
            message = f"claim {claim.id}: its evidence has no result of the {side} {compares[side]}"
            return Problem(MANIFEST, message, f"{pointer}/{side}")
    return Held(MANIFEST, pointer)


def _items(path: str, evidence: Evidence) -> Document | None:
    document = evidence.documents.get(path)
    return document if document and document.artifact.type == "item-results" else None


def _unread_items(claim: Claim, evidence: Evidence) -> bool:
    """Tell whether the claim rests on item results that could not be read; RA2 says why."""
    items = {a.path for a in evidence.artifacts if a.type == "item-results"}
    return any(path in items - evidence.documents.keys() for path in claim.evidence)


@rule("RA608", "reported-as-measured")
def reported_as_measured(evidence: Evidence) -> Iterator[Outcome]:
    """A number quoted from a paper carries its source and is never presented as measured here.

    A quotation that stands among measurements looks reproduced. Quoted numbers therefore live
    in `paper-results`, only `reported` claims rest on those, and such claims only quote.

    Passes: a `reported` claim that quotes a table of the paper through `paper-results`.
    Fails: a `comparison` claim that rests on `paper-results`; a `reported` claim that gives a
    quoted number as a mean.

    How to fix: make the claim `reported` and its numbers of quantity `quote`, or measure
    the number here and rest the claim on that.

    When to suppress: never; a reviewer cannot switch it off.
    """
    types = {artifact.path: artifact.type for artifact in evidence.artifacts}
    yield from _sources(evidence)
    if not evidence.claims:
        yield Skipped("no claims")
    for claim in evidence.claims:
        problems = tuple(_mixed_up(claim, types))
        yield from problems or (Held(MANIFEST, claim.pointer),)


def _sources(evidence: Evidence) -> Iterator[Outcome]:
    """Say of each quoted number whether it names its place in the paper in words or a page."""
    for document in evidence.of_type("paper-results"):
        path = document.artifact.path
        for index, result in enumerate(document.value["results"]):
            pointer = f"/results/{index}/source"
            if any(str(place).strip() for place in result["source"].values()):
                yield Held(path, pointer)
            else:
                message = f"{result['what']} has a blank source; expected its place in the paper"
                yield Problem(path, message, pointer)


def _mixed_up(claim: Claim, types: Mapping[str, str]) -> Iterator[Problem]:
    is_quotation = claim.kind == "reported"
    for index, path in enumerate(claim.evidence):
        if not is_quotation and types.get(path) == "paper-results":
            message = f"{claim.kind} claim {claim.id} rests on quoted numbers ({path})"
            yield Problem(MANIFEST, message, f"{claim.pointer}/evidence/{index}")
        if is_quotation and types.get(path) in MEASURED:
            message = f"reported claim {claim.id} rests on a local measurement ({path})"
            yield Problem(MANIFEST, message, f"{claim.pointer}/evidence/{index}")
    for pointer, entry in claim.reported:
        if (entry["quantity"] == "quote") is not is_quotation:
            expected = "quote" if is_quotation else "a measured quantity"
            message = f"a {claim.kind} claim gives a {entry['quantity']}; expected {expected}"
            yield Problem(MANIFEST, message, f"{pointer}/quantity")
        elif is_quotation and types.get(entry["artifact"], "paper-results") != "paper-results":
            message = f"{entry['artifact']} is quoted, but is not of type paper-results"
            yield Problem(MANIFEST, message, f"{pointer}/artifact")
