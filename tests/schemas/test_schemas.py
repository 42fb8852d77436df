"""The bundled schemas: valid 2020-12, closed, and strict where in-toto is not."""

import copy
import json
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from supplements import GOOD

from rlvraudit.audit.evidence.kinds import KINDS
from rlvraudit.audit.evidence.validation import violations
from rlvraudit.schemas import load, names

RECEIPT = json.loads((GOOD / "receipt.json").read_bytes())
HEX = "0123456789abcdef" * 4


def parts(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
        for part in schema.values():
            yield from parts(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from parts(part)


@pytest.mark.parametrize("name", names())
def test_every_schema_is_a_schema_with_its_urn_and_a_title(name: str) -> None:
    schema = load(name)
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"] == f"urn:rlvr-audit:schema:{name}:v1"
    assert schema["title"]


@pytest.mark.parametrize("name", names())
def test_schemas_refer_only_to_themselves_and_avoid_what_is_slow_or_mute(name: str) -> None:
    for part in parts(load(name)):
        assert str(part.get("$ref", "#/")).startswith("#/")
        assert "uniqueItems" not in part
        assert "oneOf" not in part
        assert "format" not in part or isinstance(part["format"], dict)


@pytest.mark.parametrize("name", names())
def test_patterns_that_end_in_a_dollar_have_a_length_beside_them(name: str) -> None:
    # Python's `$` also matches before a final newline; a fixed length does not.
    for part in parts(load(name)):
        pattern = part.get("pattern", "")
        if isinstance(pattern, str) and "64}$" in pattern and "|" not in pattern:
            assert part["minLength"] == part["maxLength"]


def test_every_kind_of_json_document_has_its_schema() -> None:
    documents = {kind.name for kind in KINDS.values()} - {"tensors", "item-results"}
    assert documents <= set(names())


def at(value: Any, pointer: str) -> tuple[Any, str | int]:
    *path, last = pointer.strip("/").split("/")
    for token in path:
        value = value[int(token)] if isinstance(value, list) else value[token]
    return value, int(last) if isinstance(value, list) else last


DEPENDENCY = "/predicate/buildDefinition/resolvedDependencies"
WRONG: list[tuple[str, Any]] = [
    ("/_type", "https://in-toto.io/Statement/v0.1"),
    ("/predicateType", "https://slsa.dev/provenance/v1"),
    ("/subject", []),
    ("/subject/0/digest", {}),
    ("/subject/0/digest/sha256", "ZZ"),
    ("/subject/0/digest/sha256", HEX.upper()),
    ("/subject/0/digest/sha256", HEX + "\n"),
    ("/subject/0/name", ""),
    (f"{DEPENDENCY}/1/digest/gitBlob", "main"),
    ("/predicate/buildDefinition/externalParameters/seeds/run", "42"),
    ("/predicate/buildDefinition/externalParameters/seeds/run", 42.5),
    ("/predicate/buildDefinition/externalParameters/seeds/run", -1),
    ("/predicate/buildDefinition/externalParameters/seeds/run", 2**53),
    ("/predicate/buildDefinition/externalParameters/seeds/run", True),
    ("/predicate/buildDefinition/externalParameters/budget/items", 1.5),
    ("/predicate/outcome/cost/seconds", 9.1),
    ("/predicate/outcome/cost/seconds", "NaN"),
    ("/predicate/outcome/status", "done"),
    ("/predicate/outcome/exitCode", "0"),
    ("/predicate/evidence/level", "L4"),
    ("/predicate/evidence/diagnostic_only", "true"),
    ("/predicate/runDetails/metadata/invocationId", "1234"),
    ("/predicate/sanitization/profile", "none"),
    ("/predicate/environment/device/count", 0),
]


@pytest.mark.parametrize(("pointer", "wrong"), WRONG)
def test_a_receipt_that_is_wrong_in_one_place_is_refused_there(pointer: str, wrong: Any) -> None:
    receipt = copy.deepcopy(RECEIPT)
    holder, key = at(receipt, pointer)
    holder[key] = wrong
    found, _ = violations(receipt, "receipt", 100)
    assert {v.pointer for v in found if not v.unknown} == {pointer}


@pytest.mark.parametrize(
    "pointer",
    [
        *("/_type", "/subject", "/predicate", "/subject/0/digest", "/subject/0/name"),
        *("/predicate/outcome", "/predicate/evidence/level", "/predicate/sanitization"),
        "/predicate/runDetails/metadata/finishedOn",
        "/predicate/buildDefinition/externalParameters/recipe",
    ],
)
def test_a_receipt_that_lacks_something_is_refused(pointer: str) -> None:
    receipt = copy.deepcopy(RECEIPT)
    holder, key = at(receipt, pointer)
    del holder[key]
    found, _ = violations(receipt, "receipt", 100)
    assert [v.pointer for v in found] == [pointer.rpartition("/")[0]]
    assert pointer.rpartition("/")[2] in found[0].message


def test_a_sound_receipt_is_valid() -> None:
    assert violations(RECEIPT, "receipt", 100) == ([], False)


def test_receipts_parse_with_the_library_of_in_toto() -> None:
    reason = "in-toto-attestation is not installed"
    statement = pytest.importorskip("in_toto_attestation.v1.statement", reason=reason)
    messages = import_module("in_toto_attestation.v1.statement_pb2")
    parsed = import_module("google.protobuf.json_format").ParseDict(RECEIPT, messages.Statement())
    statement.Statement.copy_from_pb(parsed).validate()
