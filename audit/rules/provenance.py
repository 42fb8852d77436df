"""RA3, receipts: each measurement has one, it binds what it names, and their chain holds."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from rlvraudit.audit.evidence.kinds import KINDS
from rlvraudit.audit.evidence.receipt import Descriptor, Receipt, receipts
from rlvraudit.audit.evidence.supplement import Document, Evidence
from rlvraudit.audit.evidence.tree import git_blob
from rlvraudit.audit.rules.rule import Held, Level, Outcome, Problem, Skipped, rule
from rlvraudit.audit.rules.schema import moment

NO_RECEIPT = Skipped("there is no receipt")
SHA256_DIGITS = 64
DEPENDENCIES = "/predicate/buildDefinition/resolvedDependencies"
RECOMPUTABLE = ("mechanism-contracts", "item-results")
"""Anybody can produce a contract again, and claims on items need a level: a warning is enough."""


@rule("RA301", "receipt-missing")
def receipt_missing(evidence: Evidence) -> Iterator[Outcome]:
    """Each measured artifact is the subject of a receipt.

    Without a receipt nobody knows which code, seed and device produced a measurement: it is
    unvalidated. Traces and tensors without one are an error; mechanism contracts, which anybody
    can produce again, and item results, whose claims need a level anyway, are a warning (an
    error with `--strict`). Data from elsewhere, with an `origin`, are quoted, not measured.

    Passes: `runs/tar-42.json` is a subject of `receipts/tar-42.json`.
    Fails: a trace that no receipt names.

    How to fix: run `rlvr-audit run`, which writes a receipt beside what it records, or give
    data from elsewhere their `origin`.

    When to suppress: never; a reviewer cannot switch it off.
    """
    named = {subject.name for receipt in receipts(evidence) for subject in receipt.subjects}
    measured = [a for a in evidence.artifacts if a.type in KINDS and KINDS[a.type].measured]
    for artifact in measured:
        if artifact.path in named:
            yield Held(artifact.path)
        elif artifact.origin:
            yield Skipped("data with an origin are quoted, not measured here")
        else:
            level: Level = "warning" if artifact.type in RECOMPUTABLE else "error"
            message = f"unvalidated: no receipt names this {artifact.type}"
            yield Problem(artifact.path, message, level=level)
    if not measured:
        yield Skipped("there is no measured artifact")


@rule("RA302", "receipt-unbound")
def receipt_unbound(evidence: Evidence) -> Iterator[Outcome]:
    """A receipt binds sources, recipe and subjects; what is here matches.

    A receipt that does not say which bytes went in and came out is a note, not evidence. Each
    source carries its SHA-256 and its git blob id. Files in the supplement are compared with
    them; sources that are not shipped are bound, and proven only with `--repo` (RA305).

    Passes: the trace has the SHA-256 that the receipt gives for its subject.
    Fails: a receipt without sources; a trace that was edited after its receipt was written.

    How to fix: run again, so that the receipt is written beside what it is about. Do not edit
    digests by hand.

    When to suppress: never; a reviewer cannot switch it off.
    """
    disputed = _disputed(evidence)
    for receipt in receipts(evidence):
        if not receipt.sources:
            yield Problem(receipt.path, "it names no source that was executed", DEPENDENCIES)
        yield from _other_recipes(receipt, evidence)
        for source in receipt.sources:
            if "gitBlob" not in source.digest:
                message = f"source {source.name} has no gitBlob"
                yield Problem(receipt.path, message, f"{source.pointer}/digest")
        for thing in (*receipt.subjects, *receipt.dependencies, *receipt.byproducts):
            if thing.name not in disputed and not thing.is_commit and thing.role != "receipt":
                yield _bound(thing, receipt, evidence)
    if not receipts(evidence):
        yield NO_RECEIPT


def traces_of(receipt: Receipt, evidence: Evidence) -> Iterator[Document]:
    """Yield the traces among the subjects of a receipt, those that could be read."""
    for subject in receipt.subjects:
        document = evidence.documents.get(subject.name)
        if document is not None and document.artifact.type.endswith("-trace"):
            yield document


def _other_recipes(receipt: Receipt, evidence: Evidence) -> Iterator[Problem]:
    bound = receipt.parameters.get("recipe")
    for trace in traces_of(receipt, evidence):
        if trace.value["recipe"] != bound:
            message = f"recipe {trace.value['recipe']}; its receipt is about {bound!a}"
            yield Problem(trace.artifact.path, message, "/recipe")


def _bound(thing: Descriptor, receipt: Receipt, evidence: Evidence) -> Outcome:
    file = evidence.files.get(thing.name)
    if file is None:
        if thing.role == "source":
            return Skipped("sources that are not shipped are bound; --repo DIR can prove them")
        return Skipped("missing files are for RA102")
    blob = file.git_blob
    if len(thing.digest.get("gitBlob", "")) == SHA256_DIGITS and file.data is not None:
        blob = git_blob(file.data, "sha256")
    for algorithm, found in (("sha256", file.sha256), ("gitBlob", blob)):
        if thing.digest.get(algorithm, found) != found:
            message = f"the {algorithm} of {thing.name} is {found}; the receipt says another"
            return Problem(receipt.path, message, f"{thing.pointer}/digest/{algorithm}")
    return Held(receipt.path, thing.pointer)


@rule("RA306", "subject-conflict")
def subject_conflict(evidence: Evidence) -> Iterator[Outcome]:
    """No two receipts give one artifact different digests.

    Two receipts for one file mean that it was written twice, and one of them is about bytes that
    are gone. Which run the numbers come from is then open.

    Passes: two receipts that give `bank.json` the same SHA-256.
    Fails: two receipts that give `bank.json` different ones.

    How to fix: keep the receipt of the run whose output is shipped; give outputs of different
    runs different names.

    When to suppress: never; a reviewer cannot switch it off.
    """
    disputed = _disputed(evidence)
    for receipt in receipts(evidence):
        for subject in receipt.subjects:
            if subject.name in disputed:
                others = ", ".join(disputed[subject.name])
                message = f"{subject.name} has different digests in {others}"
                yield Problem(receipt.path, message, f"{subject.pointer}/digest")
            else:
                yield Held(receipt.path, subject.pointer)
    if not receipts(evidence):
        yield NO_RECEIPT


def _disputed(evidence: Evidence) -> Mapping[str, list[str]]:
    """Return the receipts that name each subject with more than one digest."""
    digests: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for receipt in receipts(evidence):
        for subject in receipt.subjects:
            if subject.sha256 is not None:
                digests[subject.name][subject.sha256].add(receipt.path)
    return {
        name: sorted({path for paths in by_digest.values() for path in paths})
        for name, by_digest in digests.items()
        if len(by_digest) > 1
    }


@rule("RA307", "chain-broken")
def chain_broken(evidence: Evidence) -> Iterator[Outcome]:
    """Parent receipts resolve, without a cycle, and end before their children begin.

    A run that builds on another (an evaluation on a training run) is only as good as that one.
    A parent is a dependency with the role `receipt`; the SHA-256 of its bytes is its id.

    Passes: `eval.json` names `train.json` with its SHA-256, and training ended earlier.
    Fails: a parent that is not shipped, or was written anew; a child that began before its
    parent ended.

    How to fix: ship the parent's receipt as it was when the child ran.

    When to suppress: never; a reviewer cannot switch it off.
    """
    by_path = {receipt.path: receipt for receipt in receipts(evidence)}
    chained = False
    for receipt in by_path.values():
        for parent in receipt.parents:
            chained = True
            yield _link(receipt, parent, by_path)
    if not chained:
        yield Skipped("no receipt names a parent")


def _link(child: Receipt, parent: Descriptor, by_path: Mapping[str, Receipt]) -> Outcome:
    found = by_path.get(parent.name)
    message, held = "", Held(child.path, parent.pointer)
    if found is None:
        message = f"the parent {parent.name} is no receipt of this supplement"
    elif _descends(found, child.path, by_path):
        message = f"the chain of parents of {child.path} comes back to it through {parent.name}"
    elif found.sha256 != parent.sha256:
        message = f"the parent {parent.name} has SHA-256 {found.sha256}; the child says another"
    elif not _ends_before(found, child):
        message = f"it began at {child.times[0]}, before its parent ended at {found.times[1]}"
    return Problem(child.path, message, parent.pointer) if message else held


def _descends(receipt: Receipt, ancestor: str, by_path: Mapping[str, Receipt]) -> bool:
    """Tell whether the parents of `receipt`, however far back, include `ancestor`."""
    seen, waiting = set[str](), [receipt.path]
    while waiting:
        path = waiting.pop()
        if path == ancestor:
            return True
        if path not in seen and path in by_path:
            seen.add(path)
            waiting.extend(parent.name for parent in by_path[path].parents)
    return False


def _ends_before(parent: Receipt, child: Receipt) -> bool:
    ended, began = moment(parent.times[1]), moment(child.times[0])
    return ended is None or began is None or ended <= began  # RA205 tells of bad times
