"""A large batch: what holds for few rows and tokens must hold for many."""

from rlvraudit.audit.implementations.card import Fault, Finding
from rlvraudit.audit.implementations.families import FAMILIES
from rlvraudit.audit.implementations.families.family import Recovery
from rlvraudit.audit.implementations.recovery.bench import Bench
from rlvraudit.audit.implementations.recovery.evaluate import evaluate
from rlvraudit.audit.implementations.trials.trial import Trial, changed

TOKENS, SEED = 300, 1273


def ask(bench: Bench, recovery: Recovery) -> Finding:
    """Return whether rows or tokens of a large batch are treated otherwise."""
    if recovery.form is None or recovery.variable == "rewards":
        return Finding()
    family = next(f for f in FAMILIES.values() if recovery.objective in f.objectives)
    inputs = family.sample(TOKENS, SEED)
    fault = changed(
        bench,
        inputs,
        evaluate(recovery.form, inputs),
        "large-batch",
        f"What holds for small batches does not hold for {len(inputs['mask'])} rows of up to "
        f"{TOKENS} tokens.",
        recovery.form.slack,
    )
    found: tuple[Fault, ...] = () if fault is None else (fault,)
    return Finding(faults=found)


LARGE = Trial("large batch", "many rows and tokens", ask)
