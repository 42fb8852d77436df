"""RA401, RA404, RA405, RA406: reported numbers against hand-computed ones, digit by digit."""

import json
import struct
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from itemised import claim, of_items, outcomes, problems, recomputed, skipped, supplement, table

from rlvraudit.audit.evidence.supplement import Artifact, Document, Evidence
from rlvraudit.audit.rules.lookup import recorded
from rlvraudit.audit.rules.reported import UnresolvedError, read
from rlvraudit.audit.rules.rule import Held

# Sixteen items: base solves 6, new solves 11; new wins 7 and loses 2.
BASE = "1111110000000000"
NEW = "1111001111111000"
DATA = table(BASE, NEW)


def mean(method: str, value: str, **changes: Any) -> dict[str, Any]:
    return {"quantity": "mean", "method": method, "value": value, "n": 16, **changes}


def difference(value: str, **changes: Any) -> dict[str, Any]:
    return {"quantity": "difference", "value": value, "n": 16, **changes}


def p_value(test: str, value: str, **changes: Any) -> dict[str, Any]:
    return {"quantity": "p-value", "test": test, "value": value, **changes}


def slugs(tmp_path: Path, entry: dict[str, Any], data: bytes = DATA) -> set[str]:
    """Return which of the rules of reported numbers find a problem."""
    evidence = of_items(tmp_path, data, claim(entry))
    return {c for c in ("RA401", "RA404", "RA405", "RA406") if problems(evidence, c)}


@pytest.mark.parametrize(
    ("text", "unit", "value", "half"),
    [
        ("0.39", "proportion", "0.39", "0.005"),
        ("39.0", "percent", "0.39", "0.0005"),
        ("-4.30", "percent", "-0.043", "0.00005"),
        ("1e-3", "proportion", "0.001", "0.0005"),
        ("2.50e-3", "proportion", "0.0025", "0.000005"),
        ("12E1", "proportion", "120", "5"),
        ("7", "proportion", "7", "0.5"),
    ],
)
def test_the_digits_of_a_decimal_set_its_tolerance(
    text: str, unit: str, value: str, half: str
) -> None:
    found = read(text, unit)
    assert (found.value, found.half) == (Fraction(value), Fraction(half))


def test_half_a_unit_is_admitted_exactly_but_pins_nothing() -> None:
    # 0.625 may be printed as 0.62 or as 0.63.
    for text in ("0.62", "0.63"):
        assert read(text).admits(Fraction(5, 8))
        assert not read(text).pins(Fraction(5, 8))
    assert not read("0.62").admits(Fraction(5, 8) + Fraction(1, 10**30))
    assert read("0.625").pins(Fraction(5, 8))


@pytest.mark.parametrize("value", ["0.6875", "0.688", "0.687", "0.69", "0.7", "0.68750"])
def test_a_mean_may_be_rounded_to_any_number_of_digits(tmp_path: Path, value: str) -> None:
    assert slugs(tmp_path, mean("new", value)) == set()


def test_a_mean_in_percent(tmp_path: Path) -> None:
    assert slugs(tmp_path, mean("new", "68.75", unit="percent")) == set()


@pytest.mark.parametrize("value", ["0.6250", "0.750", "0.75", "0.625"])
def test_a_mean_of_other_outcomes_is_a_mismatch(tmp_path: Path, value: str) -> None:
    assert slugs(tmp_path, mean("new", value)) == {"RA401"}


@pytest.mark.parametrize("value", ["0.6874", "0.70", "0.6876", "0.500001"])
def test_a_mean_that_no_sixteen_outcomes_have_is_impossible(tmp_path: Path, value: str) -> None:
    assert slugs(tmp_path, mean("new", value)) == {"RA405"}


