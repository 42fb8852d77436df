"""`run tar`: train each seed, write its trace, its arrays and the receipt that binds them."""

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from rlvraudit.audit.errors import DeviceError, UsageError
from rlvraudit.audit.evidence.supplement import MANIFEST
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


def run(seeds: Sequence[int], device: str, output: Path, progress: Progress) -> list[str]:
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
    below = within_supplement(output)
    with write_once(output, RECIPE, {f"run-{seed}": seed for seed in seeds}) as files:
        files.stage = "device"
        found = find_device(device)
        for seed in seeds:
            files.stage = f"seed {seed}"
            progress(f"seed {seed} on {device}")
            _run_seed(files, seed, found, below)
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


@dataclass(frozen=True, slots=True)
class Device:
    """A device that is there: "cpu" or "cuda", and its model."""

    kind: str
    model: str


def find_device(kind: str) -> Device:
    """Return the device of that kind.

    Raises:
        UsageError: There is no such kind.
        DeviceError: It is not there; no other is used in its place.
    """
    if kind not in DEVICES:
        raise UsageError(f"device {kind!r} is unknown; expected one of {', '.join(DEVICES)}")
    if kind == "cpu":
        return Device(kind, platform.processor() or platform.machine())
    import torch

    if not torch.cuda.is_available():
        raise DeviceError("device 'cuda' was asked for, and there is no CUDA device here")
    return Device(kind, torch.cuda.get_device_name())


def within_supplement(output: Path) -> PurePosixPath:
    """Return where `output` lies in the supplement around it; "." where there is none.

    Receipts name their subjects relative to the supplement.
    """
    place = output.absolute()
    for root in place.parents:
        if (root / MANIFEST).is_file():
            return PurePosixPath(place.relative_to(root).as_posix())
    return PurePosixPath()


def _run_seed(files: Output, seed: int, device: Device, below: PurePosixPath) -> None:
    from rlvraudit.audit.runs.tar_training import train

    started = datetime.now(UTC)
    trace = train(seed, device.kind)
    parts = trace_files(trace, f"tar-{seed}", device.kind)
    for name, data in parts.items():
        files.write(name, data)
    settings = TarSettings()
    receipt = build_receipt(
        build_type=BUILD_TYPE,
        entrypoint=f"rlvr-audit run tar --seeds {seed} --device {device.kind}",
        recipe=RECIPE,
        seeds={"run": seed},
        device_requested=device.kind,
        device_kind=device.kind,
        device_model=device.model,
        budget=_budget(settings),
        dtype=trace.document["dtype"],
        sources=source_files(),
        subjects={str(below / name): data for name, data in parts.items()},
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
