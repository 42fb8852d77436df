"""Text for people: every untrusted string cleaned, laid out for a width, colour optional."""

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from shutil import get_terminal_size
from typing import TextIO

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

UNSAFE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
NARROWEST = 20
WIDEST = 100


@dataclass(frozen=True, slots=True)
class Page:
    """What text is laid out for."""

    width: int = 80
    colour: bool = False


def page_of(stream: TextIO, environ: Mapping[str, str]) -> Page:
    """Return the page that `stream` is: colour and its own width on a terminal only.

    A non-empty NO_COLOR switches colour off (no-color.org), and so does a dumb terminal.
    """
    if not stream.isatty():
        return Page()
    plain = environ.get("NO_COLOR") or environ.get("TERM") == "dumb"
    return Page(get_terminal_size((80, 24)).columns, not plain)


def clean(text: str) -> str:
    """Return `text` with control, format, bidirectional and unassigned characters escaped."""
    return "".join(
        character.encode("unicode_escape").decode("ascii")
        if unicodedata.category(character) in UNSAFE
        else character
        for character in text
    )


def short(text: str, limit: int = 100) -> str:
    """Return `text` cleaned and cut in the middle to at most `limit` characters."""
    half = limit // 2
    known = text if len(text) <= limit else f"{text[:half]}…{text[len(text) - half + 1 :]}"
    safe = clean(known)
    return safe if len(safe) <= limit else f"{safe[: limit - 1]}…"


def count(number: int, noun: str, plural: str = "") -> str:
    """Return the number with its noun: "1 file", "2,916 files"."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def percent(part: int, whole: int) -> str:
    """Return a share in whole percent, rounded down: only all of it is 100 %."""
    share = 100 * part // whole
    return f"{share} %" if share or not part else "< 1 %"


def indent(text: str | Text, columns: int, style: str = "") -> Padding:
    """Return a paragraph whose every line starts at a column."""
    body = text if isinstance(text, Text) else Text(text, style)
    return Padding(body, (0, 0, 0, columns), expand=False)


def grid(rows: Iterable[tuple[Text, Text, Text]]) -> Padding:
    """Return rows of a label, a description that wraps and a verdict at the right edge."""
    table = Table.grid(padding=(0, 2, 0, 0), expand=True)
    table.add_column(no_wrap=True)
    table.add_column(ratio=1, overflow="fold")
    table.add_column(justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return Padding(table, (0, 0, 0, 2))


def paint(lines: Iterable[RenderableType], page: Page) -> str:
    """Return `lines` as they appear on a terminal of that width, wrapped, without markup.

    Text wider than `WIDEST` columns is hard to read, so a wider terminal is not filled.
    """
    console = Console(
        width=min(max(page.width, NARROWEST), WIDEST),
        force_terminal=page.colour,
        no_color=not page.colour,
        color_system="standard" if page.colour else None,
        markup=False,
        highlight=False,
        emoji=False,
        legacy_windows=False,
    )
    with console.capture() as capture:
        for line in lines:
            console.print(line, soft_wrap=False, no_wrap=False)
    return "\n".join(part.rstrip() for part in capture.get().splitlines()) + "\n"
