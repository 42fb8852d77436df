"""RA3, the run: it completed, on the device and with the seeds that were asked for."""

from collections.abc import Iterator, Mapping
from typing import Any

from rlvraudit.audit.evidence.receipt import Receipt, receipts
from rlvraudit.audit.evidence.supplement import MANIFEST, Document, Evidence
from rlvraudit.audit.results.item import Items
from rlvraudit.audit.rules.provenance import NO_RECEIPT, traces_of
from rlvraudit.audit.rules.rule import Held, Outcome, Problem, Skipped, rule

PARAMETERS = "/predicate/buildDefinition/externalParameters"
VERSIONS = "/predicate/runDetails/builder/version"
FRAMEWORKS = ("torch", "jax", "numpy")
SEEDLESS = "L0"
"""The level of contracts on deterministic tensors: such a run may state that it has no seed."""


@rule("RA308", "failed-run")
def failed_run(evidence: Evidence) -> Iterator[Outcome]:
    """Every run with a receipt completed, and no claim rests on the record of a failure.

    A failed run writes a `failure` record in the place of its output. The two never stand for
    one another: half a run shows nothing, and hiding a failure shows less.

    Passes: `"status": "completed", "exitCode": 0`; a failure record that is shipped for the
    sake of completeness.
    Fails: a receipt with `"status": "failed"`; a claim whose evidence is `failure.json`.

    How to fix: run again until the end, or withdraw the claim. Keep the record of the failure.

    When to suppress: never; a reviewer cannot switch it off.
    """
    failures = {document.artifact.path for document in evidence.of_type("failure")}
    for receipt in receipts(evidence):
        yield _outcome(receipt)
        for subject in receipt.subjects:
            if subject.name in failures:
                message = f"{subject.name} records a failure; a receipt is of what completed"
                yield Problem(receipt.path, message, subject.pointer)
    for claim in evidence.claims:
        for index, path in enumerate(claim.evidence):
            if path in failures:
                message = f"claim {claim.id} rests on {path}, the record of a failed run"
                yield Problem(MANIFEST, message, f"{claim.pointer}/evidence/{index}")
    yield from (Held(path) for path in sorted(failures))
    if not failures and not receipts(evidence):
        yield NO_RECEIPT


def _outcome(receipt: Receipt) -> Outcome:
    outcome = receipt.predicate["outcome"]
    if outcome["status"] == "completed" and outcome["exitCode"] == 0:
        return Held(receipt.path, "/predicate/outcome")
    message = f"the run is {outcome['status']} with exit code {outcome['exitCode']}"
    return Problem(receipt.path, message, "/predicate/outcome")


@rule("RA310", "environment-incomplete")
def environment_incomplete(evidence: Evidence) -> Iterator[Outcome]:
    """A receipt states device kind and model, the versions of Python and framework, the driver.

    The same code gives other bits on another device or framework; without them a difference
    cannot be explained. The driver is due where the device has one (a warning if it is absent).

    Passes: `"device": {"kind": "cpu", "model": "x86_64"}`, versions of Python and NumPy.
    Fails: a receipt that states no model, or no version of Python.

    How to fix: record the environment at the time of the run: model, never host name.

    When to suppress: never; a reviewer cannot switch it off.
    """
    for receipt in receipts(evidence):
        lacking = [part for part in ("kind", "model") if part not in receipt.device]
        if lacking:
            message = f"the device lacks {' and '.join(lacking)}"
            yield Problem(receipt.path, message, "/predicate/environment")
        if "python" not in receipt.versions:
            yield Problem(receipt.path, "the version of Python is not stated", VERSIONS)
        if not any(name in receipt.versions for name in FRAMEWORKS):
            known = ", ".join(FRAMEWORKS)
            yield Problem(receipt.path, f"no version of a framework ({known}) is stated", VERSIONS)
        if receipt.device.get("kind", "cpu") != "cpu" and "driver" not in receipt.versions:
            message = f"the driver of the {receipt.device['kind']} device is not stated"
            yield Problem(receipt.path, message, VERSIONS, level="warning")
        yield Held(receipt.path, "/predicate/environment")
    if not receipts(evidence):
        yield NO_RECEIPT


