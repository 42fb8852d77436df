"""Long CSV and JSONL: what is read, and how everything else is refused with file and line."""

import json

import pytest

from rlvraudit.audit.errors import LimitError, UnreadableError
from rlvraudit.audit.results import format as result_format
from rlvraudit.audit.results.formats import FORMATS, parse
from rlvraudit.audit.results.item import Items, Key, RowError, refuse_unsound


def csv(*lines: str) -> bytes:
    return "\n".join(lines).encode() + b"\n"


def jsonl(*rows: object) -> bytes:
    return "\n".join(map(json.dumps, rows)).encode()


def test_a_row_has_its_ids_score_and_line() -> None:
    table = parse(csv("method,seed,item,rollout,score", "tapo,42,q1,0,0.25"), "runs/a.csv")
    assert table.keys == (Key("tapo", "42", "q1", "0"),)
    assert (table.scores.tolist(), table.lines, table.source) == ([0.25], (2,), "runs/a.csv")


def test_columns_may_stand_in_any_order_and_have_their_other_names() -> None:
    table = parse(csv("reward,Epoch,model_id,question_id", "1,3,m,q"), "a.csv")
    assert table.keys == (Key("m", None, "q", "3"),)


def test_without_a_method_column_the_stem_of_the_file_is_the_method() -> None:
    assert parse(csv("item,score", "1,1"), "runs/tapo.csv").methods == ("tapo",)
    assert parse(jsonl({"item": 1, "score": 1}), "grpo.jsonl").methods == ("grpo",)


def test_csv_and_jsonl_of_the_same_rows_are_the_same_table() -> None:
    rows = [{"method": "a", "item": "1", "rollout": "0", "score": s} for s in (0.5, 1)]
    rows[1]["rollout"] = "1"
    lines = ["method,item,rollout,score", "a,1,0,0.5", "a,1,1,1"]
    one, other = parse(jsonl(*rows), "x.jsonl"), parse(csv(*lines), "x.csv")
    assert (one.keys, one.scores.tolist()) == (other.keys, other.scores.tolist())


def test_ids_are_verbatim_text() -> None:
    table = parse(csv("item,score", "01,1", "1,0", '" a, b ",1', "É,0"), "a.csv")
    assert [key.item for key in table.keys] == ["01", "1", " a, b ", "É"]


def test_integer_ids_of_json_are_written_out() -> None:
    keys = parse(jsonl({"item": 7, "rollout": 0, "score": 1}), "a.jsonl").keys
    assert (keys[0].item, keys[0].rollout) == ("7", "0")


@pytest.mark.parametrize(
    ("text", "score"),
    [
        *(("1", 1), ("0.5", 0.5), ("-2", -2), ("1e-3", 1e-3), (".5", 0.5), ("5.", 5), ("+1", 1)),
        *(("true", 1), ("False", 0), ("TRUE", 1)),
    ],
)
def test_scores_of_csv(text: str, score: float) -> None:
    assert parse(csv("item,score", f"1,{text}"), "a.csv").scores.tolist() == [score]


@pytest.mark.parametrize(("value", "score"), [(1, 1), (0.5, 0.5), (True, 1), (False, 0)])
def test_scores_of_json(value: object, score: float) -> None:
    assert parse(jsonl({"item": 1, "score": value}), "a.jsonl").scores.tolist() == [score]


def test_line_breaks_of_any_kind_and_blank_lines_are_read() -> None:
    table = parse(b'item,score\r\n1,1\r\n\r\n"two\nlines",0\r\n', "a.csv")
    assert [key.item for key in table.keys] == ["1", "two\nlines"]
    assert table.lines[0] == 2


BAD_CSV = [
    (b"", 1, "no header"),
    (csv("item,score"), 1, "no row"),
    (csv("item,method", "1,a"), 1, "missing column score"),
    (csv("method,seed", "1,a"), 1, "missing column item, score"),
    (csv("item,score,filter", "1,1,x"), 1, "unknown column 'filter'; known are item: item"),
    (csv("item, score", "1,1"), 1, "unknown column ' score'"),
    (csv("item,score,score", "1,1,1"), 1, "columns score, score all hold the score"),
    (csv("item,question_id,score", "1,1,1"), 1, "columns item, question_id all hold the item"),
    (csv("item,score", "1,1", "2"), 3, "1 cells; the header has 2"),
    (csv("item,score", "1,1,1"), 2, "3 cells; the header has 2"),
    (csv("item,score", "1,1", "2,"), 3, "score is empty; expected a number"),
    (csv("item,score", "1,yes"), 2, "score is 'yes'; expected a number"),
    (csv("item,score", "1,1_0"), 2, "score is '1_0'"),
    (csv("item,score", "1, 1"), 2, "score is ' 1'"),
    (csv("item,score", "1,0x10"), 2, "score is '0x10'"),
    (csv("item,score", "1,\u0661"), 2, "score is '\u0661'"),
    (csv("item,score", "1,1e999"), 2, "does not fit a double"),
    (csv("item,score", "1,1e-999"), 2, "does not fit a double"),
    (csv("item,score", ",1"), 2, "item is empty; expected an id"),
    (csv("item,score", "  ,1"), 2, "item is '  '; expected an id"),
    (csv("method,item,score", ",1,1"), 2, "method is empty"),
    (csv("item,score", '"1,1'), 2, "not CSV"),
    (csv("item,score", '"1"x,1'), 2, "not CSV"),
    (b"item,score\n1,1\n\xff,1\n", 3, "byte 0xff is not UTF-8"),
    (b"\xef\xbb\xbfitem,score\n1,1\n", 1, "byte-order mark"),
    ("item,score\n1,1\n".encode("utf-16"), 1, "the encoding is UTF-16"),
]


