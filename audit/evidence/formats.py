"""Formats that are never read as evidence, and files that only stand for others."""

import re
from pathlib import PurePosixPath

CODE = "it can run code when it is loaded"
PACKED = "archives are never unpacked"
BY_SUFFIX = {
    **dict.fromkeys((".pkl", ".pickle", ".joblib", ".dill", ".cloudpickle"), CODE),
    **dict.fromkeys((".pt", ".pth", ".pt2", ".bin", ".ckpt", ".mar"), CODE),
    **dict.fromkeys((".npy", ".npz"), "NumPy files can hold pickles; write safetensors"),
    **dict.fromkeys((".h5", ".hdf5", ".keras"), "HDF5 is not read; write safetensors"),
    **dict.fromkeys((".yaml", ".yml"), "YAML reads 1e-6 as text and no as false; write JSON"),
    **dict.fromkeys((".parquet", ".arrow", ".feather"), "columnar files are not read; write CSV"),
    **dict.fromkeys((".zip", ".whl", ".jar", ".egg", ".tar", ".tgz", ".tbz2", ".txz"), PACKED),
    **dict.fromkeys((".gz", ".bz2", ".xz", ".zst", ".lz4", ".7z", ".rar", ".eval"), PACKED),
}
BY_MAGIC = (
    (re.compile(rb"PK(?:\x03\x04|\x05\x06|\x07\x08)"), PACKED),
    (re.compile(rb"\x1f\x8b|BZh[1-9]|\xfd7zXZ\x00|\x28\xb5\x2f\xfd|7z\xbc\xaf|Rar!"), PACKED),
    (re.compile(rb"(?s).{257}ustar"), PACKED),
    (re.compile(rb"\x80[\x02-\x05](?!.{6}\{)", re.DOTALL), CODE),
    (re.compile(rb"\x93NUMPY"), BY_SUFFIX[".npy"]),
    (re.compile(rb"\x89HDF\r\n"), BY_SUFFIX[".h5"]),
    (re.compile(rb"PAR1"), BY_SUFFIX[".parquet"]),
)
LFS = re.compile(rb"version https://(?:git-lfs\.github\.com|hawser\.github\.com)/spec/v\d")
ANNEX = re.compile(rb"(?:/|(?:\.\./)*\.git/)annex/objects/")
LARGEST_POINTER = 32 * 1024


def unsupported(path: str, data: bytes) -> str:
    """Return why this format is not read as evidence, or "" if nothing is known against it.

    The name decides first, then the first bytes: a pickle called `trace.json` is still one.
    """
    by_name = BY_SUFFIX.get(PurePosixPath(path).suffix.casefold(), "")
    return by_name or next((why for magic, why in BY_MAGIC if magic.match(data)), "")


def never_read(path: str, data: bytes) -> bool:
    """Tell whether the contents need not be kept: binary, and of a format that is not read."""
    return b"\0" in data[:8192] and unsupported(path, data) != ""


def pointer_file(data: bytes) -> str:
    """Return what a small text file stands for instead of holding it, or ""."""
    if len(data) > LARGEST_POINTER:
        return ""
    if LFS.match(data):
        return "a Git-LFS pointer"
    return "a git-annex pointer" if ANNEX.match(data) else ""
