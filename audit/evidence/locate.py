"""From JSON pointers to lines, for the few files that have findings."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping

from rlvraudit.audit.evidence.intake import LIMITS

TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"|[\[\]{},:]|[^\s\[\]{},:"]+', re.DOTALL)

DEEPEST = LIMITS.json_depth


def line_of(data: bytes, pointer: str) -> int | None:
    """Return the line on which the value at `pointer` begins, or None where there is none."""
    return lines_of(data, (pointer,)).get(pointer)


def lines_of(data: bytes, pointers: Iterable[str]) -> Mapping[str, int]:
    """Return the line of each pointer that a JSON document has, in one pass over it.

    Lines count from 1. A document that is not JSON gives what was found before it broke.
    """
    wanted, found = set(pointers), dict[str, int]()
    text = data.decode("utf-8", "replace")
    line, last = 1, 0
    for pointer, position in _values(text):
        if pointer in wanted:
            line, last = line + text.count("\n", last, position), position
            found.setdefault(pointer, line)
            if len(found) == len(wanted):
                break
    return found


def _values(text: str) -> Iterator[tuple[str, int]]:
    """Yield pointer and position of every value, in the order of the text.

    The stack holds, for each open container, its pointer and the key or index that comes next;
    a key that has not been read yet is None. Deeper than any document that is read, it ends.
    """
    stack: list[tuple[str, str | int | None]] = []
    for token in TOKEN.finditer(text):
        mark = token.group()
        match mark:
            case ":":
                continue
            case ",":
                _advance(stack)
            case "]" | "}":
                if stack:
                    stack.pop()
            case _ if stack and stack[-1][1] is None:
                stack[-1] = (stack[-1][0], _key(mark))
            case _ if len(stack) > DEEPEST:
                return
            case _:
                pointer = _pointer(stack)
                yield pointer, token.start()
                if mark in "[{":
                    stack.append((pointer, 0 if mark == "[" else None))


def _advance(stack: list[tuple[str, str | int | None]]) -> None:
    if stack:
        pointer, at = stack[-1]
        stack[-1] = (pointer, at + 1 if isinstance(at, int) else None)


def _pointer(stack: list[tuple[str, str | int | None]]) -> str:
    if not stack:
        return ""
    pointer, at = stack[-1]
    return f"{pointer}/{str(at).replace('~', '~0').replace('/', '~1')}"


def _key(mark: str) -> str:
    try:
        return str(json.loads(mark))
    except ValueError:
        return mark
