"""Write the examples of the trace rules: fixtures/rules/RA4xx/{pass,fail}/, from a short run.

Run by hand when the trace's format changes: python tests/support/make_trace_examples.py
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from traces import SMALL, receipt_of, small_trace, write_trace

RULES = Path(__file__).parents[2] / "fixtures" / "rules"
Change = Callable[[dict[str, Any], dict[str, Any]], None]


def scaled(name: str) -> Change:
    """Scale the largest element of an array by one part in a thousand."""

    def change(document: dict[str, Any], tensors: dict[str, Any]) -> None:
        at = np.unravel_index(np.argmax(np.abs(tensors[name])), tensors[name].shape)
        tensors[name][at] *= 1.001

    return change


def loss(term: str, factor: float, weight: float) -> Change:
    """Scale one term of the last update's loss, and let the total follow."""

    def change(document: dict[str, Any], tensors: dict[str, Any]) -> None:
        losses = document["updates"][-1]["loss"]
        difference = losses[term] * (factor - 1)
        losses[term] += difference
        losses["total"] += weight * difference

    return change


def active_mean(document: dict[str, Any], tensors: dict[str, Any]) -> None:
    """Average the replay loss over active trajectories only."""
    gates = tensors["update.1.replay.gate"]
    loss("replay", len(gates) / np.sum(gates > 0), 1.0)(document, tensors)


def positive_logp(document: dict[str, Any], tensors: dict[str, Any]) -> None:
    """Record a positive log-probability, in a run whose policy nobody can run again."""
    document["recipe"] = "external:unknown"
    tensors["update.1.logp_policy"][2, 0] = 0.01


def distance(document: dict[str, Any], tensors: dict[str, Any]) -> None:
    """Record a distance that the embeddings do not give."""
    entry = next(e for e in document["bank"] if len(e["indices"]) > 1)
    entry["distances"][1] *= 1.001


def norm(document: dict[str, Any], tensors: dict[str, Any]) -> None:
    """Record a gradient norm that the gradient does not have."""
    document["updates"][1]["gradient_norm"]["total"] *= 1.001


def digest(document: dict[str, Any], tensors: dict[str, Any]) -> None:
    """Record the digest of other parameters."""
    document["updates"][1]["parameters_after"] = "0" * 64


FAILURES: dict[str, dict[str, Change]] = {
    "RA410": {"fail": scaled("update.1.replay.gate")},
    "RA411": {"fail": scaled("update.1.replay.token_weights")},
    "RA412": {"fail": active_mean},
    "RA413": {"fail": distance},
    "RA416": {"fail": loss("surrogate", 1.001, 1.0)},
    "RA417": {"fail": positive_logp},
    "RA418": {"fail": scaled("update.1.attempts.rewards")},
    "RA419": {"fail": digest},
    "RA420": {"fail": norm, "fail-token": scaled("update.1.replay.grad_logp")},
}


def members(document: dict[str, Any], tensors: dict[str, Any]) -> None:
    """Declare one member more than each group has."""
    document["settings"]["group_size"] += 1


SHARED: dict[str, Change] = {"RA401": loss("kl", 1.001, SMALL.kl_beta), "RA407": members}
"""Rules that other examples, of item results and claims, belong to as well."""


def write(folder: Path, change: Change) -> None:
    """Write one example anew."""
    shutil.rmtree(folder, ignore_errors=True)
    document, tensors = small_trace()
    change(document, tensors)
    write_trace(folder, document, tensors, receipt=receipt_of)


def main() -> None:
    """Write every example anew."""
    for code, failures in FAILURES.items():
        write(RULES / code / "pass", lambda document, tensors: None)
        for name, change in failures.items():
            write(RULES / code / name, change)
    for code, change in SHARED.items():
        write(RULES / code / "pass-trace", lambda document, tensors: None)
        write(RULES / code / "fail-trace", change)


if __name__ == "__main__":
    main()
