"""Parameters: what is set must act, and only on what it names."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from rlvraudit.audit.implementations.card import Fault, Finding
from rlvraudit.audit.implementations.families.family import Declared, Family, Recovery
from rlvraudit.audit.implementations.recovery.bench import Bench, ProbeError
from rlvraudit.audit.implementations.recovery.declared import follows, same, shown, vocabulary

NORM = 37.0
AGGREGATION = "seq-mean-token-sum-norm"


def follow(bench: Bench, family: Family, declared: Declared, recovery: Recovery) -> Finding:
    """Return whether the implementation follows each of its parameters to another value."""
    faults: list[Fault] = []
    notes: list[str] = []
    declarations = ("not-as-declared", "other-objective")
    if recovery.form is None or any(
        fault.kind not in declarations for fault in recovery.finding.faults
    ):
        return Finding()
    for name, values in family.variations.items():
        if not _asked(bench, name, recovery):
            continue
        for value in values:
            if _foreign(name, bench.implementation.parameters):
                continue
            found = _try(bench, family, declared, recovery, name, value)
            faults.extend(f for f in found if isinstance(f, Fault))
            notes.extend(n for n in found if isinstance(n, str))
    return Finding((), tuple(faults), tuple(notes))


def _asked(bench: Bench, name: str, recovery: Recovery) -> bool:
    """Whether a parameter has a say: it is taken by name, or already seen to be swallowed."""
    implementation = bench.implementation
    if name in ("ddof", "epsilon") and recovery.numbers.get("scale") == "none":
        return False
    if name in implementation.swallowed:
        return any(fault.about == name for fault in recovery.finding.faults)
    return name in implementation.parameters


def _foreign(name: str, parameters: Mapping[str, Any]) -> bool:
    """Whether an implementation has its own names for the values of a parameter."""
    known = vocabulary(name)
    return known is not None and parameters[name] not in known


def _try(
    bench: Bench,
    family: Family,
    declared: Declared,
    recovery: Recovery,
    name: str,
    value: Any,
) -> list[Fault | str]:
    changes = dict(_with(bench, name, value))
    said = replace(declared, called={**declared.called, **changes}, light=True)
    tried = bench.where(**changes)
    try:
        seen = family.recover(tried, said).numbers
    except ProbeError:
        return []  # a value that is refused is not ignored
    if follows(value, seen.get(name)):
        return []
    if name not in recovery.numbers and bench.precision != "float64":
        return [f"{name} can't be read off code that computes in {bench.precision}."]
    if same(seen.get(name), recovery.numbers.get(name)):
        return [
            Fault(
                "parameter-without-effect",
                f"{name} is a parameter, and {shown(value)} changes nothing: what acts stays "
                f"{shown(seen.get(name))}.",
                probe="parameters",
                about=name,
            )
        ]
    return [
        Fault(
            "parameter-misread",
            f"{name} = {shown(value)} acts as {shown(seen.get(name))}.",
            probe="parameters",
            about=name,
        )
    ]


def _with(bench: Bench, name: str, value: Any) -> Iterator[tuple[str, Any]]:
    yield name, value
    parameters = bench.implementation.parameters
    if name == "norm" and parameters.get("aggregation") in (vocabulary("aggregation") or ()):
        yield "aggregation", AGGREGATION
    if value == AGGREGATION and "norm" in parameters:
        yield "norm", NORM
