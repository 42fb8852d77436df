"""Build fixtures/supplement: run the TAR component, write the contracts, list and claim.

Run by hand from a clean checkout, whose commit the receipts then name:

    .venv/bin/python tests/support/build_supplement.py

The item results and the quoted numbers are kept as they are. Reported differences, intervals
and p-values are written out here: they come from a plain NumPy computation of the definition
and are for the audit to agree with, not from it.
"""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rlvraudit.audit.runs import tar
from rlvraudit.audit.runs.contracts import run_contracts

FIXTURES = Path(__file__).parents[2] / "fixtures"
ROOT, VECTORS = FIXTURES / "supplement", FIXTURES / "vectors"
SEEDS = (42, 43, 44)
PAPERS = [
    {
        "id": "arXiv:2610.24236v1",
        "title": "TAR: Replaying only base-model behaviors suppressed by the current policy",
        "url": "https://arxiv.org/abs/2610.24236v1",
    },
    {
        "id": "arXiv:2610.13020v1",
        "title": "Trajectory-Aware Policy Optimization: Closing the State Distribution Gap in "
        "Long-Horizon LLM RL",
        "url": "https://arxiv.org/abs/2610.13020v1",
    },
]
ORIGINS = {
    "aqua": ("TIGER-AI-Lab/Program-of-Thoughts", "850399c3eff8c37458a9d642c4a98df287f50f3a", "MIT"),
    "gpqa-diamond": (
        "stephlinds/evalconfidence",
        "ba5613a8a011f54b487b114a48f40d6eb9db1b7c",
        "Apache-2.0",
    ),
}
TYPES = {
    "contracts": "mechanism-contracts/1",
    "items": "item-results/1",
    "runs": "tar-trace/1",
    "papers": "paper-results/1",
}
READER = "README.md"

Comparison = tuple[str, str, tuple[str, str], str, tuple[str, str, str], tuple[str, str]]
COMPARISONS: dict[str, Comparison] = {
    # claim: (statement, table, (treatment, baseline), asserts, (difference, low, high),
    #         (test, p))
    "aqua-fewshot-beats-zeroshot": (
        "On AQuA items, few-shot program-of-thoughts prompting solves more than zero-shot.",
        "aqua",
        ("fewshot", "zeroshot"),
        "higher",
        ("0.162055", "0.090909", "0.233202"),
        ("exact-mcnemar", "2.0283e-5"),
    ),
    "aqua-self-consistency-undecided": (
        "On AQuA items, self-consistency shows no difference from few-shot prompting that these "
        "253 items can tell from zero.",
        "aqua",
        ("sc", "fewshot"),
        "no-difference",
        ("0.039526", "-0.003953", "0.083004"),
        ("exact-mcnemar", "0.11018"),
    ),
    "gpqa-mini-below-nano": (
        "On GPQA diamond items, averaged over five rollouts each, gpt-5.4-mini solves less than "
        "gpt-5-nano.",
        "gpqa-diamond",
        ("gpt-5.4-mini-2026-03-17", "gpt-5-nano-2025-08-07"),
        "lower",
        ("-0.058586", "-0.113131", "-0.003030"),
        ("paired-item-bootstrap", "0.038996"),
    ),
}
MEANS = {
    "aqua": {"sc": "0.581028", "fewshot": "0.541502", "zeroshot": "0.379447"},
    "gpqa-diamond": {
        "gpt-5.4-mini-2026-03-17": "0.617172",
        "gpt-5-nano-2025-08-07": "0.675758",
    },
}
"""Every method's mean: with them every score of a table goes into a claim."""
ITEMS = {"aqua": (253, 1), "gpqa-diamond": (198, 5)}
DATASETS = {"aqua": "AQuA", "gpqa-diamond": "GPQA diamond"}
BOOTSTRAP = {"seed": 1273, "resamples": 10000}


def comparison(name: str) -> dict[str, Any]:
    """Return one claim on per-item results."""
    statement, table, methods, asserts, interval, test = COMPARISONS[name]
    artifact, (n, rollouts) = f"items/{table}.csv", ITEMS[table]
    means = [
        {"quantity": "mean", "artifact": artifact, "method": method, "value": value, "n": n}
        | {"rollouts": rollouts}
        for method, value in MEANS[table].items()
    ]
    difference = {
        "quantity": "difference",
        "artifact": artifact,
        "kind": "absolute",
        "value": interval[0],
        "n": n,
        "interval": list(interval[1:]),
        "confidence": "0.95",
        "method": "paired-item-bootstrap",
        **BOOTSTRAP,
    }
    p_value: dict[str, Any] = {
        "quantity": "p-value",
        "artifact": artifact,
        "test": test[0],
        "value": test[1],
    }
    if test[0] == "paired-item-bootstrap":
        p_value |= BOOTSTRAP
    return {
        "id": name,
        "statement": statement,
        "kind": "null-result" if asserts == "no-difference" else "comparison",
        "scope": {"models": list(MEANS[table]), "datasets": [DATASETS[table]]},
        "evidence": [artifact],
        "compares": {"treatment": methods[0], "baseline": methods[1], "asserts": asserts},
        "reported": [*means, difference, p_value],
    }


