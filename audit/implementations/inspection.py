"""The audit of one implementation: what it computes, by which conventions, where it is wrong."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from rlvraudit.audit.errors import Exit, UsageError
from rlvraudit.audit.implementations.card import Entry, Example, Fault, Finding
from rlvraudit.audit.implementations.families import FAMILIES, Declared, Family, Recovery
from rlvraudit.audit.implementations.implementation import Implementation, Outcome
from rlvraudit.audit.implementations.precision import Precision, compare_precisions
from rlvraudit.audit.implementations.recovery.bench import Bench, ProbeError
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
    def exit(self) -> Exit:
        """The exit status: what could not be trusted to be looked at comes first."""
        if self.implementation.unknown:
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
        dtypes: Those beside FP64 in which its rounding is compared.
        device: Where it runs.
        progress: Told each step.

    Raises:
        UsageError: No family of objectives has its inputs, or not the one that is declared.
    """
    family = family_of(implementation, declared.objective)
    said = Declared(declared.objective, {**implementation.parameters, **declared.parameters})
    progress("what it computes")
    bench = _bench(Bench(implementation, device=device), family)
    try:
        recovery = family.recover(bench, said)
    except ProbeError as error:
        return _raising(implementation, device, family, declared, str(error), bench)
    findings = [recovery.finding, _inner(bench)]
    for trial in sorted(TRIALS.values(), key=lambda t: t.name):
        progress(trial.question)
        findings.append(_named(trial.name, trial.ask(bench, recovery)))
    progress("its parameters")
    findings.append(follow(bench, family, said, recovery))
    progress("its rounding")
    precisions = tuple(compare_precisions(bench, family, recovery, dtypes))
    return _inspection(implementation, device, family, declared, recovery, findings, precisions)


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


def _raising(
    implementation: Implementation,
    device: str,
    family: Family,
    declared: Declared,
    why: str,
    bench: Bench,
) -> Inspection:
    inputs = family.sample(TOKENS, 0)
    nothing = Outcome(np.zeros(()), np.zeros(0))
    example = Example(
        {name: v for name, v in inputs.items() if bench.takes(name)}, nothing, nothing, why
    )
    fault = Fault(
        "no-result", f"Where the objective is defined it gives no number: {why}.", example
    )
    entries = (Entry("result", "none on ordinary inputs", True),)
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
    faults.extend(p.fault for p in precisions if p.fault is not None)
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
    """Yield the faults, each kind once; what is not explained only where nothing else is."""
    seen: set[str] = set()
    explained = any(fault.kind != "unexplained" for fault in faults)
    for fault in faults:
        if fault.kind in seen or (fault.kind == "unexplained" and explained):
            continue
        seen.add(fault.kind)
        yield fault