def test_a_mean_is_possible_again_with_enough_rollouts(tmp_path: Path) -> None:
    # 0.555 of 30 items: 16/30 = 0.533, 17/30 = 0.567; with 32 outcomes each 533/960 rounds to it.
    rows = [f"m,{i},{r},{int(i * 32 + r < 533)}" for i in range(30) for r in range(32)]
    data = "\n".join(["method,item,rollout,score", *rows, ""]).encode()
    entry = {"quantity": "mean", "method": "m", "n": 30, "rollouts": 32}
    assert slugs(tmp_path, {**entry, "value": "0.555"}, data) == set()
    one = "\n".join(["method,item,score", *(f"m,{i},{int(i < 17)}" for i in range(30)), ""])
    evidence = of_items(tmp_path, one.encode(), claim({**entry, "value": "0.555", "rollouts": 1}))
    assert "0.533333 or 0.566667" in problems(evidence, "RA405")[0].message


def test_scores_that_are_not_zero_or_one_have_no_impossible_means(tmp_path: Path) -> None:
    data = b"method,item,score\nbase,1,0.3\nbase,2,0.4\nnew,1,0.5\nnew,2,0.6\n"
    assert slugs(tmp_path, mean("new", "0.57", n=2), data) == {"RA401"}


@pytest.mark.parametrize(
    ("entry", "hint"),
    [
        (mean("new", "68.75"), "percent, but its unit says proportion"),
        (mean("new", "0.6875", unit="percent"), "proportion, but its unit says percent"),
        (difference("31.25"), "percent, but its unit says proportion"),
        (mean("new", "1.2"), "between 0 and 1"),
        (mean("new", "-0.1"), "between 0 and 1"),
        (mean("new", "150", unit="percent"), "between 0 and 100"),
        (difference("-1.5"), "between -1 and 1"),
        (p_value("exact-mcnemar", "1.2"), "a p-value lies in"),
    ],
)
def test_units_and_ranges(tmp_path: Path, entry: dict[str, Any], hint: str) -> None:
    assert slugs(tmp_path, entry) == {"RA404"}
    evidence = of_items(tmp_path, DATA, claim(entry))
    assert hint in problems(evidence, "RA404")[0].message


@pytest.mark.parametrize("score", ["85", "-1", "1.001"])
def test_scores_outside_the_unit_interval_are_out_of_range(tmp_path: Path, score: str) -> None:
    data = DATA.replace(b"base,1,1\n", f"base,1,{score}\n".encode())
    (found,) = problems(of_items(tmp_path, data), "RA404")
    assert (found.path, found.line) == ("items.csv", 2)
    assert score in found.message


@pytest.mark.parametrize(
    ("entry", "variant"),
    [
        (difference("-0.3125"), "baseline minus treatment"),
        (difference("0.8333"), "the relative difference, but its kind says absolute"),
        (difference("0.3125", kind="relative"), "the absolute difference, but its kind"),
        (difference("0.25"), ""),
    ],
)
def test_a_wrong_difference_is_named(tmp_path: Path, entry: dict[str, Any], variant: str) -> None:
    (found,) = problems(of_items(tmp_path, DATA, claim(entry)), "RA406")
    assert found.discrepancy is not None
    assert found.discrepancy.variant.startswith(variant)
    assert found.pointer == "/claims/0/reported/0/value"


@pytest.mark.parametrize(
    "entry",
    [
        difference("0.3125"),
        difference("0.31"),
        difference("+31.25", unit="percent"),
        difference("0.833", kind="relative"),  # 11/6 - 1
        difference("83", kind="relative", unit="percent"),
    ],
)
def test_a_right_difference_holds(tmp_path: Path, entry: dict[str, Any]) -> None:
    assert slugs(tmp_path, entry) == set()


def test_without_items_the_stated_means_must_give_the_difference(tmp_path: Path) -> None:
    # The results name other methods, so that only the claim's own means are at hand.
    other: dict[str, Any] = {"compares": {"treatment": "x", "baseline": "y", "asserts": "higher"}}
    means = [mean("x", "0.39"), mean("y", "0.35")]
    for value, count in (("0.04", 0), ("0.05", 0), ("0.06", 1), ("-0.04", 1)):
        evidence = of_items(tmp_path, DATA, claim(*means, difference(value), **other))
        assert len(problems(evidence, "RA406")) == count, value


