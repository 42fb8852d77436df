"""The audit audits itself: change one number of the shipped supplement, and it has to notice.

Every number that audit coverage calls recomputed must raise a finding in RA4, RA5 or RA6 when
it is changed; the survivors are those it calls bound or reported. `make mutate` changes every
number, `make test` a seeded sample.
"""

import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from mutation import MANIFEST, Supplement, Target

from rlvraudit.audit.check import Audit, check
from rlvraudit.audit.coverage import Marks, marks
from rlvraudit.audit.errors import Exit
from rlvraudit.audit.policy import Policy
from rlvraudit.audit.rules import RULES
from rlvraudit.audit.supplements import open_supplement
from rlvraudit.fixtures import ROOT

SOURCE = ROOT / "supplement"
RECOMPUTING = ("RA4", "RA5", "RA6")
EVERY_NUMBER = os.environ.get("RLVR_AUDIT_MUTATE") == "all"
SAMPLED_PER_KIND, SEED, PARTS = 150, 1273, 8


def audited(folder: Path) -> Audit:
    return check(open_supplement(folder), RULES, Policy())


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
    for kind in ("tensors", "item-results", "tar-trace", "claims"):
        of_kind = [t for t in targets if types.get(t.path, "claims") == kind]
        size = min(SAMPLED_PER_KIND, len(of_kind))
        chosen += [of_kind[i] for i in rng.choice(len(of_kind), size, replace=False)]
    return chosen


def chosen_targets(supplement: Supplement) -> list[Target]:
    targets = list(supplement.targets())
    return targets if EVERY_NUMBER else sample(targets, supplement.types)


@pytest.mark.parametrize("part", range(PARTS))
def test_every_change_of_a_recomputed_number_is_noticed(
    part: int, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    supplement = Supplement(SOURCE, tmp_path / "supplement")
    tally = {"mutants": 0, "killed": 0, "recomputed": 0}
    survivors = list(surviving(supplement, chosen_targets(supplement)[part::PARTS], tally))
    record_property("mutation", tally)
    assert not survivors, survivors[:10]
    assert tally["recomputed"] > 0


def surviving(
    supplement: Supplement, targets: list[Target], tally: dict[str, int]
) -> Iterator[Target]:
    """Yield the numbers called recomputed whose change nothing noticed."""
    for target in targets:
        if not supplement.apply(target):
            continue
        killed = noticed(audited(supplement.copy))
        supplement.restore()
        tally["mutants"] += 1
        tally["killed"] += killed
        tally["recomputed"] += is_recomputed(target)
        if is_recomputed(target) and not killed:
            yield target


def noticed(audit: Audit) -> bool:
    """Tell whether a recomputing rule found a fault; integrity has nothing to say."""
    families = {f.rule.name[:3] for f in audit.findings if f.level != "note"}
    assert "RA1" not in families, "the mutant must pass integrity"
    assert audit.evidence.claims, MANIFEST
    return bool(families & set(RECOMPUTING))


def test_the_shipped_supplement_has_neither_errors_nor_warnings() -> None:
    audit = audited(SOURCE)
    assert audit.exit == Exit.PASSED
    assert not [finding for finding in audit.findings if finding.level != "note"]


def test_a_sample_has_at_least_five_hundred_numbers(tmp_path: Path) -> None:
    supplement = Supplement(SOURCE, tmp_path / "supplement")
    assert len(sample(list(supplement.targets()), supplement.types)) >= 500
