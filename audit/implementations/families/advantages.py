"""Group-relative advantages: baseline, scale, ddof, epsilon, and groups that carry no signal."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvraudit.audit.implementations.card import Entry, Example, Fault, Finding
from rlvraudit.audit.implementations.closed_forms import parts
from rlvraudit.audit.implementations.closed_forms.advantages import Advantages
from rlvraudit.audit.implementations.closed_forms.part import Part
from rlvraudit.audit.implementations.families.family import Declared, Family, Recovery
from rlvraudit.audit.implementations.implementation import Outcome
from rlvraudit.audit.implementations.recovery.bench import (
    Bench,
    Floats,
    Inputs,
    ProbeError,
    close,
    nice,
)
from rlvraudit.audit.implementations.recovery.declared import mismatches
from rlvraudit.audit.implementations.recovery.evaluate import evaluate
from rlvraudit.audit.implementations.recovery.examples import difference
from rlvraudit.audit.implementations.recovery.surrogate import instead

GROUPS = np.array(
    [
        [1.0, 0.0, 0.0, 0.0],
        [1.0, 1.0, 0.0, 0.0],
        [0.25, 0.5, 1.0, 0.0],
        [0.1, 0.7, -0.4, 0.2],
        [0.5, 0.5001, 0.5, 0.5],
    ]
)
CONSTANT = {0.3: 7, 0.1: 8, 0.7: 8, 0.5: 4}
"""Rewards of a group without variance, most no dyadic fraction, and the group's size."""
SIGNAL = 0.1
"""What counts as a signal: a tenth of what a real difference in rewards gives."""


@dataclass(frozen=True, slots=True)
class Caller:
    """How the function takes groups: one at a time, in rows, or by number."""

    bench: Bench
    layout: str

    def __call__(self, groups: Floats, dtype: str = "float64") -> Outcome:
        """Return the advantages of groups of one size, in rows."""
        if self.layout == "rows":
            return self.bench.run(shaped(self.bench, groups), dtype)
        if self.layout == "numbers":
            numbers = np.repeat(np.arange(len(groups)), groups.shape[1])
            inputs = {**shaped(self.bench, groups.ravel()), "groups": numbers}
            return _reshaped(self.bench.run(inputs, dtype), groups.shape)
        seen = [self.bench.run(shaped(self.bench, group), dtype) for group in groups]
        failed = next((o for o in seen if o.error), None)
        return failed or Outcome(np.array([o.value for o in seen]), np.zeros(0))


def shaped(bench: Bench, rewards: Floats) -> Inputs:
    """Return the inputs of a function of rewards; its mask, if it takes one, is all true."""
    inputs: Inputs = {"rewards": rewards, "mask": np.ones(rewards.shape, dtype=bool)}
    return inputs


def _reshaped(outcome: Outcome, shape: tuple[int, ...]) -> Outcome:
    same = outcome.value.size == int(np.prod(shape))
    return replace(outcome, value=outcome.value.reshape(shape)) if same else outcome


def recover_advantages(bench: Bench, declared: Declared) -> Recovery:
    """Return how rewards become advantages, and what of it is wrong or not as declared."""
    caller = Caller(bench, _layout(bench))
    seen = caller(GROUPS)
    if seen.error:
        raise ProbeError(seen.error)
    form = _assemble(bench, seen.value)
    right = _right(form)
    known = {} if form is None else _numbers(form)
    faults = list(_faults(bench, caller, form, seen))
    if not faults:
        faults.extend(mismatches(declared.parameters, declared.called, known))
    entries = list(_entries(caller, form))
    notes = _rows_note(bench, caller)
    _degenerate(caller, entries, faults, notes)
    example = _example(bench, right, seen) if faults else None
    return Recovery(
        objective="grpo.advantages" if form else "",
        finding=Finding(
            tuple(entries),
            tuple(fault if fault.example else replace(fault, example=example) for fault in faults),
            tuple(notes),
        ),
        form=form,
        right=right,
        batches={} if caller.layout != "rows" else {"groups": shaped(bench, GROUPS)},
        variable="rewards",
        numbers=known,
    )


def _rows_note(bench: Bench, caller: Caller) -> list[str]:
    """Return a note where a function of one group takes several and mixes them."""
    if caller.layout != "one":
        return []
    several = bench.run(shaped(bench, GROUPS[:2]))
    alone = caller(GROUPS[:2])
    if several.error or bench.close(several.value, alone.value):
        return []
    return ["A [N, G] array is not refused, and its rows are not taken for groups of their own."]


