"""Documents against the bundled JSON Schemas: what is wrong, where, in a bounded message."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from rlvraudit.audit.evidence.strict_json import quote
from rlvraudit.schemas import load

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

LONGEST_MESSAGE = 200


@dataclass(frozen=True, slots=True)
class Violation:
    """One place where a document breaks its schema; `unknown` if it is only an extra field."""

    pointer: str
    message: str
    unknown: bool = False


def violations(value: Any, schema: str, most: int) -> tuple[list[Violation], bool]:
    """Return the violations of the bundled schema called `schema`, by pointer.

    Looking ends after `most` of them; the second value tells whether there are more.
    """
    errors = list(islice(_validator(schema).iter_errors(value), most + 1))
    found = {violation for error in errors[:most] for violation in _explain(error)}
    return sorted(found, key=lambda v: (v.pointer, v.message)), len(errors) > most


@lru_cache
def _validator(schema: str) -> "Validator":
    from jsonschema import Draft202012Validator
    from referencing import Registry

    # An empty registry: a reference to anything outside the schema fails, nothing is fetched.
    registry: Registry[Any] = Registry()
    whole = load(schema)
    return Draft202012Validator(_inlined(whole, whole.get("$defs", {})), registry=registry)


def _inlined(part: Any, definitions: Mapping[str, Any]) -> Any:
    """Return a part of a schema with its definitions in their places.

    Following a reference takes jsonschema longer than all that it leads to.
    """
    if isinstance(part, list):
        return [_inlined(element, definitions) for element in part]
    if not isinstance(part, dict):
        return part
    rest = {k: _inlined(v, definitions) for k, v in part.items() if k not in ("$ref", "$defs")}
    if "$ref" not in part:
        return rest
    target = _inlined(definitions[part["$ref"].removeprefix("#/$defs/")], definitions)
    if rest.keys().isdisjoint(target):
        return {**rest, **target}
    return {**rest, "allOf": [*rest.get("allOf", ()), target]}


def _explain(error: "ValidationError") -> Iterator[Violation]:
    pointer = "".join(f"/{_token(part)}" for part in error.absolute_path)
    instance: Any = error.instance
    expected: Any = error.validator_value
    schema: Any = error.schema
    match error.validator:
        case "additionalProperties" if isinstance(expected, bool):
            known = list(schema.get("properties", ()))
            for name in instance.keys() - set(known):
                yield Violation(f"{pointer}/{_token(name)}", _unknown(name, known), unknown=True)
        case "required":
            missing = [name for name in expected if name not in instance]
            yield Violation(pointer, f"lacks {', '.join(map(quote, missing))}")
        case "dependentRequired":
            lacking = (n for k, ns in expected.items() if k in instance for n in ns)
            missing = [name for name in lacking if name not in instance]
            yield Violation(pointer, f"lacks {', '.join(map(quote, missing))}")
        case keyword:
            message = f"{shown(instance)} breaks {keyword}"
            yield Violation(pointer, f"{message}: {_expectation(expected)}"[:LONGEST_MESSAGE])


def _unknown(name: str, known: list[str]) -> str:
    near = get_close_matches(name, known, n=1)
    return f"unknown field {quote(name)}" + (f", did you mean {near[0]!r}?" if near else "")


def shown(value: Any) -> str:
    """Return a short ASCII description of a JSON value."""
    match value:
        case dict():
            return f"an object of {len(value)} fields"
        case list():
            return f"an array of {len(value)} elements"
        case str():
            return quote(value)
        case _:
            return json.dumps(value)[:LONGEST_MESSAGE]


def _expectation(expected: Any) -> str:
    if isinstance(expected, Mapping):
        return "not what its schema allows"
    return json.dumps(expected)


def _token(part: str | int) -> str:
    return str(part).replace("~", "~0").replace("/", "~1")
