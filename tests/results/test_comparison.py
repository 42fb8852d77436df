"""Pairing and estimates: hand-made tables, and real ones with values from elsewhere."""

import json
import os
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlvraudit.audit.errors import UsageError
from rlvraudit.audit.results.comparison import Protocol, compare, is_borderline, lattice_step
from rlvraudit.audit.results.formats import parse
from rlvraudit.audit.results.item import Items, RowError
from rlvraudit.audit.results.pairing import canonical, pair
from rlvraudit.kernels.inference.bootstrap import paired_bootstrap


def table(*rows: str, header: str = "method,item,score", name: str = "a.csv") -> Items:
    return parse("\n".join([header, *rows]).encode(), name)


def sides(base: str, treated: str) -> Items:
    """A table from two strings of digits, one digit per item."""
    rows = [f"base,{i},{s}" for i, s in enumerate(base)]
    return table(*rows, *(f"new,{i},{s}" for i, s in enumerate(treated)))


def test_items_are_paired_by_id_and_not_by_position() -> None:
    found = compare([table("a,x,1", "a,y,0", "b,y,0", "b,x,1")], "a", "b")
    assert found.outcomes == (0, 0, 2)


def test_shuffled_rows_change_nothing() -> None:
    rows = [f"{m},{i},{(i * 7 + len(m)) % 3 % 2}" for m in ("a", "bb") for i in range(40)]
    shuffled = np.random.default_rng(0).permutation(rows).tolist()
    one, other = compare([table(*rows)], "a", "bb"), compare([table(*shuffled)], "a", "bb")
    assert (one.bootstrap, one.exact, one.outcomes) == (
        other.bootstrap,
        other.exact,
        other.outcomes,
    )


def test_integer_ids_are_ordered_numerically_and_others_by_code_point() -> None:
    assert canonical(["10", "9", "-1", "2"]) == ("-1", "2", "9", "10")
    assert canonical(["q10", "q9", "Q1"]) == ("Q1", "q10", "q9")
    assert canonical(["10", "9", "9a"]) == ("10", "9", "9a")
    assert canonical(["1", "\u0662"]) == ("1", "\u0662")
    assert canonical(["01", "1", "0"]) == ("0", "01", "1")


def test_rollouts_and_seeds_are_averaged_within_the_item_first() -> None:
    header = "method,seed,item,rollout,score"
    rows = [f"a,{s},{i},{r},0" for s in (1, 2) for i in (1, 2) for r in (0, 1)]
    rows += [f"b,{s},1,{r},{int(s == 1)}" for s in (1, 2) for r in (0, 1)]
    rows += [f"b,{s},2,{r},{int(s == r == 1)}" for s in (1, 2) for r in (0, 1)]
    pairs = pair([table(*rows, header=header)], "a", "b")
    assert pairs.treatment_means == (Fraction(1, 2), Fraction(1, 4))
    assert pairs.samples == ((4,), (4,))
    assert compare([table(*rows, header=header)], "a", "b").bootstrap.n_items == 2


def test_means_of_thirds_are_exact_and_their_differences_tie() -> None:
    header = "method,item,rollout,score"
    rows = [f"{m},{i},{r},{int(r < k)}" for m, k in (("a", 1), ("b", 1)) for i in (1, 2)
            for r in range(3)]  # fmt: skip
    found = compare([table(*rows, header=header)], "a", "b")
    assert found.outcomes == (0, 0, 2)
    assert found.exact.p_value == 1


def test_several_files_of_one_method_each_are_put_together() -> None:
    one = table("1,0", "2,0", header="item,score", name="grpo.csv")
    two = table("1,1", "2,0", header="item,score", name="tapo.csv")
    found = compare([one, two])
    assert (found.pairs.baseline, found.pairs.treatment) == ("grpo", "tapo")
    assert found.outcomes == (1, 0, 1)


