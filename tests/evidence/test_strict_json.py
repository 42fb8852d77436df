"""Strict JSON: everything that lenient readers disagree about is refused, with its place."""

import json
import math
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvraudit.audit.evidence.intake import LIMITS, Limits, MalformedError
from rlvraudit.audit.evidence.strict_json import loads, loads_lines

HOSTILE: dict[str, tuple[bytes, str, tuple[int, int] | None]] = {
    "nan": (b'{"a":\n NaN}', "NaN is not JSON", (2, 2)),
    "infinity": (b"[Infinity]", "Infinity is not JSON", (1, 2)),
    "minus infinity": (b"[1, -Infinity]", "-Infinity is not JSON", (1, 5)),
    "overflow": (b"[1,\n 1e400]", "1e400 overflows", (2, 2)),
    "negative overflow": (b"[-1e400]", "-1e400 overflows", (1, 2)),
    "overflow without exponent": (b"[1" + b"0" * 400 + b".0]", "overflows", (1, 2)),
    "underflow": (b"[1e-400]", "underflows to zero", (1, 2)),
    "underflow without exponent": (b"[0." + b"0" * 400 + b"1]", "underflows to zero", (1, 2)),
    "negative underflow": (b"[-2.5E-0400]", "underflows to zero", (1, 2)),
    "long integer": (b"[" + b"9" * 4301 + b"]", "4301 digits", (1, 2)),
    "integer past a double": (b"[-" + b"9" * 310 + b"]", "310 digits", (1, 2)),
    "duplicate key": (b'{"a": 1,\n "a": 2}', '"a" appears twice', (2, 2)),
    "duplicate key, escaped": (b'{"a": 1, "\\u0061": 2}', '"a" appears twice', (1, 10)),
    "inner duplicate": (b'{"x": [{"k": 1, "k": 1}]}', '"k" appears twice', (1, 17)),
    "mark": (b"\xef\xbb\xbf{}", "UTF-8 with a byte order mark", (1, 1)),
    "utf-16": ('{"a": 1}'.encode("utf-16"), "UTF-16", (1, 1)),
    "utf-16-le": ('{"a": 1}'.encode("utf-16-le"), "UTF-16-LE", (1, 1)),
    "utf-16-be": ('{"a": 1}'.encode("utf-16-be"), "UTF-16-BE", (1, 1)),
    "utf-32": ('{"a": 1}'.encode("utf-32"), "UTF-32", (1, 1)),
    "invalid utf-8": (b'{"a":\n "\xff"}', "byte 0xff", (2, 3)),
    "overlong utf-8": (b'"\xc0\xaf"', "byte 0xc0", (1, 2)),
    "surrogate in utf-8": (b'"\xed\xa0\x80"', "byte 0xed", (1, 2)),
    "lone high surrogate": (b'["a",\n "\\ud800"]', "surrogate", (2, 2)),
    "lone low surrogate": (b'{"\\udc00": 1}', "surrogate", (1, 2)),
    "surrogates in the wrong order": (b'["\\udc00\\ud800"]', "surrogate", (1, 2)),
    "deep arrays": (b"[" * 65 + b"]" * 65, "deeper than 64", (1, 65)),
    "deep objects": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "deeper than 64", (1, 321)),
    "deep and never closed": (b"[" * 1_000_000, "deeper than 64", (1, 65)),
    "deep after a string of brackets": (b'["]]]]\\"]]",' + b"[" * 70, "deeper than 64", (1, 76)),
    "empty": (b"", "expecting value", (1, 1)),
    "trailing text": (b"{} {}", "extra data", (1, 4)),
    "trailing comma": (b"[1,]", "", (1, 3)),
    "comment": (b"{} // no", "extra data", (1, 4)),
    "single quotes": (b"{'a': 1}", "expecting property name", (1, 2)),
    "newline in a string": (b'["a\nb"]', "control character", (1, 4)),
    "hexadecimal": (b"[0x10]", "", (1, 3)),
    "leading zero": (b"[01]", "", (1, 3)),
    "plus sign": (b"[+1]", "expecting value", (1, 2)),
    "other digits": ("[\u0661]".encode(), "expecting value", (1, 2)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_documents_are_refused_with_their_place(name: str) -> None:
    data, message, place = HOSTILE[name]
    with pytest.raises(MalformedError) as refused:
        loads(data)
    assert message in str(refused.value)
    assert len(str(refused.value)) < 300
    # Where CPython's own parser names the place, versions differ by a column: the line is sure.
    assert place is not None
    assert refused.value.line == place[0]
    if message and "expecting" not in message and "data" not in message:
        assert refused.value.column == place[1]


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 64 + b"]" * 64,
        b'"' + b"[{" * 500 + b'"',
        b'["\\\\", "[[[\\"[[[", "\\\\\\""]',
        b"1" * 100,
        b"[1e308, -1e308, 5e-324, 0e-400, 0.0e999, 0E999]",
        '["\\ud83d\\ude00", "😀"]'.encode(),
        b'[{"a": 1}, {"a": 2}]',
        b' \n{"a": null}\n ',
        b'"\\u0000"',
    ],
)
def test_what_is_only_unusual_is_read_as_the_standard_library_does(data: bytes) -> None:
    assert loads(data) == json.loads(data)


