"""The audit audits itself: change one number of the shipped supplement, and it has to notice.

Every number that audit coverage calls recomputed must raise a finding in RA4, RA5 or RA6 when
it is changed; the survivors are those it calls bound or reported. `make mutate` changes every
number, `make test` a seeded sample.
"""

import hashlib
import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mutation import Supplement, Target, git_blob

from rlvraudit.audit.check import Audit, check
from rlvraudit.audit.coverage import Marks, marks
from rlvraudit.audit.errors import Exit
from rlvraudit.audit.evidence import loading
from rlvraudit.audit.evidence.intake import File
from rlvraudit.audit.policy import Policy
from rlvraudit.audit.rules import RULES
from rlvraudit.audit.supplements import PARSERS, open_supplement
from rlvraudit.fixtures import ROOT

SOURCE = ROOT / "supplement"
RECOMPUTING = ("RA4", "RA5", "RA6")
KINDS = ("tensors", "item-results", "tar-trace", "claims")
EVERY_NUMBER = os.environ.get("RLVR_AUDIT_MUTATE") == "all"
SAMPLED_PER_KIND, SEED, PARTS = 190, 1273, 8


def audited(folder: Path) -> Audit:
    return check(open_supplement(folder), RULES, Policy())


class Auditor:
    """Audits mutants in memory: what did not change is neither read nor parsed again."""

    def __init__(self, supplement: Supplement, monkeypatch: pytest.MonkeyPatch) -> None:
        self.supplement = supplement
        self.files = {path: as_file(path, data) for path, data in supplement.files.items()}
        parse, parsed = loading._parse, {}

        def remembered(artifact: Any, file: File, *rest: Any) -> Any:
            if file is not self.files[file.path]:
                return parse(artifact, file, *rest)
            if file.path not in parsed:
                parsed[file.path] = parse(artifact, file, *rest)
            return parsed[file.path]

        monkeypatch.setattr(loading, "_parse", remembered)

    def audit(self, changed: dict[str, bytes]) -> Audit:
        files = self.files | {path: as_file(path, data) for path, data in changed.items()}
        evidence = loading.assemble("mutant", files, parsers=PARSERS)
        rules = {code: rule for code, rule in RULES.items() if code[:3] in RECOMPUTING}
        return check(evidence, rules, Policy())


def as_file(path: str, data: bytes) -> File:
    return File(path, len(data), hashlib.sha256(data).hexdigest(), git_blob(data).decode(), data)


@cache
def recomputed() -> Marks:
    audit = audited(SOURCE)
    assert not noticed(audit), "every number of the shipped supplement recomputes"
    return marks(audit.evidence, [held for run in audit.runs for held in run.held])


def is_recomputed(target: Target) -> bool:
    mask = recomputed().get((target.path, target.pointer))
    return mask is not None and bool(mask.reshape(-1)[target.index])


def sample(targets: list[Target], types: dict[str, str]) -> list[Target]:
    """Return a seeded sample with as many numbers of each kind of file."""
    rng, chosen = np.random.default_rng(SEED), []
    for kind in KINDS:
        of_kind = [t for t in targets if kind_of(t, types) == kind]
        size = min(SAMPLED_PER_KIND, len(of_kind))
        chosen += [of_kind[i] for i in rng.choice(len(of_kind), size, replace=False)]
    return chosen


def kind_of(target: Target, types: dict[str, str]) -> str:
    return types.get(target.path, "claims")


def chosen_targets(supplement: Supplement) -> list[Target]:
    targets = list(supplement.targets())
    return targets if EVERY_NUMBER else sample(targets, supplement.types)


@pytest.mark.parametrize("part", range(PARTS))
def test_every_change_of_a_recomputed_number_is_noticed(
    part: int,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    recomputed()
    auditor = Auditor(Supplement(SOURCE), monkeypatch)
    tally = {"mutants": 0, "killed": 0, "recomputed": 0}
    targets = chosen_targets(auditor.supplement)[part::PARTS]
    survivors = list(surviving(auditor, targets, tally))
    record_property("mutation", tally)
    assert not survivors, survivors[:10]
    assert tally["recomputed"] > 0


def surviving(auditor: Auditor, targets: list[Target], tally: dict[str, int]) -> Iterator[Target]:
    """Yield the numbers called recomputed whose change nothing noticed."""
    for target in targets:
        changed = auditor.supplement.mutant(target)
        if changed is None:
            continue
        killed = noticed(auditor.audit(changed))
        tally["mutants"] += 1
        tally["killed"] += killed
        tally["recomputed"] += is_recomputed(target)
        if is_recomputed(target) and not killed:
            yield target


@pytest.mark.parametrize("kind", KINDS)
def test_a_mutant_on_disk_passes_integrity_and_fails_recomputation(
    kind: str, tmp_path: Path
) -> None:
    supplement = Supplement(SOURCE)
    targets = [t for t in supplement.targets() if kind_of(t, supplement.types) == kind]
    target = next(t for t in targets if is_recomputed(t) and supplement.mutant(t))
    for path, data in (supplement.files | (supplement.mutant(target) or {})).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(data)
    audit = audited(tmp_path)
    assert noticed(audit)
    families = {f.rule.name[:3] for f in audit.findings if f.level != "note"}
    assert families <= {*RECOMPUTING}, "digests were renewed, so that only the number is wrong"


def noticed(audit: Audit) -> bool:
    """Tell whether a recomputing rule found a fault."""
    families = {f.rule.name[:3] for f in audit.findings if f.level != "note"}
    return bool(families & set(RECOMPUTING))


def test_the_shipped_supplement_has_neither_errors_nor_warnings() -> None:
    audit = audited(SOURCE)
    assert audit.exit == Exit.PASSED
    assert not [finding for finding in audit.findings if finding.level != "note"]


def test_a_sample_has_at_least_five_hundred_numbers() -> None:
    supplement = Supplement(SOURCE)
    assert len(sample(list(supplement.targets()), supplement.types)) >= 500
