"""Wrong losses are caught and named, right ones raise no finding: the examples of both."""

from collections.abc import Callable

import pytest
from faults import PAGE, examples, inspections, only_catchers, table

from rlvraudit.audit.implementations.trials import TRIALS

pytest.importorskip("torch", reason="losses are called with torch tensors; pip install torch")
pytestmark = pytest.mark.xdist_group("faults")
CORPUS = {
    *(1, 3, 4, 6, 8, 9, 11, 12, 15, 16, 18, 21, 23, 25, 27, 28, 29, 31, 32, 34, 37, 39, 40, 41, 42),
    *(45, 47, 48, 50, 52, 53, 54, 56, 58, 59),
}
"""The public reports whose kind of fault has an example, by their number in the collection."""
JUSTIFIED = {
    "detached": "it shows on the card what is held constant; where the closed form is found, so is "
    "its gradient, and where not, it is the only word on detached parts",
    "empty rows": "the objectives leave them undefined: a line of the card",
    "micro-batches": "what it catches has no right closed form either; where none is found, it "
    "says what the result depends on",
    "row order": "as micro-batches",
}
"""Trials that catch nothing alone, and why they are there."""


def test_every_wrong_loss_is_caught_and_named(record_property: Callable[[str, str], None]) -> None:
    seen = inspections("faults")
    caught_ones = [e for e in examples("faults") if seen[e.function].faults]
    named = [e for e in caught_ones if e.kind in {fault.kind for fault in seen[e.function].faults}]
    alarms = [function for function, found in inspections("right").items() if found.faults]
    record_property(
        "losses",
        f"{len(caught_ones)} of {len(examples('faults'))} wrong ones caught, {len(named)} named; "
        f"{len(alarms)} false alarms on {len(examples('right'))} right ones",
    )
    missed = {e.function for e in examples("faults")} - {e.function for e in named}
    assert missed == set()


def test_no_fault_is_left_without_an_explanation() -> None:
    vague = {
        function
        for function, seen in inspections("faults").items()
        if any(fault.kind == "unexplained" for fault in seen.faults)
    }
    assert vague == set()


def test_no_right_loss_raises_a_finding() -> None:
    assert {
        function: [fault.kind for fault in seen.faults]
        for function, seen in inspections("right").items()
        if seen.faults
    } == {}


def test_every_right_loss_is_recognised_and_its_rounding_compared() -> None:
    for function, seen in inspections("right").items():
        assert seen.objective, function


def test_every_kind_of_public_report_has_an_example() -> None:
    assert {number for example in examples("faults") for number in example.corpus} == CORPUS


def test_every_example_names_another_function() -> None:
    for folder in ("faults", "right"):
        functions = [example.function for example in examples(folder)]
        assert len(functions) == len(set(functions))


def test_every_fault_that_an_input_can_show_is_shown() -> None:
    without = {
        fault.kind
        for seen in inspections("faults").values()
        for fault in seen.faults
        if fault.example is None
    }
    # These are about parameters, splits and dtypes, which no single input shows, about what is the
    # same whatever the input, and about a mask that is found out position by position.
    assert without <= {
        "parameter-without-effect",
        "parameter-misread",
        "input-not-read",
        "depends-on-micro-batches",
        "low-precision-inside",
        "loses-precision",
        "no-gradient",
        "kl-k1-gradient",
        "reads-inactive-positions",
        "mask-read-as-length",
    }


def test_every_probe_catches_something_alone_or_says_why_it_is_there() -> None:
    alone = only_catchers()
    print(f"\n{table()}")
    idle = {trial.name for trial in TRIALS.values()} - {p for p, f in alone.items() if f}
    assert idle == set(JUSTIFIED)


@pytest.mark.skipif(not PAGE.is_file(), reason="only a checkout has the page")
def test_the_page_shows_what_each_probe_catches() -> None:
    assert PAGE.read_text("utf-8").endswith(table())


def test_right_losses_round_like_the_same_formula_well_below_the_limit() -> None:
    """The documentation says below 3, where 8 passes; float64 is judged only where it is used."""
    for function, seen in inspections("right").items():
        for p in seen.precisions:
            if seen.family != "advantages":
                assert p.value is not None, (function, p.dtype)
                assert p.gradient is not None, (function, p.dtype)
                assert max(p.value, p.gradient) < 3.0 or p.dtype == "float64", (function, p.dtype)
