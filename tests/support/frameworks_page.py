"""Write docs/frameworks.md: what `rlvr-audit kernels --impl all` says of what is installed."""

import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
COMMAND = ("rlvr-audit", "kernels", "--impl", "all")
PACKAGES = ("trl", "verl", "liger-kernel", "openrlhf", "torch", "numpy")
PAGE = """# The losses of frameworks, side by side

Written by `make frameworks` on {date}, with {versions}, Python {python}, on a CPU. The frameworks
are installed without their dependencies; of each the code that is named under *called* was run,
taken from where it is installed, with its own defaults and nothing else. SkyRL, AReaL and Unsloth
have adapters as well and were not installed here; slime, NeMo-RL and prime-rl are audited from a
checkout: `rlvr-audit kernels --impl slime=/path/to/checkout`.

A **convention** is a choice that has been published; it is shown and is no fault. A **fault** is
what no published convention gives. What stands under *robustness* is no fault: it is what the
function does at inputs that its own framework does not give it (padding there is finite). Where a
KL term is off by default (weight 0) it was looked at with weight 1. What was not asked: the
trainers around these functions, how they gather log-probabilities, generate, or accumulate.

```console
$ {command}
{output}```
"""


def main() -> int:
    """Run the command, write the page; the command's own status is not the page's."""
    program = Path(sys.executable).with_name(COMMAND[0])
    done = subprocess.run([str(program), *COMMAND[1:]], capture_output=True, text=True, check=False)
    if not done.stdout:
        sys.stderr.write(done.stderr)
        return 1
    known = ", ".join(f"{name} {found}" for name in PACKAGES if (found := _version(name)))
    page = PAGE.format(
        date=datetime.now(UTC).date().isoformat(),
        versions=known,
        python=sys.version.split()[0],
        command=" ".join(COMMAND),
        output=done.stdout,
    )
    (CHECKOUT / "docs" / "frameworks.md").write_text(page, "utf-8")
    return 0


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


if __name__ == "__main__":
    sys.exit(main())
