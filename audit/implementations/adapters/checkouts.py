"""Checkouts: frameworks that are audited from a user's own clone, which has a commit."""

from pathlib import Path


def commit(checkout: Path | None) -> str:
    """Return the commit that a checkout has checked out, or "" where its files don't say.

    Only files are read: git run in a folder of somebody else would run what its config says.
    """
    if checkout is None:
        return ""
    git = _pointed_to(checkout / ".git", "gitdir: ")
    head = _text(git / "HEAD")
    if not head.startswith("ref: "):
        return head
    ref = head.removeprefix("ref: ")
    common = _pointed_to(git / "commondir", "")  # of a worktree, where its clone keeps the refs
    refs = common if common.is_dir() else git
    packed = (line.partition(" ") for line in _text(refs / "packed-refs").splitlines())
    return _text(refs / ref) or next((id_ for id_, _, name in packed if name == ref), "")


def _pointed_to(path: Path, before: str) -> Path:
    """Return the folder that a file names, relative to its own, or the path itself."""
    if not path.is_file():
        return path
    return path.parent / _text(path).removeprefix(before)


def _text(path: Path) -> str:
    return path.read_text("utf-8", "replace").strip() if path.is_file() else ""


def described(name: str, checkout: Path | None) -> str:
    """Return a framework with its commit, shortened, for messages."""
    return f"{name} {commit(checkout)[:12] or 'at an unknown commit'}"
