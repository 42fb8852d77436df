"""RA5: intervals redrawn in plain NumPy, wrong procedures named, directions held to them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from itemised import claim, of_items, outcomes, problems, recomputed, skipped, table
from numpy.typing import NDArray

from rlvraudit.audit.check import check
from rlvraudit.audit.errors import Exit
from rlvraudit.audit.rules import RULES, resampling
from rlvraudit.audit.rules.intervals import IntervalCheck, recheck
from rlvraudit.audit.rules.rule import Problem, Skipped

Floats = NDArray[np.float64]
RNG = np.random.default_rng(0)
BASE = "".join(map(str, RNG.permutation([1] * 18 + [0] * 22)))
NEW = "".join("1" if i % 3 == 0 else s for i, s in enumerate(BASE))
DATA = table(BASE, NEW)


def digits(text: str) -> Floats:
    return np.array([float(s) for s in text])


def percentile(means: Floats, confidence: float = 0.95) -> tuple[float, float]:
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def draw(d: Floats, seed: int = 1273, resamples: int = 2000) -> Floats:
    means: Floats = d[np.random.default_rng(seed).integers(0, d.size, (resamples, d.size))].mean(1)
    return means


def entry(interval: tuple[float, float], places: int = 4, **changes: Any) -> dict[str, Any]:
    return {
        "quantity": "difference",
        "value": f"{digits(NEW).mean() - digits(BASE).mean():.4f}",
        "n": 40,
        "interval": [f"{end:.{places}f}" for end in interval],
        "confidence": "0.95",
        "method": "paired-item-bootstrap",
        "seed": 1273,
        "resamples": 2000,
        **changes,
    }


RIGHT = percentile(draw(digits(NEW) - digits(BASE)))


def variant(problem: Problem) -> str:
    assert problem.discrepancy is not None
    return problem.discrepancy.variant


def test_the_interval_of_the_declared_protocol_recomputes(tmp_path: Path) -> None:
    evidence = of_items(tmp_path, DATA, claim(entry(RIGHT)))
    assert not problems(evidence, "RA502")
    pointers = {f"/claims/0/reported/0/interval/{end}" for end in (0, 1)}
    assert pointers <= recomputed(evidence, "RA502")


def test_an_interval_in_percent(tmp_path: Path) -> None:
    low, high = RIGHT
    changes = {"unit": "percent", "value": "20.0"}
    evidence = of_items(tmp_path, DATA, claim(entry((100 * low, 100 * high), 2, **changes)))
    assert not problems(evidence, "RA502")


@pytest.mark.parametrize("end", [0, 1])
@pytest.mark.parametrize("step", [-1, 1])
def test_one_unit_of_the_last_digit_is_a_mismatch(tmp_path: Path, end: int, step: int) -> None:
    ends = [RIGHT[0], RIGHT[1]]
    ends[end] += step * 1e-4
    (found,) = problems(of_items(tmp_path, DATA, claim(entry((ends[0], ends[1])))), "RA502")
    assert found.pointer == f"/claims/0/reported/0/interval/{end}"


def unpaired(first: str) -> tuple[float, float]:
    generator = np.random.default_rng(1273)
    means = {}
    for name in (first, "base" if first == "new" else "new"):
        scores = digits(NEW if name == "new" else BASE)
        means[name] = scores[generator.integers(0, 40, (2000, 40))].mean(axis=1)
    return percentile(means["new"] - means["base"])


WRONG: list[tuple[Callable[[], tuple[float, float]], str]] = [
    (lambda: unpaired("new"), "methods resampled independently of each other, treatment first"),
    (lambda: unpaired("base"), "methods resampled independently of each other, baseline first"),
    (lambda: (-RIGHT[1], -RIGHT[0]), "baseline minus treatment"),
    (lambda: (100 * RIGHT[0], 100 * RIGHT[1]), "the interval is a percent"),
]


@pytest.mark.parametrize(("interval", "name"), WRONG, ids=[name for _, name in WRONG])
def test_wrong_procedures_are_named(
    tmp_path: Path, interval: Callable[[], tuple[float, float]], name: str
) -> None:
    found = problems(of_items(tmp_path, DATA, claim(entry(interval()))), "RA502")
    assert found
    assert all(variant(problem).startswith(name) for problem in found)


def test_rollouts_pooled_as_items_are_named(tmp_path: Path) -> None:
    scores = {m: RNG.integers(0, 2, (40, 3)) for m in ("base", "new")}
    rows = [f"{m},{i},{r},{scores[m][i, r]}" for m in scores for i in range(40) for r in range(3)]
    data = "\n".join(["method,item,rollout,score", *rows, ""]).encode()
    d = (scores["new"] - scores["base"]).astype(float)
    changes: dict[str, Any] = {"value": f"{d.mean():.4f}"}
    right = of_items(tmp_path, data, claim(entry(percentile(draw(d.mean(axis=1))), **changes)))
    assert not problems(right, "RA502")
    pooled = of_items(tmp_path, data, claim(entry(percentile(draw(d.reshape(-1))), **changes)))
    (first, *_) = problems(pooled, "RA502")
    assert variant(first) == "rollouts pooled as if they were items"


def shuffled() -> tuple[bytes, tuple[float, float]]:
    """Items in another order in the file, and the interval that this order gives."""
    d = digits(NEW) - digits(BASE)
    for seed in range(50):
        order = np.random.default_rng(seed).permutation(40)
        interval = percentile(draw(d[order]))
        if interval != RIGHT:
            rows = [f"{m},{i + 1},{s[i]}" for m, s in (("base", BASE), ("new", NEW)) for i in order]
            return "\n".join(["method,item,score", *rows, ""]).encode(), interval
    raise AssertionError("no order gives another interval")


def test_file_order_is_tried_and_said(tmp_path: Path) -> None:
    data, interval = shuffled()
    undeclared = problems(of_items(tmp_path, data, claim(entry(interval))), "RA502")
    assert [p.level for p in undeclared] == ["note"]
    assert "the order of the file" in undeclared[0].message
    declared = of_items(tmp_path, data, claim(entry(interval, order="file")))
    assert not problems(declared, "RA502")
    wrongly = problems(of_items(tmp_path, data, claim(entry(RIGHT, order="file"))), "RA502")
    assert [p.level for p in wrongly] == ["warning"]


def test_seed_and_confidence_count_only_if_another_would_show(tmp_path: Path) -> None:
    d = np.random.default_rng(3).uniform(0, 1, (2, 30)).round(3)
    rows = [
        f"{m},{i},{s}" for m, ss in zip(("base", "new"), d, strict=True) for i, s in enumerate(ss)
    ]
    data = "\n".join(["method,item,score", *rows, ""]).encode()
    interval = percentile(draw(d[1] - d[0]))
    changes: dict[str, Any] = {"value": f"{(d[1] - d[0]).mean():.4f}", "n": 30}
    fine = of_items(tmp_path, data, claim(entry(interval, 6, **changes)))
    assert {p.rpartition("/")[2] for p in recomputed(fine, "RA502")} >= {"seed", "confidence"}
    coarse = of_items(tmp_path, data, claim(entry(interval, 0, **changes)))
    assert not {p for p in recomputed(coarse, "RA502") if p.endswith(("seed", "confidence"))}


def test_intervals_that_would_occupy_the_machine_make_the_audit_incomplete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resampling, "MOST_DRAWS", 79_999)
    audit = check(of_items(tmp_path, DATA, claim(entry(RIGHT))), RULES)
    assert audit.exit == Exit.INCOMPLETE
    said = [f.problem.message for f in audit.findings if f.rule.name == "RA003"]
    assert any("80,000 draws, more than 79,999" in message for message in said)


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"confidence": "1.5"}, "not between 0 and 1"), ({"kind": "relative"}, "relative difference")],
)
def test_protocols_that_are_none_are_a_problem(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    (found,) = problems(of_items(tmp_path, DATA, claim(entry(RIGHT, **changes))), "RA502")
    assert message in found.message


def test_recheck_gives_every_interval_or_why_not(tmp_path: Path) -> None:
    wrong = {**entry((0.0, 0.1)), "artifact": "items.csv"}
    sides = {"treatment": "x", "baseline": "base", "asserts": "higher"}
    lost = claim(entry(RIGHT), id="lost", compares=sides)
    evidence = of_items(tmp_path, DATA, claim(entry(RIGHT), wrong), lost)
    right, off, unavailable = recheck(evidence)
    assert isinstance(right, IntervalCheck)
    assert right.holds
    assert isinstance(off, IntervalCheck)
    assert not off.holds
    assert (off.recomputed.ci_low, off.recomputed.ci_high) == RIGHT
    assert isinstance(unavailable, tuple)
    assert unavailable[0].id == "lost"


def test_a_comparison_without_an_interval_is_found(tmp_path: Path) -> None:
    bare = {"quantity": "difference", "value": "0.20", "n": 40}
    assert problems(of_items(tmp_path, DATA, claim(bare)), "RA501")
    assert not problems(of_items(tmp_path, DATA, claim(entry(RIGHT))), "RA501")
    component = claim(bare, kind="component")
    del component["compares"]
    assert skipped(of_items(tmp_path, DATA, component), "RA501")


def seeded(seeds: int, items: int) -> bytes:
    rows = [
        f"{m},{s},{i},{int(i % 2 == 0 or m == 'new')}"
        for m in ("base", "new")
        for s in range(seeds)
        for i in range(items)
    ]
    return "\n".join(["method,seed,item,score", *rows, ""]).encode()


@pytest.mark.parametrize(
    ("seeds", "items", "expected"), [(3, 30, 0), (2, 30, 1), (3, 29, 1), (1, 5, 2)]
)
def test_capability_needs_seeds_and_items(
    tmp_path: Path, seeds: int, items: int, expected: int
) -> None:
    capability = claim(kind="capability")
    evidence = of_items(tmp_path, seeded(seeds, items), capability)
    assert len(problems(evidence, "RA503")) == expected
    assert skipped(of_items(tmp_path, seeded(1, 5), claim()), "RA503")


@pytest.mark.parametrize(
    ("base", "new", "expected"),
    [("00000000", "11111111", 1), ("0011", "0011", 1), ("0011", "0111", 0)],
)
def test_no_p_value_or_interval_from_zero_variance(
    tmp_path: Path, base: str, new: str, expected: int
) -> None:
    p = {"quantity": "p-value", "test": "paired-item-bootstrap", "value": "0.5"}
    evidence = of_items(tmp_path, table(base, new), claim(p))
    assert len(problems(evidence, "RA509")) == expected
    interval = of_items(tmp_path, table(base, new), claim(entry((0.0, 0.0))))
    assert len(problems(interval, "RA509")) == expected


def test_an_exact_p_value_of_eight_wins_is_fine(tmp_path: Path) -> None:
    p = {"quantity": "p-value", "test": "exact-mcnemar", "value": "0.0078"}
    evidence = of_items(tmp_path, table("00000000", "11111111"), claim(p))
    assert not problems(evidence, "RA509")
    assert not problems(evidence, "RA401")


def verdict(tmp_path: Path, base: str, new: str, asserts: str, **compares: str) -> list[Problem]:
    sides = {"treatment": "new", "baseline": "base", "asserts": asserts, **compares}
    found = percentile(draw(digits(new) - digits(base)))
    changes: dict[str, Any] = {
        "value": f"{(digits(new) - digits(base)).mean():.4f}",
        "n": len(base),
    }
    reported = entry(found, **changes)
    evidence = of_items(tmp_path, table(base, new), claim(reported, compares=sides))
    assert not problems(evidence, "RA502")
    return problems(evidence, "RA511")


EVEN = ("01" * 30, "10" * 15 + "01" * 15)  # 15 won, 15 lost, 30 tied


@pytest.mark.parametrize(
    ("asserts", "better", "worse", "even"),
    [
        ("higher", 0, 1, 1),
        ("lower", 1, 0, 1),
        ("different", 0, 0, 1),
        ("no-difference", 1, 1, 0),
    ],
)
def test_the_interval_carries_what_is_asserted(
    tmp_path: Path, asserts: str, better: int, worse: int, even: int
) -> None:
    assert len(verdict(tmp_path, BASE, NEW, asserts)) == better
    assert len(verdict(tmp_path, NEW, BASE, asserts)) == worse
    assert len(verdict(tmp_path, *EVEN, asserts)) == even


def test_no_difference_stays_within_its_margin(tmp_path: Path) -> None:
    assert not verdict(tmp_path, *EVEN, "no-difference", margin="0.5")
    (found,) = verdict(tmp_path, *EVEN, "no-difference", margin="0.05")
    assert found.pointer.endswith("/margin")


def test_an_end_at_zero_excludes_nothing_and_is_borderline(tmp_path: Path) -> None:
    # One win of two: the lower end is 0.
    (found,) = verdict(tmp_path, "00", "01", "higher")
    assert found.level is None
    (note,) = verdict(tmp_path, "00", "01", "no-difference")
    assert note.level == "note"
    assert "borderline" in note.message


def test_an_interval_printed_so_coarsely_that_it_holds_zero_carries_no_direction(
    tmp_path: Path,
) -> None:
    low, high = RIGHT
    assert 0 < low < 0.5
    coarse = entry(RIGHT) | {"interval": ["0", f"{high:.4f}"]}
    assert [p.pointer for p in problems(of_items(tmp_path, DATA, claim(coarse)), "RA511")] == [
        "/claims/0/compares/asserts"
    ]


def test_a_margin_has_the_unit_of_the_difference(tmp_path: Path) -> None:
    base, new = EVEN
    low, high = percentile(draw(digits(new) - digits(base)))
    stated = entry((100 * low, 100 * high), value="0.0000", n=60, unit="percent")
    sides = {"treatment": "new", "baseline": "base", "asserts": "no-difference"}
    for margin, found in (("2", 1), ("50", 0)):
        judged = claim(stated, compares=sides | {"margin": margin})
        evidence = of_items(tmp_path, table(base, new), judged)
        assert not problems(evidence, "RA502")
        assert len(problems(evidence, "RA511")) == found


def test_an_end_that_is_zero_but_for_rounding_excludes_nothing(tmp_path: Path) -> None:
    # 0.2 - 0.3 and 0.4 - 0.3 are no opposites in FP64: a resample with as many of each has mean
    # 0 in exact arithmetic and a few units of rounding in a computer's.
    new = [0.2 if i < 40 else 0.4 for i in range(100)]
    rows = [f"{m},{i},{s}" for m, ss in (("base", [0.3] * 100), ("new", new))
            for i, s in enumerate(ss)]  # fmt: skip
    data = "\n".join(["method,item,score", *rows, ""]).encode()
    low, high = percentile(draw(np.array(new) - 0.3))
    assert 0 < low < 1e-15, "the example needs an end of nothing but rounding"
    sides = {"treatment": "new", "baseline": "base", "asserts": "higher"}
    stated = entry((0.0, high), value="0.0200", n=100)
    evidence = of_items(tmp_path, data, claim(stated, compares=sides))
    assert not problems(evidence, "RA502")
    assert [p.pointer for p in problems(evidence, "RA511")] == ["/claims/0/compares/asserts"]


def test_with_few_discordant_items_the_exact_test_must_agree(tmp_path: Path) -> None:
    # Five wins, no losses: the interval excludes 0, McNemar's p is 0.0625.
    (found,) = verdict(tmp_path, "0" * 30, "1" * 5 + "0" * 25, "higher")
    assert found.level == "warning"
    assert "0.062" in found.message
    assert not verdict(tmp_path, "0" * 30, "1" * 9 + "0" * 21, "higher")


def test_a_direction_without_an_interval_is_skipped_with_a_reason(tmp_path: Path) -> None:
    assert all(isinstance(o, Skipped) for o in outcomes(of_items(tmp_path, DATA, claim()), "RA511"))
