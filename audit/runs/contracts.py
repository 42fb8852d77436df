"""Mechanism contracts: what the audit of the built-in kernels showed, as evidence of level L0.

Formula contracts on deterministic tensors. They show that a formula is computed as the paper has
it, and nothing about training or capability; hence the two flags.
"""

import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from rlvraudit import __version__
from rlvraudit.audit.implementations.backend import torch_module
from rlvraudit.audit.implementations.builtin import KernelAudit, audit_kernels
from rlvraudit.audit.implementations.probes.differences import SEED
from rlvraudit.audit.implementations.vectors import CaseResult, Progress
from rlvraudit.audit.runs.documents import dump
from rlvraudit.audit.runs.environment import (
    Device,
    find_device,
    source_files,
    versions,
    within_supplement,
)
from rlvraudit.audit.runs.output import write_once
from rlvraudit.audit.runs.receipt import build_receipt
from rlvraudit.kernels.objectives import OBJECTIVES

FORMAT, LEVEL = "mechanism-contracts/1", "L0"
STEM = "mechanism-contracts"
SEEDS = {"differences": SEED}
RECIPE = "deterministic:kernel-contracts-v1"
BUILD_TYPE = "urn:rlvr-audit:run:kernel-contracts:v1"


def run_contracts(
    vectors: Path, device: str, output: Path, progress: Progress | None = None
) -> KernelAudit:
    """Audit the built-in kernels and write the contracts and their receipt to `output`, once.

    Raises:
        UsageError: `output` exists, or the code lies in no checkout that a receipt could name.
        DeviceError: The device is not there.
    """
    below = within_supplement(output)
    with write_once(output, RECIPE, SEEDS) as files:
        started = datetime.now(UTC)
        files.stage = "device"
        found = find_device(device)
        files.stage = "audit"
        audit = audit_kernels(vectors, device, progress)
        files.stage = "contracts"
        data = dump(mechanism_contracts(audit))
        files.write(f"{STEM}.json", data)
        receipt = _receipt(audit, found, {str(below / f"{STEM}.json"): data}, started)
        files.write(f"{STEM}.receipt.json", dump(receipt))
    return audit


def _receipt(
    audit: KernelAudit, device: Device, subjects: Mapping[str, bytes], started: datetime
) -> dict[str, Any]:
    return build_receipt(
        build_type=BUILD_TYPE,
        entrypoint=f"rlvr-audit kernels --device {device.kind}",
        recipe=RECIPE,
        seeds=SEEDS,
        device_requested=audit.device,
        device_kind=device.kind,
        device_model=device.model,
        budget={},
        dtype="float16, bfloat16, float32, float64",
        sources=source_files("audit/implementations", "audit/runs", "kernels"),
        subjects=subjects,
        started=started,
        finished=datetime.now(UTC),
        cost={},
        level=LEVEL,
        versions=versions(),
    )


def mechanism_contracts(audit: KernelAudit) -> dict[str, Any]:
    """Return the document for a kernel audit: no time of day, no host."""
    return {
        "format": FORMAT,
        "level": LEVEL,
        "diagnostic_only": True,
        "formal_comparison": False,
        "environment": _environment(audit.device),
        "contracts": [
            {
                "objective": name,
                "source": OBJECTIVES[name].source,
                "checks": [*_vector_checks(audit, name), *_probe_checks(audit, name)],
            }
            for name in sorted({result.objective for result in audit.vectors.results})
        ],
        "negative_controls": [
            {
                "name": control.variant.name,
                "objective": control.variant.objective,
                "fault": control.variant.sentence,
                "caught": control.caught,
                "cases": len(control.caught_by),
            }
            for control in audit.controls
        ],
        "not_run": [{"what": item.what, "reason": item.reason} for item in audit.not_run],
    }


def _environment(device: str) -> Mapping[str, Any]:
    torch = torch_module()
    return {
        "device": device,
        "python": ".".join(map(str, sys.version_info[:3])),
        "rlvr_audit": __version__,
        "numpy": np.__version__,
        "torch": torch.__version__ if torch else None,
    }


def _vector_checks(audit: KernelAudit, name: str) -> Iterator[Mapping[str, Any]]:
    results = [r for r in audit.vectors.results if r.objective == name]
    for backend, dtype in sorted({(r.backend, r.dtype) for r in results}):
        these = [r for r in results if (r.backend, r.dtype) == (backend, dtype)]
        passed = sum(r.passed for r in these)
        yield _check("vectors", (backend, dtype), (len(these), passed), _worst(these))


def _worst(results: list[CaseResult]) -> float | None:
    return max((r.worst for r in results if r.worst is not None), default=None)


def _probe_checks(audit: KernelAudit, name: str) -> Iterator[Mapping[str, Any]]:
    for probe in audit.probes:
        if probe.objective == name:
            cases = len(probe.observations)
            passed = sum(o.judgement.passed for o in probe.observations) if probe.passed else 0
            worst = probe.worst.judgement.worst if probe.worst else None
            yield _check(probe.probe, (probe.backend, probe.dtype), (cases, passed), worst)


def _check(
    kind: str, where: tuple[str, str], cases: tuple[int, int], worst: float | None
) -> Mapping[str, Any]:
    """Return one check; `worst` is null where nothing was computed or the error has no bound."""
    return {
        "check": kind,
        "backend": where[0],
        "dtype": where[1],
        "cases": cases[0],
        "passed": cases[1],
        "worst_over_bound": worst if worst is not None and np.isfinite(worst) else None,
    }
