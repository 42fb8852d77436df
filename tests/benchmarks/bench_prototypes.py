"""Farthest-point prototypes at the paper's size: 7,500 prompts x 128 candidates x 1,024 FP32.

One prompt is in memory at a time, as a bank is built in practice; time includes nothing but the
selection. Peak memory is that of the whole process.
"""

import resource
import time

import numpy as np

from rlvraudit.kernels.objectives.prototypes import farthest_point

PROMPTS, CANDIDATES, DIMENSION, K = 7_500, 128, 1_024, 3
DISTINCT = 64
"""Prompts that are drawn; the others are permutations of them, so that drawing costs little."""


def main() -> None:
    """Print the time and the peak memory."""
    rng = np.random.default_rng(1273)
    drawn = rng.standard_normal((DISTINCT, CANDIDATES, DIMENSION), dtype=np.float32)
    correct = rng.random((DISTINCT, CANDIDATES)) < 0.5
    seconds, kept = 0.0, 0
    for prompt in range(PROMPTS):
        embeddings = np.roll(drawn[prompt % DISTINCT], prompt, axis=0)
        bits = np.roll(correct[prompt % DISTINCT], prompt)
        start = time.perf_counter()
        kept += len(farthest_point(embeddings, bits, K).indices)
        seconds += time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"\nPrototypes: {PROMPTS:,} prompts x {CANDIDATES} x {DIMENSION:,} FP32, k = {K}\n")
    print(f"  {seconds:.1f} s, {kept:,} prototypes kept, peak of the process {peak:.0f} MB")


if __name__ == "__main__":
    main()