def test_unequal_rollouts_are_weighted_by_item_and_the_pooled_mean_is_named(
    tmp_path: Path,
) -> None:
    # Item 1: 4 of 4; item 2: 0 of 1. By item 1/2, over rows 4/5.
    rows = ["m,1,0,1", "m,1,1,1", "m,1,2,1", "m,1,3,1", "m,2,0,0"]
    data = "\n".join(["method,item,rollout,score", *rows, ""]).encode()
    entry = {"quantity": "mean", "method": "m", "n": 2}
    assert slugs(tmp_path, {**entry, "value": "0.50"}, data) == set()
    evidence = of_items(tmp_path, data, claim({**entry, "value": "0.80"}))
    (found,) = problems(evidence, "RA401")
    assert found.discrepancy is not None
    assert "mean over all rows" in found.discrepancy.variant


def test_any_correct_rollout_is_not_the_mean(tmp_path: Path) -> None:
    rows = ["m,1,0,0", "m,1,1,1", "m,1,2,0", "m,1,3,0"]
    data = "\n".join(["method,item,rollout,score", *rows, ""]).encode()
    entry = {"quantity": "mean", "method": "m", "n": 1, "value": "1.00"}
    (found,) = problems(of_items(tmp_path, data, claim(entry)), "RA401")
    assert found.discrepancy is not None
    assert found.discrepancy.variant == "the share of items with any correct rollout"


# Binomial(9, 1/2): P(X <= 2) = (1 + 9 + 36) / 512; doubled 0.1796875; less P(X = 2): 0.109375.
@pytest.mark.parametrize("test", ["exact-mcnemar", "exact-sign-flip"])
@pytest.mark.parametrize("value", ["0.18", "0.1797", "0.1796875"])
def test_exact_p_values(tmp_path: Path, test: str, value: str) -> None:
    assert slugs(tmp_path, p_value(test, value)) == set()


def test_the_mid_p_is_named(tmp_path: Path) -> None:
    evidence = of_items(tmp_path, DATA, claim(p_value("exact-mcnemar", "0.1094")))
    (found,) = problems(evidence, "RA401")
    assert found.discrepancy is not None
    assert found.discrepancy.variant == "the mid-p of McNemar's test"


def test_mcnemar_of_averages_is_no_test(tmp_path: Path) -> None:
    data = DATA.replace(b"base,1,1\n", b"base,1,0.5\n")
    assert slugs(tmp_path, p_value("exact-mcnemar", "0.18"), data) == {"RA401"}


def test_a_bootstrap_p_value_recomputes_and_the_centred_one_is_named(tmp_path: Path) -> None:
    d = np.array([int(n) - int(b) for n, b in zip(NEW, BASE, strict=True)], float)
    means = d[np.random.default_rng(5).integers(0, 16, (999, 16))].mean(axis=1)
    p = 2 * (min((means <= 0).sum(), (means >= 0).sum()) + 1) / 1000
    centred = ((np.abs(means - d.mean()) >= d.mean() - 1e-9).sum() + 1) / 1000
    protocol = {"seed": 5, "resamples": 999}
    right = p_value("paired-item-bootstrap", f"{p:.3f}", **protocol)
    assert slugs(tmp_path, right) == set()
    evidence = of_items(tmp_path, DATA, claim({**right, "value": f"{centred:.3f}"}))
    (found,) = problems(evidence, "RA401")
    assert found.discrepancy is not None
    assert found.discrepancy.variant == "the centred bootstrap p-value"


def test_a_method_that_is_not_there_is_a_problem(tmp_path: Path) -> None:
    assert slugs(tmp_path, mean("newer", "0.5")) == {"RA401"}


