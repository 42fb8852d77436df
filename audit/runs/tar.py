"""`run tar`: train each seed, write its trace, its arrays and the receipt that binds them."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from rlvraudit.audit.errors import UsageError
from rlvraudit.audit.runs.documents import dump
from rlvraudit.audit.runs.environment import (
    Device,
    find_device,
    source_files,
    versions,
    within_supplement,
)
from rlvraudit.audit.runs.output import Output, write_once
from rlvraudit.audit.runs.receipt import build_receipt
from rlvraudit.audit.runs.tar_recipe import BUILD_TYPE, RECIPE, TarSettings

if TYPE_CHECKING:
    from rlvraudit.audit.runs.tar_training import Trace

LARGEST_SEED = 2**53 - 1
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


def _run_seed(files: Output, seed: int, device: Device, below: PurePosixPath) -> None:
    from rlvraudit.audit.runs.tar_training import train

    started = datetime.now(UTC)
    trace = train(seed, device.kind)
    parts = trace_files(trace, f"tar-{seed}")
    for name, data in parts.items():
        files.write(name, data)
    settings = TarSettings()
    receipt = build_receipt(
        build_type=BUILD_TYPE,
        entrypoint=f"rlvr-audit run tar --seeds {seed} --device {device.kind}",
        recipe=RECIPE,
        seeds={"run": seed},
        device_requested=device.kind,
        device_kind=trace.document["device"]["kind"],
        device_model=device.model,
        budget=_budget(settings),
        dtype=trace.document["dtype"],
        sources=source_files("audit/runs", "kernels"),
        subjects={str(below / name): data for name, data in parts.items()},
        started=started,
        finished=datetime.now(UTC),
        cost=_cost(trace),
        level=trace.document["level"],
        versions=versions(),
    )
    files.write(f"tar-{seed}.receipt.json", dump(receipt))


def trace_files(trace: "Trace", stem: str) -> dict[str, bytes]:
    """Return the bytes of a trace's document and of its arrays, by file name."""
    from safetensors.numpy import save

    arrays = f"{stem}.safetensors"
    document: Mapping[str, Any] = {**trace.document, "tensors": arrays}
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
