"""Mutate a supplement one number at a time, so that integrity still holds.

A measured value changes by one part in a thousand, an integer or a bit by one, a reported
decimal by one unit of its last digit. Digests in receipts and in the manifest are renewed, so
that only a rule that recomputes can notice.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rlvraudit.audit.evidence.numbers import escape, is_decimal

MANIFEST = "supplement.json"


@dataclass(frozen=True, slots=True)
class Target:
    """One number: its file, where it stands there, and its index in an array or table."""

    path: str
    pointer: str
    index: int = 0


class Supplement:
    """The bytes of a supplement by path, and what they become where one number changes."""

    def __init__(self, source: Path) -> None:
        """Read everything below `source`."""
        files = (p for p in sorted(source.rglob("*")) if p.is_file())
        self.files = {p.relative_to(source).as_posix(): p.read_bytes() for p in files}
        self.manifest = json.loads(self.files[MANIFEST])
        self.types = {a["path"]: a["type"].split("/")[0] for a in self.manifest["artifacts"]}

    def targets(self) -> Iterator[Target]:
        """Yield every number of every artifact and every reported decimal of the manifest."""
        for index, claim in enumerate(self.manifest["claims"]):
            pointer = f"/claims/{index}/reported"
            for at, _ in numbers(claim.get("reported", []), pointer, decimals=True):
                yield Target(MANIFEST, at)
        for path, kind in self.types.items():
            if kind == "tensors":
                for name, (_, shape, _) in tensors(self.files[path]).items():
                    size = int(np.prod(shape))
                    yield from (Target(path, f"/{escape(name)}", i) for i in range(size))
            elif kind == "item-results":
                rows = len(self.files[path].splitlines()) - 1
                yield from (Target(path, "/score", row) for row in range(rows))
            else:
                quoted = kind in ("paper-results", "figure-source")
                value = json.loads(self.files[path])
                yield from (Target(path, at) for at, _ in numbers(value, "", decimals=quoted))

    def mutant(self, target: Target) -> dict[str, bytes] | None:
        """Return the files that differ in a mutant; None where the mutation changes nothing."""
        kind = self.types.get(target.path, "json")
        mutate = {"tensors": mutate_tensor, "item-results": mutate_score}.get(kind, mutate_json)
        data = mutate(self.files[target.path], target)
        if data == self.files[target.path]:
            return None
        return self._rehashed({target.path: data})

    def _rehashed(self, changed: dict[str, bytes]) -> dict[str, bytes]:
        """Return the changed files with the receipts and the manifest that name their digests."""
        for receipt in (p for p, kind in self.types.items() if kind == "receipt"):
            data = changed.get(receipt, self.files[receipt])
            changed[receipt] = self._with_digests(data, changed)
        manifest = changed.get(MANIFEST, self.files[MANIFEST])
        changed[MANIFEST] = self._with_digests(manifest, changed)
        return changed

    def _with_digests(self, data: bytes, changed: dict[str, bytes]) -> bytes:
        for path, new in changed.items():
            for digest in (sha256, git_blob):
                data = data.replace(digest(self.files[path]), digest(new))
        return data


def sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).hexdigest().encode()


def git_blob(data: bytes) -> bytes:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest().encode()


def numbers(value: Any, pointer: str, *, decimals: bool) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield from numbers(part, f"{pointer}/{escape(key)}", decimals=decimals)
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from numbers(part, f"{pointer}/{index}", decimals=decimals)
    elif (isinstance(value, int | float) and not isinstance(value, bool)) or (
        decimals and isinstance(value, str) and is_decimal(value)
    ):
        yield pointer, value


def mutate_json(data: bytes, target: Target) -> bytes:
    document = json.loads(data)
    *parents, last = [
        k.replace("~1", "/").replace("~0", "~") for k in target.pointer.split("/")[1:]
    ]
    place = document
    for key in parents:
        place = place[int(key) if isinstance(place, list) else key]
    final: Any = int(last) if isinstance(place, list) else last
    new = mutated(place[final])
    if new == place[final]:
        return data
    place[final] = new
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()


def mutated(value: Any) -> Any:
    if isinstance(value, str):
        return next_decimal(value)
    return value * 1.001 if isinstance(value, float) else value + 1


def next_decimal(text: str) -> str:
    """Return the decimal with its last printed digit raised by one unit.

    >>> next_decimal("+0.099"), next_decimal("-0.3"), next_decimal("9")
    ('+0.100', '-0.2', '10')
    """
    from decimal import Decimal

    mantissa, e, exponent = text.removesuffix("%").partition("e")
    value = Decimal(mantissa)
    raised = value + Decimal(1).scaleb(int(value.as_tuple().exponent))
    sign = "+" if text.startswith("+") and raised >= 0 else ""
    return f"{sign}{raised:f}{e}{exponent}{'%' * text.endswith('%')}"


def tensors(data: bytes) -> dict[str, tuple[str, list[int], int]]:
    """Return each array's dtype, shape and first byte, by name."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    return {
        name: (entry["dtype"], entry["shape"], 8 + length + entry["data_offsets"][0])
        for name, entry in header.items()
        if name != "__metadata__"
    }


def mutate_tensor(data: bytes, target: Target) -> bytes:
    dtype, _, start = tensors(data)[target.pointer[1:].replace("~1", "/").replace("~0", "~")]
    kind = np.dtype({"F64": "<f8", "F32": "<f4", "I64": "<i8", "BOOL": "?"}[dtype])
    at = start + target.index * kind.itemsize
    old = np.frombuffer(data, kind, 1, at)[0]
    new = not old if kind.kind == "b" else old * 1.001 if kind.kind == "f" else old + 1
    return data[:at] + np.asarray(new, kind).tobytes() + data[at + kind.itemsize :]


def mutate_score(data: bytes, target: Target) -> bytes:
    lines = data.decode().split("\n")
    column = lines[0].split(",").index("score")
    cells = lines[target.index + 1].split(",")
    cells[column] = repr(1.0 - float(cells[column]))
    lines[target.index + 1] = ",".join(cells)
    return "\n".join(lines).encode()