def test_items_that_cannot_be_paired_are_a_problem_of_the_difference(tmp_path: Path) -> None:
    data = DATA.replace(b"base,3,1\n", b"")
    evidence = of_items(tmp_path, data, claim(difference("0.3125")))
    (found,) = problems(evidence, "RA406")
    assert "base lacks 1 of 16 items: '3'" in found.message


def test_numbers_are_recomputed_only_where_the_next_decimal_would_be_refused(
    tmp_path: Path,
) -> None:
    entries = (mean("new", "0.6875"), mean("new", "0.69"), mean("new", "0.687"))
    evidence = of_items(tmp_path, DATA, claim(*entries))
    # 0.6875 lies half-way between 0.687 and 0.688, so 0.687 is right but not pinned.
    assert recomputed(evidence, "RA401") == {
        "/claims/0/reported/0/value",
        "/claims/0/reported/1/value",
    }


@pytest.mark.parametrize(("value", "noticed"), [("0.6875", True), ("0.69", True), ("0.7", False)])
def test_scores_count_where_flipping_one_would_show(
    tmp_path: Path, value: str, noticed: bool
) -> None:
    # A flip moves the mean by 1/16 = 0.0625. To 0.7 it may move from 0.65 to 0.75: not beyond
    # 0.75 upwards, so flips of zeros (0.6875 + 0.0625 = 0.75) would not show.
    evidence = of_items(tmp_path, DATA, claim(mean("new", value)))
    held = [o for o in outcomes(evidence, "RA401") if isinstance(o, Held)]
    (scores,) = [o for o in held if o.path == "items.csv"]
    mask = np.asarray(scores.numbers)
    assert not mask[:16].any()
    zeros = np.array([s == "0" for s in NEW])
    assert mask[16:][~zeros].all() == (noticed or value == "0.7")
    assert mask[16:][zeros].all() == noticed


def tensors(**arrays: list[float]) -> bytes:
    header: dict[str, Any] = {}
    data = b""
    for name, values in arrays.items():
        part = np.array(values, "<f8").tobytes()
        offsets = [len(data), len(data) + len(part)]
        header[name] = {"dtype": "F64", "shape": [len(values)], "data_offsets": offsets}
        data += part
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


@pytest.mark.parametrize(
    ("reduce", "value"),
    [("sum", "2.5"), ("mean", "0.625"), ("min", "-0.5"), ("max", "2"), ("count-positive", "2")],
)
def test_values_are_reduced_over_what_stands_at_the_pointer(
    tmp_path: Path, reduce: str, value: str
) -> None:
    files = {"run.safetensors": ("tensors", tensors(x=[1.0, -0.5, 2.0, 0.0]))}
    entry = {"quantity": "value", "artifact": "run.safetensors", "pointer": "/x", "reduce": reduce}
    rests: dict[str, Any] = {"evidence": ["run.safetensors"], "kind": "component"}
    right = supplement(tmp_path, files, claim({**entry, "value": value}, **rests))
    assert not problems(right, "RA401")
    assert recomputed(right, "RA401") == {"/claims/0/reported/0/value"}
    other = value + "9" if "." in value else "9"
    wrong = supplement(tmp_path, files, claim({**entry, "value": other}, **rests))
    assert problems(wrong, "RA401")


@pytest.mark.parametrize(
    ("pointer", "message"),
    [
        ("/y", "there is nothing at /y"),
        ("/x/4", "there is nothing at /x/4"),
        ("/x/-1", "there is nothing"),
        ("/x/01", "there is nothing"),
        ("/x", "there is no number at /x"),
    ],
)
def test_a_pointer_to_nothing_is_a_problem(tmp_path: Path, pointer: str, message: str) -> None:
    files = {"run.safetensors": ("tensors", tensors(x=[1.0, -0.5, 2.0, 0.0]))}
    entry = {"quantity": "value", "artifact": "run.safetensors", "pointer": pointer, "value": "1"}
    rests: dict[str, Any] = {"evidence": ["run.safetensors"], "kind": "component"}
    (found,) = problems(supplement(tmp_path, files, claim(entry, **rests)), "RA401")
    assert message in found.message


