"""Detached parts: a difference quotient sees through a stop-gradient, autograd does not."""

import numpy as np

from rlvraudit.audit.implementations.card import Entry, Fault, Finding
from rlvraudit.audit.implementations.families.family import Recovery
from rlvraudit.audit.implementations.implementation import Outcome
from rlvraudit.audit.implementations.recovery.bench import Bench, Floats, Inputs
from rlvraudit.audit.implementations.trials.trial import Trial, answered

STEPS = {"float64": 1e-6, "float32": 3e-3, "half": 0.1}
AGREEMENT = {"float64": 1e-5, "float32": 1e-2, "half": 0.3}


def ask(bench: Bench, recovery: Recovery) -> Finding:
    """Return whether the gradient is that of the value, or parts of it are held constant."""
    if recovery.variable == "rewards":
        return Finding()
    for _, inputs, outcome in answered(bench, recovery):
        if not outcome.attached:
            sentence = "The returned value has no gradient: nothing is trained."
            return Finding(
                (Entry("detached", "everything", True),), (Fault("no-gradient", sentence),)
            )
        pair = _slopes(bench, recovery.variable, inputs, outcome)
        if pair is not None:
            return Finding((Entry("detached", _words(bench, *pair)),))
    return Finding()


def _slopes(
    bench: Bench, variable: str, inputs: Inputs, outcome: Outcome
) -> tuple[float, float] | None:
    """Return the derivative in one direction by differences and by autograd, off the kinks."""
    direction = _direction(inputs[variable], inputs["mask"])
    step = STEPS[bench.precision]
    fine, coarse = (_difference(bench, variable, inputs, direction, h) for h in (step, 2 * step))
    if not abs(fine - coarse) <= AGREEMENT[bench.precision] * max(abs(fine), abs(coarse)):
        return None
    return fine, float(np.sum(outcome.gradient * direction))


def _direction(values: Floats, mask: Floats) -> Floats:
    wave = np.cos(1.0 + np.arange(values.size)).reshape(values.shape)
    active: Floats = wave * (mask if values.ndim == 2 else mask[..., None])
    return active


def _difference(
    bench: Bench, variable: str, inputs: Inputs, direction: Floats, step: float
) -> float:
    ahead, behind = (
        bench.run({**inputs, variable: inputs[variable] + h * direction}) for h in (step, -step)
    )
    return float((ahead.value - behind.value) / (2.0 * step))


def _words(bench: Bench, difference: float, gradient: float) -> str:
    if abs(difference - gradient) <= 10 * AGREEMENT[bench.precision] * max(abs(difference), 1e-3):
        return "nothing: the gradient is the slope of the value"
    return f"part of the value: slope {difference:.4g}, gradient {gradient:.4g}"


DETACHED = Trial("detached", "whether the gradient is the slope of the value", ask)
