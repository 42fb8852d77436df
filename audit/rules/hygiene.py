"""RA7: nothing in the supplement tells where, on what machine or by whom it was made."""

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import accumulate
from pathlib import PurePosixPath

from rlvraudit.audit.evidence.intake import File
from rlvraudit.audit.evidence.private import Leak, leaks, masked
from rlvraudit.audit.evidence.supplement import Evidence
from rlvraudit.audit.rules.rule import Held, Outcome, Problem, Skipped, rule

METADATA_NAMES = (
    *(".git", ".hg", ".svn", ".bzr", ".jj", ".ds_store", "thumbs.db", "desktop.ini", ".env"),
    *(".netrc", ".bash_history", ".python_history", ".zsh_history", ".ssh", ".aws", ".npmrc"),
    *(".idea", ".vscode", ".vs", ".spyderproject", ".ipynb_checkpoints", "__pycache__"),
    *("wandb", "mlruns", ".mlflow", ".neptune", ".comet", ".aim", ".dvc", "lightning_logs"),
)
METADATA_SHAPES = re.compile(r"\.sw[a-p]$|~$|^\.#|^#.*#$|^\._|^events\.out\.tfevents\.|\.pyc$")
STRINGS = re.compile(rb"[\x20-\x7e]{8,}")
ESCAPED_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)


@rule("RA701", "private-path")
def private_path(evidence: Evidence) -> Iterator[Outcome]:
    """No home directory, cluster scratch path or file URL.

    An absolute path names a user or a site, and means nothing on another machine.

    Passes: `runs/tar-42.json`.
    Fails: an argument that begins with a home directory; a `file:` URL.

    How to fix: name files relative to the supplement.

    When to suppress: when the path is an example in documentation, not one that exists.
    """
    yield from _scan(evidence, "private-path")


@rule("RA702", "host-identity")
def host_identity(evidence: Evidence) -> Iterator[Outcome]:
    """No host or user name, MAC address or UUID of a GPU.

    They identify a machine or a person, and add nothing that helps to reproduce a result: the
    model of the device does.

    Passes: `"model": "NVIDIA A100-SXM4-80GB"`.
    Fails: the UUID that `nvidia-smi -L` prints; a shell prompt in a log.

    How to fix: take the name out, and record the model of the device instead.

    When to suppress: when the name is an example in documentation.
    """
    yield from _scan(evidence, "host-identity")


@rule("RA703", "contact-or-address")
def contact_or_address(evidence: Evidence) -> Iterator[Outcome]:
    """No e-mail address, and no IP address outside documentation and loopback ranges.

    Addresses of people are personal data; those of machines describe a network.

    Passes: `192.0.2.7` in an example, `127.0.0.1` in a log, the version `9.1.0.70`.
    Fails: the address of an author in a header; that of a node in a log.

    How to fix: take the address out; authors are named in the paper.

    When to suppress: when the contact is meant to be public.
    """
    yield from _scan(evidence, "contact-or-address")


@rule("RA704", "secret")
def secret(evidence: Evidence) -> Iterator[Outcome]:
    """No token of a known shape, no password in a URL and no private key.

    Whoever reads the supplement could use it. Only shapes that have no other use are looked for;
    digests of 64 hexadecimal digits never match. The finding does not repeat the secret.

    Passes: `"sha256": "5e88..."`.
    Fails: a token of a model hub in a log; the first line of a private key.

    How to fix: revoke it first, for it has been published; then take it out, also from history.

    When to suppress: when the token is a made-up example.
    """
    yield from _scan(evidence, "secret")


@rule("RA705", "metadata-leak")
def metadata_leak(evidence: Evidence) -> Iterator[Outcome]:
    """No files of version control, editors, operating systems or experiment trackers.

    Such files carry paths, names, unfinished edits and sometimes whole histories, and nobody
    looks at them before publishing. Folders of version control are not entered.

    Passes: the files that the manifest lists.
    Fails: `.git/`, `.idea/workspace.xml`, `.DS_Store`, `notes.txt~`, `wandb/`.

    How to fix: delete them, and make the archive from a clean export.

    When to suppress: when the supplement lies at the top of a repository, whose `.git` is not
    shipped with it.
    """
    for fault in evidence.faults:
        if fault.slug == "metadata-leak":
            yield Problem(fault.path, fault.message)
    for path in evidence.files:
        if part := _metadata(path):
            yield Problem(path, f"{part!a} belongs to an editor, a system or a tracker")
        else:
            yield Held(path)
    if not evidence.files:
        yield Skipped("there is no file")


def _metadata(path: str) -> str:
    parts = PurePosixPath(path).parts
    named = (part for part in parts if part.casefold() in METADATA_NAMES)
    return next(named, parts[-1] if METADATA_SHAPES.search(parts[-1]) else "")


def _scan(evidence: Evidence, slug: str) -> Iterator[Outcome]:
    for path, leaked in _searched(evidence).items():
        found = [problem for found_by, problem in leaked if found_by == slug]
        yield from found
        if not found:
            yield Held(path)
    if any(file.data is None for file in evidence.files.values()):
        yield Skipped("binary files of formats that are not read are not searched")
    if not evidence.files:
        yield Skipped("there is no file")


@lru_cache(maxsize=1)
def _searched(evidence: Evidence) -> Mapping[str, tuple[tuple[str, Problem], ...]]:
    """Return the leaks of every file that can be searched; cached, as four rules ask for them."""
    files = evidence.files.values()
    return {file.path: _leaks(file) for file in files if file.data is not None}


def _leaks(file: File) -> tuple[tuple[str, Problem], ...]:
    data = file.data or b""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    if "\0" in text or (data and not text):
        return tuple(_in_binary(file.path, data))
    return tuple(_in_text(file.path, text))


def _in_text(path: str, text: str) -> Iterator[tuple[str, Problem]]:
    """Search the text as it stands, and what its JSON strings say once unescaped."""
    breaks = [match.start() for match in re.finditer("\n", text)]
    seen = set[tuple[str, int]]()
    for leak in leaks(text):
        line = bisect_left(breaks, leak.start) + 1
        seen.add((leak.what, line))
        yield leak.rule, _problem(path, leak, text, line)
    places, plain = _unescaped(text)
    starts = list(accumulate((len(part) + 1 for part in plain), initial=0))
    joined = "\n".join(plain)
    for leak in leaks(joined):
        line = bisect_left(breaks, places[bisect_right(starts, leak.start) - 1]) + 1
        if (leak.what, line) not in seen:
            yield leak.rule, _problem(path, leak, joined, line)


def _unescaped(text: str) -> tuple[list[int], list[str]]:
    """Return where each JSON string with an escape begins, and what it says, on one line."""
    places, plain = [], []
    matches = ESCAPED_STRING.finditer(text) if "\\" in text else ()
    for match in matches:
        if "\\" in match.group():
            try:
                said = str(json.loads(match.group(), strict=False))
            except ValueError:
                continue
            places.append(match.start())
            plain.append(said.replace("\n", " "))
    return places, plain


def _in_binary(path: str, data: bytes) -> Iterator[tuple[str, Problem]]:
    text = b"\n".join(STRINGS.findall(data)).decode("ascii")
    for leak in leaks(text, binary=True):
        yield leak.rule, _problem(path, leak, text, None)


def _problem(path: str, leak: Leak, text: str, line: int | None) -> Problem:
    return Problem(path, f"{leak.what}: {masked(text[leak.start : leak.end])}", line=line)
