"""How long starting takes, as ratios to what Python and the libraries alone take.

Whole processes, interleaved, so that a busy moment of the machine meets all of them.
"""

import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

ROUNDS = 15
SUPPLEMENT = Path(__file__).parents[2] / "fixtures" / "supplement"
PYTHON = [sys.executable]
PROGRAM = [str(Path(sys.executable).with_name("rlvr-audit"))]
COMMANDS = {
    "import click": [*PYTHON, "-c", "import click"],
    "rlvr-audit --help": [*PROGRAM, "--help"],
    "import numpy, click, jsonschema, rich": [
        *PYTHON,
        "-c",
        "import numpy, click, jsonschema, rich",
    ],
    "rlvr-audit check fixtures/supplement": [*PROGRAM, "check", str(SUPPLEMENT)],
}
TARGETS = (
    ("rlvr-audit --help", "import click", 1.6),
    ("rlvr-audit check fixtures/supplement", "import numpy, click, jsonschema, rich", 3.0),
)


def seconds(command: list[str]) -> float:
    """Return the wall time of one process."""
    # As on a user's machine, where modules are compiled once.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, env=environment)
    return time.perf_counter() - start


def main() -> None:
    """Print the median of each command and each ratio beside its target."""
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(ROUNDS):
        for name, command in COMMANDS.items():
            times[name].append(seconds(command))
    medians = {name: median(values) for name, values in times.items()}
    print(f"\nStart: median of {ROUNDS} processes\n")
    for name, value in medians.items():
        print(f"  {name:<40} {1000 * value:7.0f} ms")
    print()
    for name, floor, target in TARGETS:
        ratio = medians[name] / medians[floor]
        print(f"  {name} / {floor}: {ratio:.2f} (target {target})")


if __name__ == "__main__":
    main()
