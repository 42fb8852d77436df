"""RA6: no claim outruns its evidence."""

from collections.abc import Iterator, Mapping
from typing import Any

from rlvraudit.audit.evidence.level import FORMAL, MEASURED, TRACES, levels, statements
from rlvraudit.audit.evidence.receipt import receipts
from rlvraudit.audit.evidence.supplement import MANIFEST, Claim, Evidence
from rlvraudit.audit.rules.provenance import traces_of
from rlvraudit.audit.rules.rule import Held, Outcome, Problem, Skipped, rule

LEAST_LEVEL = {"mechanism": "L0", "component": "L1", "comparison": "L2", "capability": "L3"}
"""What each kind of claim needs; levels compare as text. `reported` needs none."""
HIGHEST = {"deterministic": "L0", "synthetic": "L1"}
"""The highest level that a recipe can have, by what its name begins with."""
FLAGS = (("diagnostic_only", True), ("formal_comparison", False), ("promotion_eligible", False))
OVER_ITEMS = ("comparison", "capability", "null-result")
"""The kinds of claim about outcomes on items, which only per-item results can carry."""


@rule("RA601", "level-too-low")
def level_too_low(evidence: Evidence) -> Iterator[Outcome]:
    """The claim's kind needs no higher level than its evidence has.

    A formula that computes right (L0) and a component that trains on synthetic data (L1) say
    nothing about which method is better (L2) or what a model can do (L3). A `mechanism` claim
    needs L0, `component` L1, `comparison` L2, `capability` L3; a `null-result` needs what the
    claim that it denies would need, `reported` needs nothing. A claim is as strong as the
    weakest artifact that could carry it; an artifact has the level of its receipt, of the
    manifest's `origin`, or its own, and the lowest where they differ.

    Passes: a `component` claim on a trace whose receipt says L1.
    Fails: a `capability` claim on item results whose receipt says L1.

    How to fix: state the kind of claim that the evidence carries, or bring evidence of the
    level that the claim needs.

    When to suppress: never; a reviewer cannot switch it off.
    """
    known = levels(evidence)
    if not evidence.claims:
        yield Skipped("no claims")
    for claim in evidence.claims:
        least = _least_level(claim)
        if least is None:
            yield Skipped(f"{claim.kind} claims need no level")
            continue
        found = [(known.get(path), path) for path in _carriers(claim, evidence)]
        yield _level_outcome(claim, least, found)


def _level_outcome(claim: Claim, least: str, found: list[tuple[str | None, str]]) -> Outcome:
    needs = f"a {claim.kind} claim needs {least}"
    if not found:
        return Skipped("claims without evidence are for RA602")
    for level, path in found:
        if level is None:
            message = f"claim {claim.id}: {needs}; {path} has no level: no receipt, origin or level"
            return Problem(MANIFEST, message, f"{claim.pointer}/kind")
    lowest, weakest = min((str(level), path) for level, path in found)
    if lowest < least:
        message = f"claim {claim.id}: {needs}; its evidence is {lowest} ({weakest})"
        return Problem(MANIFEST, message, f"{claim.pointer}/kind")
    return Held(MANIFEST, f"{claim.pointer}/kind")


def _least_level(claim: Claim) -> str | None:
    if claim.kind == "null-result":
        return LEAST_LEVEL["comparison" if "compares" in claim.value else "mechanism"]
    return LEAST_LEVEL.get(claim.kind)


def _carriers(claim: Claim, evidence: Evidence) -> list[str]:
    """Return the claim's artifacts that could carry it.

    Statements about outcomes on items rest on the per-item results among them, where there are any.
    """
    types = {artifact.path: artifact.type for artifact in evidence.artifacts}
    measured = [path for path in claim.evidence if types.get(path) in MEASURED]
    items = [path for path in measured if types[path] == "item-results"]
    return items if items and claim.kind in OVER_ITEMS else measured


