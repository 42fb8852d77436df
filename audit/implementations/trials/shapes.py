"""Shapes: as many rows as tokens, advantages per token, advantages as a column."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from rlvraudit.audit.implementations.card import Entry, Example, Fault, Finding
from rlvraudit.audit.implementations.closed_forms import parts
from rlvraudit.audit.implementations.closed_forms.surrogate import Surrogate
from rlvraudit.audit.implementations.families.family import Recovery
from rlvraudit.audit.implementations.implementation import observe
from rlvraudit.audit.implementations.recovery.batches import GENERIC, Zones
from rlvraudit.audit.implementations.recovery.bench import Bench, Inputs, spread
from rlvraudit.audit.implementations.recovery.evaluate import Form, evaluate
from rlvraudit.audit.implementations.recovery.examples import difference
from rlvraudit.audit.implementations.trials.trial import Trial, answered


def ask(bench: Bench, recovery: Recovery) -> Finding:
    """Return which shapes of advantages are taken, and whether one is broadcast to nonsense."""
    if not bench.takes("advantages"):
        return Finding()
    if bench.per_token:
        return _per_token_only(bench, recovery)
    inputs = next((i for n, i, _ in answered(bench, recovery) if n == "straddling"), None)
    if inputs is None:
        return Finding()
    words, notes, faults = _per_token(bench, recovery, inputs)
    column = _column(bench, inputs)
    entry = Entry("advantages", words, bool(faults))
    return Finding((entry,), faults, tuple(n for n in (*notes, column) if n))


Answer = tuple[str, tuple[str, ...], tuple[Fault, ...]]


def _per_token(bench: Bench, recovery: Recovery, inputs: Inputs) -> Answer:
    """Return what advantages per token do."""
    mask = inputs["mask"]
    constant = {**inputs, "advantages": np.repeat(inputs["advantages"][:, None], mask.shape[1], 1)}
    each, alike = bench.run(inputs), bench.run(constant)
    if alike.error:
        return "[B]", (), ()
    if not bench.close(alike.value, each.value):
        return (
            "[B]",
            (
                "Advantages of shape [B, T] are not refused: they give another number than the "
                "same advantages of shape [B].",
            ),
            (),
        )
    varied = {**inputs, "advantages": spread(mask.shape, -1.5, 1.5, 71) * mask}
    if recovery.form is None:
        return "[B] or [B, T]", (), ()
    seen, words = bench.run(varied), ""
    for form, batch, said in _meanings(recovery.form, varied):
        words = difference(bench, evaluate(form, batch), seen, form.slack)
        if not words:
            return f"[B] or [B, T]{said}", (), ()
    fault = Fault(
        "per-token-advantages",
        "Advantages of shape [B, T] are taken, and are neither each token's own nor averaged over "
        "the trajectory.",
        Example(
            bench.shown(varied),
            evaluate(recovery.form, varied),
            seen,
            words,
        ),
    )
    return "[B] or [B, T], the latter otherwise", (), (fault,)


def _meanings(form: Form, inputs: Inputs) -> Iterator[tuple[Form, Inputs, str]]:
    """Yield what advantages per token may mean: as they are, or averaged over the trajectory."""
    yield form, inputs, ""
    if isinstance(form, Surrogate) and form.ratio.name == "sequence":
        carried = parts("ratio")["sequence-token"]
        yield replace(form, ratio=carried), inputs, ", carried by each token (GSPO-token)"
    if not isinstance(form, Surrogate) or not form.ratio.name.startswith("sequence"):
        return
    mask = inputs["mask"]
    mean = (inputs["advantages"] * mask).sum(1) / mask.sum(1)
    yield form, {**inputs, "advantages": mean}, ", averaged over the trajectory"


def _column(bench: Bench, inputs: Inputs) -> str:
    """Return a note where a column of advantages is broadcast to another result."""
    seen = bench.run({**inputs, "advantages": inputs["advantages"][:, None]})
    if seen.error or bench.close(seen.value, bench.run(inputs).value):
        return ""
    return "Advantages of shape [B, 1] are not refused: they give another number."


def _per_token_only(bench: Bench, recovery: Recovery) -> Finding:
    """Return whether [B], which raises elsewhere, is broadcast where B is T."""
    inputs = GENERIC["square"](Zones(-0.2, 0.2))
    seen = observe(bench.implementation, inputs, device=bench.device, **bench.parameters)
    entry = Entry("advantages", "[B, T]")
    if seen.error or recovery.form is None:
        return Finding((entry,))
    expected = evaluate(recovery.form, inputs)
    words = difference(bench, expected, seen)
    if not words:
        return Finding((entry,))
    sentence = (
        "Advantages of shape [B] are broadcast along tokens where there are as many of them as "
        "rows, and raise elsewhere: a token gets the advantage of another trajectory."
    )
    shown = {name: np.asarray(v) for name, v in inputs.items() if bench.takes(name)}
    example = Example(shown, expected, seen, words)
    return Finding(
        (Entry("advantages", "[B, T]; [B] along the wrong axis", True),),
        (Fault("broadcast", sentence, example),),
    )


SHAPES = Trial("shapes", "advantages per trajectory, per token, as a column", ask)
