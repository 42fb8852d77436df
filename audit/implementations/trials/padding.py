"""Padding: what stands at inactive positions, and how many there are, must not matter."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rlvraudit.audit.implementations.card import Entry, Example, Fault, Finding
from rlvraudit.audit.implementations.families.family import Recovery
from rlvraudit.audit.implementations.implementation import Outcome
from rlvraudit.audit.implementations.recovery.bench import Bench, Inputs
from rlvraudit.audit.implementations.recovery.evaluate import evaluate
from rlvraudit.audit.implementations.recovery.examples import difference
from rlvraudit.audit.implementations.trials.trial import Trial, answered, changed

FINITE = (-3.7, 2.5, -0.9, 1.3)
EXTRA = 3
"""Columns that are added."""


def filled(inputs: Inputs, values: tuple[float, ...], dead: NDArray[np.bool_]) -> Inputs:
    """Return the inputs with `values` in turn at the positions `dead`."""
    found = {}
    for turn, (name, array) in enumerate(inputs.items()):
        found[name] = array.copy()
        if array.shape[:2] == dead.shape and array.dtype.kind == "f":
            # Each array starts elsewhere, so that differences of two are not 0.
            cycle = np.resize(np.roll(values, turn), int(dead.sum()))
            found[name][dead] = cycle if array.ndim == 2 else cycle[:, None]
    return found


def widened(inputs: Inputs, columns: int = EXTRA) -> Inputs:
    """Return the inputs with inactive columns added."""
    shape = inputs["mask"].shape
    return {
        name: np.concatenate(
            [array, np.zeros((shape[0], columns, *array.shape[2:]), array.dtype)], axis=1
        )
        if array.shape[:2] == shape
        else array
        for name, array in inputs.items()
    }


def ask(bench: Bench, recovery: Recovery) -> Finding:
    """Return whether padding leaks into value or gradient."""
    if not bench.takes("mask") or recovery.variable == "rewards":
        return Finding()
    spoilt = next(_spoilt(bench, recovery), None)
    if spoilt is not None:
        return Finding((Entry("padding", "spoils the gradient", True),), (spoilt,))
    faults: list[Fault] = []
    notes: list[str] = []
    for inputs, outcome in _holed(bench, recovery):
        found = list(_ask(bench, inputs, outcome))
        finite = bench.implementation.finite_padding
        robust = [f for f in found if f.kind.startswith("nan-") and finite]
        faults = [fault for fault in found if fault not in robust]
        notes = [_as_note(fault) for fault in robust]
        if not found and _reads_advantages(bench, inputs):
            notes = [ADVANTAGES]
        if found or notes:
            break
    words = _words(faults, bool(notes) and notes != [ADVANTAGES])
    return Finding((Entry("padding", words, bool(faults)),), tuple(faults), tuple(notes))


def _holed(bench: Bench, recovery: Recovery) -> Iterator[tuple[Inputs, Outcome]]:
    for _, inputs, outcome in answered(bench, recovery):
        if "mask" in inputs and not inputs["mask"].all():
            yield inputs, outcome


def _spoilt(bench: Bench, recovery: Recovery) -> Iterator[Fault]:
    """Yield whether padding of zeros alone makes the gradient NaN there."""
    for inputs in recovery.batches.values():
        seen, mask = bench.run(inputs), inputs["mask"]
        if seen.gradient.shape[:2] != mask.shape or np.isfinite(seen.gradient[~mask]).all():
            continue
        expected = evaluate(recovery.right, inputs)
        words = difference(bench, expected, seen)
        yield Fault("nan-gradient-at-padding", NAN_GRADIENT, Example(inputs, expected, seen, words))


NAN_GRADIENT = (
    "The gradient is NaN at padding though the loss is finite: the mask is applied after the "
    "exponential or as log(0), whose derivative is still multiplied. Mask before any arithmetic."
)


def _ask(bench: Bench, inputs: Inputs, outcome: Outcome) -> Iterator[Fault]:
    dead = ~inputs["mask"]
    tail = dead & (np.cumsum(inputs["mask"][:, ::-1], axis=1)[:, ::-1] == 0)
    yield from _gradient(bench, inputs, outcome, dead)
    for where, positions in (("padding", tail), ("holes inside the response", dead & ~tail)):
        finite = changed(
            bench,
            filled(inputs, FINITE, positions),
            outcome,
            "reads-inactive-positions",
            f"What stands at inactive positions changes the result: it reads {where}.",
        )
        if finite is not None:
            yield finite
            return
    yield from _not_finite(bench, inputs, outcome, dead)
    wide = widened(inputs)
    pad = np.zeros((len(dead), EXTRA, *outcome.gradient.shape[2:]))
    expected = replace(outcome, gradient=np.concatenate([outcome.gradient, pad], axis=1))
    longer = changed(
        bench,
        wide,
        expected,
        "depends-on-padded-width",
        f"{EXTRA} more columns of padding change the result: it depends on the padded width.",
    )
    if longer is not None:
        yield longer


def _gradient(
    bench: Bench, inputs: Inputs, outcome: Outcome, dead: NDArray[np.bool_]
) -> Iterator[Fault]:
    if np.any(outcome.gradient[dead] != 0.0):
        right = np.where(
            dead.reshape(dead.shape + (1,) * (outcome.gradient.ndim - 2)), 0.0, outcome.gradient
        )
        at = tuple(int(i) for i in np.argwhere(outcome.gradient * 1.0 != right)[0])
        yield Fault(
            "gradient-at-padding",
            "The gradient at inactive positions is not exactly 0.",
            Example(
                inputs,
                replace(outcome, gradient=right),
                outcome,
                f"gradient at {at} {outcome.gradient[at]:.6g}, closed form 0",
            ),
        )


def _not_finite(
    bench: Bench,
    inputs: Inputs,
    outcome: Outcome,
    dead: NDArray[np.bool_],
    names: tuple[str, ...] = (),
) -> Iterator[Fault]:
    for values in ((np.nan,), (-np.inf,), (np.inf,)):
        spoilt = filled(inputs, values, dead)
        spoilt = {**inputs, **{name: spoilt[name] for name in names or spoilt}}
        actual = bench.run(spoilt)
        if np.isfinite(actual.value).all() and not np.isfinite(actual.gradient).all():
            kind, what = (
                "nan-gradient-at-padding",
                f"{values[0]} at padding leaves the loss finite and makes the gradient NaN: the "
                "mask is applied after the exponential, whose derivative is still multiplied. "
                "Mask before any arithmetic.",
            )
        else:
            kind, what = (
                "nan-times-zero",
                f"{values[0]} at padding reaches the result: padding is multiplied by 0, not left "
                "out, and NaN * 0 is NaN.",
            )
        fault = changed(bench, spoilt, outcome, kind, what)
        if fault is not None:
            yield fault
            return


def _reads_advantages(bench: Bench, inputs: Inputs) -> bool:
    """Return whether advantages per token are read at padding, where they are taken at all."""
    if not bench.takes("advantages"):
        return False
    dead = ~inputs["mask"]
    wide = {**inputs, "advantages": inputs["advantages"][:, None] * ~dead}
    outcome = bench.run(wide)
    if not bench.close(outcome.value, bench.run(inputs).value):
        return False
    spoilt = next(_not_finite(bench, wide, outcome, dead, ("advantages",)), None)
    return spoilt is not None


ADVANTAGES = (
    "Advantages of shape [B, T] are read at padding: NaN there reaches the result. They are mostly "
    "spread over the row from one number, which is finite: this is robustness, not a fault."
)


def _as_note(fault: Fault) -> str:
    return f"{fault.sentence} On its own path padding is finite: this is robustness, not a fault."


def _words(faults: list[Fault], notes: bool) -> str:
    if not faults and not notes:
        return "not read; gradient there exactly 0"
    kinds = {fault.kind for fault in faults}
    if not kinds:
        return "finite padding not read; NaN there reaches the result"
    if kinds <= {"nan-times-zero"}:
        return "finite padding not read; NaN there reaches the result"
    if kinds <= {"nan-gradient-at-padding"}:
        return "value right; NaN there reaches the gradient"
    return "reaches the result"


PADDING = Trial("padding", "what stands at inactive positions, and their number", ask)
