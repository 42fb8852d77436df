"""Receipts of our own runs: sanitized by construction, bound to the sources that ran."""

import hashlib
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from rlvraudit.audit.errors import UnreadableError, UsageError
from rlvraudit.audit.evidence.private import redacted
from rlvraudit.audit.evidence.receipt import PREDICATE, STATEMENT
from rlvraudit.audit.evidence.repository import Repository
from rlvraudit.audit.evidence.tree import git_blob
from rlvraudit.audit.runs.documents import dump, timestamp

BUILDER = "urn:rlvr-audit:builder:self-attested:v1"
CODE = "git+urn:rlvr-audit:toolkit"
"""The revision is named by its id alone: an address could name a host."""
PROFILE = "rlvr-audit/1"
SHA256_DIGITS = 64
VERSIONED = (
    *("python", "numpy", "torch", "jax", "jaxlib", "array-api-compat", "rlvr-audit"),
    *("cuda", "cudnn", "driver", "triton"),
)
"""Whose versions a receipt may state; the rest of an environment is nobody's business."""
FORMAL = ("L2", "L3")


@dataclass(frozen=True, slots=True)
class Checkout:
    """The revision of the code that runs: its commit and files, and how the tree differs."""

    top: Path
    commit: str
    tree: str
    files: frozenset[str]


def checkout(source: Path) -> Checkout:
    """Return the checkout that holds the file `source`.

    Raises:
        UsageError: It lies in none, as in an installation from a wheel.
    """
    repository = Repository(source.resolve().parent)
    try:
        commit = repository.commit()
        files = frozenset(repository.blobs(commit))
        return Checkout(repository.top(), commit, repository.tree_state(), files)
    except UnreadableError as error:
        raise UsageError(
            "a receipt needs a source checkout with a commit, to say which code ran; "
            f"{source.name} lies in none ({error})"
        ) from error


def build_receipt(
    *,
    build_type: str,
    entrypoint: str,
    recipe: str,
    seeds: Mapping[str, int],
    device_requested: str,
    device_kind: str,
    device_model: str,
    budget: Mapping[str, int | str],
    dtype: str,
    sources: Sequence[Path],
    subjects: Mapping[str, bytes],
    started: datetime,
    finished: datetime,
    cost: Mapping[str, int | str],
    level: str,
    versions: Mapping[str, str],
    parents: Mapping[str, bytes] | None = None,
) -> dict[str, Any]:
    """Return the receipt of a completed run as an in-toto Statement.

    `subjects` and `parents` map paths below the supplement to the bytes written there; `sources`
    are files of the checkout that the code runs from. Times must know their zone. The same
    inputs give the same bytes, times and costs aside.

    Raises:
        UsageError: There are no sources, or they lie in no checkout.
    """
    if not sources:
        raise UsageError("a receipt needs the files of code that ran")
    code = checkout(sources[0])
    dependencies = [_revision(code), *_sources(sources, code), *_parents(parents or {})]
    statement: dict[str, Any] = {
        "_type": STATEMENT,
        "subject": [_descriptor(name, data) for name, data in sorted(subjects.items())],
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": build_type,
                "externalParameters": {
                    "entrypoint": entrypoint,
                    "recipe": recipe,
                    "seeds": dict(seeds),
                    "device": device_requested,
                    "budget": dict(budget),
                },
                "internalParameters": {"dtype": dtype, "deterministic": True},
                "resolvedDependencies": dependencies,
            },
            "environment": _environment(device_kind, device_model),
            "evidence": _evidence(level),
        },
    }
    metadata = _metadata(statement, started, finished)
    builder = {"id": BUILDER, "version": _versions(versions)}
    statement["predicate"] |= {
        "runDetails": {"builder": builder, "metadata": metadata},
        "outcome": {"status": "completed", "exitCode": 0, "cost": dict(cost)},
    }
    return _sanitized(statement)


def _metadata(statement: Any, started: datetime, finished: datetime) -> dict[str, str]:
    """Return when the run was, and an id that follows from everything but the time."""
    invocation = uuid5(NAMESPACE_URL, hashlib.sha256(dump(statement)).hexdigest())
    return {
        "invocationId": f"urn:uuid:{invocation}",
        "startedOn": timestamp(started),
        "finishedOn": timestamp(finished),
    }


def _descriptor(name: str, data: bytes) -> dict[str, Any]:
    return {"name": name, "digest": {"sha256": hashlib.sha256(data).hexdigest()}}


def _revision(code: Checkout) -> dict[str, Any]:
    return {
        "uri": CODE,
        "digest": {"gitCommit": code.commit},
        "annotations": {"tree": code.tree},
    }


def _sources(sources: Sequence[Path], code: Checkout) -> list[dict[str, Any]]:
    """A virtual environment inside somebody's repository is no checkout of ours: look for us."""
    top = code.top.resolve()
    names = {p: p.relative_to(top).as_posix() for p in _inside(sources, top)}
    if not code.files & set(names.values()):
        raise UsageError(
            "a receipt needs a source checkout, to say which code ran; the repository around "
            f"{sources[0].name} does not hold it in its commit"
        )
    algorithm = "sha256" if len(code.commit) == SHA256_DIGITS else "sha1"
    return [_source(path, name, algorithm) for path, name in sorted(names.items())]


def _inside(sources: Sequence[Path], top: Path) -> list[Path]:
    resolved = sorted({path.resolve() for path in sources})
    outside = [path.name for path in resolved if not path.is_relative_to(top)]
    if outside:
        raise UsageError(f"these sources lie outside the checkout: {', '.join(outside)}")
    return resolved


def _source(path: Path, name: str, algorithm: str) -> dict[str, Any]:
    data = path.read_bytes()
    entry = _descriptor(name, data)
    entry["digest"]["gitBlob"] = git_blob(data, algorithm)
    return {**entry, "annotations": {"role": "source"}}


def _parents(parents: Mapping[str, bytes]) -> list[dict[str, Any]]:
    return [
        {**_descriptor(name, data), "annotations": {"role": "receipt"}}
        for name, data in sorted(parents.items())
    ]


def _environment(kind: str, model: str) -> dict[str, Any]:
    return {
        "device": {"kind": kind, "model": model, "count": 1},
        "os": sys.platform,
        "arch": platform.machine(),
    }


def _evidence(level: str) -> dict[str, Any]:
    return {
        "level": level,
        "diagnostic_only": level not in FORMAL,
        "formal_comparison": False,
        "promotion_eligible": False,
    }


def _versions(versions: Mapping[str, str]) -> dict[str, str]:
    return {name: versions[name] for name in sorted(VERSIONED) if name in versions}


def _sanitized(statement: dict[str, Any]) -> dict[str, Any]:
    clean, count = _redact(statement)
    clean["predicate"]["sanitization"] = {"profile": PROFILE, "redactions": count}
    ordered: dict[str, Any] = clean
    return ordered


def _redact(value: Any) -> tuple[Any, int]:
    """Return a copy of `value` with every leak in its strings replaced, and their number."""
    match value:
        case str():
            return redacted(value)
        case list():
            parts = [_redact(part) for part in value]
            return [part for part, _ in parts], sum(count for _, count in parts)
        case dict():
            pairs = {key: _redact(part) for key, part in value.items()}
            return {key: part for key, (part, _) in pairs.items()}, sum(
                count for _, count in pairs.values()
            )
        case _:
            return value, 0
