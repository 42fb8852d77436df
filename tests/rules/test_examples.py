"""Every rule has a documented page, and examples that it passes and that only it fails."""

from pathlib import Path

import pytest

from rlvraudit.audit.check import Finding, check
from rlvraudit.audit.rules import RULES
from rlvraudit.audit.rules.rule import LEVELS
from rlvraudit.audit.supplements import open_supplement
from rlvraudit.fixtures import ROOT

EXAMPLES = ROOT / "rules"
FAILING = sorted(EXAMPLES.glob("*/fail*"))
PASSING = sorted(EXAMPLES.glob("*/pass*"))
HEADINGS = ("Passes:", "Fails:", "How to fix:", "When to suppress:")


def findings(folder: Path) -> tuple[Finding, ...]:
    return check(open_supplement(folder), RULES).findings


def name(folder: Path) -> str:
    return f"{folder.parent.name}-{folder.name}"


@pytest.mark.parametrize("folder", FAILING, ids=name)
def test_a_failing_example_breaks_exactly_its_rule(folder: Path) -> None:
    code = folder.parent.name
    found = findings(folder)
    assert {(f.rule.name, f.problem.message) for f in found if f.rule.name != code} == set()
    levels = [LEVELS.index(f.level) for f in found]
    assert max(levels, default=-1) >= LEVELS.index(RULES[code].level)


@pytest.mark.parametrize("folder", PASSING, ids=name)
def test_a_passing_example_does_not_break_its_rule(folder: Path) -> None:
    assert folder.parent.name not in {f.rule.name for f in findings(folder)}


@pytest.mark.parametrize("code", sorted(RULES))
def test_every_rule_has_a_passing_and_a_failing_example(code: str) -> None:
    folder = EXAMPLES / code
    assert any(folder.glob("pass*"))
    assert any(folder.glob("fail*")) or (folder / "made-by-test.txt").is_file()


@pytest.mark.parametrize("code", sorted(RULES))
def test_every_explanation_has_its_headings_in_order(code: str) -> None:
    page = RULES[code].explanation
    places = [page.find(heading) for heading in HEADINGS]
    assert -1 not in places
    assert places == sorted(places)
    assert page.splitlines()[0].endswith(".")
    assert RULES[code].fix
