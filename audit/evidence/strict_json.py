"""JSON without its traps: one encoding, one value per key, only finite numbers, bounded depth."""

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np

from rlvraudit.audit.evidence.intake import LIMITS, Limits, MalformedError

TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"|[\[\]{},:]|[^\s\[\]{},:"]+', re.DOTALL)
EXTREME = re.compile(r"\d{100}|[eE][+-]?\d{3}", re.ASCII)
"""Only numbers like these can overflow, underflow or be too long; others need no second look."""
SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
STRUCTURE = bytes(set(range(256)) - set(b'"[]{}'))
LONGEST_QUOTE = 60


def loads(data: bytes, limits: Limits = LIMITS) -> Any:
    """Return the value of a JSON document.

    Raises:
        MalformedError: It is not strict UTF-8 JSON; line and column say where.
    """
    if len(data) > limits.json_bytes:
        raise MalformedError(f"{len(data)} bytes, more than {limits.json_bytes} for JSON")
    text = _decode(data)
    _refuse_depth(data, text, limits.json_depth)
    value = _parse(text, limits)
    if SURROGATE.search(text):
        _refuse_lone_surrogates(text)
    return value


def loads_lines(data: bytes, limits: Limits = LIMITS) -> Iterator[tuple[int, Any]]:
    """Yield line number and value of each line of a JSONL document; blank lines are skipped.

    Raises:
        MalformedError: A line is too long or not strict JSON.
    """
    start, number = 0, 0
    while start < len(data):
        end = data.find(b"\n", start)
        end, number = (len(data) if end < 0 else end), number + 1
        if end - start > limits.line_bytes:
            raise MalformedError(f"a line of more than {limits.line_bytes} bytes", number)
        line = data[start:end]
        if line.strip():
            yield number, _line(line, number, limits)
        start = end + 1


def _line(line: bytes, number: int, limits: Limits) -> Any:
    try:
        return loads(line, limits)
    except MalformedError as error:
        raise MalformedError(str(error), number, error.column) from error


def _decode(data: bytes) -> str:
    encoding = json.detect_encoding(data)
    if encoding != "utf-8":
        named = "UTF-8 with a byte order mark" if encoding == "utf-8-sig" else encoding.upper()
        raise MalformedError(f"the encoding is {named}, expected UTF-8 without a mark", 1, 1)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8")
        message = f"byte 0x{data[error.start]:02x} is not valid UTF-8"
        raise MalformedError(message, *_place(before, len(before))) from error


def _refuse_depth(data: bytes, text: str, most: int) -> None:
    """Look only at brackets outside strings, so that no parser has to recurse first."""
    marks = data.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, STRUCTURE)
    outside = np.frombuffer(b"".join(marks.split(b'"')[::2]), np.uint8)
    steps = np.where((outside == ord("[")) | (outside == ord("{")), 1, -1)
    if steps.size and int(np.cumsum(steps).max()) > most:
        _fail(f"nested deeper than {most}", text, _too_deep(text, most))


def _too_deep(text: str, most: int) -> int:
    depth = 0
    for token in TOKEN.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token.group(), 0)
        if depth > most:
            return token.start()
    return 0


class _RefusedError(Exception):
    """A literal that a hook refused; the parser does not tell a hook where it is."""

    def __init__(self, message: str, literal: str) -> None:
        super().__init__(message)
        self.literal = literal


class _DuplicateError(Exception):
    """An object with a repeated key; the parser does not tell a hook where it is."""


def _parse(text: str, limits: Limits) -> Any:
    numbers: dict[str, Any] = {}
    if EXTREME.search(text):
        numbers = {"parse_float": _finite, "parse_int": lambda t: _short(t, limits)}
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_constant, **numbers)
    except json.JSONDecodeError as error:
        message = error.msg[:1].lower() + error.msg[1:]
        raise MalformedError(message, error.lineno, error.colno) from error
    except _RefusedError as error:
        _fail(str(error), text, _literal(text, error.literal))
    except _DuplicateError as error:
        key, position = _duplicate(text)
        raise MalformedError(
            f"the key {quote(key)} appears twice in one object", *_place(text, position)
        ) from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    built = dict(pairs)
    if len(built) != len(pairs):
        raise _DuplicateError
    return built


def _constant(literal: str) -> NoReturn:
    raise _RefusedError(f"{literal} is not JSON", literal)


def _finite(literal: str) -> float:
    value = float(literal)
    if value in (float("inf"), float("-inf")):
        raise _RefusedError(f"{_cut(literal)} overflows a double", literal)
    if value == 0.0 and re.search(r"[1-9]", re.split("[eE]", literal)[0]):
        raise _RefusedError(f"{_cut(literal)} underflows to zero", literal)
    return value


def _short(literal: str, limits: Limits) -> int:
    digits = len(literal.lstrip("-"))
    if digits > limits.integer_digits:
        message = f"an integer of {digits} digits, at most {limits.integer_digits} are read"
        raise _RefusedError(message, literal)
    return int(literal)


def _literal(text: str, literal: str) -> int:
    return next((t.start() for t in TOKEN.finditer(text) if t.group() == literal), 0)


def _duplicate(text: str) -> tuple[str, int]:
    """Return the first repeated key of an object and where it is."""
    keys: list[set[str] | None] = []
    tokens = list(TOKEN.finditer(text))
    for token, following in pairwise(tokens):
        match token.group():
            case "{":
                keys.append(set())
            case "[":
                keys.append(None)
            case "}" | "]":
                keys.pop()
            case quoted if following.group() == ":" and keys and keys[-1] is not None:
                key: str = json.loads(quoted)
                if key in keys[-1]:
                    return key, token.start()
                keys[-1].add(key)
    return "", 0


def _refuse_lone_surrogates(text: str) -> None:
    for token in TOKEN.finditer(text):
        quoted = token.group()
        if quoted.startswith('"') and SURROGATE.search(quoted):
            try:
                json.loads(quoted).encode("utf-8")
            except UnicodeEncodeError:
                _fail("a string holds half of a surrogate pair", text, token.start())


def _fail(message: str, text: str, position: int) -> NoReturn:
    raise MalformedError(message, *_place(text, position))


def _place(text: str, position: int) -> tuple[int, int]:
    return text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position)


def quote(text: str) -> str:
    """Return `text` in quotes, ASCII only, cut to what fits in a message."""
    return json.dumps(_cut(text))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]}..."
