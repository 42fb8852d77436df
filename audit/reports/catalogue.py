"""The rules as documentation: one page, the list on a terminal, the list as Markdown."""

from collections.abc import Iterator, Mapping

from rich.console import RenderableType
from rich.text import Text

from rlvraudit.audit.reports.terminal import Page, grid, indent, paint
from rlvraudit.audit.rules.rule import FAMILIES, Rule

INTRODUCTION = """\
# Rules

A rule either holds, does not hold, or does not apply and says why. `rlvr-audit explain CODE`
prints what stands here. Rules marked *always runs* can be neither ignored nor left out by
`--select`: without them a pass would say nothing about the rest.

This page is written by `make docs`.
"""


def page(rule: Rule, page: Page) -> str:
    """Return the documentation of one rule."""
    always = ", always runs" if rule.mandatory else ""
    heading = Text.assemble((f"{rule.name} {rule.slug}", "bold"), f"   {rule.level}{always}")
    return paint([heading, *_paragraphs(rule)], page)


def _paragraphs(rule: Rule) -> Iterator[RenderableType]:
    for paragraph in rule.explanation.split("\n\n"):
        yield Text("")
        yield from (indent(line, 2) for line in _flowing(paragraph))


def _flowing(paragraph: str) -> list[str]:
    """Return a paragraph as lines to wrap: each example starts its own."""
    lines: list[str] = []
    for line in paragraph.splitlines():
        if lines and not line.startswith(("Passes:", "Fails:")):
            lines[-1] += f" {line.strip()}"
        else:
            lines.append(line.strip())
    return lines


def index(rules: Mapping[str, Rule], page: Page) -> str:
    """Return the list of all rules, by family."""
    return paint(_index(rules), page)


def _index(rules: Mapping[str, Rule]) -> Iterator[RenderableType]:
    for prefix, family in FAMILIES.items():
        yield Text(f"{prefix} {family}", "bold")
        yield grid(
            (Text(code), Text(f"{rule.slug}: {_claim(rule)}"), Text(rule.level))
            for code, rule in sorted(rules.items())
            if code.startswith(prefix)
        )
    yield Text("")
    yield Text("Next: rlvr-audit explain CODE")


def _claim(rule: Rule) -> str:
    """Return what the rule demands: the first paragraph of its documentation."""
    return " ".join(rule.explanation.partition("\n\n")[0].split())


def markdown(rules: Mapping[str, Rule]) -> str:
    """Return the documentation of all rules as one Markdown page."""
    return "\n".join([INTRODUCTION, *_sections(rules)])


def _sections(rules: Mapping[str, Rule]) -> Iterator[str]:
    for prefix, family in FAMILIES.items():
        yield f"## {prefix} {family}\n"
        for code, rule in sorted(rules.items()):
            if code.startswith(prefix):
                always = ", always runs" if rule.mandatory else ""
                yield f"### {code} {rule.slug}\n\n*{rule.level}{always}*\n"
                paragraphs = (_flowing(p) for p in rule.explanation.split("\n\n"))
                yield "\n\n".join("  \n".join(lines) for lines in paragraphs) + "\n"
