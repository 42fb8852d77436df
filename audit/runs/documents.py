"""How runs write JSON and times: one byte sequence for one value."""

import json
from datetime import UTC, datetime
from typing import Any


def dump(value: Any) -> bytes:
    """Return `value` as indented JSON in ASCII with sorted keys and a final newline.

    Raises:
        ValueError: A number is not finite.
    """
    text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=True, allow_nan=False)
    return f"{text}\n".encode("ascii")


def timestamp(moment: datetime) -> str:
    """Return a moment that knows its zone as RFC 3339 in UTC, in whole seconds."""
    if moment.tzinfo is None:
        raise ValueError("a time without a zone")
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
