"""Formats of per-item results, one module per format."""

from rlvraudit.audit.results.format import Format, choose
from rlvraudit.audit.results.item import Items
from rlvraudit.kernels.registry import collect

FORMATS = collect(Format, __name__, __path__)


def parse(data: bytes, name: str) -> Items:
    """Return the per-item results in `data`, the bytes of the file `name`.

    Raises:
        UnreadableError: The suffix is unknown, or a line is not what it should be.
        LimitError: A line is too long or there are too many.
    """
    return choose(FORMATS, name).parse(data, name)
