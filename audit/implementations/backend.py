"""Array libraries that the kernels run on: how inputs get there and outputs come back."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvraudit.audit.errors import DeviceError

DTYPES = ("float16", "float32", "float64")
DEVICES = ("cpu", "cuda")


@dataclass(frozen=True, slots=True)
class Backend:
    """An array library on a device.

    `asarray` takes a NumPy array and, for floating-point numbers, the dtype that they get.
    """

    name: str
    dtypes: tuple[str, ...]
    asarray: Callable[[NDArray[Any], str | None], Any]


def backends(device: str = "cpu") -> tuple[Backend, ...]:
    """Return NumPy, and PyTorch on `device` where it is installed.

    Raises:
        DeviceError: CUDA was asked for and is not there; nothing runs in its place.
    """
    if device not in DEVICES:
        raise DeviceError(f"the device is {device!r}; expected one of {', '.join(DEVICES)}")
    found = Backend("numpy", DTYPES, _numpy)
    torch = torch_module()
    if device == "cuda" and not (torch and torch.cuda.is_available()):
        why = "PyTorch finds no CUDA device" if torch else "PyTorch is not installed"
        raise DeviceError(f"cuda was asked for, but {why}; nothing was run in its place")
    return (found, _torch(torch, device)) if torch else (found,)


def torch_module() -> Any:
    """Return PyTorch, or None where it can't be imported."""
    try:
        import torch
    except ImportError:
        return None
    return torch


def _numpy(values: NDArray[Any], dtype: str | None) -> NDArray[Any]:
    return values.astype(dtype) if dtype else values


def _torch(torch: Any, device: str) -> Backend:
    def asarray(values: NDArray[Any], dtype: str | None) -> Any:
        wanted = getattr(torch, dtype) if dtype else None
        return torch.tensor(values, dtype=wanted, device=device)

    name = "torch" if device == "cpu" else f"torch-{device}"
    return Backend(name, (*DTYPES, "bfloat16"), asarray)


def on_host(value: Any) -> Any:
    """Return an output as plain NumPy: floats as FP64, integers and booleans as they are."""
    if hasattr(value, "detach"):
        plain = value.detach().cpu()
        value = (plain.double() if plain.is_floating_point() else plain).numpy()
    array = np.asarray(value)
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def inputs_on(backend: Backend, inputs: Mapping[str, NDArray[Any]], dtype: str) -> dict[str, Any]:
    """Return `inputs` as arrays of `backend`, floating-point ones in `dtype`."""
    return {
        name: backend.asarray(values, dtype if values.dtype.kind == "f" else None)
        for name, values in inputs.items()
    }
