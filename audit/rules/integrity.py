"""RA1: the files are the ones that the manifest lists, and they are plain files."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from rlvraudit.audit.evidence.formats import pointer_file
from rlvraudit.audit.evidence.names import collisions, unsafe
from rlvraudit.audit.evidence.receipt import Descriptor, Receipt, receipts
from rlvraudit.audit.evidence.supplement import MANIFEST, Evidence
from rlvraudit.audit.rules.rule import Held, Level, Outcome, Problem, Skipped, rule

WEAK = ("md5", "sha1", "sha384", "sha512")
"""Digests besides SHA-256 that are compared too; ids under which git keeps a file are not."""


@dataclass(frozen=True, slots=True)
class Mention:
    """A path that a document names, and where; `level` is that of its absence."""

    path: str
    document: str
    pointer: str
    level: Level = "error"


@rule("RA101", "digest-mismatch")
def digest_mismatch(evidence: Evidence) -> Iterator[Outcome]:
    """Every listed file has the SHA-256 that the manifest gives.

    A claim is about particular bytes. If a file changed after the manifest was written, by an
    edit, a line-ending conversion or a re-run, nothing that was said of it still holds.

    Passes: the SHA-256 of the bytes on disk equals `artifacts[].sha256`.
    Fails: a results file in which one digit was corrected after the manifest was made.

    How to fix: restore the file that was listed, or re-run what produced it and list the new
    digest. Check first that the change was meant.

    When to suppress: never; a reviewer cannot switch it off.
    """
    listed = [a for a in evidence.artifacts if a.path in evidence.files]
    for artifact in listed:
        found = evidence.files[artifact.path].sha256
        if found == artifact.sha256:
            yield Held(artifact.path)
        else:
            message = f"the SHA-256 is {found}; the manifest says {artifact.sha256}"
            yield Problem(artifact.path, message)
    if not listed:
        yield Skipped("the manifest lists no file that is here")


@rule("RA102", "missing-file")
def missing_file(evidence: Evidence) -> Iterator[Outcome]:
    """Every path in the manifest, a receipt or a claim is a regular file of the supplement.

    A claim that rests on a file that was not shipped cannot be checked by anybody.

    Passes: `evidence` of a claim names a file that lies beside the manifest.
    Fails: a receipt whose subject `runs/tar-44.json` was left out of the archive.

    How to fix: ship the file, or take the mention out together with what rests on it.

    When to suppress: never; a reviewer cannot switch it off.
    """
    special = {f.path for f in evidence.faults if f.slug == "symlink-or-special"}
    looked = False
    for mention in _mentions(evidence):
        if unsafe(mention.path):
            continue  # RA104 says so
        looked = True
        if _is_there(mention.path, evidence):
            yield Held(mention.document, mention.pointer)
        elif evidence.incomplete:
            yield Skipped("not everything could be read; RA003 says why")
        else:
            what = "is not a regular file" if mention.path in special else "is not there"
            message = f"{mention.path} {what}"
            yield Problem(mention.document, message, mention.pointer, level=mention.level)
    if not looked:
        yield Skipped("no path is named")


def _is_there(path: str, evidence: Evidence) -> bool:
    if path.endswith("/"):
        return any(name.startswith(path) for name in evidence.files)
    return path in evidence.files


def _mentions(evidence: Evidence) -> Iterator[Mention]:
    for artifact in evidence.artifacts:
        yield Mention(artifact.path, MANIFEST, f"{artifact.pointer}/path")
    for index, entry in enumerate(evidence.manifest.get("ignored", ())):
        yield Mention(entry["path"], MANIFEST, f"/ignored/{index}/path", "warning")
    for claim in evidence.claims:
        for index, path in enumerate(claim.evidence):
            yield Mention(path, MANIFEST, f"{claim.pointer}/evidence/{index}")
        for pointer, entry in claim.reported:
            if "artifact" in entry:
                yield Mention(entry["artifact"], MANIFEST, f"{pointer}/artifact")
    for receipt in receipts(evidence):
        for thing in _shipped(receipt):
            yield Mention(thing.name, receipt.path, f"{thing.pointer}/name")


def _shipped(receipt: Receipt) -> Iterator[Descriptor]:
    """Yield what a receipt says lies in the supplement; code and parents have their own rules."""
    yield from receipt.subjects
    yield from receipt.byproducts
    for thing in receipt.with_role("dataset", "configuration"):
        if thing.name and not thing.uri:
            yield thing


@rule("RA103", "unlisted-file")
def unlisted_file(evidence: Evidence) -> Iterator[Outcome]:
    """Every file in the tree is in the manifest, or explicitly ignored there.

    What is not listed has no digest and no type: it can be swapped, and readers may take it for
    evidence. `ignored` names files, or folders with a slash at the end, each with a reason.

    Passes: `README.md` is in `ignored` with the reason "prose".
    Fails: a second results file, left over from an earlier run.

    How to fix: list the file in `artifacts`, name it in `ignored` with a reason, or delete it.

    When to suppress: never; a reviewer cannot switch it off.
    """
    if not evidence.manifest:
        yield Skipped(f"{MANIFEST} could not be read")
        return
    listed = {artifact.path for artifact in evidence.artifacts} | {MANIFEST}
    ignored = [entry["path"] for entry in evidence.manifest.get("ignored", ())]
    folders = tuple(path for path in ignored if path.endswith("/"))
    for path in evidence.files:
        if path in listed or path in ignored or path.startswith(folders):
            yield Held(path)
        else:
            yield Problem(path, "is neither in the manifest nor ignored there")


@rule("RA104", "unsafe-path")
def unsafe_path(evidence: Evidence) -> Iterator[Outcome]:
    r"""Names are relative, normalised, in Unicode form NFC, portable and inside the tree.

    A name such as `../key` or `C:x` reaches outside the supplement on some system; one in another
    normal form, or with a reserved device name, is another file or none on another. No name
    that a document gives is ever opened: files are found in the tree alone.

    Passes: `runs/tar-42.json`.
    Fails: `../tar-42.json`, `/data/a.csv`, `C:a.csv`, `a//b`, `aux.json`, `a\b`.

    How to fix: rename the file to plain letters, digits, `-`, `_` and `.`, and name it relative
    to the folder of the manifest.

    When to suppress: never; a reviewer cannot switch it off.
    """
    named = [Mention(path, path, "") for path in evidence.files]
    named += [Mention(f.path, f.path, "") for f in evidence.faults if _is_entry(f.slug)]
    named += _mentions(evidence)
    for receipt in receipts(evidence):
        for thing in (*receipt.sources, *receipt.parents):
            named.append(Mention(thing.name, receipt.path, f"{thing.pointer}/name"))
    for mention in named:
        if reason := unsafe(mention.path.removesuffix("/")):
            message = f"the name {ascii(mention.path)[:200]} {reason}"
            yield Problem(mention.document, message, mention.pointer)
        else:
            yield Held(mention.document, mention.pointer)


def _is_entry(slug: str) -> bool:
    """Tell whether a fault with this slug is about something in a folder, by its name there."""
    return slug in ("symlink-or-special", "metadata-leak")


@rule("RA105", "symlink-or-special")
def symlink_or_special(evidence: Evidence) -> Iterator[Outcome]:
    """There is no symbolic link, FIFO, device or socket; none is ever followed or opened.

    A link can make a checker read, hash and quote a file of the machine that it runs on; a FIFO
    blocks it for ever. What a link points to is not part of the supplement.

    Passes: folders and regular files only.
    Fails: `results.csv` is a symbolic link to `../results.csv`.

    How to fix: put a copy of the file in the place of the link, and list its digest.

    When to suppress: never; a reviewer cannot switch it off.
    """
    for fault in evidence.faults:
        if fault.slug == "symlink-or-special":
            yield Problem(fault.path, fault.message)
    yield from (Held(path) for path in evidence.files)


@rule("RA106", "name-collision")
def name_collision(evidence: Evidence) -> Iterator[Outcome]:
    """Names stay distinct after Unicode normalisation and case folding; none is listed twice.

    On file systems that ignore case or composition two such files become one, and which of them
    is left depends on the order of unpacking.

    Passes: `a.json` and `b.json`.
    Fails: `Run.json` beside `run.json`; one path listed twice with two types.

    How to fix: rename one of the two, or list the file once.

    When to suppress: never; a reviewer cannot switch it off.
    """
    first: dict[str, str] = {}
    for artifact in evidence.artifacts:
        pointer = f"{artifact.pointer}/path"
        if first.setdefault(artifact.path, pointer) != pointer:
            message = f"{artifact.path} is listed twice, first at {first[artifact.path]}"
            yield Problem(MANIFEST, message, pointer)
    twins = dict(collisions((*evidence.files, *first)))
    for path in sorted({*evidence.files, *first}):
        if path in twins:
            yield Problem(path, f"is the same name as {twins[path]!a} on some file systems")
        else:
            yield Held(path)
    if not evidence.files and not first:
        yield Skipped("there is no file")


@rule("RA107", "weak-digest")
def weak_digest(evidence: Evidence) -> Iterator[Outcome]:
    """SHA-256 is present for everything that is named, and every recognised digest matches.

    MD5 and SHA-1 can be forged. In-toto lets any one matching digest decide; here a wrong one
    beside a right one is a fault too, because one of them was taken from other bytes. Ids under
    which git keeps things are excepted: RA302 and RA305 look at those.

    Passes: `{"sha256": "..."}`, or SHA-256 and SHA-512 that both match.
    Fails: `{"md5": "..."}` alone; SHA-256 that matches beside SHA-512 that does not.

    How to fix: state the SHA-256 of the file, and take other digests out or compute them anew.

    When to suppress: never; a reviewer cannot switch it off.
    """
    for artifact in evidence.artifacts:
        yield Held(MANIFEST, f"{artifact.pointer}/sha256")  # its schema demands it
    for receipt in receipts(evidence):
        for thing in (*receipt.subjects, *receipt.dependencies, *receipt.byproducts):
            if not thing.is_commit:
                yield from _digests(thing, receipt, evidence)
    if not evidence.artifacts:
        yield Skipped("the manifest lists no file")


def _digests(thing: Descriptor, receipt: Receipt, evidence: Evidence) -> Iterator[Outcome]:
    if thing.sha256 is None:
        found = ", ".join(sorted(thing.digest))
        message = f"{thing.name or thing.uri} has no sha256, only {found}"
        yield Problem(receipt.path, message, f"{thing.pointer}/digest")
    else:
        yield Held(receipt.path, f"{thing.pointer}/digest")
    file = evidence.files.get(thing.name)
    for algorithm in WEAK:
        if algorithm in thing.digest and file is not None and file.data is not None:
            found = hashlib.new(algorithm, file.data, usedforsecurity=False).hexdigest()
            pointer = f"{thing.pointer}/digest/{algorithm}"
            if found == thing.digest[algorithm]:
                yield Held(receipt.path, pointer)
            else:
                yield Problem(receipt.path, f"the {algorithm} of {thing.name} is {found}", pointer)


@rule("RA108", "pointer-file")
def pointer_files(evidence: Evidence) -> Iterator[Outcome]:
    """No Git-LFS or git-annex pointer stands for content.

    A clone without the large files holds three lines of text in the place of each; its digest is
    that of the pointer, so that everything else may look right.

    Passes: the tensors file itself.
    Fails: `version https://git-lfs.github.com/spec/v1` in `runs/tar-42.safetensors`.

    How to fix: fetch the content (`git lfs pull`, `git annex get`) and make the manifest anew.

    When to suppress: never; a reviewer cannot switch it off.
    """
    for path, file in evidence.files.items():
        if what := pointer_file(file.data or b""):
            yield Problem(path, f"is {what}, not the content")
        else:
            yield Held(path)
    if not evidence.files:
        yield Skipped("there is no file")