@rule("RA606", "train-reward-as-eval")
def train_reward_as_eval(evidence: Evidence) -> Iterator[Outcome]:
    """Training reward, replay loss or verifier bits are not presented as capability.

    A reward that the training loop optimised, a replay loss that went down and the bits of a
    synthetic verifier describe the run, not what the model can do. Claims about outcomes
    (`comparison`, `capability`, `null-result`) rest on per-item results of an evaluation.

    Passes: a `component` claim that rests on a trace; a `comparison` on item results.
    Fails: a `comparison` claim that reports the mean reward of a trace.

    How to fix: evaluate on items and rest the claim on those results, or state what the trace
    shows as a `component` claim.

    When to suppress: never; a reviewer cannot switch it off.
    """
    types = {artifact.path: artifact.type for artifact in evidence.artifacts}
    claims = [claim for claim in evidence.claims if claim.kind in OVER_ITEMS]
    if not claims:
        yield Skipped("no claim is about outcomes on items")
    for claim in claims:
        traces = [i for i, path in enumerate(claim.evidence) if types.get(path) in TRACES]
        for index in traces:
            message = (
                f"{claim.kind} claim {claim.id} rests on {claim.evidence[index]}, a training "
                "trace; expected the per-item results of an evaluation"
            )
            yield Problem(MANIFEST, message, f"{claim.pointer}/evidence/{index}")
        if not traces:
            yield Held(MANIFEST, f"{claim.pointer}/evidence")


@rule("RA609", "diagnostic-flags")
def diagnostic_flags(evidence: Evidence) -> Iterator[Outcome]:
    """An artifact below L2 says `diagnostic_only: true` and `formal_comparison: false`.

    Whoever picks a single file out of a supplement must see in it that it is a diagnostic:
    levels in a manifest do not travel with a copied file. What ran on synthetic data is L1 at
    most, and a trace has the level that its receipt has.

    Passes: a receipt of level L1 with `diagnostic_only: true` and `formal_comparison: false`.
    Fails: a trace or receipt of level L0 or L1 without the two, or with other values, or
    eligible for promotion; a recipe `synthetic:...` at L3; a trace of L1 with a receipt of L2.

    How to fix: set both flags in the receipt, and in the artifact where it states a level.

    When to suppress: never; a reviewer cannot switch it off.
    """
    stated = [
        (path, pointer, value)
        for path, document in sorted(evidence.documents.items())
        for pointer, value in statements(document)
    ]
    below = [row for row in stated if row[2]["level"] < FORMAL]
    if not below:
        yield Skipped("no receipt or artifact states a level below L2")
    for path, pointer, value in below:
        yield _flags_outcome(path, pointer, value)
    yield from _raised(evidence)


def _raised(evidence: Evidence) -> Iterator[Problem]:
    """Yield every level that is higher than the recipe, or another statement, allows."""
    for receipt in receipts(evidence):
        place, recipe = "/predicate/evidence/level", str(receipt.parameters.get("recipe", ""))
        yield from _above(receipt.path, place, receipt.level, recipe)
        for trace in traces_of(receipt, evidence):
            level = trace.value["level"]
            yield from _above(trace.artifact.path, "/level", level, trace.value["recipe"])
            if level != receipt.level:
                message = f"level {level}; its receipt {receipt.path} says {receipt.level}"
                yield Problem(trace.artifact.path, message, "/level")


def _above(path: str, pointer: str, level: str, recipe: str) -> Iterator[Problem]:
    most = HIGHEST.get(recipe.partition(":")[0])
    if most is not None and level > most:
        yield Problem(path, f"level {level} for the recipe {recipe}; it can have {most}", pointer)


def _flags_outcome(path: str, pointer: str, value: Mapping[str, Any]) -> Outcome:
    for flag, expected in FLAGS:
        if flag == "promotion_eligible" and flag not in value:
            continue
        if value.get(flag) is not expected:
            found = "missing" if flag not in value else str(value[flag]).lower()
            message = (
                f"{flag} is {found} at level {value['level']}; expected {str(expected).lower()}"
            )
            place = f"{pointer}/{flag}" if flag in value else pointer
            return Problem(path, message, place)
    return Held(path, pointer)
