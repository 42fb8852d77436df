"""The audit of one implementation: what it computes, by which conventions, where it is wrong."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from rlvraudit.audit.errors import Exit, UsageError
from rlvraudit.audit.implementations.card import Entry, Example, Fault, Finding
from rlvraudit.audit.implementations.families import FAMILIES, Declared, Family, Recovery
from rlvraudit.audit.implementations.implementation import Implementation, Outcome
from rlvraudit.audit.implementations.loading import CUSTOMARY
from rlvraudit.audit.implementations.precision import Precision, compare_precisions
from rlvraudit.audit.implementations.recovery.bench import Bench, ProbeError
from rlvraudit.audit.implementations.recovery.declared import vocabulary
from rlvraudit.audit.implementations.recovery.precision import inner_precision
from rlvraudit.audit.implementations.trials import TRIALS
from rlvraudit.audit.implementations.trials.parameters import follow

DTYPES = ("float64", "float32", "bfloat16", "float16")
TOKENS = 6
INSIDE = {
    "float64": "that of the inputs",
    "float32": "float32 inside, whatever comes in",
    "half": "16 bits inside, whatever comes in",
}


@dataclass(frozen=True, slots=True)
class Inspection:
    """Everything that the audit of one implementation saw."""

    implementation: Implementation
    device: str
    family: str
    objective: str
    declared: Declared
    entries: tuple[Entry, ...]
    faults: tuple[Fault, ...]
    notes: tuple[str, ...]
    precisions: tuple[Precision, ...]

    @property
    def unlike(self) -> str:
        """Why there is no verdict: by its own account it is none of the objectives here."""
        return "" if self.objective else self.implementation.unlike

    @property
    def exit(self) -> Exit:
        """The exit status: what could not be trusted to be looked at comes first."""
        if self.implementation.unknown or self.unlike:
            return Exit.INCOMPLETE
        return Exit.FINDINGS if self.faults else Exit.PASSED


def inspect_implementation(
    implementation: Implementation,
    declared: Declared,
    dtypes: tuple[str, ...] = DTYPES,
    device: str = "cpu",
    progress: Callable[[str], None] = lambda _: None,
) -> Inspection:
    """Audit one implementation.

    Args:
        implementation: What is called.
        declared: What it is said to be.
        dtypes: Those in which its rounding is compared; none skips that.
        device: Where it runs.
        progress: Told each step.

    Raises:
        UsageError: No family of objectives has its inputs, or not the one that is declared, or a
            declared parameter is none.
    """
    family = family_of(implementation, declared.objective)
    _check_declared(implementation, declared)
    progress("what it computes")
    loud = _loud(implementation, declared)
    said = replace(declared, called={**implementation.parameters, **loud})
    bench = Bench(implementation, loud, device)
    moody = _moody(bench, family)
    if moody is not None:
        return _hopeless(implementation, device, family, declared, moody)
    bench = _bench(bench, family)
    try:
        recovery = family.recover(bench, said)
    except ProbeError as error:
        # What overflows 16 bits says first of all that it computes in them.
        fault = next(iter(_inner(bench).faults), None) or _raising(bench, family, error)
        return _hopeless(implementation, device, family, declared, fault)
    findings = [_muted(recovery.finding) if loud else recovery.finding, _inner(bench)]
    findings.append(Finding(notes=tuple(_own_words(declared))))
    for trial in sorted(TRIALS.values(), key=lambda t: t.name):
        progress(trial.question)
        findings.append(_named(trial.name, trial.ask(bench, recovery)))
    progress("its parameters")
    findings.append(follow(bench, family, said, recovery))
    progress("its rounding")
    precisions = tuple(compare_precisions(bench, family, recovery, dtypes))
    return _inspection(implementation, device, family, said, recovery, findings, precisions)


def _check_declared(implementation: Implementation, declared: Declared) -> None:
    """Refuse a name or a value that nothing is held to: a slip of the pen would be a pass."""
    known = {*CUSTOMARY, *implementation.parameters}
    for name, value in declared.parameters.items():
        if name not in known:
            raise UsageError(
                f"nothing is held to {name}: the objectives have {', '.join(CUSTOMARY)}, and "
                f"{implementation.name} does not take it"
            )
        words = vocabulary(name)
        if words is not None and value not in words and name not in implementation.parameters:
            raise UsageError(f"{name} is {value!r}; expected one of {', '.join(sorted(words))}")


def _own_words(declared: Declared) -> Iterator[str]:
    """Yield notes on declared values that only the code itself understands."""
    for name, value in declared.parameters.items():
        words = vocabulary(name)
        if words is not None and value not in words:
            yield f"{name} = {value!r} is the code's own name: passed on, and held to nothing."


def _loud(implementation: Implementation, declared: Declared) -> dict[str, float]:
    """Return a KL weight of 1 where the term would be off, so that it can be looked at."""
    off = implementation.parameters.get("beta", 1.0) == 0.0
    asked = "logp_reference" in implementation.inputs and "beta" not in declared.parameters
    return {"beta": 1.0} if off and asked else {}


def _muted(finding: Finding) -> Finding:
    """Return the finding with what concerns a KL term that is off by default as a note."""
    about = [fault for fault in finding.faults if fault.kind == "kl-k1-gradient"]
    return replace(
        finding,
        faults=tuple(fault for fault in finding.faults if fault not in about),
        notes=(*finding.notes, *(f"With a KL weight, 0 by default: {f.sentence}" for f in about)),
    )


def family_of(implementation: Implementation, objective: str | None) -> Family:
    """Return the family of the declared objective, or the one whose inputs are asked for.

    Raises:
        UsageError: There is none.
    """
    fitting = [f for f in FAMILIES.values() if set(f.requires) <= set(implementation.inputs)]
    if objective is not None:
        fitting = [family for family in FAMILIES.values() if objective in family.objectives]
        if not fitting:
            known = ", ".join(sorted(o for f in FAMILIES.values() for o in f.objectives))
            raise UsageError(f"no objective {objective!r} can be audited; there are {known}")
        lacking = set(fitting[0].requires) - set(implementation.inputs)
        if lacking:
            raise UsageError(
                f"{implementation.name} asks for {', '.join(implementation.inputs)}; {objective} "
                f"needs {', '.join(sorted(lacking))} too"
            )
    if not fitting:
        asked = ", ".join(implementation.inputs)
        needs = "; ".join(f"{f.name}: {', '.join(f.requires)}" for f in FAMILIES.values())
        raise UsageError(f"{implementation.name} asks for {asked} only; expected one of {needs}")
    chosen = max(fitting, key=lambda family: len(family.requires))
    fitting = [f for f in fitting if set(implementation.inputs) <= {*f.requires, *f.knows}]
    if not fitting:
        rest = set(implementation.inputs) - {*chosen.requires, *chosen.knows}
        raise UsageError(
            f"{implementation.name} asks for {', '.join(sorted(rest))} beside "
            f"{', '.join(chosen.requires)}: a sum of objectives; audit its terms apart"
        )
    chosen = max(fitting, key=lambda family: len(family.requires))
    if "mask" not in implementation.inputs and chosen.name != "advantages":
        raise UsageError(
            f"{implementation.name} takes no mask, so that nothing says which positions count; "
            "a wrapper that takes one is three lines"
        )
    return chosen


def _bench(bench: Bench, family: Family) -> Bench:
    """Return the bench with the shape of advantages and the precision that act inside."""
    inputs = family.sample(TOKENS, 0)
    if bench.takes("advantages") and bench.run(inputs).error:
        wide = replace(bench, per_token=True)
        bench = bench if wide.run(inputs).error else wide
    return replace(bench, precision=inner_precision(bench, inputs))


def _inner(bench: Bench) -> Finding:
    entry = Entry("precision", INSIDE[bench.precision], bench.precision == "half")
    if bench.precision != "half":
        return Finding((entry,))
    sentence = (
        "It computes in 16 bits inside, even for float64 inputs: differences of log-probabilities "
        "below 0.01 vanish. Compute in float32 at least."
    )
    return Finding((entry,), (Fault("low-precision-inside", sentence, probe="precision"),))


def _named(probe: str, finding: Finding) -> Finding:
    return replace(finding, faults=tuple(replace(fault, probe=probe) for fault in finding.faults))


def _moody(bench: Bench, family: Family) -> Fault | None:
    """Return the fault that the same call gives different results, if it does."""
    inputs = family.sample(TOKENS, 0)
    runs = [bench.run(inputs) for _ in range(4)]
    same = [
        np.array_equal(o.value, runs[0].value, equal_nan=True)
        and np.array_equal(o.gradient, runs[0].gradient, equal_nan=True)
        for o in runs
    ]
    if all(same):
        return None
    other = runs[same.index(False)]
    words = f"value {float(other.value.ravel()[0]):.9g} after {float(runs[0].value.ravel()[0]):.9g}"
    return Fault(
        "not-repeatable",
        "The same inputs give another result: it draws at random or has a memory.",
        Example(bench.shown(inputs), runs[0], other, words),
        "repetition",
    )


def _raising(bench: Bench, family: Family, error: ProbeError) -> Fault:
    nothing = Outcome(np.full((), np.nan), np.zeros(0))  # any number would do
    why = str(error)
    inputs = family.sample(2, 0) if error.inputs is None else error.inputs
    example = Example(bench.shown(inputs), nothing, nothing, why)
    kind = "raises" if ": " in why else "wrong-return" if "it returned" in why else "not-finite"
    return Fault(kind, f"Where the objective is defined it gives no number: {why}.", example)


def _hopeless(
    implementation: Implementation,
    device: str,
    family: Family,
    declared: Declared,
    fault: Fault,
) -> Inspection:
    """Return the inspection of what can't be looked at any further."""
    entries = (Entry("result", "no card: see below", True),)
    return Inspection(implementation, device, family.name, "", declared, entries, (fault,), (), ())