def test_of_two_methods_the_first_to_appear_is_the_baseline_and_a_note_says_so() -> None:
    found = compare([table("z,1,0", "z,2,0", "a,1,1", "a,2,1")])
    assert (found.pairs.baseline, found.pairs.treatment) == ("z", "a")
    assert "z is the baseline because it appears first" in found.notes


@pytest.mark.parametrize(("baseline", "treatment"), [("new", None), (None, "base")])
def test_naming_one_side_leaves_the_other(baseline: str | None, treatment: str | None) -> None:
    found = compare([sides("01", "11")], baseline, treatment)
    assert (found.pairs.baseline, found.pairs.treatment) == ("new", "base")


THREE = table("a,1,0", "a,2,0", "b,1,1", "b,2,1", "c,1,1", "c,2,1")
REFUSED: list[tuple[Items, tuple[str | None, str | None], str]] = [
    (THREE, (None, None), "name --baseline and --treatment; the methods are 'a', 'b', 'c'"),
    (THREE, ("a", None), "name --baseline and --treatment"),
    (THREE, ("a", "d"), "no treatment 'd'; the methods are 'a', 'b', 'c'"),
    (THREE, ("d", "a"), "no baseline 'd'"),
    (THREE, ("a", "a"), "baseline and treatment are both 'a'"),
    (table("a,1,0", "a,2,0"), (None, None), "need two methods; the methods are 'a'"),
    (table("a,1,0", "b,1,1"), (None, None), "a single item .'1'."),
    (table("a,1,0", "a,2,0", "b,3,1", "b,4,1"), (None, None), "no item in common: a has '1', '2'"),
    (table("a,1,0", "a,2,0", "b,1,1"), (None, None), "b lacks 1 of 2 items: '2'"),
    (
        table("a,1,0", "a,2,0", "b,1,1", "b,3,1"),
        (None, None),
        "a lacks 1 of 2 items: '3'; b lacks 1 of 2 items: '2'",
    ),
]


