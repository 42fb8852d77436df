"""How rewards become advantages: the layout of groups, and the formula that gives what was seen."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from rlvraudit.audit.implementations.card import Example
from rlvraudit.audit.implementations.closed_forms import parts
from rlvraudit.audit.implementations.closed_forms.advantages import Advantages
from rlvraudit.audit.implementations.closed_forms.part import Part
from rlvraudit.audit.implementations.implementation import Outcome
from rlvraudit.audit.implementations.recovery.bench import Bench, Floats, Inputs, close, nice
from rlvraudit.audit.implementations.recovery.examples import difference

GROUPS = np.array(
    [
        [1.0, 0.0, 0.0, 0.0],
        [1.0, 1.0, 0.0, 0.0],
        [0.25, 0.5, 1.0, 0.0],
        [0.1, 0.7, -0.4, 0.2],
        [0.5, 0.5001, 0.5, 0.5],
    ]
)
"""Groups by which formulas are told apart; the last one shows the epsilon."""


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

    def example(self, groups: Floats, expected: Floats, seen: Floats) -> Example:
        """Return an example that shows where advantages of groups in rows are wrong."""
        if self.layout == "one" or seen.shape != expected.shape:
            error = np.abs(seen - expected).sum(axis=1) if seen.shape == expected.shape else [0.0]
            row = int(np.argmax(error))
            return self._told({"rewards": groups[row]}, expected[row], seen[row])
        if self.layout == "numbers":
            numbers = np.repeat(np.arange(len(groups)), groups.shape[1])
            inputs = {"rewards": groups.ravel(), "groups": numbers}
            return self._told(inputs, expected.ravel(), seen.ravel())
        return self._told({"rewards": groups}, expected, seen)

    def _told(self, inputs: Inputs, expected: Floats, seen: Floats) -> Example:
        right, came = Outcome(expected, np.zeros(0)), Outcome(seen, np.zeros(0))
        return Example(inputs, right, came, difference(self.bench, right, came))


def shaped(bench: Bench, rewards: Floats) -> Inputs:
    """Return the inputs of a function of rewards; its mask, if it takes one, is all true."""
    inputs: Inputs = {"rewards": rewards, "mask": np.ones(rewards.shape, dtype=bool)}
    return inputs


def _reshaped(outcome: Outcome, shape: tuple[int, ...]) -> Outcome:
    same = outcome.value.size == int(np.prod(shape))
    return replace(outcome, value=outcome.value.reshape(shape)) if same else outcome


def layout_of(bench: Bench) -> str:
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
    fits = single and formula_of(bench, Caller(bench, "one")(GROUPS).value) is not None
    return "one" if fits else "rows"


def formula_of(bench: Bench, seen: Floats) -> Advantages | None:
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


def formula_apart(bench: Bench, seen: Floats) -> Advantages | None:
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