def test_depth_is_the_same_on_every_version_because_it_is_counted_first() -> None:
    limit = sys.getrecursionlimit()
    deepest = Limits(json_depth=limit * 3)
    with pytest.raises(MalformedError, match="deeper"):
        loads(b"[" * (limit * 4), deepest)


def test_a_document_above_the_cap_is_refused_before_it_is_decoded() -> None:
    with pytest.raises(MalformedError, match="11 bytes, more than 10"):
        loads(b"\xff" * 11, Limits(json_bytes=10))


def test_a_long_key_is_cut_in_the_message() -> None:
    key = b'"' + b"k" * 100_000 + b'"'
    with pytest.raises(MalformedError) as refused:
        loads(b"{" + key + b":1," + key + b":2}")
    assert len(str(refused.value)) < 200


def test_control_and_bidirectional_characters_do_not_reach_messages() -> None:
    with pytest.raises(MalformedError) as refused:
        loads('{"\\u001b[31m\u202e": 1, "\\u001b[31m\u202e": 2}'.encode())
    assert str(refused.value).isascii()
    assert str(refused.value).isprintable()


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('ab\\"[{é/~'), inner),
    max_leaves=30,
)


@given(JSON, st.sampled_from([None, 0, 2]), st.booleans())
@settings(max_examples=300, deadline=None)
def test_every_valid_document_is_read_as_it_was_written(
    value: Any, indent: int | None, ascii_only: bool
) -> None:
    data = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode("utf-8")
    assert loads(data) == json.loads(data) == value


@given(st.binary(max_size=60) | st.text('[]{}",:\\u0123eE+-.dD8 \n').map(str.encode))
@settings(max_examples=500, deadline=None)
def test_arbitrary_bytes_are_read_or_refused_and_never_crash(data: bytes) -> None:
    try:
        value = loads(data)
    except MalformedError:
        return
    assert value == json.loads(data)
    assert not isinstance(value, float) or math.isfinite(value)


def test_lines_have_their_number_in_the_message() -> None:
    with pytest.raises(MalformedError, match="NaN") as refused:
        list(loads_lines(b'{"a": 1}\n\n{"a": NaN}\n'))
    assert (refused.value.line, refused.value.column) == (3, 7)


def test_a_huge_line_is_refused_before_it_is_parsed() -> None:
    data = b"[1]\n[" + b" " * LIMITS.line_bytes + b"]\n"
    with pytest.raises(MalformedError, match="a line of more than 1048576 bytes") as refused:
        list(loads_lines(data))
    assert refused.value.line == 2


def test_lines_are_numbered_and_blank_ones_skipped() -> None:
    assert list(loads_lines(b'1\r\n\n  \n"x"')) == [(1, 1), (4, "x")]