def _layout(bench: Bench) -> str:
    """Return how groups are handed over: "rows" if each row is a group of its own."""
    if bench.takes("groups"):
        return "numbers"
    both, alone = (bench.run(shaped(bench, rewards)) for rewards in (GROUPS[:2], GROUPS[0]))
    single = not alone.error and alone.value.shape == GROUPS[0].shape
    if both.error or both.value.shape != GROUPS[:2].shape:
        return "one" if single else "rows"
    other = bench.run(shaped(bench, GROUPS[[0, 3]]))
    if bench.close(both.value[0], other.value[0]):
        return "rows"
    fits = single and _assemble(bench, Caller(bench, "one")(GROUPS).value) is not None
    return "one" if fits else "rows"


def _assemble(bench: Bench, seen: Floats) -> Advantages | None:
    """Return the formula that gives what was seen, faults last."""
    if seen.shape != GROUPS.shape:
        return None
    for limit in dict.fromkeys((np.inf, float(np.max(np.abs(seen))))):
        for sign in (1.0, -1.0):
            form = _formula(bench, seen, sign, limit)
            if form is not None:
                return form
    return None


def _formula(bench: Bench, seen: Floats, sign: float, limit: float) -> Advantages | None:
    import torch

    rewards = torch.tensor(GROUPS)
    for form in _forms(sign * seen, rewards):
        full = replace(form, sign=sign, limit=limit)
        plain = full.plain(rewards).numpy()
        if bench.close(seen[:-1], plain[:-1]) and close(seen[-1], plain[-1], _near(bench)):
            return full
    return None


def _near(bench: Bench) -> float:
    """Return the tolerance for rewards that differ by 1e-4: what rounding them alone costs."""
    return bench.tolerance * (1.0 if bench.precision == "float64" else 4000.0)


def _forms(seen: Floats, rewards: Any) -> Iterator[Advantages]:
    """Yield the formulas with an epsilon that fits, faults last."""
    kinds = ((False, False), (False, True), (True, False))
    every = list(product(parts("baseline").values(), parts("scale").values(), kinds))
    every.sort(key=lambda e: bool(e[0].fault) + bool(e[1].fault) + e[2][0])
    for baseline, scale, (inside, guarded) in every:
        form = _fitted(baseline, scale, inside, seen, rewards)
        if form is not None:
            yield replace(form, guarded=guarded)


def _fitted(
    baseline: Part, scale: Part, inside: bool, seen: Floats, rewards: Any
) -> Advantages | None:
    """Return the form with the epsilon that most elements show."""
    centred = baseline.build(rewards).numpy()
    deviation = np.broadcast_to(scale.build(rewards).numpy(), centred.shape)
    if scale.name == "unscaled":
        return None if inside else Advantages(baseline, scale, 0.0)
    with np.errstate(all="ignore"):
        ratio = centred / seen
        extra = ratio**2 - deviation**2 if inside else ratio - deviation
    usable = extra[np.isfinite(extra) & (np.abs(centred) > 1e-9)]
    epsilon = float(np.median(usable)) if usable.size else np.nan
    if not -1e-7 < epsilon < 0.1:
        return None
    return Advantages(baseline, scale, nice(max(float(f"{epsilon:.3g}"), 0.0), 1e-13), inside)


def _right(form: Advantages | None) -> Advantages:
    if form is None:
        return Advantages(parts("baseline")["mean"], parts("scale")["std, ddof 1"], 1e-4)
    return replace(
        form,
        baseline=instead(form.baseline),
        scale=instead(form.scale),
        inside=False,
        limit=np.inf,
        sign=1.0,
    )


def _numbers(form: Advantages) -> dict[str, Any]:
    ddof = {"0": 0, "1": 1}.get(form.scale.name[-1])
    kind = "batch" if "of the batch" in form.scale.name else "std"
    known: dict[str, Any] = {"scale": "none" if form.scale.name == "unscaled" else kind}
    if form.scale.name != "unscaled":
        known["epsilon"] = form.epsilon
    if ddof is not None:
        known["ddof"] = ddof
    return known


def _faults(
    bench: Bench, caller: Caller, form: Advantages | None, seen: Outcome
) -> Iterator[Fault]:
    if seen.value.shape != GROUPS.shape:
        yield Fault(
            "broadcast",
            f"Groups of shape {GROUPS.shape} give shape {seen.value.shape}: a [G] and a [G, 1] "
            "array are broadcast against each other.",
        )
    elif form is None:
        far = _assemble_apart(bench, seen.value)
        yield UNEXPLAINED if far is None else CANCELLATION
    else:
        if form.sign < 0:
            yield Fault("sign-flipped", "The sign is wrong: the better rewards are pushed down.")
        if form.limit < 5.0:
            yield Fault("advantages-clamped", f"The advantages are clamped to +-{form.limit:.4g}.")
        for part in (form.baseline, form.scale):
            if part.fault:
                yield Fault(part.name, part.fault)
        if form.inside:
            yield Fault(
                "epsilon-inside-root",
                "The epsilon is added to the variance, under the root, not to the deviation.",
            )
    if caller.layout == "numbers":
        yield from _uneven(bench, form or _assemble_apart(bench, seen.value))
    elif caller.layout == "one":
        yield from _square(bench)


