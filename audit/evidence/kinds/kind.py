"""What a type of artifact is."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rlvraudit.audit.evidence.intake import Fault, Limits

Parser = Callable[[bytes, str], Any]
"""A parser from another wing: the bytes and the path of a file to a value."""


@dataclass(frozen=True, slots=True)
class Source:
    """The bytes of one artifact, with what its parser may need."""

    path: str
    data: bytes
    limits: Limits
    parsers: Mapping[str, Parser]


@dataclass(frozen=True, slots=True)
class Parsed:
    """A value, or None where there is none to trust, and what was wrong on the way."""

    value: Any
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of artifact in one version; `measured` if it records what a run produced."""

    name: str
    version: str
    parse: Callable[[Source], Parsed]
    measured: bool = False
