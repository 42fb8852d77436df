"""Mechanism contracts: what the audit of the built-in kernels showed, as evidence of level L0.

Formula contracts on deterministic tensors. They show that a formula is computed as the paper has
it, and nothing about training or capability; hence the two flags.
"""

import sys
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from rlvraudit import __version__
from rlvraudit.audit.implementations.backend import torch_module
from rlvraudit.audit.implementations.builtin import KernelAudit
from rlvraudit.audit.implementations.vectors import CaseResult
from rlvraudit.kernels.objectives import OBJECTIVES

FORMAT = "mechanism-contracts/1"


def mechanism_contracts(audit: KernelAudit) -> dict[str, Any]:
    """Return the document for a kernel audit: no time of day, no host."""
    return {
        "format": FORMAT,
        "level": "L0",
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
