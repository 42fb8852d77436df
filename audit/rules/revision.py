"""RA3, the code: one full commit, a known tree, and sources that the commit holds."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from rlvraudit.audit.errors import UnreadableError
from rlvraudit.audit.evidence.receipt import Descriptor, Receipt, receipts
from rlvraudit.audit.evidence.repository import Repository
from rlvraudit.audit.evidence.supplement import Evidence
from rlvraudit.audit.rules.provenance import NO_RECEIPT
from rlvraudit.audit.rules.rule import Held, Outcome, Problem, Skipped, rule

DEPENDENCIES = "/predicate/buildDefinition/resolvedDependencies"
CAP_OF_DIRTY = "L1"
"""The highest level that code outside any commit can give, even with its patch attached."""


@rule("RA303", "commit-not-full")
def commit_not_full(evidence: Evidence) -> Iterator[Outcome]:
    """The code's revision is one full commit id: 40 or 64 lowercase hexadecimal digits.

    A branch or tag moves, and an abbreviation becomes ambiguous; only the full id names one
    state of the code for good.

    Passes: `"gitCommit": "7e125fd1a6c34f2f3b8e5d0c9a7b6e5f4d3c2b1a"`.
    Fails: `"main"`, `"v1.2"`, `"7e125fd"`, no commit at all, two of them.

    How to fix: record `git rev-parse HEAD` at the time of the run.

    When to suppress: never; a reviewer cannot switch it off.
    """
    for receipt in receipts(evidence):
        if len(receipt.commits) != 1:
            message = f"it names {len(receipt.commits)} revisions of the code, expected one"
            yield Problem(receipt.path, message, DEPENDENCIES)
        for revision in receipt.commits:
            pointer = f"{revision.pointer}/digest"
            commit = revision.digest.get("gitCommit", "")
            if _is_full(commit):
                yield Held(receipt.path, pointer)
            else:
                message = f"{commit!a} is not a full commit id (40 or 64 lowercase hex digits)"
                yield Problem(receipt.path, message, pointer)
    if not receipts(evidence):
        yield NO_RECEIPT


def _is_full(commit: str) -> bool:
    return re.fullmatch("[0-9a-f]{40}|[0-9a-f]{64}", commit) is not None


@rule("RA304", "dirty-tree")
def dirty_tree(evidence: Evidence) -> Iterator[Outcome]:
    """The work tree was clean, or the patch is attached and the level is capped.

    With uncommitted changes the commit does not name the code that ran. A dirty tree therefore
    needs its patch among the byproducts, in the supplement, and gives at most level L1. Files
    that git does not track may have been imported: a warning.

    Passes: `"tree": "clean"`; `"tree": "dirty"` with a shipped patch and level L1.
    Fails: `"tree": "dirty"` without a patch, or with level L2; `"tree": "unknown"`.

    How to fix: commit, and run again from the clean tree.

    When to suppress: never; a reviewer cannot switch it off.
    """
    for receipt in receipts(evidence):
        for revision in receipt.commits:
            yield _tree(receipt, revision, evidence)
        if not receipt.commits:
            yield Skipped("a receipt without a commit is for RA303")
    if not receipts(evidence):
        yield NO_RECEIPT


def _tree(receipt: Receipt, revision: Descriptor, evidence: Evidence) -> Outcome:
    pointer = f"{revision.pointer}/annotations/tree"
    match revision.annotations.get("tree"):
        case "clean":
            return Held(receipt.path, pointer)
        case "untracked":
            message = "the tree held files that git does not track; they may have been imported"
            return Problem(receipt.path, message, pointer, level="warning")
        case "dirty":
            patches = [b for b in receipt.byproducts if b.name.endswith((".patch", ".diff"))]
            if not any(patch.name in evidence.files for patch in patches):
                return Problem(receipt.path, "the tree was dirty and no patch is attached", pointer)
            if receipt.level > CAP_OF_DIRTY:
                message = f"a dirty tree gives at most {CAP_OF_DIRTY}, not {receipt.level}"
                return Problem(receipt.path, message, "/predicate/evidence/level")
            return Held(receipt.path, pointer)
        case state:
            message = f"the state of the tree is {state!a}; expected clean, untracked or dirty"
            return Problem(receipt.path, message, pointer)


@rule("RA305", "blob-not-in-commit")
def blob_not_in_commit(evidence: Evidence) -> Iterator[Outcome]:
    """With `--repo DIR`, the commit holds each source under its name, with these very bytes.

    Anybody can write a commit id into a receipt. A clone of the repository proves offline that
    the commit has the file, with the git blob id and the SHA-256 that the receipt gives. Git
    only lists and reads objects there: no hook, no configuration of others, no network.

    Passes: `git ls-tree` of the commit shows the blob at the source's path.
    Fails: a source that was edited after the commit, or never committed.

    How to fix: commit the sources and run again; or pass the repository that they come from.

    When to suppress: never; a reviewer cannot switch it off.
    """
    folder = evidence.options.get("repo")
    found = receipts(evidence)
    if not found:
        yield NO_RECEIPT
    elif folder is None:
        yield Skipped("no --repo was given: sources are bound by digest, their commit unproven")
    else:
        repository = Repository(Path(folder))
        for receipt in found:
            yield from _committed(receipt, repository)


def _committed(receipt: Receipt, repository: Repository) -> Iterator[Outcome]:
    commits = [d.digest.get("gitCommit", "") for d in receipt.commits]
    if len(commits) != 1 or not _is_full(commits[0]):
        yield Skipped("a receipt without one full commit is for RA303")
        return
    try:
        blobs = repository.blobs(commits[0])
    except UnreadableError as error:
        message = f"commit {commits[0]} can't be read in the repository: {error}"
        yield Problem(receipt.path, message, f"{receipt.commits[0].pointer}/digest/gitCommit")
        return
    for source in receipt.sources:
        yield _source(source, receipt, blobs, repository)
    if not receipt.sources:
        yield Skipped("a receipt without sources is for RA302")


def _source(
    source: Descriptor, receipt: Receipt, blobs: Mapping[str, str], repository: Repository
) -> Outcome:
    blob = blobs.get(source.name)
    pointer = f"{source.pointer}/digest"
    if blob is None:
        return Problem(receipt.path, f"the commit has no file {source.name}", pointer)
    if blob != source.digest.get("gitBlob"):
        message = f"the commit holds blob {blob} at {source.name}; the receipt says another"
        return Problem(receipt.path, message, pointer)
    if repository.sha256(blob) != source.sha256:
        message = f"blob {blob} of {source.name} has another SHA-256 than the receipt says"
        return Problem(receipt.path, message, pointer)
    return Held(receipt.path, pointer)
