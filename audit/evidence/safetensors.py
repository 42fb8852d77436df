"""Tensors from a safetensors file: every claim of its header is checked against the bytes."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvraudit.audit.evidence.intake import LIMITS, Limits, MalformedError
from rlvraudit.audit.evidence.strict_json import loads, quote

DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "|i1",
    "U8": "|u1",
    "BOOL": "|u1",
}
"""Types that are read, as NumPy sees their bytes; BF16 becomes float32, BOOL becomes bool."""
LENGTH = 8
FIELDS = {"dtype", "shape", "data_offsets"}


@dataclass(frozen=True, slots=True)
class _Tensor:
    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def read(data: bytes, limits: Limits = LIMITS) -> Mapping[str, NDArray[Any]]:
    """Return read-only arrays that share `data`, by name, in the order of the file.

    BF16 has no NumPy type and is widened to float32, which holds each of its values.

    Raises:
        MalformedError: The header lies about the file, or uses a type that is not read.
    """
    header, start = _header(data, limits)
    tensors = sorted(_tensors(header), key=lambda t: (t.begin, t.end))
    _refuse_gaps(tensors, len(data) - start)
    return {tensor.name: _array(data, start, tensor) for tensor in tensors}


def _header(data: bytes, limits: Limits) -> tuple[dict[str, Any], int]:
    if len(data) < LENGTH:
        raise MalformedError(f"{len(data)} bytes, a safetensors file has at least {LENGTH}")
    length = int.from_bytes(data[:LENGTH], "little")
    if length > limits.header_bytes:
        raise MalformedError(f"a header of {length} bytes, at most {limits.header_bytes} are read")
    if LENGTH + length > len(data):
        raise MalformedError(f"a header of {length} bytes in a file of {len(data)}")
    try:
        header = loads(data[LENGTH : LENGTH + length], limits)
    except MalformedError as error:
        raise MalformedError(f"header: {error}", error.line, error.column) from error
    if not isinstance(header, dict):
        raise MalformedError("the header is not a JSON object")
    return header, LENGTH + length


def _tensors(header: dict[str, Any]) -> Iterator[_Tensor]:
    for name, entry in header.items():
        if name == "__metadata__":
            _refuse_metadata(entry)
        else:
            yield _tensor(name, entry)


def _refuse_metadata(entry: Any) -> None:
    if not isinstance(entry, dict) or not all(isinstance(v, str) for v in entry.values()):
        raise MalformedError("__metadata__ must map strings to strings")


def _tensor(name: str, entry: Any) -> _Tensor:
    if not isinstance(entry, dict) or entry.keys() != FIELDS:
        raise MalformedError(f"tensor {quote(name)} must have exactly dtype, shape, data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        known = ", ".join(DTYPES)
        raise MalformedError(f"tensor {quote(name)} has dtype {quote(str(dtype))}, not {known}")
    if not _naturals(shape) or not _naturals(offsets) or len(offsets) != 2:
        raise MalformedError(f"tensor {quote(name)} has a shape or offsets that are not naturals")
    tensor = _Tensor(name, dtype, tuple(shape), offsets[0], offsets[1])
    expected = math.prod(shape) * np.dtype(DTYPES[dtype]).itemsize
    if tensor.end - tensor.begin != expected:
        raise MalformedError(
            f"tensor {quote(name)} of {dtype} and shape {list(shape[:8])} needs {expected} bytes, "
            f"its offsets span {tensor.end - tensor.begin}"
        )
    return tensor


def _naturals(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) <= 32
        and all(type(v) is int and 0 <= v < 1 << 63 for v in value)
    )


def _refuse_gaps(tensors: list[_Tensor], size: int) -> None:
    """Tensors must lie end to end and fill the file: no overlap, no hidden bytes."""
    at = 0
    for tensor in tensors:
        if tensor.begin != at:
            what = "overlaps the one before" if tensor.begin < at else "leaves a gap before it"
            raise MalformedError(f"tensor {quote(tensor.name)} {what} (offset {tensor.begin})")
        at = tensor.end
    if at != size:
        raise MalformedError(f"tensors end at byte {at} of {size}")


def _array(data: bytes, start: int, tensor: _Tensor) -> NDArray[Any]:
    flat: NDArray[Any] = np.frombuffer(
        data, DTYPES[tensor.dtype], math.prod(tensor.shape), start + tensor.begin
    )
    if tensor.dtype == "BF16":
        flat = (flat.astype("<u4") << 16).view("<f4")
        flat.setflags(write=False)
    if tensor.dtype == "BOOL":
        if flat.size and int(flat.max()) > 1:
            raise MalformedError(f"tensor {quote(tensor.name)} holds a boolean that is not 0 or 1")
        flat = flat.view(np.bool_)
    return flat.reshape(tensor.shape)
