"""Small supplements around a TAR trace, for tests and for the examples of the trace rules."""

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

from rlvraudit.audit.runs.documents import dump
from rlvraudit.audit.runs.receipt import Checkout, build_receipt
from rlvraudit.audit.runs.tar_recipe import BUILD_TYPE, TarSettings
from rlvraudit.kernels.objectives import replay

SMALL = TarSettings(
    prompts=((1, 2), (3, 1)),
    vocabulary=5,
    hidden=3,
    max_tokens=3,
    verifier_modulus=2,
    candidates=6,
    prototypes=2,
    updates=2,
    groups=1,
    group_size=4,
)
SEED = 7
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def small_trace() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the document and the arrays of a short run, both mutable copies."""
    from rlvraudit.audit.runs.tar_training import train

    trace = train(SEED, "cpu", SMALL)
    document = json.loads(dump(trace.document)) | {"tensors": "run.safetensors"}
    return document, {name: array.copy() for name, array in trace.tensors.items()}


def write_trace(
    folder: Path, document: Mapping[str, Any], tensors: Mapping[str, Any], receipt: Any = None
) -> Path:
    """Write a supplement with one trace, a claim that rests on it, and its receipt."""
    from safetensors.numpy import save

    files = {"run.json": dump(document), "run.safetensors": save(dict(tensors))}
    types = {"run.json": "tar-trace/1", "run.safetensors": "tensors/1"}
    if receipt is not None:
        files["run.receipt.json"] = dump(receipt(dict(files)))
        types["run.receipt.json"] = "receipt/1"
    files["supplement.json"] = dump(manifest(files, types, document))
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def manifest(
    files: Mapping[str, bytes], types: Mapping[str, str], document: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a manifest that lists `files` and claims the first replay loss as recorded."""
    artifacts = [
        {"path": path, "sha256": hashlib.sha256(files[path]).hexdigest(), "type": type_}
        for path, type_ in sorted(types.items())
    ]
    claim = {
        "id": "replay-activates",
        "statement": "Replay was active in the last update.",
        "kind": "component",
        "scope": {"models": ["randomly initialised GRU"]},
        "evidence": ["run.json"],
        "reported": [
            {
                "quantity": "value",
                "artifact": "run.json",
                "pointer": "/updates/1/active_gates",
                "value": str(document["updates"][1]["active_gates"]),
            }
        ],
    }
    return {
        "format": "rlvr-supplement/1",
        "papers": [{"id": "arXiv:2610.24236v1"}],
        "artifacts": artifacts,
        "claims": [claim],
    }


def receipt_of(files: Mapping[str, bytes]) -> dict[str, Any]:
    """Return a receipt of `files`, as the run writes one from a clean checkout."""
    moment = datetime(2026, 11, 1, 10, tzinfo=UTC)
    source = Path(replay.__file__).resolve()
    name = source.relative_to(source.parents[2]).as_posix()
    code = Checkout(source.parents[2], COMMIT, "clean", frozenset({name}))
    with patch("rlvraudit.audit.runs.receipt.checkout", lambda _: code):
        return build_receipt(
            build_type=BUILD_TYPE,
            entrypoint=f"rlvr-audit run tar --seeds {SEED} --device cpu",
            recipe=json.loads(files["run.json"])["recipe"],
            seeds={"run": SEED},
            device_requested="cpu",
            device_kind="cpu",
            device_model="x86_64",
            budget={"steps": SMALL.updates},
            dtype="float64",
            sources=[source],
            subjects=files,
            started=moment,
            finished=moment,
            cost={},
            level="L1",
            versions={"python": "3.11.7", "numpy": "2.4.6", "torch": "2.13.0"},
        )
