"""README and docs: every example prints what they show, every claim of theirs has a command."""

import re

import pytest
from examples import CHECKOUT, PAGES, examples, run

from rlvraudit.audit.errors import Exit
from rlvraudit.audit.reports.catalogue import markdown
from rlvraudit.audit.rules import RULES
from rlvraudit.cli import main

README = CHECKOUT / "README.md"
pytestmark = pytest.mark.skipif(not README.is_file(), reason="only a checkout has a README")


def shown() -> list[tuple[str, str]]:
    pages = [CHECKOUT / page for page in PAGES if README.is_file()]
    return [example for page in pages for example in examples(page.read_text("utf-8"))]


def comparable(output: str) -> str:
    """Return output without what depends on the machine.

    That is NumPy's version in a recipe, the worst error of a kernel with the case that has it, and
    how a loss rounds.
    """
    without_version = re.sub(r"numpy=\S+", "numpy=…", output)
    without_version = re.sub(r" +(k \d+\.\d|\de-\d\d)", " …", without_version)
    return re.sub(r"\b\d\.\d\d\b( +\d+)?", "…", without_version)


@pytest.mark.parametrize(("command", "output"), shown())
def test_an_example_prints_what_is_shown(command: str, output: str) -> None:
    assert comparable(run(command)) == comparable(output)


def test_every_command_has_an_example_in_the_readme() -> None:
    used = {command.split()[1] for command, _ in shown()}
    assert set(main.commands) <= used


def test_every_exit_status_stands_in_the_readme() -> None:
    rows = re.findall(r"^\| (\d+) \|", README.read_text("utf-8"), re.MULTILINE)
    assert {int(row) for row in rows} >= {int(status) for status in Exit}


def test_the_page_on_rules_is_what_the_rules_say() -> None:
    assert (CHECKOUT / "docs" / "rules.md").read_text("utf-8") == markdown(RULES)


def test_every_link_between_pages_leads_somewhere() -> None:
    for page in (README, *(CHECKOUT / "docs").glob("*.md")):
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text("utf-8")):
            assert (page.parent / link).exists(), f"{page.name}: {link}"
