"""The examples in README and docs: console blocks that start with a command, and its output.

`python tests/support/examples.py` runs them all and writes what they print into the files.
"""

import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rlvraudit.audit.reports.catalogue import markdown
from rlvraudit.audit.rules import RULES

CHECKOUT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/supplement.md")
CODE = re.compile(r"^```python\n(# my_losses\.py.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```console\n\$ (rlvr-audit[^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def examples(text: str) -> Iterator[tuple[str, str]]:
    """Yield the command and the output of each example of a page."""
    for block in BLOCK.finditer(text):
        yield block[1], block[2]


def workplace(folder: Path) -> Path:
    """Copy what the examples need into `folder` and return it."""
    for name in ("supplement", "vectors"):
        shutil.copytree(CHECKOUT / "fixtures" / name, folder / "fixtures" / name)
    shutil.copytree(CHECKOUT / "fixtures" / "supplement" / "items", folder / "my-results")
    shutil.copy(CHECKOUT / "pyproject.toml", folder)
    losses = CODE.search((CHECKOUT / "README.md").read_text("utf-8"))
    assert losses is not None
    (folder / "my_losses.py").write_text(losses[1], "utf-8")
    return folder


def run(command: str) -> str:
    """Return what a command prints on standard output, in a folder of its own."""
    arguments = [sys.executable, "-m", "rlvraudit", *shlex.split(command)[1:]]
    with tempfile.TemporaryDirectory() as name:
        folder = workplace(Path(name))
        return subprocess.run(arguments, cwd=folder, capture_output=True, encoding="utf-8").stdout


def renewed(text: str) -> str:
    """Return a page with the output that its commands print now."""
    return BLOCK.sub(lambda b: f"```console\n$ {b[1]}\n{run(b[1])}```", text)


def main() -> None:
    """Write the output of all examples into their pages, and the page on rules."""
    for page in PAGES:
        path = CHECKOUT / page
        path.write_text(renewed(path.read_text("utf-8")), "utf-8")
    (CHECKOUT / "docs" / "rules.md").write_text(markdown(RULES), "utf-8")


if __name__ == "__main__":
    main()
