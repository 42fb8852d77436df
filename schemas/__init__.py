"""JSON Schemas (2020-12), shipped as data."""

import json
from importlib.resources import files
from typing import Any

SUFFIX = ".schema.json"


def names() -> list[str]:
    """Return the names of all schemas, sorted."""
    entries = (entry.name for entry in files(__name__).iterdir())
    return sorted(name.removesuffix(SUFFIX) for name in entries if name.endswith(SUFFIX))


def load(name: str) -> dict[str, Any]:
    """Return the schema called `name`."""
    text = files(__name__).joinpath(f"{name}{SUFFIX}").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema
