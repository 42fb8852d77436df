"""Behaviour that no closed form has: chance, memory, written inputs, silence about NaN."""

import numpy as np

from rlvraudit.audit.implementations.card import Example, Fault, Finding
from rlvraudit.audit.implementations.families.family import Recovery
from rlvraudit.audit.implementations.recovery.bench import Bench, Inputs, batch, mask_of
from rlvraudit.audit.implementations.recovery.evaluate import evaluate
from rlvraudit.audit.implementations.trials.padding import FINITE, filled
from rlvraudit.audit.implementations.trials.trial import Trial, answered, changed

OVERFLOW = 800.0
"""A log-ratio whose exponential is infinite in FP64."""


def ask_again(bench: Bench, recovery: Recovery) -> Finding:
    """Return whether the same call gives the same result, and leaves its inputs alone."""
    for name, inputs in recovery.batches.items():
        first, second = bench.run(inputs), bench.run(inputs)
        odd = bench.run(_odd(inputs))
        written = odd.modified
        if written:
            sentence = f"It writes into its inputs: {', '.join(written)}."
            words = f"{written[0]} is changed by the call"
            right = evaluate(recovery.right, _odd(inputs))
            example = Example(bench.shown(_odd(inputs)), right, odd, words)
            return Finding(faults=(Fault("writes-into-input", sentence, example),))
        same = np.array_equal(first.value, second.value, equal_nan=True) and np.array_equal(
            first.gradient, second.gradient, equal_nan=True
        )
        if not same:
            sentence = "The same inputs give another result: it draws at random or has a memory."
            values = [float(o.value.ravel()[0]) for o in (second, first)]
            words = f"batch {name}: value {values[0]:.9g} after {values[1]:.9g}"
            example = Example(inputs, first, second, words)
            return Finding(faults=(Fault("not-repeatable", sentence, example),))
    return Finding()


def _odd(inputs: Inputs) -> Inputs:
    """Return inputs that a function might want to clean up: large ones, and garbage at padding."""
    if "mask" not in inputs or "advantages" not in inputs:
        return inputs
    spoilt = filled(inputs, FINITE, ~inputs["mask"])
    return {**spoilt, "advantages": 20.0 * inputs["advantages"]}


def ask_nan(bench: Bench, recovery: Recovery) -> Finding:
    """Return whether NaN at an active position is passed on or refused, never silenced."""
    for _, inputs, outcome in answered(bench, recovery):
        for name in ("logp_policy", "rewards", "logits"):
            if not bench.takes(name) or name not in inputs:
                continue
            spoilt = {**inputs, name: inputs[name].copy()}
            at = (0,) * inputs[name].ndim
            if "mask" in inputs and inputs[name].ndim >= 2 and not inputs["mask"][at[:2]]:
                at = tuple(int(i) for i in np.argwhere(inputs["mask"])[0])
            spoilt[name][at] = np.nan
            seen = bench.run(spoilt)
            silent = not seen.error and bool(np.isfinite(seen.value).all())
            if silent and not bench.close(seen.value, outcome.value):
                sentence = (
                    f"NaN in {name} at an active position gives a finite result: it is silenced."
                )
                words = f"{name} NaN at {at}: value {float(seen.value.ravel()[0]):.6g}"
                return Finding(
                    faults=(Fault("nan-silenced", sentence, Example(spoilt, outcome, seen, words)),)
                )
        break
    return Finding()


UNLIKELY = -800.0
"""A log-probability whose exponential is 0 in FP64."""


def ask_unlikely(bench: Bench, recovery: Recovery) -> Finding:
    """Return whether tokens whose probability underflows still have a ratio."""
    if not bench.takes("logp_policy") or recovery.form is None or bench.precision != "float64":
        return Finding()
    mask = mask_of([2, 1])
    inputs = batch(mask, 0.05, 1.0, 0.1, UNLIKELY)
    expected = evaluate(recovery.form, inputs)
    if not expected.finite:
        return Finding()
    fault = changed(
        bench,
        inputs,
        expected,
        "underflow",
        f"Tokens of log-probability {UNLIKELY:g} have no right ratio: probabilities are divided, "
        "and both underflow. Subtract the logarithms.",
        recovery.form.slack,
    )
    return Finding(faults=(fault,) if fault else ())


def ask_overflow(bench: Bench, recovery: Recovery) -> Finding:
    """Return whether a ratio that overflows where it is clipped spoils value or gradient."""
    if not (bench.takes("logp_old") and bench.takes("advantages")) or recovery.form is None:
        return Finding()
    mask = mask_of([2, 1])
    x = np.array([[0.05, 0.1], [OVERFLOW, 0.0]])
    seen = bench.run(batch(mask, x, 1.0))
    if seen.error or seen.finite:
        return Finding()
    what = "value" if not np.isfinite(seen.value).all() else "gradient"
    return Finding(
        notes=(
            f"Where exp(log-ratio) overflows and is clipped, the {what} is not finite though the "
            f"closed form is (log-ratio {OVERFLOW:g} in float64; 90 in float32 does the same): "
            "robustness at inputs that training hardly meets.",
        )
    )


def ask_certain(bench: Bench, recovery: Recovery) -> Finding:
    """Return whether a token of probability 1 is a token like others."""
    for _, inputs, _ in answered(bench, recovery):
        if recovery.form is None or "logp_policy" not in inputs:
            return Finding()
        certain = {name: array.copy() for name, array in inputs.items()}
        at = tuple(int(i) for i in np.argwhere(inputs["mask"])[-1])
        certain["logp_policy"][at] = 0.0
        if "logp_old" in certain:
            certain["logp_old"][at] = -0.013  # on no bound, even where both are 1
        fault = changed(
            bench,
            certain,
            evaluate(recovery.form, certain),
            "token-dropped",
            "A token with log-probability 0 is taken for padding.",
            recovery.form.slack,
        )
        return Finding(faults=(fault,) if fault else ())
    return Finding()


REPEAT = Trial("repetition", "the same call twice", ask_again)
SILENCE = Trial("active NaN", "NaN at an active position", ask_nan)
OVERFLOWS = Trial("overflow", "a ratio that overflows", ask_overflow)
UNDERFLOW = Trial("unlikely tokens", "tokens whose probability underflows", ask_unlikely)
CERTAIN = Trial("certain token", "a token of probability 1", ask_certain)
