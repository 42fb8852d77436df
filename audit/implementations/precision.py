"""Rounding in each dtype, by FlashAttention's rule: how often the error of the same formula.

Inputs are rounded first; reference is the closed form in FP64 on the rounded inputs, control the
closed form computed throughout in the dtype. The error of the implementation over that of the
control, plus the unit of rounding at the value's scale, is k.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rlvraudit.audit.implementations.card import Example, Fault
from rlvraudit.audit.implementations.families.family import Family, Recovery
from rlvraudit.audit.implementations.implementation import Outcome
from rlvraudit.audit.implementations.recovery.bench import Bench, Floats, Inputs
from rlvraudit.audit.implementations.recovery.evaluate import Form, evaluate

UNIT = {"float64": 2.0**-53, "float32": 2.0**-24, "bfloat16": 2.0**-8, "float16": 2.0**-11}
SEEDS = (1, 2, 3, 4)
TOKENS = 64
LIMIT = 8.0
"""The largest k that passes."""


@dataclass(frozen=True, slots=True)
class Precision:
    """How value and gradient round in one dtype.

    `value` and `gradient` are k, `error` the larger of their relative errors; None where nothing
    could be compared.
    """

    dtype: str
    value: float | None = None
    gradient: float | None = None
    error: float | None = None
    fault: Fault | None = None


def compare_precisions(
    bench: Bench, family: Family, recovery: Recovery, dtypes: tuple[str, ...]
) -> Iterator[Precision]:
    """Yield k for each dtype; without a closed form there is nothing to compare with."""
    for dtype in dtypes:
        if recovery.form is None or not recovery.batches:
            yield Precision(dtype)
        else:
            yield _compare(bench, family, recovery.form, dtype)


def _compare(bench: Bench, family: Family, form: Form, dtype: str) -> Precision:
    errors = []
    for seed in SEEDS:
        inputs = rounded(family.sample(TOKENS, seed), dtype)
        seen = bench.run(inputs, dtype)
        exact, control = evaluate(form, inputs), evaluate(form, inputs, dtype)
        if seen.error or not seen.finite:
            return _failing(bench, inputs, dtype, exact, seen)
        errors.append(_errors(exact, control, seen, UNIT[dtype]))
    # Over all seeds together: one lucky rounding of the control says nothing.
    value, gradient = (_quotient(np.array([e[i] for e in errors])) for i in (0, 1))
    if not np.isfinite([value, gradient]).all():
        return Precision(dtype)  # the control itself gives no number: there is nothing to compare
    judged = dtype != "float64" or (bench.precision == "float64" and form.slack < 1e-9)
    worst = max(value, gradient) if judged else 0.0
    fault = _loose(dtype, worst) if worst > LIMIT else None
    return Precision(dtype, value, gradient, max(e[2] for e in errors), fault)


def _quotient(pairs: Floats) -> float:
    """Return the error over all seeds as a multiple of what is allowed."""
    error, allowed = np.sqrt(np.sum(pairs**2, axis=0))
    return float(error / allowed) if allowed else (np.inf if error else 0.0)


def rounded(inputs: Inputs, dtype: str) -> Inputs:
    """Return the inputs as the dtype holds them."""
    import torch

    return {
        name: torch.tensor(v, dtype=getattr(torch, dtype)).double().numpy()
        if v.dtype.kind == "f"
        else v
        for name, v in inputs.items()
    }


Pair = tuple[float, float]


def _errors(
    exact: Outcome, control: Outcome, seen: Outcome, unit: float
) -> tuple[Pair, Pair, float]:
    """Return error and allowed error of value and gradient, and the larger relative error."""
    terms = float(np.abs(exact.gradient).sum()) if exact.gradient.size else 0.0
    scale = max(terms, float(np.linalg.norm(exact.value)))
    value = _pair(exact.value, control.value, seen.value, unit * scale)
    relative = value[0] / scale if scale else value[0]
    if not exact.gradient.size:
        return value, (0.0, 0.0), relative
    # A ratio within rounding of a bound may fall on either side of it; both are right.
    same = (exact.gradient == 0) == (seen.gradient == 0)
    same &= (exact.gradient == 0) == (control.gradient == 0)
    kept = [o.gradient[same] for o in (exact, control, seen)]
    size = float(np.linalg.norm(kept[0]))
    gradient = _pair(kept[0], kept[1], kept[2], unit * size)
    return value, gradient, max(relative, gradient[0] / size if size else gradient[0])


def _pair(exact: Floats, control: Floats, seen: Floats, unit: float) -> Pair:
    allowed = float(np.linalg.norm(control - exact)) + unit
    return float(np.linalg.norm(seen - exact)), allowed


def _loose(dtype: str, k: float) -> Fault:
    sentence = (
        f"In {dtype} its error is {k:.3g} times that of the same formula computed in {dtype} "
        f"throughout (at most {LIMIT:g} passes): something inside is rounded to less."
    )
    return Fault("loses-precision", sentence, probe="precision")


def _failing(bench: Bench, inputs: Inputs, dtype: str, exact: Outcome, seen: Outcome) -> Precision:
    shown = bench.shown(inputs)
    what = f"it raised {seen.error}" if seen.error else "the result is not finite"
    kind = "raises-in-dtype" if seen.error else "not-finite"
    sentence = f"In {dtype} there is no result where the closed form is finite: {what}."
    example = Example(shown, exact, seen, what, dtype)
    return Precision(dtype, fault=Fault(kind, sentence, example, "precision"))
