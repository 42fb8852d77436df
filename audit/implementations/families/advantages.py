"""Group-relative advantages: baseline, scale, ddof, epsilon, and groups that carry no signal."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvraudit.audit.implementations.card import Entry, Example, Fault, Finding
from rlvraudit.audit.implementations.closed_forms import parts
from rlvraudit.audit.implementations.closed_forms.advantages import Advantages
from rlvraudit.audit.implementations.families.family import Declared, Family, Recovery
from rlvraudit.audit.implementations.implementation import Outcome
from rlvraudit.audit.implementations.recovery.bench import (
    Bench,
    Inputs,
    ProbeError,
    close,
)
from rlvraudit.audit.implementations.recovery.declared import mismatches
from rlvraudit.audit.implementations.recovery.evaluate import evaluate
from rlvraudit.audit.implementations.recovery.examples import difference
from rlvraudit.audit.implementations.recovery.groups import (
    GROUPS,
    Caller,
    formula_apart,
    formula_of,
    layout_of,
    shaped,
)
from rlvraudit.audit.implementations.recovery.signal import without_variance
from rlvraudit.audit.implementations.recovery.surrogate import instead


def recover_advantages(bench: Bench, declared: Declared) -> Recovery:
    """Return how rewards become advantages, and what of it is wrong or not as declared."""
    caller = Caller(bench, layout_of(bench))
    seen = caller(GROUPS)
    if seen.error:
        raise ProbeError(seen.error)
    form = formula_of(bench, seen.value)
    right = _right(form)
    known = {} if form is None else _numbers(form)
    faults = list(_faults(bench, caller, form, seen))
    if not faults:
        faults.extend(mismatches(declared.parameters, declared.called, known))
    entries = list(_entries(caller, form))
    notes = _rows_note(bench, caller)
    without_variance(caller, entries, faults, notes)
    expected = evaluate(right, {"rewards": GROUPS}).value
    example = caller.example(GROUPS, expected, seen.value) if faults else None
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
        far = formula_apart(bench, seen.value)
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
        yield from _uneven(bench, form or formula_apart(bench, seen.value))
    elif caller.layout == "one":
        yield from _square(bench)


UNEXPLAINED = Fault("unexplained", "The advantages are not those of any formula known here.")
CANCELLATION = Fault(
    "cancellation",
    "The formula holds for rewards that are far apart and not for nearly equal ones: the variance "
    "is E[r^2] - E[r]^2, which cancels.",
)


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
