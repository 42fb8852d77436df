"""Lines of JSON pointers."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rlvraudit.audit.evidence.locate import line_of, lines_of

DOCUMENT = b"""{
  "a": [10,
    20, {"b~/c": true}],
  "e\\u0301": "x,]}\\"",
  "last":
    null
}"""


def test_every_value_has_its_line() -> None:
    # Counted by hand in the text above.
    expected = {"": 1, "/a": 2, "/a/0": 2, "/a/1": 3, "/a/2": 3, "/a/2/b~0~1c": 3, "/e\u0301": 4}
    expected |= {"/last": 6}
    assert lines_of(DOCUMENT, [*expected, "/nowhere", "/a/3"]) == expected
    assert line_of(DOCUMENT, "/last") == 6
    assert line_of(DOCUMENT, "/a/9") is None


def test_text_that_is_no_json_gives_what_came_before() -> None:
    assert line_of(b'{"a":\n1, ]]]}}}', "/a") == 2
    assert line_of(b"\xff\x00,,:]", "/a") is None


JSON = st.recursive(
    st.none() | st.integers() | st.text(),
    lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(max_size=3), x, max_size=3),
)


def pointers(value: Any, at: str = "") -> list[str]:
    inner = (
        enumerate(value)
        if isinstance(value, list)
        else value.items()
        if isinstance(value, dict)
        else ()
    )
    return [at] + [
        p
        for key, part in inner
        for p in pointers(part, f"{at}/{str(key).replace('~', '~0').replace('/', '~1')}")
    ]


@given(JSON)
@settings(max_examples=200, deadline=None)
def test_every_pointer_of_every_document_is_found_in_order(value: Any) -> None:
    data = json.dumps(value, indent=1).encode()
    found = lines_of(data, pointers(value))
    assert list(found) == pointers(value)
    lines = data.decode().split("\n")
    assert all(1 <= line <= len(lines) for line in found.values())
    assert list(found.values()) == sorted(found.values())


def test_text_that_never_closes_ends_early() -> None:
    assert line_of(b"[" * 10_000_000, "/1") is None
