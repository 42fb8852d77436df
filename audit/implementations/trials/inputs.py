"""Inputs: what a function asks for, it must read."""

import numpy as np

from rlvraudit.audit.implementations.card import Fault, Finding
from rlvraudit.audit.implementations.families.family import Recovery
from rlvraudit.audit.implementations.implementation import VARIABLES
from rlvraudit.audit.implementations.recovery.bench import Bench, Inputs
from rlvraudit.audit.implementations.trials.trial import Trial, answered

SILENT = {"beta": "logp_reference"}
"""Parameters that switch an input off when they are 0."""


def ask(bench: Bench, recovery: Recovery) -> Finding:
    """Return which inputs change nothing, whatever they are."""
    unread = set(bench.implementation.inputs)
    asked = False
    for _, inputs, outcome in answered(bench, recovery):
        asked = True
        for name in sorted(unread & set(inputs)):
            seen = bench.run(_other(inputs, name))
            same = np.array_equal(seen.value, outcome.value) and np.array_equal(
                seen.gradient, outcome.gradient
            )
            if not same:
                unread.discard(name)
    called = {**bench.implementation.parameters, **bench.parameters}
    off = {SILENT[name] for name, value in called.items() if name in SILENT and not value}
    known = {fault.kind for fault in recovery.finding.faults} - {"not-as-declared", "kl-zero"}
    names = sorted(unread - off - set(VARIABLES))
    if not asked or not names or (recovery.form is not None and known):
        return Finding()
    sentence = f"It asks for {', '.join(names)} and never reads it: another gives the same result."
    return Finding(faults=(Fault("input-not-read", sentence),))


def _other(inputs: Inputs, name: str) -> Inputs:
    """Return the batch with another value of one input, at active positions too."""
    values = inputs[name]
    if name == "mask":
        changed = values.copy()
        last = int(np.flatnonzero(values[0])[-1])
        changed[0, last] = values[0].sum() == 1
        return {**inputs, name: changed}
    if values.dtype.kind == "i":
        return {**inputs, name: (values + 1) % (int(values.max()) + 1)}
    wave = 0.13 * np.cos(np.arange(values.size)).reshape(values.shape)
    return {**inputs, name: values - np.abs(wave) - 0.07}


INPUTS = Trial("inputs", "whether every input is read", ask)
