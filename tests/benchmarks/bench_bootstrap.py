"""The paired bootstrap as a multiple of bare drawing, its memory, and SciPy's beside it.

Times within one run, the best of several rounds that take turns; memory is the peak resident
set of a process of its own, as Linux counts it.
"""

import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

from rlvraudit.kernels.inference.bootstrap import RESAMPLES, paired_bootstrap

ITEMS, MANY_ITEMS, ROUNDS, TARGET, MOST_MB = 2_000, 20_000, 7, 1.5, 120
MEASURED = """
import numpy as np
from rlvraudit.kernels.inference.bootstrap import paired_bootstrap
rng = np.random.default_rng(0)
sides = [rng.{scores} for _ in range(2)]
if {run}:
    paired_bootstrap(*sides)
print(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])
"""
"""VmHWM and not ru_maxrss: the latter still holds what the parent had when it forked."""
SCORES = {"zeros and ones": "integers(0, 2, {n}) / 1.0", "arbitrary": "normal(size={n})"}


def draw(rows: int) -> None:
    """Draw the indices that the bootstrap draws, `rows` resamples at a time, and drop them."""
    generator = np.random.default_rng(1273)
    for _ in range(RESAMPLES // rows):
        generator.integers(0, ITEMS, (rows, ITEMS))


def scipy_bootstrap(baseline: np.ndarray, treatment: np.ndarray) -> None:
    """Compute the same interval with SciPy, in batches that fit its memory to the machine."""
    from scipy.stats import bootstrap

    bootstrap(
        (treatment, baseline),
        lambda x, y, axis=-1: np.mean(x - y, axis=axis),
        paired=True,
        method="percentile",
        n_resamples=RESAMPLES,
        batch=500,
        rng=np.random.default_rng(1273),
    )


def work() -> dict[str, Callable[[], object]]:
    """Return what is timed, by name."""
    rng = np.random.default_rng(0)
    binary = [rng.integers(0, 2, ITEMS) / 1.0 for _ in range(2)]
    arbitrary = [rng.normal(size=ITEMS) for _ in range(2)]
    return {
        "rng.integers, all at once": lambda: draw(RESAMPLES),
        "rng.integers, 50 rows at a time": lambda: draw(50),
        "paired_bootstrap, zeros and ones": lambda: paired_bootstrap(*binary),
        "paired_bootstrap, arbitrary scores": lambda: paired_bootstrap(*arbitrary),
        "scipy.stats.bootstrap, batch=500": lambda: scipy_bootstrap(*binary),
    }


def best_times() -> dict[str, float]:
    """Return the seconds that each piece of work takes, the best of the rounds."""
    pieces = work()
    best = dict.fromkeys(pieces, float("inf"))
    for _ in range(ROUNDS):
        for name, run in pieces.items():
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def peak_mb(scores: str, *, run: bool) -> float:
    """Return the peak resident set of a process that has the scores, and resamples them or not."""
    code = MEASURED.format(scores=SCORES[scores].format(n=MANY_ITEMS), run=run)
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    return int(printed) * 1024 / 1e6


def main() -> None:
    """Print times as multiples of both ways of bare drawing, then memory."""
    found = best_times()
    whole, chunked = (found[name] for name in list(found)[:2])
    print(f"\nPaired bootstrap of {ITEMS:,} items, {RESAMPLES:,} resamples, one core\n")
    for name, seconds in found.items():
        print(
            f"  {name:<36} {1000 * seconds:6.0f} ms   {seconds / whole:4.2f} of drawing at once"
            f"   {seconds / chunked:4.2f} in chunks"
        )
    print(f"\n  target: at most {TARGET} of the bare draw\n")
    for scores in SCORES:
        before, peak = peak_mb(scores, run=False), peak_mb(scores, run=True)
        print(
            f"  peak memory at {MANY_ITEMS:,} items, {scores:<15} {peak:4.0f} MB "
            f"({before:.0f} MB without resampling; target {MOST_MB})"
        )


if __name__ == "__main__":
    main()
