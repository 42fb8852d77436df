"""Per-item results; the wing that compares methods brings the reader."""

from rlvraudit.audit.evidence.kinds.kind import Kind, Parsed, Source


def parse_items(source: Source) -> Parsed:
    """Return what the reader of item results makes of the file; without one it stays bytes."""
    reader = source.readers.get("item-results")
    return Parsed(None if reader is None else reader(source.data, source.path))


ITEM_RESULTS = Kind("item-results", "1", parse_items, measured=True)