@pytest.mark.parametrize(("items", "methods", "message"), REFUSED)
def test_what_cannot_be_compared_is_refused_with_the_names(
    items: Items, methods: tuple[str | None, str | None], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        compare([items], *methods)


def test_ten_missing_items_are_named_and_the_others_counted() -> None:
    rows = [f"a,{i},0" for i in range(15)] + ["b,0,1", "b,1,1"]
    with pytest.raises(UsageError, match=r"lacks 13 of 15 items: '2', .*, '11' and 3 more"):
        compare([table(*rows)])


def test_unsound_tables_are_refused_before_anything_is_computed() -> None:
    with pytest.raises(RowError, match="nan"):
        compare([table("a,1,nan", "a,2,0", "b,1,1", "b,2,0")])


def test_binary_scores_get_mcnemar_and_averages_the_sign_flip() -> None:
    assert compare([sides("0011", "0111")]).exact.name == "exact McNemar"
    halves = table("a,1,0.5", "a,2,0", "b,1,1", "b,2,0.5")
    assert compare([halves]).exact.name == "exact sign flip"


def test_few_items_or_few_discordant_ones_are_unreliable() -> None:
    # Five wins, no losses, 25 ties: the interval excludes 0, and the exact p is 0.0625.
    few = compare([sides("0" * 30, "1" * 5 + "0" * 25)])
    assert few.bootstrap.ci_low > 0
    assert few.exact.p_value == 0.0625
    assert not few.reliable
    assert any("discordant" in note for note in few.notes)
    assert not compare([sides("0" * 12, "1" * 12)]).reliable
    assert compare([sides("0" * 30, "1" * 10 + "0" * 20)]).reliable


def test_all_ties_are_said() -> None:
    found = compare([sides("0101", "0101")])
    assert "all ties: no item tells the methods apart" in found.notes
    assert (found.bootstrap.p_value, found.exact.p_value) == (1, 1)


def test_a_verdict_that_one_step_would_turn_is_borderline() -> None:
    differences = (Fraction(1), Fraction(-1), Fraction(0), Fraction(0))  # steps of 1/4
    assert lattice_step(differences) == 0.25
    assert is_borderline(differences, 0.0, 0.5)
    assert is_borderline(differences, -0.2, 0.5)
    assert not is_borderline(differences, -0.25, 0.5)
    assert is_borderline(differences, 0.25, 0.5)
    assert not is_borderline(differences, 0.3, 0.5)
    assert is_borderline(differences, -0.5, 0.0)
    assert not is_borderline((Fraction(0),), 0.0, 0.0)


def test_scores_outside_the_unit_interval_are_noted() -> None:
    found = compare([table("a,1,-1", "a,2,1", "b,1,1", "b,2,1")])
    assert any("outside [0, 1]" in note for note in found.notes)


def test_other_numbers_of_rollouts_are_noted() -> None:
    header = "method,item,rollout,score"
    rows = ["a,1,0,1", "a,2,0,0", "b,1,0,1", "b,1,1,0", "b,2,0,1"]
    notes = compare([table(*rows, header=header)]).notes
    assert "b has between 1 and 2 scores per item" in notes
    assert "the methods have other numbers of scores per item" in notes


def test_file_order_is_that_of_the_treatment() -> None:
    rows = table("a,1,0", "a,2,0", "a,3,1", "b,3,0", "b,1,1", "b,2,1")
    assert pair([rows], "a", "b", "file").items == ("3", "1", "2")


def test_the_protocol_reaches_the_draws() -> None:
    items = sides("0" * 20 + "1" * 20, "1" * 12 + "0" * 8 + "1" * 20)
    found = compare([items], protocol=Protocol(7, 500, 0.9)).bootstrap
    expected = paired_bootstrap(
        [0] * 20 + [1] * 20, [1] * 12 + [0] * 8 + [1] * 20, seed=7, resamples=500, confidence=0.9
    )
    assert found == expected


def golden() -> list[Any]:
    folder = os.environ.get("RLVR_AUDIT_DATA")
    return [] if folder is None else json.loads(Path(folder, "golden.json").read_text())


@pytest.mark.skipif(not golden(), reason="RLVR_AUDIT_DATA names no folder of real results")
@pytest.mark.parametrize("expected", golden(), ids=lambda g: f"{g['A']}-{g['B']}")
def test_real_pairs_give_the_values_of_other_code(expected: dict[str, Any]) -> None:
    name = expected["file"]
    path = Path(os.environ["RLVR_AUDIT_DATA"], name if "/" in name else f"scores/{name}")
    items = parse(path.read_bytes(), path.name)
    baseline, treatment = expected["B"], expected["A"]
    by_id = compare([items], baseline, treatment)
    by_file = compare([items], baseline, treatment, Protocol(order="file"))
    assert by_id.bootstrap.n_items == expected["n_paired"]
    assert by_id.bootstrap.difference == pytest.approx(expected["diff"], rel=0, abs=5e-7)
    # Integer ids in a sorted file: canonical order is the order of the file.
    integers = all(key.item.isdigit() for key in items.keys)
    same = ("ci", "p_boot_centered_plus1")
    by_id_names = same if integers else ("ci_sorted", "p_boot_sorted")
    for found, interval, p in (
        (by_file, *same),
        (by_id, *by_id_names),
    ):
        ends = (found.bootstrap.ci_low, found.bootstrap.ci_high)
        assert ends == pytest.approx(tuple(expected[interval]), rel=0, abs=5e-7)
        assert found.bootstrap.p_centred == pytest.approx(expected[p], rel=0, abs=6e-7)
    if "mcnemar" in expected:
        won, lost, _ = by_id.outcomes
        assert (won, lost) == (expected["mcnemar"]["A_only"], expected["mcnemar"]["B_only"])
        p_exact = expected["mcnemar"]["p_exact"]
        assert by_id.exact.p_value == pytest.approx(p_exact, rel=1e-5, abs=0)
