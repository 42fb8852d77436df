"""The numbers of a document: what counts as one, and the pointer at which it stands."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

DECIMAL = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?%?", re.ASCII)


def is_decimal(text: str) -> bool:
    """Tell whether `text` is a decimal number as reports print it."""
    return DECIMAL.fullmatch(text) is not None


def escape(key: str) -> str:
    """Return `key` as a reference token of a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")


def numbers(value: Any, pointer: str = "", *, decimals: bool = False) -> Iterator[tuple[str, int]]:
    """Yield the pointer and size of each number, tensor or column below `value`.

    With `decimals`, text that is a decimal number counts too.
    """
    match value:
        case bool() | None:
            return
        case int() | float():
            yield pointer, 1
        case str():
            if decimals and is_decimal(value):
                yield pointer, 1
        case np.ndarray():
            yield pointer, value.size
        case Mapping():
            for key, part in value.items():
                yield from numbers(part, f"{pointer}/{escape(key)}", decimals=decimals)
        case list() | tuple():
            for index, part in enumerate(value):
                yield from numbers(part, f"{pointer}/{index}", decimals=decimals)
        case _:  # a table of items: the scores are its numbers, the rest identifies them
            yield "/score", len(value.scores)
