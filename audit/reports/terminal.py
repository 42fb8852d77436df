"""Text for people: every untrusted string cleaned, laid out for a width, colour optional."""

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

UNSAFE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


@dataclass(frozen=True, slots=True)
class Page:
    """What text is laid out for."""

    width: int = 80
    colour: bool = False


def clean(text: str) -> str:
    """Return `text` with control, format, bidirectional and unassigned characters escaped."""
    return "".join(
        character.encode("unicode_escape").decode("ascii")
        if unicodedata.category(character) in UNSAFE
        else character
        for character in text
    )


def paint(lines: Iterable[Text], page: Page) -> str:
    """Return `lines` as they appear on a terminal of that width, wrapped, without markup."""
    console = Console(
        width=page.width,
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
