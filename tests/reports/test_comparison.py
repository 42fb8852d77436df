"""Comparisons as text in any width, and as JSON in full precision."""

import json
from typing import Any

import pytest

from rlvraudit.audit.reports.comparison import as_document, as_text, recipe, show_p
from rlvraudit.audit.reports.terminal import Page
from rlvraudit.audit.results.comparison import Comparison, Protocol, compare
from rlvraudit.audit.results.formats import parse


def comparison(
    base: str, new: str, names: tuple[str, str] = ("base", "new"), **kw: Any
) -> Comparison:
    rows = [f'"{m}",{i},{s}' for m, ss in zip(names, (base, new), strict=True) for i, s in
            enumerate(ss)]  # fmt: skip
    data = "\n".join(["method,item,score", *rows, ""]).encode()
    return compare([parse(data, "a.csv")], *names, **kw)


# 40 items: base solves 15, new 25; 12 won, 2 lost.
MANY = comparison("1" * 15 + "0" * 25, "0" * 2 + "1" * 25 + "0" * 13)
FEW = comparison("0" * 30, "1" * 5 + "0" * 25)


def test_what_a_reader_needs_is_there() -> None:
    text = as_text(MANY, Page(80))
    for part in (
        "new - base",
        "40 items, 1 rollout",
        "62.5 %",
        "37.5 %",
        "+25.0 points",
        "12 items won, 2 lost, 26 tied",
        "default_rng(1273), 10,000 resamples",
        "exact McNemar",
        # Binomial(14, 1/2): 2 (1 + 14 + 91) / 16384 = 0.01294; less 91/16384: 0.00739.
        "p = 0.013",
        "mid-p 0.0074",
        "new solves more of items like these than base",
        "Not covered: training seeds",
    ):
        assert part in " ".join(text.split()), part


def test_the_exact_test_comes_first_where_the_interval_is_unreliable() -> None:
    few, many = as_text(FEW, Page(80)), as_text(MANY, Page(80))
    assert few.index("exact McNemar") < few.index("paired bootstrap")
    assert many.index("paired bootstrap") < many.index("exact McNemar")
    assert "unreliable here" in few
    assert "unreliable" not in many


def test_an_unreliable_interval_is_not_the_verdict() -> None:
    # The interval excludes 0; McNemar's p is 0.0625, and with 5 discordant items never smaller.
    assert FEW.bootstrap.ci_low > 0
    text = " ".join(as_text(FEW, Page(80)).split())
    assert "No difference between new and base is established: the exact test shows none." in text
    assert "with 5 discordant items no exact p below 0.062 is attainable" in text


def test_a_loss_and_an_average_are_told_in_words() -> None:
    loss = comparison("0" * 2 + "1" * 25 + "0" * 13, "1" * 15 + "0" * 25)
    assert "new solves fewer of items like these" in " ".join(as_text(loss, Page(80)).split())
    shifts = {"base": 0, "new": 0.25}
    rows = [f"{m},{i},{(i % 4) / 4 + shifts[m]}" for m in shifts for i in range(40)]
    data = "\n".join(["method,item,score", *rows, ""]).encode()
    text = as_text(compare([parse(data, "a.csv")]), Page(80))
    assert "new scores higher on items like these" in " ".join(text.split())
    assert "exact sign flip" in text


def test_all_ties_draw_nothing_and_establish_nothing() -> None:
    text = as_text(comparison("0101", "0101"), Page(80))
    assert "every item ties" in text
    assert "#" not in text


@pytest.mark.parametrize("width", [20, 40, 60, 67, 68, 80, 100, 200])
@pytest.mark.parametrize("names", [("base", "new"), ("a" * 60, "organisation/model-7b" * 2)])
def test_no_line_is_wider_than_the_page(width: int, names: tuple[str, str]) -> None:
    found = comparison("1" * 15 + "0" * 25, "0" * 2 + "1" * 25 + "0" * 13, names)
    lines = as_text(found, Page(width)).splitlines()
    assert max(map(len, lines)) <= width
    assert all(line == line.rstrip() for line in lines)


def test_names_are_cleaned_before_they_are_printed() -> None:
    text = as_text(comparison("01", "11", ("\x1b[31mred", "[bold]\u202eevil")), Page(80))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "[bold]" in text


def test_the_interval_is_drawn_where_it_lies() -> None:
    lines = as_text(MANY, Page(80)).splitlines()
    axis = next(i for i, line in enumerate(lines) if "+--" in line)
    zero, bar = lines[axis].index("+"), lines[axis + 1]
    assert zero < bar.index("[") < bar.index("#") < bar.index("]")
    labels = lines[axis - 1]
    assert labels[zero] == "0"


@pytest.mark.parametrize(
    ("p", "text"),
    [
        (0.0, "< 1e-12"),
        (9e-13, "< 1e-12"),
        (2e-12, "2.0e-12"),
        (0.00312, "0.0031"),
        (0.0385, "0.038"),
        (0.9999, "0.99"),
        (1.0, "1"),
    ],
)
def test_p_values_are_never_zero(p: float, text: str) -> None:
    assert show_p(p) == text


def test_the_document_is_versioned_json_in_full_precision() -> None:
    document = json.loads(json.dumps(as_document(MANY), allow_nan=False))
    assert document["format"] == "rlvr-audit-comparison/1"
    assert document["interval"] == [MANY.bootstrap.ci_low, MANY.bootstrap.ci_high]
    assert document["mean"] == {"baseline": 0.375, "treatment": 0.625}
    assert (document["won"], document["lost"], document["tied"], document["n"]) == (12, 2, 26, 40)
    assert document["exact"]["p_value"] == 2 * (1 + 14 + 91) / 2**14
    assert document["scores_per_item"] == {"baseline": [1], "treatment": [1]}


def test_the_recipe_names_everything_that_the_numbers_depend_on() -> None:
    found = comparison("0011" * 10, "0111" * 10, protocol=Protocol(7, 500, 0.9))
    line = recipe(found)
    for part in ("ci90=", "n=40", "seed=7", "B=500", "order=id", "rlvr-audit=", "numpy="):
        assert part in line
    assert "90 %" in as_text(found, Page(80))
