"""From a folder to evidence: find manifests, read the tree, parse each artifact by its type."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rlvraudit.audit.errors import AuditError, LimitError
from rlvraudit.audit.evidence.formats import pointer_file, unsupported
from rlvraudit.audit.evidence.intake import LIMITS, Fault, File, Limits, MalformedError
from rlvraudit.audit.evidence.kinds import KINDS
from rlvraudit.audit.evidence.kinds.documents import parse_document
from rlvraudit.audit.evidence.kinds.kind import Parsed, Parser, Source
from rlvraudit.audit.evidence.strict_json import quote
from rlvraudit.audit.evidence.supplement import MANIFEST, Artifact, Claim, Document, Evidence
from rlvraudit.audit.evidence.tree import read_tree

NOT_SEARCHED = ("node_modules", "__pycache__", "venv")
NONE: Mapping[str, Any] = MappingProxyType({})


def find(path: Path) -> tuple[Path, ...]:
    """Return the folders of the supplements at or below `path`, sorted.

    A folder with a manifest is one supplement, whatever lies inside it. Hidden folders and
    those of installed packages are not searched, and no link is followed.
    """
    if path.name == MANIFEST and path.is_file():
        return (path.parent,)
    return tuple(sorted(_find(path))) if path.is_dir() else ()


def _find(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        if MANIFEST in files:
            folders.clear()
            yield Path(place)
        folders[:] = [n for n in folders if not n.startswith(".") and n not in NOT_SEARCHED]


def load(
    folder: Path,
    limits: Limits = LIMITS,
    parsers: Mapping[str, Parser] = NONE,
    options: Mapping[str, Any] = NONE,
) -> Evidence:
    """Return everything below `folder`, read once; what could not be read is among the faults.

    `parsers` parse types of artifact that another wing knows, by type; `options` are handed on
    to the rules.

    Raises:
        UnreadableError: `folder` can't be opened.
    """
    files, faults = read_tree(folder, limits)
    return assemble(folder.resolve().name, files, tuple(faults), limits, parsers, options)


def assemble(
    name: str,
    files: Mapping[str, File],
    faults: tuple[Fault, ...] = (),
    limits: Limits = LIMITS,
    parsers: Mapping[str, Parser] = NONE,
    options: Mapping[str, Any] = NONE,
) -> Evidence:
    """Return the evidence in `files`, as they were read, with the `faults` of reading them."""
    manifest, wrong = _manifest(files, limits)
    artifacts = tuple(_artifacts(manifest))
    documents, more = _documents(artifacts, files, limits, parsers)
    return Evidence(
        name,
        manifest,
        artifacts,
        tuple(_claims(manifest)),
        MappingProxyType(dict(files)),
        MappingProxyType(documents),
        (*faults, *wrong, *more),
        options,
    )


def _manifest(files: Mapping[str, File], limits: Limits) -> tuple[dict[str, Any], Iterable[Fault]]:
    file = files.get(MANIFEST)
    if file is None or file.data is None:
        return {}, ()
    source = Source(MANIFEST, file.data, limits, NONE)
    parsed = _guarded(source, lambda s: parse_document(s, "supplement", _claim_ids))
    return parsed.value or {}, parsed.faults


def _claim_ids(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for index, claim in enumerate(manifest["claims"]):
        yield f"/claims/{index}/id", claim["id"]


def _artifacts(manifest: Mapping[str, Any]) -> Iterator[Artifact]:
    for index, entry in enumerate(manifest.get("artifacts", ())):
        type_, _, version = entry["type"].partition("/")
        yield Artifact(
            entry["path"],
            entry["sha256"],
            type_,
            version,
            f"/artifacts/{index}",
            entry.get("origin"),
        )


def _claims(manifest: Mapping[str, Any]) -> Iterator[Claim]:
    for index, entry in enumerate(manifest.get("claims", ())):
        yield Claim(entry["id"], entry["kind"], f"/claims/{index}", entry)


def _documents(
    artifacts: Iterable[Artifact],
    files: Mapping[str, File],
    limits: Limits,
    parsers: Mapping[str, Parser],
) -> tuple[dict[str, Document], list[Fault]]:
    documents: dict[str, Document] = {}
    faults: list[Fault] = []
    for artifact in artifacts:
        file = files.get(artifact.path)
        if file is None or artifact.path in documents:
            continue
        parsed = _parse(artifact, file, limits, parsers)
        faults.extend(parsed.faults)
        if parsed.value is not None:
            documents[artifact.path] = Document(artifact, parsed.value)
    return documents, faults


def _parse(artifact: Artifact, file: File, limits: Limits, parsers: Mapping[str, Parser]) -> Parsed:
    kind = KINDS.get(artifact.type)
    if kind is None or kind.version != artifact.version:
        return _refused("unknown-artifact-type", MANIFEST, _unknown(artifact), artifact.pointer)
    data = file.data or b""
    if why := unsupported(file.path, data) or ("" if file.data is not None else "it is binary"):
        return _refused("unsupported-format", file.path, f"is not read as evidence: {why}")
    if pointer := pointer_file(data):
        return _refused("pointer-file", file.path, f"is {pointer}, not the content")
    return _guarded(Source(file.path, data, limits, parsers), kind.parse)


def _unknown(artifact: Artifact) -> str:
    known = ", ".join(f"{kind.name}/{kind.version}" for kind in KINDS.values())
    declared = quote(f"{artifact.type}/{artifact.version}")
    return f"{quote(artifact.path)} is declared as {declared}; known types are {known}"


def _refused(slug: str, path: str, message: str, pointer: str = "") -> Parsed:
    place = f"{pointer}/type" if pointer else ""
    return Parsed(None, (Fault(slug, path, message, place),))


def _guarded(source: Source, parse: Callable[[Source], Parsed]) -> Parsed:
    """Parse; whatever a parser raises on purpose becomes a fault of that file alone."""
    try:
        return parse(source)
    except MalformedError as error:
        fault = Fault("parse-error", source.path, str(error), "", error.line, error.column)
    except LimitError as error:
        fault = Fault("limit-reached", source.path, str(error), incomplete=True)
    except AuditError as error:  # a reader of another wing may know the line too
        line = getattr(error, "line", None)
        fault = Fault("parse-error", source.path, str(error), line=line)
    return Parsed(None, (fault,))
