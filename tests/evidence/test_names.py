"""Which names are safe everywhere, and which two are one file somewhere."""

import pytest

from rlvraudit.audit.evidence.names import collisions, unsafe


@pytest.mark.parametrize(
    "path",
    [
        *("", "/etc/passwd", "..", "../x", "a/../b", "a/./b", ".", "a//b", "a/", "//server/x"),
        *("C:x", "c:/x", "a\\b", "\\\\server\\x", "a\0b", "a\nb", "a\x1b[31mb", "a\u202eb"),
        *("a\u200bb", "a\u2028b", "a\ud800b", "e\u0301.json", "\u212b", "a.", "a ", "a./b"),
        *("CON", "con.json", "runs/aux.csv", "NUL.tar.gz", "COM1", "lpt9.txt", "com¹", "nul .x"),
        *("a*b", "a?b", "a<b", "a|b", 'a"b', "a:b", "x" * 256, "/".join("ab" * 300)),
    ],
)
def test_unsafe_names_have_a_reason(path: str) -> None:
    assert unsafe(path)


@pytest.mark.parametrize(
    "path",
    [
        *("a", "a.json", "runs/tar-42.json", ".hidden", "a b", "é.json", "[seed=1].json", "[/]"),
        *("console.json", "com10", "common/x", "...a", "x" * 255, "日本.csv", "a~b", "-x"),
    ],
)
def test_safe_names_have_none(path: str) -> None:
    assert unsafe(path) == ""


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("A.json", "a.json"),
        ("RUNS/a.json", "runs/b.json"),
        ("stra\u00dfe", "strasse"),
        ("\u00e9", "e\u0301"),
        ("\ufb01x", "FIx"),
        ("\u0130", "i\u0307"),
    ],
)
def test_names_that_meet_on_some_file_system_collide(first: str, second: str) -> None:
    assert len(list(collisions([first, second]))) == 1


def test_distinct_names_and_repeated_ones_do_not_collide() -> None:
    assert list(collisions(["a/b", "a/c", "a/b", "ab"])) == []