def _inspection(
    implementation: Implementation,
    device: str,
    family: Family,
    declared: Declared,
    recovery: Recovery,
    findings: list[Finding],
    precisions: tuple[Precision, ...],
) -> Inspection:
    faults = [fault for finding in findings for fault in finding.faults]
    if implementation.unlike and recovery.form is None:
        # It need not be what it does not claim to be; what must never matter still must not.
        faults = [fault for finding in findings[1:] for fault in finding.faults]
    faults.extend(p.fault for p in precisions if p.fault is not None)
    marked = [e for finding in findings for e in finding.entries if e.fault]
    if marked and not faults and not implementation.unlike:
        # A card that shows something wrong is never a pass.
        faults.append(Fault("unexplained", f"The card shows {marked[0].name}: {marked[0].words}."))
    return Inspection(
        implementation,
        device,
        family.name,
        recovery.objective,
        declared,
        tuple(entry for finding in findings for entry in finding.entries),
        tuple(_distinct(faults)),
        tuple(dict.fromkeys(note for finding in findings for note in finding.notes)),
        precisions,
    )


def _distinct(faults: list[Fault]) -> Iterator[Fault]:
    """Yield the faults, each once; what is not explained only where nothing else is."""
    seen: set[tuple[str, str]] = set()
    explained = any(fault.kind != "unexplained" for fault in faults)
    stuck = {fault.about for fault in faults if fault.kind.startswith("parameter-")}
    for fault in faults:
        again = (fault.kind, fault.about) in seen
        vague = fault.kind == "unexplained" and explained
        if again or vague or (fault.kind == "not-as-declared" and fault.about in stuck):
            continue
        seen.add((fault.kind, fault.about))
        yield fault
