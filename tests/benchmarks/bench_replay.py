"""TAR's gates, weights and loss in FP64 from packed arrays, as a share of bare expm1's rate.

Element rates within one run, the best of several rounds that take turns; beside it the padded
reference in PyTorch, and the memory held beside the inputs at two lengths.
"""

import time
import tracemalloc
from collections.abc import Callable

import numpy as np

from rlvraudit.kernels.objectives.packed import packed_replay
from rlvraudit.kernels.objectives.replay import replay_nll

TOKENS, ROUNDS, TARGET = 4_000_000, 7, 0.6


def batch(tokens: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return log-probabilities of policy and base, `[N]`, and lengths of 64 to 1,024 tokens."""
    rng = np.random.default_rng(1273)
    lengths = rng.integers(64, 1025, size=tokens // 400)
    lengths = lengths[np.cumsum(lengths) <= tokens]
    base = -rng.exponential(size=int(lengths.sum()))
    policy = base + rng.normal(scale=0.3, size=len(base))
    return np.minimum(policy, 0.0), base, lengths


def rates(work: dict[str, Callable[[], object]], elements: int) -> dict[str, float]:
    """Return elements per second of each piece of work, the best of the rounds."""
    best = dict.fromkeys(work, float("inf"))
    for _ in range(ROUNDS):
        for name, run in work.items():
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
    return {name: elements / seconds for name, seconds in best.items()}


def padded_torch(policy: np.ndarray, base: np.ndarray, lengths: np.ndarray) -> object:
    """Return the padded reference over the same trajectories as a function without arguments."""
    import torch

    torch.set_num_threads(1)
    mask = np.arange(lengths.max()) < lengths[:, None]
    padded = [np.zeros(mask.shape) for _ in range(2)]
    for array, values in zip(padded, (policy, base), strict=True):
        array[mask] = values
    tensors = [torch.from_numpy(array) for array in (*padded, mask)]
    return lambda: replay_nll(*tensors)


def peak_memory(tokens: int) -> float:
    """Return the megabytes that `packed_replay` holds at most beside its inputs."""
    policy, base, lengths = batch(tokens)
    tracemalloc.start()
    packed_replay(policy, base, lengths)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / 2**20


def main() -> None:
    """Print the rates, their ratios, and memory."""
    policy, base, lengths = batch(TOKENS)
    difference, out, weights = base - policy, np.empty_like(base), np.empty_like(base)
    found = rates(
        {
            "numpy.expm1": lambda: np.expm1(difference, out=out),
            "packed gate, weights, loss": lambda: packed_replay(policy, base, lengths, out=weights),
            "padded reference, torch": padded_torch(policy, base, lengths),  # type: ignore[dict-item]
        },
        len(base),
    )
    print(
        f"\nTAR replay in FP64, {len(base):,} tokens in {len(lengths):,} trajectories, one core\n"
    )
    for name, rate in found.items():
        share = rate / found["numpy.expm1"]
        print(f"  {name:<28} {rate / 1e6:7.0f} million tokens/s   {share:5.2f} of expm1")
    print(f"\n  target for the packed computation: at least {TARGET} of expm1")
    growth = {tokens: peak_memory(tokens) for tokens in (400_000, 4_000_000)}
    for tokens, megabytes in growth.items():
        print(f"  memory beside the inputs at {tokens:>9,} tokens: {megabytes:5.1f} MB")


if __name__ == "__main__":
    main()
