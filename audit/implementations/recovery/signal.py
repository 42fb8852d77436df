"""Groups without variance, and groups of one: they must carry no signal."""

import numpy as np

from rlvraudit.audit.implementations.card import Entry, Example, Fault
from rlvraudit.audit.implementations.implementation import Outcome
from rlvraudit.audit.implementations.recovery.groups import Caller

CONSTANT = {0.3: 7, 0.1: 8, 0.7: 8, 0.5: 4}
"""Rewards of a group without variance, most no dyadic fraction, and the group's size."""
SIGNAL = 0.1
"""What counts as a signal: a tenth of what a real difference in rewards gives."""


def without_variance(
    caller: Caller, entries: list[Entry], faults: list[Fault], notes: list[str]
) -> None:
    """Add what happens to groups without variance, and to groups of one."""
    worst, where, at = 0.0, "", (0.3, 7)
    for dtype in ("float64", "float32"):
        for reward, size in CONSTANT.items():
            seen = caller(np.full((1, size), reward), dtype)
            largest = float(np.max(np.abs(seen.value))) if seen.value.size else np.nan
            if not largest <= worst:
                worst, at = largest, (reward, size)
                where = f"{size} rewards of {reward:g} in {dtype}"
    if any(entry.name == "baseline" and entry.fault for entry in entries):
        return
    signal = not worst < SIGNAL
    entries.append(Entry("no variance", _zero_words(worst, where), signal, f"{worst:.2g}"))
    if signal:
        faults.append(_signal(caller, worst, where, at))
    elif worst > 1e-6:
        notes.append(f"A group without variance gets up to {worst:.2g} by rounding ({where}).")
    single = caller(np.array([[1.0]]))
    keeps = not single.error and single.finite and bool(np.abs(single.value).max() > SIGNAL)
    words = _single_words(single)
    entries.append(Entry("group of one", words, keeps, words.partition(" for ")[0]))
    if keeps:
        right = Outcome(np.zeros(single.value.shape), np.zeros(0))
        words = f"advantage {float(single.value.ravel()[0]):.6g}, closed form 0"
        faults.append(
            Fault(
                "single-member-signal",
                "A group of one gets a signal, as if its baseline were 0; it has no variance.",
                Example({"rewards": np.array([1.0])}, right, single, words),
                "groups without variance",
            )
        )


def _zero_words(worst: float, where: str) -> str:
    return "exactly 0" if worst == 0.0 else f"up to {worst:.2g} ({where})"


def _signal(caller: Caller, worst: float, where: str, at: tuple[float, int]) -> Fault:
    rewards = np.full((1, at[1]), at[0])
    expected = Outcome(np.zeros(rewards.shape), np.zeros(0))
    seen = caller(rewards, "float32")
    example = Example({"rewards": rewards}, expected, seen, f"advantage {worst:.3g}", "float32")
    return Fault(
        "zero-variance-signal",
        f"A group without variance gets a signal: {worst:.3g} ({where}). Rounding of the mean is "
        "divided by an epsilon that is no larger.",
        example,
        "groups without variance",
    )


def _single_words(seen: Outcome) -> str:
    if seen.error:
        return "refused"
    value = float(seen.value.ravel()[0]) if seen.value.size else np.nan
    if not np.isfinite(value):
        return "not a number"
    return "0" if value == 0.0 else f"{value:.6g} for a reward of 1"
