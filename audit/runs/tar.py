"""`run tar`: train each seed, write its trace, its arrays and the receipt that binds them."""

import platform
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlvraudit.audit.errors import DeviceError, UsageError
from rlvraudit.audit.runs.documents import dump
from rlvraudit.audit.runs.output import Output, write_once
from rlvraudit.audit.runs.receipt import build_receipt
from rlvraudit.audit.runs.tar_recipe import BUILD_TYPE, RECIPE, TarSettings

if TYPE_CHECKING:
    from rlvraudit.audit.runs.tar_training import Trace

DEVICES = ("cpu", "cuda")
LARGEST_SEED = 2**53 - 1
SOURCES = ("audit/runs", "kernels")
"""Folders of the code that a run executes; every module below them is bound by the receipts."""
NEEDED = ("torch", "safetensors")

Progress = Callable[[str], None]


def run(seeds: Sequence[int], device: str, output: Path, progress: Progress = print) -> list[str]:
    """Run the TAR component for each seed and return the names of the files in `output`.

    `output` appears at once when every seed is done; if anything fails it holds `failure.json`
    and nothing else.

    Raises:
        UsageError: A seed is out of range or repeated, `output` exists, an extra is missing, or
            the code lies in no checkout that a receipt could name.
        DeviceError: The device is not there; another is never used in its place.
        RunError: The recipe can't go on for one of the seeds.
    """
    _refuse_seeds(seeds)
    _refuse_missing()
    with write_once(output, RECIPE, {f"run-{seed}": seed for seed in seeds}) as files:
        files.stage = "device"
        model = device_model(device)
        for seed in seeds:
            files.stage = f"seed {seed}"
            progress(f"seed {seed} on {device}")
            _run_seed(files, seed, device, model)
    return sorted(files.written)


def _refuse_seeds(seeds: Sequence[int]) -> None:
    for seed in seeds:
        if not 0 <= seed <= LARGEST_SEED:
            raise UsageError(f"seed {seed} is out of range; expected 0 to 2**53 - 1")
    if not seeds or len(set(seeds)) < len(seeds):
        raise UsageError(f"seeds {list(seeds)}: expected at least one, and each only once")


def _refuse_missing() -> None:
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise UsageError(
            f"{' and '.join(missing)} not installed; pip install 'rlvr-audit-toolkit[torch]'"
        )


def device_model(device: str) -> str:
    """Return the model of a device that is there.

    Raises:
        DeviceError: It is not; no other is used in its place.
    """
    if device == "cpu":
        return platform.processor() or platform.machine()
    import torch

    if not torch.cuda.is_available():
        raise DeviceError(f"device {device!r} was asked for, and there is no CUDA device here")
    return torch.cuda.get_device_name()


def _run_seed(files: Output, seed: int, device: str, model: str) -> None:
    from rlvraudit.audit.runs.tar_training import train

    started = datetime.now(UTC)
    trace = train(seed, device)
    parts = trace_files(trace, f"tar-{seed}", device)
    for name, data in parts.items():
        files.write(name, data)
    settings = TarSettings()
    receipt = build_receipt(
        build_type=BUILD_TYPE,
        entrypoint=f"rlvr-audit run tar --seeds {seed} --device {device}",
        recipe=RECIPE,
        seeds={"run": seed},
        device_requested=device,
        device_kind=device,
        device_model=model,
        budget=_budget(settings),
        dtype=trace.document["dtype"],
        sources=source_files(),
        subjects=parts,
        started=started,
        finished=datetime.now(UTC),
        cost=_cost(trace),
        level=trace.document["level"],
        versions=versions(),
    )
    files.write(f"tar-{seed}.receipt.json", dump(receipt))


def trace_files(trace: "Trace", stem: str, device: str) -> dict[str, bytes]:
    """Return the bytes of a trace's document and of its arrays, by file name."""
    from safetensors.numpy import save

    arrays = f"{stem}.safetensors"
    document: Mapping[str, Any] = {
        **trace.document,
        "device": {"requested": device, "kind": device},
        "tensors": arrays,
    }
    return {f"{stem}.json": dump(document), arrays: save(dict(trace.tensors))}


def _budget(settings: TarSettings) -> dict[str, int | str]:
    return {
        "steps": settings.updates,
        "groups": settings.groups,
        "group": settings.group_size,
        "candidates": settings.candidates,
        "max_tokens": settings.max_tokens,
        "inner_updates": 1,
    }


def _cost(trace: "Trace") -> dict[str, int | str]:
    masks = [mask for name, mask in trace.tensors.items() if name.endswith(".mask")]
    rejected = sum(update["rejected"] for update in trace.document["updates"])
    return {"generated_tokens": int(sum(mask.sum() for mask in masks)), "rejected": rejected}


def source_files() -> list[Path]:
    """Return every module that a run may execute, in the checkout behind the package."""
    package = Path(__file__).parents[2]
    return [path.resolve() for folder in SOURCES for path in (package / folder).rglob("*.py")]


def versions() -> dict[str, str]:
    """Return the versions that a receipt states."""
    packages = {"numpy": "numpy", "torch": "torch", "rlvr-audit": "rlvr-audit-toolkit"}
    installed = {name: version(package) for name, package in packages.items()}
    return {"python": platform.python_version(), **installed}
