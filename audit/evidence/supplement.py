"""The supplement as rules see it: frozen records over bytes that were read once."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rlvraudit.audit.evidence.intake import Fault, File

MANIFEST = "supplement.json"


@dataclass(frozen=True, slots=True)
class Artifact:
    """One entry of the manifest's `artifacts`; `type` and `version` from e.g. "tar-trace/1"."""

    path: str
    sha256: str
    type: str
    version: str
    pointer: str
    origin: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """One entry of the manifest's `claims`, still as JSON, with its pointer."""

    id: str
    kind: str
    pointer: str
    value: Mapping[str, Any]

    @property
    def evidence(self) -> tuple[str, ...]:
        """The paths of the artifacts that the claim rests on."""
        return tuple(self.value["evidence"])

    @property
    def reported(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Each reported number with its pointer in the manifest."""
        for index, entry in enumerate(self.value.get("reported", ())):
            yield f"{self.pointer}/reported/{index}", entry


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed artifact: `value` is its JSON, its rows or its tensors, by its type."""

    artifact: Artifact
    value: Any


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """Everything that was read below one manifest.

    `manifest` is empty and `documents` lack an entry where a file could not be parsed or
    violates its schema; `faults` then say why. Rules over documents therefore trust shapes.
    """

    name: str
    manifest: Mapping[str, Any]
    artifacts: tuple[Artifact, ...]
    claims: tuple[Claim, ...]
    files: Mapping[str, File]
    documents: Mapping[str, Document]
    faults: tuple[Fault, ...]
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def incomplete(self) -> bool:
        """Whether a cap was reached or a file could not be read: then no pass is possible."""
        return any(fault.incomplete for fault in self.faults)

    def of_type(self, type_: str) -> Iterator[Document]:
        """Yield the parsed artifacts of one type, by path."""
        for path in sorted(self.documents):
            if self.documents[path].artifact.type == type_:
                yield self.documents[path]
