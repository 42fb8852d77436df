"""A git checkout, asked without running anything of it: hooks and foreign configuration are off."""

import hashlib
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rlvraudit.audit.errors import UnreadableError

QUIET = (
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.pager=cat",
    "protocol.allow=never",
    "safe.directory=*",
)
ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
SECONDS = 60


@dataclass(frozen=True, slots=True)
class Repository:
    """A checkout on this machine."""

    folder: Path

    def commit(self) -> str:
        """Return the full id of the commit that is checked out.

        Raises:
            UnreadableError: `folder` is no checkout, or has no commit yet.
        """
        return self._git("rev-parse", "--verify", "HEAD^{commit}").decode("ascii").strip()

    def top(self) -> Path:
        """Return the top folder of the checkout."""
        return Path(os.fsdecode(self._git("rev-parse", "--show-toplevel")).rstrip("\n"))

    def tree_state(self) -> str:
        """Return "clean", "untracked" (nothing else changed) or "dirty"."""
        changed = self._git("status", "--porcelain=v1", "-z", "--ignore-submodules=none")
        if not changed:
            return "clean"
        states = (entry[:2] for entry in changed.split(b"\0") if entry)
        return "untracked" if all(state == b"??" for state in states) else "dirty"

    def blobs(self, commit: str) -> Mapping[str, str]:
        """Return the blob id of every file in the tree of a full commit id, by path.

        Raises:
            UnreadableError: The repository does not have that commit.
        """
        listing = self._git("ls-tree", "-r", "-z", "--full-tree", commit)
        rows = (row.split(b"\t", 1) for row in listing.split(b"\0") if row)
        return {os.fsdecode(path): kind.split()[2].decode("ascii") for kind, path in rows}

    def sha256(self, blob: str) -> str:
        """Return the SHA-256 of the bytes of a blob."""
        return hashlib.sha256(self._git("cat-file", "blob", blob)).hexdigest()

    def _git(self, *arguments: str) -> bytes:
        options = [part for setting in QUIET for part in ("-c", setting)]
        command = ["git", "-C", str(self.folder), *options, *arguments]
        environment = {"PATH": os.environ.get("PATH", os.defpath), **ENVIRONMENT}
        try:
            result = subprocess.run(
                command, env=environment, capture_output=True, timeout=SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UnreadableError(f"git could not be run: {error}") from error
        if result.returncode:
            reason = result.stderr.decode("utf-8", "replace").strip().partition("\n")[0]
            raise UnreadableError(f"git {arguments[0]}: {reason or 'it failed'}")
        return result.stdout