UNEXPLAINED = Fault("unexplained", "The advantages are not those of any formula known here.")
CANCELLATION = Fault(
    "cancellation",
    "The formula holds for rewards that are far apart and not for nearly equal ones: the variance "
    "is E[r^2] - E[r]^2, which cancels.",
)


def _assemble_apart(bench: Bench, seen: Floats) -> Advantages | None:
    """Return the formula that holds but for the group whose rewards are nearly equal."""
    import torch

    if seen.shape != GROUPS.shape:
        return None

    for form in _forms(seen, torch.tensor(GROUPS)):
        if form.inside or form.baseline.fault or form.scale.fault:
            continue
        plain = form.plain(torch.tensor(GROUPS)).numpy()
        if close(seen[:4], plain[:4], max(bench.tolerance, 1e-6)):
            return form
    return None


def _square(bench: Bench) -> Iterator[Fault]:
    """Yield whether a function of one group takes two dimensions only where they are equal."""
    if not bench.run(shaped(bench, GROUPS[:2])).error:
        return
    inputs = shaped(bench, GROUPS[:4])
    seen = bench.run(inputs)
    if seen.error:
        return
    rows = [bench.run(shaped(bench, group)).value for group in GROUPS[:4]]
    expected = Outcome(np.array(rows), np.zeros(0))
    words = difference(bench, expected, seen)
    if words:
        yield Fault(
            "broadcast",
            "Groups in rows raise unless there are as many groups as members, and are then "
            "normalised by each other's mean: [N] is broadcast against [N, G].",
            Example({"rewards": GROUPS[:4]}, expected, seen, words),
            "shapes",
        )


def _uneven(bench: Bench, form: Advantages | None) -> Iterator[Fault]:
    """Yield whether groups of different size are kept apart, in order or not."""
    if form is None or form.baseline.fault or form.scale.fault or form.sign < 0:
        return
    for numbers in ([0, 0, 1, 1, 1], [3, 1, 3, 1, 1]):
        fault = _apart(bench, form, np.array(numbers))
        if fault is not None:
            yield fault
            return


def _apart(bench: Bench, form: Advantages, numbers: NDArray[np.int64]) -> Fault | None:
    import torch

    rewards = np.array([1.0, 3.0, 5.0, 2.0, 2.5])
    seen = bench.run({**shaped(bench, rewards), "groups": numbers})
    expected = np.zeros(len(rewards))
    for number in set(numbers.tolist()):
        here = numbers == number
        expected[here] = form.plain(torch.tensor(rewards[here])).numpy()
    if close(seen.value, expected, max(bench.tolerance, 1e-6)):
        return None
    inputs = {"rewards": rewards, "groups": numbers}
    outcome = Outcome(expected, np.zeros(0))
    words = (seen.error and f"it raised {seen.error}") or difference(bench, outcome, seen)
    return Fault(
        "uneven-groups-merged",
        "Groups of different size, or whose members are not side by side, are not kept apart.",
        Example(inputs, outcome, seen, words),
        "uneven groups",
    )


def _degenerate(
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


def _example(bench: Bench, right: Advantages, seen: Outcome) -> Example:
    expected = evaluate(right, {"rewards": GROUPS})
    return Example({"rewards": GROUPS}, expected, seen, difference(bench, expected, seen))


def _entries(caller: Caller, form: Advantages | None) -> Iterator[Entry]:
    words = {
        "rows": "rows of a [N, G] array",
        "one": "one [G] array a call",
        "numbers": "by number",
    }
    yield Entry("groups", words[caller.layout])
    if form is None:
        yield Entry("formula", "none of those known here", True)
        return
    yield Entry("baseline", form.baseline.words, bool(form.baseline.fault))
    yield Entry("scale", form.scale.words, bool(form.scale.fault), form.scale.name)
    if form.scale.name != "unscaled":
        place = ", under the root" if form.inside else ""
        guard = ", undivided where the scale is 0" if form.guarded else ""
        yield Entry("epsilon", f"{form.epsilon:g}{place}{guard}", form.inside)


def sample(tokens: int, seed: int) -> Inputs:
    """Return graded rewards of eight groups of eight."""
    draw = np.random.default_rng(seed)
    return {"rewards": draw.uniform(0.0, 1.0, (8, 8)), "mask": np.ones((8, 8), dtype=bool)}


ADVANTAGES = Family(
    "advantages",
    ("grpo.advantages",),
    ("rewards",),
    ("groups", "mask"),
    recover_advantages,
    sample,
    {"scale": ("std", "none"), "ddof": (0, 1), "epsilon": (1e-3,)},
)