def components() -> Iterator[dict[str, Any]]:
    """Yield the claims that rest on the TAR traces."""
    about = {
        "tar-replay-is-silent-at-the-base": (
            "While the policy equals the base, the replay loss is exactly zero.",
            ["/updates/0/loss/replay"],
        ),
        "tar-replay-activates": (
            "After the policy has moved, gates open and replay contributes to loss and gradient.",
            [
                f"/updates/{update}/{name}"
                for update in (1, 2)
                for name in ("active_gates", "loss/replay", "gradient_norm/replay")
            ],
        ),
        "tar-updates-are-real": (
            "Every update has a gradient that is not zero and moves the parameters.",
            [f"/updates/{update}/gradient_norm/total" for update in range(3)],
        ),
        "tar-rejects-zero-variance-groups": (
            "Groups whose rewards are all equal are rejected and counted.",
            [f"/updates/{update}/rejected" for update in range(3)],
        ),
    }
    for name, (statement, pointers) in about.items():
        yield {
            "id": name,
            "statement": statement,
            "kind": "component",
            "scope": {
                "models": ["randomly initialised GRU, 16 tokens, width 8"],
                "datasets": ["synthetic"],
            },
            "evidence": [f"runs/tar-{seed}.json" for seed in SEEDS],
            "reported": [value(f"runs/tar-{s}.json", p) for s in SEEDS for p in pointers],
        }


def value(path: str, pointer: str) -> dict[str, Any]:
    """Return a reported value that stands in an artifact, printed with six digits."""
    number: Any = json.loads((ROOT / path).read_bytes())
    for key in pointer.split("/")[1:]:
        number = number[int(key) if isinstance(number, list) else key]
    text = f"{number:.6f}" if isinstance(number, float) and number else f"{number:.0f}"
    return {"quantity": "value", "artifact": path, "pointer": pointer, "value": text}


def mechanism() -> dict[str, Any]:
    """Return the claim that rests on the contracts."""
    return {
        "id": "kernels-compute-their-definitions",
        "statement": "The reference kernels agree with their vectors, autograd and central "
        "differences, and every negative control is caught.",
        "kind": "mechanism",
        "scope": {"note": "deterministic tensors on a CPU"},
        "evidence": ["contracts/mechanism-contracts.json"],
    }


def quotations() -> Iterator[dict[str, Any]]:
    """Yield the claims that only quote a paper, one for each document of quotations."""
    for path in sorted((ROOT / "papers").glob("*.json")):
        document = json.loads(path.read_bytes())
        name = f"papers/{path.name}"
        yield {
            "id": f"quoted-{path.stem}",
            "statement": f"Reported by {document['paper']['id']}; not measured here.",
            "kind": "reported",
            "scope": {"note": "quoted with its source, not reproduced"},
            "evidence": [name],
            "reported": [
                {
                    "quantity": "quote",
                    "artifact": name,
                    "pointer": f"/results/{index}/value",
                    "value": result["value"],
                    "unit": result.get("unit", "proportion"),
                }
                for index, result in enumerate(document["results"])
            ],
        }


def artifact(path: Path) -> dict[str, Any]:
    """Return the manifest's entry for one file."""
    name = path.relative_to(ROOT).as_posix()
    entry: dict[str, Any] = {
        "path": name,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "type": type_of(path),
    }
    if path.parent.name == "items":
        source, revision, licence = ORIGINS[path.stem]
        entry["origin"] = {
            "source": f"https://github.com/{source}",
            "revision": revision,
            "licence": licence,
            "level": "L3",
            "note": "scores only: item, method, rollout, score",
        }
    return entry


def type_of(path: Path) -> str:
    """Return the declared type of a file, from its name and where it stands."""
    if path.name.endswith(".receipt.json"):
        return "receipt/1"
    return "tensors/1" if path.suffix == ".safetensors" else TYPES[path.parent.name]


def produce(folder: Path) -> None:
    """Run what is measured here, before anything of the checkout is touched."""
    (folder / "supplement.json").write_text("{}")
    tar.run(SEEDS, "cpu", folder / "runs", print)
    run_contracts(VECTORS, "cpu", folder / "contracts")


def main() -> None:
    """Build the supplement."""
    with tempfile.TemporaryDirectory() as temporary:
        produce(Path(temporary))
        for name in ("runs", "contracts"):
            shutil.rmtree(ROOT / name, ignore_errors=True)
            shutil.copytree(Path(temporary) / name, ROOT / name)
    files = sorted(p for p in ROOT.rglob("*") if p.is_file())
    listed = [p for p in files if p.name not in (READER, "supplement.json")]
    manifest = {
        "format": "rlvr-supplement/1",
        "title": "TAR component runs, quoted results and real per-item comparisons",
        "papers": PAPERS,
        "artifacts": [artifact(path) for path in listed],
        "ignored": [{"path": READER, "reason": "for people; nothing rests on it"}],
        "claims": [*map(comparison, COMPARISONS), *components(), mechanism(), *quotations()],
    }
    text = json.dumps(manifest, indent=2, ensure_ascii=False)
    (ROOT / "supplement.json").write_text(f"{text}\n", "utf-8")


if __name__ == "__main__":
    main()
