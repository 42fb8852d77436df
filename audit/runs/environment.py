"""Where a run happens, as far as a receipt may say: device, versions, sources, supplement."""

import platform
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path, PurePosixPath

from rlvraudit.audit.errors import DeviceError, UsageError
from rlvraudit.audit.evidence.supplement import MANIFEST

DEVICES = ("cpu", "cuda")
PACKAGES = {"numpy": "numpy", "torch": "torch", "rlvr-audit": "rlvr-audit-toolkit"}


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


def source_files(*folders: str) -> list[Path]:
    """Return every module below folders of the package, in the checkout behind it."""
    package = Path(__file__).parents[2]
    return [path.resolve() for folder in folders for path in (package / folder).rglob("*.py")]


def versions() -> dict[str, str]:
    """Return the versions that a receipt states, of what is installed."""
    found = {"python": platform.python_version()}
    for name, package in PACKAGES.items():
        with suppress(PackageNotFoundError):
            found[name] = version(package)
    return found
