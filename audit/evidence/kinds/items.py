"""Per-item results; the wing that compares methods brings the parser."""

from rlvraudit.audit.evidence.kinds.kind import Kind, Parsed, Source


def parse_items(source: Source) -> Parsed:
    """Return what the parser of item results makes of the file; without one it stays bytes."""
    parser = source.parsers.get("item-results")
    return Parsed(None if parser is None else parser(source.data, source.path))


ITEM_RESULTS = Kind("item-results", "1", parse_items, measured=True)