@pytest.mark.parametrize("values", [[np.inf, -np.inf], [np.nan], [1e308, 1e308]])
def test_numbers_without_a_finite_sum_are_a_problem(tmp_path: Path, values: list[float]) -> None:
    files = {"run.safetensors": ("tensors", tensors(x=values))}
    entry = {"quantity": "value", "artifact": "run.safetensors", "pointer": "/x", "reduce": "sum"}
    rests: dict[str, Any] = {"evidence": ["run.safetensors"], "kind": "component"}
    evidence = supplement(tmp_path, files, claim({**entry, "value": "1"}, **rests))
    assert "finite" in problems(evidence, "RA401")[0].message


def test_an_artifact_s_decimal_with_a_huge_exponent_is_no_number() -> None:
    with pytest.raises(UnresolvedError, match="no number at /x"):
        recorded_at({"x": "1e999999999"}, "/x")
    assert recorded_at({"x": "1e3"}, "/x") == 1000


def recorded_at(document: dict[str, Any], pointer: str) -> Fraction:
    artifact = Artifact("a.json", "", "mechanism-contracts", "1", "/artifacts/0")
    documents = {"a.json": Document(artifact, document)}
    evidence = Evidence("", {}, (artifact,), (), {}, documents, ())
    return recorded(evidence, {"artifact": "a.json", "pointer": pointer})[0]


def paper(value: str, **fields: str) -> tuple[str, bytes]:
    result = {"what": "Avg@8", "value": value, "source": {"table": "2"}, **fields}
    document = {"format": "paper-results/1", "paper": {"id": "p"}, "results": [result]}
    return "paper-results", json.dumps(document).encode()


@pytest.mark.parametrize(
    ("value", "unit", "right"),
    [
        ("41.0", "percent", True),
        ("41", "percent", True),
        ("0.410", "proportion", True),
        ("41.9", "percent", False),
        ("41.0", "proportion", False),
    ],
)
def test_a_quotation_is_the_number_in_the_paper(
    tmp_path: Path, value: str, unit: str, right: bool
) -> None:
    entry = {"quantity": "quote", "artifact": "paper.json", "pointer": "/results/0/value"}
    entry |= {"value": value, "unit": unit}
    quoted = claim(entry, kind="reported", evidence=["paper.json"])
    evidence = supplement(tmp_path, {"paper.json": paper("41.0", unit="percent")}, quoted)
    assert (not problems(evidence, "RA401")) == right
    # A quotation is reported, never recomputed, however well it agrees.
    assert recomputed(evidence, "RA401") == set()


@pytest.mark.parametrize("value", ["1e999", "-1e999", "0e999", "1e-999", "9e400"])
def test_decimals_beyond_all_doubles_are_judged_like_others(tmp_path: Path, value: str) -> None:
    # 0e999 says nothing but a magnitude, and that admits anything; the others are refused.
    assert bool(slugs(tmp_path, mean("new", value))) == (value != "0e999")
    assert bool(slugs(tmp_path, difference(value))) == (value != "0e999")
    assert bool(slugs(tmp_path, p_value("exact-mcnemar", value))) == (value != "0e999")


def test_unsound_rows_are_left_to_their_own_rules(tmp_path: Path) -> None:
    data = DATA.replace(b"base,1,1\n", b"base,1,nan\n")
    evidence = of_items(tmp_path, data, claim(mean("new", "0.1"), difference("0.9")))
    for code in ("RA401", "RA405", "RA406"):
        assert not problems(evidence, code)
        assert any("RA403" in reason for reason in skipped(evidence, code))


@pytest.mark.parametrize("code", ["RA401", "RA402", "RA404", "RA405", "RA406"])
def test_a_supplement_without_numbers_is_skipped_with_a_reason(tmp_path: Path, code: str) -> None:
    assert skipped(supplement(tmp_path, {}), code)
