"""The safetensors reader believes nothing that the header says without looking."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from rlvraudit.audit.evidence.intake import Limits, MalformedError
from rlvraudit.audit.evidence.safetensors import read

ONE = {"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}


def packed(header: Any, data: bytes = bytes(8)) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(**changes: Any) -> dict[str, Any]:
    return {"x": {**ONE["x"], **changes}}


def two(first: list[int], second: list[int]) -> dict[str, Any]:
    return {
        "a": {"dtype": "U8", "shape": [first[1] - first[0]], "data_offsets": first},
        "b": {"dtype": "U8", "shape": [second[1] - second[0]], "data_offsets": second},
    }


LIES: dict[str, tuple[bytes, str]] = {
    "too short": (b"1234567", "at least 8"),
    "header past the end": (struct.pack("<Q", 99) + b"{}", "99 bytes in a file of 10"),
    "header of exabytes": (struct.pack("<Q", 2**63) + b"{}", "at most"),
    "header no object": (packed([]), "not a JSON object"),
    "header no JSON": (packed(b"{,}"), "header: "),
    "header in UTF-16": (packed('{"a":1}'.encode("utf-16")), "UTF-16"),
    "duplicate name": (packed(b'{"x": 1, "x": 1}'), "appears twice"),
    "deep header": (packed(b"[" * 100_000), "deeper than"),
    "NaN offset": (
        packed(b'{"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, NaN]}}'),
        "NaN",
    ),
    "overlap": (packed(two([0, 6], [4, 8])), "overlaps"),
    "gap": (packed(two([0, 3], [5, 8])), "gap"),
    "hidden bytes before": (packed(two([1, 4], [4, 8])), "gap"),
    "hidden bytes after": (packed(ONE, bytes(9)), "end at byte 8 of 9"),
    "past the end": (packed(ONE, bytes(7)), "end at byte 8 of 7"),
    "same bytes twice": (packed(two([0, 8], [0, 8])), "overlaps"),
    "shape too large": (packed(entry(shape=[1 << 40])), "needs 4398046511104 bytes"),
    "shape overflows 64 bits": (packed(entry(shape=[1 << 40, 1 << 40])), "needs"),
    "negative shape": (packed(entry(shape=[-2])), "naturals"),
    "two negatives": (packed(entry(shape=[-1, -2])), "naturals"),
    "boolean shape": (packed(entry(shape=[True, 2])), "naturals"),
    "fractional shape": (packed(entry(shape=[2.0])), "naturals"),
    "shape no list": (packed(entry(shape=2)), "naturals"),
    "33 dimensions": (packed(entry(shape=[1] * 32 + [2])), "naturals"),
    "offsets reversed": (packed(entry(data_offsets=[8, 0])), "needs 8 bytes"),
    "three offsets": (packed(entry(data_offsets=[0, 8, 8])), "naturals"),
    "negative offset": (packed(entry(data_offsets=[-8, 0])), "naturals"),
    "unknown dtype": (packed(entry(dtype="F8_E4M3")), "F8_E4M3"),
    "object dtype": (packed(entry(dtype="O")), "dtype"),
    "dtype no text": (packed(entry(dtype=["F32"])), "dtype"),
    "extra field": (packed(entry(extra=1)), "exactly"),
    "no dtype": (packed({"x": {"shape": [2], "data_offsets": [0, 8]}}), "exactly"),
    "entry no object": (packed({"x": [1]}), "exactly"),
    "metadata no strings": (packed({**ONE, "__metadata__": {"a": 1}}), "__metadata__"),
    "metadata no object": (packed({**ONE, "__metadata__": "a"}), "__metadata__"),
    "boolean that is 2": (
        packed({"x": {"dtype": "BOOL", "shape": [2], "data_offsets": [0, 2]}}, b"\x01\x02"),
        "not 0 or 1",
    ),
}


@pytest.mark.parametrize("name", LIES)
def test_a_lying_header_is_refused(name: str) -> None:
    data, message = LIES[name]
    with pytest.raises(MalformedError) as refused:
        read(data)
    assert message in str(refused.value)
    assert len(str(refused.value)) < 300


def test_a_header_above_the_cap_is_refused_unparsed() -> None:
    with pytest.raises(MalformedError, match="at most 10 are read"):
        read(packed(ONE), Limits(header_bytes=10))


def test_files_of_the_reference_library_are_read_bit_for_bit(tmp_path: Path) -> None:
    numpy = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")
    rng = np.random.default_rng(0)
    arrays: dict[str, NDArray[Any]] = {
        "f64": rng.standard_normal((3, 4)),
        "f32": rng.standard_normal(5).astype(np.float32),
        "f16": rng.standard_normal((2, 0, 3)).astype(np.float16),
        "i64": rng.integers(-(2**62), 2**62, 7),
        "i32": np.arange(-3, 3, dtype=np.int32),
        "i16": np.arange(-3, 3, dtype=np.int16),
        "i8": np.arange(-3, 3, dtype=np.int8),
        "u8": np.arange(6, dtype=np.uint8),
        "bool": np.array([[True], [False]]),
        "scalar": np.array(2.5),
    }
    numpy.save_file(arrays, tmp_path / "x.safetensors", {"note": "metadata"})
    found = read((tmp_path / "x.safetensors").read_bytes())
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        assert found[name].tobytes() == array.tobytes()


def test_arrays_share_the_bytes_and_cannot_be_written() -> None:
    data = packed(ONE, struct.pack("<2f", 0.5, 1.5))
    array = read(data)["x"]
    assert array.tolist() == [0.5, 1.5]
    assert not array.flags.owndata
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1.0


def test_bfloat16_becomes_the_float32_with_the_same_value() -> None:
    # 0x3F80 is 1, 0xC000 is -2, 0x7F80 is infinity, 0x0001 is 2**-133: sign, 8 bits, 7 bits.
    header = {"x": {"dtype": "BF16", "shape": [4], "data_offsets": [0, 8]}}
    array = read(packed(header, struct.pack("<4H", 0x3F80, 0xC000, 0x7F80, 0x0001)))["x"]
    assert array.dtype == np.float32
    assert array.tolist() == [1.0, -2.0, float("inf"), 2.0**-133]
    assert not array.flags.writeable


@given(st.binary(max_size=64), st.integers(0, 70))
@settings(max_examples=300, deadline=None)
def test_arbitrary_bytes_are_read_or_refused_and_never_crash(junk: bytes, length: int) -> None:
    for data in (junk, struct.pack("<Q", length) + junk, packed(junk), packed(ONE, junk)):
        try:
            read(data)
        except MalformedError:
            continue
