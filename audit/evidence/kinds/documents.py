"""Artifacts that are JSON documents under a bundled schema of the same name."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rlvraudit.audit.evidence.intake import Fault, Limits
from rlvraudit.audit.evidence.kinds.kind import Kind, Parsed, Source
from rlvraudit.audit.evidence.strict_json import loads, quote
from rlvraudit.audit.evidence.validation import violations

Keys = Callable[[Any], Iterator[tuple[str, str]]]
"""Yields pointer and key of every entry of a document whose key must be unique."""


def parse_document(source: Source, schema: str, unique: Keys | None = None) -> Parsed:
    """Return the value of a JSON document if it is valid; unknown fields alone do not spoil it.

    Raises:
        MalformedError: It is not strict JSON.
    """
    value = loads(source.data, source.limits)
    faults = list(_faults(value, source, schema))
    valid = all(fault.slug == "unknown-field" for fault in faults)
    if valid and unique is not None:
        repeated = list(_repeated(value, source.path, unique))
        faults += repeated
        valid = not repeated
    return Parsed(value if valid else None, tuple(faults))


def _faults(value: Any, source: Source, schema: str) -> Iterator[Fault]:
    found, more = violations(value, schema, source.limits.findings)
    for violation in found:
        slug = "unknown-field" if violation.unknown else "schema-violation"
        yield Fault(slug, source.path, violation.message, violation.pointer)
    if more:
        yield _capped(source.path, source.limits)


def _capped(path: str, limits: Limits) -> Fault:
    message = f"more than {limits.findings} violations of its schema: the rest is not shown"
    return Fault("limit-reached", path, message, incomplete=True)


def _repeated(value: Any, path: str, unique: Keys) -> Iterator[Fault]:
    """`uniqueItems` takes quadratic time in jsonschema, so keys are compared here."""
    first: dict[str, str] = {}
    for pointer, key in unique(value):
        if first.setdefault(key, pointer) != pointer:
            message = f"{quote(key)} appears twice, first at {first[key]}"
            yield Fault("schema-violation", path, message, pointer)


def document(name: str, *, measured: bool = False, unique: Keys | None = None) -> Kind:
    """Return the kind of JSON documents that the bundled schema `name` describes."""
    return Kind(name, "1", lambda source: parse_document(source, name, unique), measured)


def _subjects(receipt: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for index, subject in enumerate(receipt["subject"]):
        yield f"/subject/{index}/name", subject["name"]


RECEIPT = document("receipt", unique=_subjects)
TAR_TRACE = document("tar-trace", measured=True)
MECHANISM_CONTRACTS = document("mechanism-contracts", measured=True)
PAPER_RESULTS = document("paper-results")
SPLIT_MANIFEST = document("split-manifest")
FIGURE_SOURCE = document("figure-source")
FAILURE = document("failure")
