"""RA0: whether there was anything to check, and whether all of it was looked at."""

from collections.abc import Iterator

from rlvraudit.audit.evidence.supplement import MANIFEST, Evidence
from rlvraudit.audit.rules.rule import Held, Outcome, Problem, Skipped, rule


@rule("RA001", "nothing-to-check")
def nothing_to_check(evidence: Evidence) -> Iterator[Outcome]:
    """At least one claim or receipt was found.

    A checker that finds nothing and reports success has certified an empty folder; more than one
    verifier of signatures had that fault. Without a claim or a receipt there is nothing that a
    pass could be about, and the exit status is 5, not 0.

    Passes: a manifest with one claim, or with one artifact of type `receipt/1`.
    Fails: a manifest that lists files and claims nothing about them.

    How to fix: state in `claims` what the supplement shows, and name the artifacts it rests on.

    When to suppress: never; a reviewer cannot switch it off.
    """
    receipts = [a for a in evidence.artifacts if a.type == "receipt"]
    if evidence.claims or receipts:
        yield Held(MANIFEST, "/claims")
    elif not evidence.manifest and any(fault.path == MANIFEST for fault in evidence.faults):
        yield Skipped(f"{MANIFEST} could not be read; other findings say why")
    elif evidence.incomplete:
        yield Skipped("not everything could be read; RA003 says why")
    else:
        yield Problem(MANIFEST, "there is no claim and no receipt: a pass would mean nothing")


@rule("RA002", "rule-crashed")
def rule_crashed(evidence: Evidence) -> Iterator[Outcome]:
    """No rule raised an error; the others still ran.

    A crash says something about the rule, or about input that it did not expect, and nothing
    about whether the rule holds. It never counts as a pass: the exit status is 3.

    Passes: every rule ends with what holds, what does not, or why it did not apply.
    Fails: a rule divides by zero on an artifact that nobody thought of.

    How to fix: report the crash with the file that caused it; until then the rule is unchecked.

    When to suppress: never; a reviewer cannot switch it off.
    """
    crashes = evidence.options.get("crashes", {})
    for code, message in sorted(crashes.items()):
        yield Problem(MANIFEST, f"{code} crashed, so it is unchecked: {message}")
    if not crashes:
        yield Held(MANIFEST)


@rule("RA003", "limit-reached")
def limit_reached(evidence: Evidence) -> Iterator[Outcome]:
    """No cap on files, bytes, depth, draws or findings was reached; every file could be read.

    A supplement is untrusted, so reading it ends within fixed caps. What lies beyond a cap, or
    in a file that cannot be opened, was not looked at: no pass is possible, the exit status
    is 3, and the finding names the cap.

    Passes: a supplement of 30 files and 2 MB.
    Fails: a file larger than the cap for one file; folders nested deeper than the cap.

    How to fix: split or shorten what is too large, or make the file readable.

    When to suppress: never; a reviewer cannot switch it off.
    """
    faults = [fault for fault in evidence.faults if fault.slug == "limit-reached"]
    capped = evidence.options.get("capped", {})
    for fault in faults:
        yield Problem(fault.path, fault.message, fault.pointer, fault.line)
    for code, cap in sorted(capped.items()):
        yield Problem(MANIFEST, f"{code} ended at a cap: {cap}")
    if not faults and not capped:
        yield Held(MANIFEST)