@rule("RA312", "device-fallback")
def device_fallback(evidence: Evidence) -> Iterator[Outcome]:
    """The device that ran is the device that was asked for.

    A run that asked for CUDA and silently took the CPU measured something else: other kernels,
    other precision, other timing.

    Passes: asked for `cuda`, ran on `cuda`.
    Fails: asked for `cuda`, ran on `cpu`.

    How to fix: run where the device is, or ask for the one that is there.

    When to suppress: never; a reviewer cannot switch it off.
    """
    for receipt in receipts(evidence):
        asked, ran = receipt.parameters.get("device"), receipt.device.get("kind")
        pointer = f"{PARAMETERS}/device"
        if asked is None or ran is None:
            message = "which device was asked for, or which one ran, is not stated"
            yield Problem(receipt.path, message, pointer)
        elif str(asked).partition(":")[0] != ran:
            message = f"{asked!a} was asked for, {ran!a} ran"
            yield Problem(receipt.path, message, pointer)
        else:
            others = _subject_devices(receipt, str(ran), evidence)
            yield from others or (Held(receipt.path, pointer),)
    if not receipts(evidence):
        yield NO_RECEIPT


def _subject_devices(receipt: Receipt, ran: str, evidence: Evidence) -> tuple[Problem, ...]:
    """Return the traces that state another device than their receipt says has run."""
    found = []
    for trace in traces_of(receipt, evidence):
        asked, used = trace.value["device"]["requested"], trace.value["device"]["kind"]
        if {asked, used} != {ran}:
            message = f"{asked!a} was asked for, {used!a} ran; the receipt says {ran!a}"
            found.append(Problem(trace.artifact.path, message, "/device"))
    return tuple(found)


@rule("RA313", "seed-missing")
def seed_missing(evidence: Evidence) -> Iterator[Outcome]:
    """Every seed that a run was given is present, and there are as many results as seeds.

    A run that was given three seeds and reports two has dropped one, and nobody knows which way
    it went. Seeds in results must be among those given; each seed of a stream whose name begins
    with `run` (of every stream, if none does) must appear in the results, where these state
    seeds. Only a run of level L0, on deterministic tensors, may have none, and says so with an
    empty `seeds`.

    Passes: `"seeds": {"run": 42}` and a trace that says seed 42.
    Fails: no seed; seeds 42, 43, 44 and item results of two of them.

    How to fix: ship the results of every seed, or explain in the claim why one is left out.

    When to suppress: never; a reviewer cannot switch it off.
    """
    for receipt in receipts(evidence):
        pointer = f"{PARAMETERS}/seeds"
        problems = list(_seeds(receipt, evidence))
        yield from (Problem(receipt.path, message, pointer) for message in problems)
        if not problems and (not receipt.seeds or _seeds_of_subjects(receipt, evidence)):
            yield Held(receipt.path, pointer)
        elif not problems:
            yield Skipped("subjects that state no seed can't be held against their receipt")
    if not receipts(evidence):
        yield NO_RECEIPT


def _seeds(receipt: Receipt, evidence: Evidence) -> Iterator[str]:
    if not receipt.seeds:
        if not _is_deterministic(receipt):
            yield "the run states no seed"
        return
    given = {str(seed) for seed in receipt.seeds.values()}
    runs = {str(seed) for stream, seed in receipt.seeds.items() if stream.startswith("run")}
    due = runs or given
    stated = _seeds_of_subjects(receipt, evidence)
    for name, seeds in sorted(stated.items()):
        if strange := sorted(seeds - given):
            yield f"{name} has results of seed {', '.join(strange)}, which the run was not given"
    missing = due - {seed for seeds in stated.values() for seed in seeds}
    if stated and missing:
        yield f"no result of seed {', '.join(sorted(missing))}, which the run was given"


def _seeds_of_subjects(receipt: Receipt, evidence: Evidence) -> Mapping[str, set[str]]:
    """Return the seeds that the subjects state, those of them that state any."""
    return {
        subject.name: seeds
        for subject in receipt.subjects
        if (document := evidence.documents.get(subject.name)) and (seeds := _stated_seeds(document))
    }


def _is_deterministic(receipt: Receipt) -> bool:
    """Tell whether the run says that it was given no seed, and is of a kind that needs none."""
    return receipt.level == SEEDLESS and "seeds" in receipt.parameters


def _stated_seeds(document: Document) -> set[str]:
    value: Any = document.value
    if isinstance(value, Items):
        return {key.seed for key in value.keys if key.seed is not None}
    is_stated = isinstance(value, Mapping) and isinstance(value.get("seed"), int)
    return {str(value["seed"])} if is_stated else set()
