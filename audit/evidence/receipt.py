"""Receipts as rules see them: one record over an in-toto Statement that its schema has passed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rlvraudit.audit.evidence.supplement import Evidence

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "urn:rlvr-audit:receipt:v1"
GIT_DIGESTS = ("gitCommit", "gitBlob")
"""Digests under which git names things; they are not taken over the bytes alone."""


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A thing that a receipt names, with its digests; `role` says what a dependency was for."""

    name: str
    uri: str
    digest: Mapping[str, str]
    annotations: Mapping[str, Any]
    pointer: str

    @property
    def sha256(self) -> str | None:
        """The digest that every descriptor must have."""
        return self.digest.get("sha256")

    @property
    def role(self) -> str:
        """What it was used for: source, dataset, configuration, receipt, or "" if unsaid."""
        return str(self.annotations.get("role", ""))

    @property
    def is_commit(self) -> bool:
        """Whether it is the revision of the code rather than a file."""
        return self.uri.startswith("git+") or "gitCommit" in self.digest


@dataclass(frozen=True, slots=True)
class Receipt:
    """The receipt in the file `path`, whose id is `sha256`."""

    path: str
    sha256: str
    predicate: Mapping[str, Any]
    subjects: tuple[Descriptor, ...]
    dependencies: tuple[Descriptor, ...]
    byproducts: tuple[Descriptor, ...]

    @property
    def parameters(self) -> Mapping[str, Any]:
        """What the run was asked to do."""
        parameters: Mapping[str, Any] = self.predicate["buildDefinition"]["externalParameters"]
        return parameters

    @property
    def seeds(self) -> Mapping[str, int]:
        """The seed of each stream that the run was given."""
        seeds: Mapping[str, int] = self.parameters.get("seeds", {})
        return seeds

    @property
    def device(self) -> Mapping[str, Any]:
        """The device that ran: kind, model and count, as far as they are recorded."""
        device: Mapping[str, Any] = self.predicate["environment"].get("device", {})
        return device

    @property
    def versions(self) -> Mapping[str, str]:
        """The versions of what ran, by name."""
        versions: Mapping[str, str] = self.predicate["runDetails"]["builder"].get("version", {})
        return versions

    @property
    def times(self) -> tuple[str, str]:
        """When the run started and finished, as recorded."""
        metadata = self.predicate["runDetails"]["metadata"]
        return metadata["startedOn"], metadata["finishedOn"]

    @property
    def level(self) -> str:
        """The level of evidence that the receipt claims for its subjects."""
        return str(self.predicate["evidence"]["level"])

    @property
    def commits(self) -> tuple[Descriptor, ...]:
        """The revisions of the code; a sound receipt has one."""
        return tuple(d for d in self.dependencies if d.is_commit)

    @property
    def sources(self) -> tuple[Descriptor, ...]:
        """The files of code that were executed."""
        return self.with_role("source")

    @property
    def parents(self) -> tuple[Descriptor, ...]:
        """The receipts of the runs that this one built upon."""
        return self.with_role("receipt")

    def with_role(self, *roles: str) -> tuple[Descriptor, ...]:
        """Return the dependencies that have one of `roles`."""
        return tuple(d for d in self.dependencies if d.role in roles and not d.is_commit)


@lru_cache(maxsize=2)
def receipts(evidence: Evidence) -> tuple[Receipt, ...]:
    """Return every receipt that could be read, by path; nearly every rule on runs asks for them."""
    return tuple(
        parse_receipt(path, evidence.files[path].sha256, document.value)
        for document in evidence.of_type("receipt")
        for path in (document.artifact.path,)
    )


def parse_receipt(path: str, sha256: str, statement: Mapping[str, Any]) -> Receipt:
    """Return the record of a statement that is valid under the schema of receipts."""
    predicate = statement["predicate"]
    definition, details = predicate["buildDefinition"], predicate["runDetails"]
    dependencies = "/predicate/buildDefinition/resolvedDependencies"
    return Receipt(
        path,
        sha256,
        predicate,
        _descriptors(statement["subject"], "/subject"),
        _descriptors(definition["resolvedDependencies"], dependencies),
        _descriptors(details.get("byproducts", ()), "/predicate/runDetails/byproducts"),
    )


def _descriptors(entries: Sequence[Mapping[str, Any]], pointer: str) -> tuple[Descriptor, ...]:
    return tuple(
        Descriptor(
            entry.get("name", ""),
            entry.get("uri", ""),
            entry["digest"],
            entry.get("annotations", {}),
            f"{pointer}/{index}",
        )
        for index, entry in enumerate(entries)
    )