@pytest.mark.parametrize(("data", "line", "problem"), BAD_CSV)
def test_bad_csv_is_refused_with_file_and_line(data: bytes, line: int, problem: str) -> None:
    with pytest.raises(RowError) as caught:
        parse(data, "runs/a.csv")
    assert str(caught.value).startswith(f"runs/a.csv:{line}: ")
    assert problem in str(caught.value)
    assert caught.value.line == line


BAD_JSONL = [
    (b"", 1, "no row"),
    (b"[1]", 1, "not a JSON object"),
    (b'{"item": 1, "score": NaN}', 1, "NaN"),
    (b'{"item": 1, "score": 1e999}', 1, "1e999"),
    (b'{"item": 1, "score": 1, "score": 0}', 1, "twice"),
    (b'{"item": 1, "score": 1}\n{"item": 2', 2, "not strict JSON"),
    (jsonl({"item": 1, "score": 1}, {"item": 2, "score": 1, "x": 1}), 2, "'x'"),
    (jsonl({"item": 1, "score": 1}, {"item": 2}), 2, "'score'"),
    (jsonl({"item": 1, "score": None}), 1, "score is null"),
    (jsonl({"item": 1, "score": "1"}), 1, "expected a number or a truth value"),
    (jsonl({"item": 1, "score": [1]}), 1, "score is [1]"),
    (jsonl({"item": None, "score": 1}), 1, "item is null; expected an id"),
    (jsonl({"item": 1.5, "score": 1}), 1, "item is 1.5"),
    (jsonl({"item": True, "score": 1}), 1, "item is true"),
    (jsonl({"item": 1, "score": 10**400}), 1, "digits"),
]


@pytest.mark.parametrize(("data", "line", "problem"), BAD_JSONL)
def test_bad_jsonl_is_refused_with_file_and_line(data: bytes, line: int, problem: str) -> None:
    with pytest.raises(RowError, match=f"^a.jsonl:{line}: ") as caught:
        parse(data, "a.jsonl")
    assert problem in str(caught.value)


def test_an_unknown_suffix_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnreadableError, match=r"a\.txt: not a known format.*\.csv"):
        parse(b"", "a.txt")


def test_each_format_is_found_by_its_name() -> None:
    assert sorted(FORMATS) == ["csv", "jsonl"]


def test_a_line_beyond_the_cap_is_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_format, "MAX_LINE", 20)
    parse(csv("item,score", "1,1"), "a.csv")
    with pytest.raises(LimitError, match="a line has 32 bytes; the cap is 20"):
        parse(csv("item,score", "x" * 30 + ",1"), "a.csv")


def test_rows_beyond_the_cap_are_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_format, "MAX_ROWS", 2)
    with pytest.raises(LimitError, match="more than 2 rows"):
        parse(csv("item,score", "1,1", "2,1", "3,1"), "a.csv")


def sound(*tables: Items) -> None:
    refuse_unsound(tables)


@pytest.mark.parametrize("text", ["nan", "NaN", "inf", "-inf", "Infinity"])
def test_scores_that_are_not_finite_are_refused_with_ids_and_line(text: str) -> None:
    table = parse(csv("method,item,score", "a,1,1", f"a,2,{text}"), "a.csv")
    with pytest.raises(RowError, match=r"^a\.csv:3: score is .*method 'a', item '2'"):
        sound(table)


def test_a_repeated_row_is_refused_with_ids_and_both_lines() -> None:
    table = parse(csv("method,item,rollout,score", "a,1,0,1", "a,2,0,1", "a,1,0,0"), "a.csv")
    with pytest.raises(RowError) as caught:
        sound(table)
    expected = "a.csv:4: method 'a', item '1', rollout '0' is already at a.csv:2"
    assert str(caught.value) == expected


def test_repeated_samples_without_a_rollout_column_are_told_what_they_need() -> None:
    with pytest.raises(RowError, match="need a column `rollout`"):
        sound(parse(csv("item,score", "1,1", "1,0"), "a.csv"))


def test_a_row_may_not_be_in_two_files() -> None:
    one = parse(csv("method,item,score", "a,1,1"), "a.csv")
    other = parse(csv("method,item,score", "a,1,0"), "b.csv")
    with pytest.raises(RowError, match=r"^b\.csv:2: .*already at a\.csv:2"):
        sound(one, other)


def test_the_same_file_given_twice_is_refused() -> None:
    table = csv("method,item,score", "a,1,1")
    with pytest.raises(RowError, match="already at"):
        sound(parse(table, "a.csv"), parse(table, "a.csv"))


def test_rollouts_seeds_and_methods_tell_rows_apart() -> None:
    header = "method,seed,item,rollout,score"
    sound(parse(csv(header, "a,1,1,0,1", "a,1,1,1,1", "a,2,1,0,1", "b,1,1,0,1"), "a.csv"))
