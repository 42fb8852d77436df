"""The audit of a loss as people and programs read it, from audits that are made by hand."""

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from rich.cells import cell_len

from rlvraudit.audit.implementations.card import Entry, Example, Fault
from rlvraudit.audit.implementations.families import Declared
from rlvraudit.audit.implementations.frameworks import Survey
from rlvraudit.audit.implementations.implementation import Implementation, Outcome
from rlvraudit.audit.implementations.inspection import Inspection
from rlvraudit.audit.implementations.precision import Precision
from rlvraudit.audit.reports import frameworks, implementation
from rlvraudit.audit.reports.terminal import Page

HOSTILE = "a\x1b[31mred[bold]x[/bold]\u202e\r\n"
WIDE, NARROW = Page(80), Page(40)


def example(**changes: Any) -> Example:
    """Return two trajectories of three active tokens, and gradients that differ at one."""
    mask = np.array([[True, False], [True, True]])
    right = Outcome(np.array(0.25), np.array([[0.5, 0.0], [0.0, 1.0]]))
    wrong = replace(right, gradient=np.array([[0.5, 0.0], [math.nan, 1.0]]))
    inputs = {"logp_policy": np.array([[-1.0, -0.0], [-0.5, -2.0]]), "mask": mask}
    made = Example(inputs, right, wrong, "gradient at (1, 0) nan, closed form 0")
    return replace(made, **changes)


LOSS = Implementation(
    "losses.py:grpo",
    lambda: None,
    ("logp_policy", "mask"),
    {"clip_low": 0.2, "act": math.exp, "norm": None},
    "losses.py:grpo, by keyword",
)
FAULT = Fault("ratio-detached", "The ratio is detached: nothing moves.", example(), "padding")
PLAIN = Fault("other-objective", "tapo.surrogate is declared, but it computes grpo.surrogate.")


def inspection(*faults: Fault, **changes: Any) -> Inspection:
    made = Inspection(
        LOSS,
        "cpu",
        "surrogate",
        "grpo.surrogate",
        Declared(None, {"clip_low": 0.2}),
        (
            Entry("ratio", "token: exp(logp_policy - logp_old)"),
            Entry("clip", "[1 - 0.2, 1 + 0.28]"),
            Entry("aggregation", "1 / (B^2)", True),
        ),
        faults,
        ("Where exp(log-ratio) overflows the gradient is not finite.",),
        (
            Precision("float64", 1.04, 1.96, 2e-16),
            Precision("bfloat16", 12345.0, 3.0, 0.02, Fault("loses-precision", "It rounds.")),
        ),
    )
    return replace(made, **changes)


def text(seen: Inspection, page: Page = WIDE) -> str:
    return implementation.as_text(seen, page)


def words(printed: str) -> str:
    """Return text without its line breaks."""
    return " ".join(printed.split())


# --- For people ----------------------------------------------------------------------------------


def test_a_report_names_the_code_its_conventions_and_its_faults() -> None:
    printed = text(inspection(FAULT, PLAIN))
    for part in (
        "losses.py:grpo   on cpu\n",
        "called: losses.py:grpo, by keyword\n",
        "grpo.surrogate, recovered",
        "[1 - 0.2, 1 + 0.28]\n",
        "1 / (B^2)   <- fault\n",
        "fault  ratio-detached\n",
        "Seen: gradient at (1, 0) nan, closed form 0.",
        "2 trajectories, 3 active tokens.",
        "notes\n",
    ):
        assert part in printed
    assert printed.splitlines()[-1] == "2 faults."


def test_the_objective_is_recovered_or_declared_or_none() -> None:
    assert "grpo.surrogate, recovered" in text(inspection())
    declared = Declared("grpo.surrogate", {})
    assert "grpo.surrogate, declared" in text(inspection(declared=declared))
    assert "none of those known here" in text(inspection(objective=""))


def test_rounding_is_shown_as_multiples_and_as_an_error() -> None:
    rows = {line.split()[0]: line.split() for line in text(inspection()).splitlines() if line}
    assert rows["value"] == ["value", "k", "1.0", "k", "1e+04"]
    assert rows["gradient"] == ["gradient", "k", "2.0", "k", "3.0"]
    assert rows["error"] == ["error", "2e-16", "2e-02"]


def test_a_dtype_that_fails_and_one_that_was_not_compared_are_told_apart() -> None:
    failing = Precision("float16", fault=Fault("not-finite", "No number."))
    printed = text(inspection(precisions=(failing, Precision("float32"))))
    (row,) = (line for line in printed.splitlines() if line.split()[:1] == ["value"])
    assert row.split() == ["value", "FAIL", "not", "compared"]


def test_a_pass_says_so_and_what_was_not_compared() -> None:
    assert text(inspection()).splitlines()[-1] == "No fault found."
    without = text(inspection(precisions=()))
    assert without.splitlines()[-1] == "No fault found. Rounding was not compared."


def test_one_fault_is_one() -> None:
    assert text(inspection(PLAIN)).splitlines()[-1] == "1 fault."


def test_what_is_unfamiliar_gets_no_verdict_and_says_why() -> None:
    unknown = inspection(implementation=replace(LOSS, unknown="trl 9 is not known"))
    assert text(unknown).splitlines()[-1] == "No verdict: trl 9 is not known."
    alone = replace(LOSS, unlike="an objective of its own")
    unlike = inspection(implementation=alone, objective="")
    expected = "No verdict: by its own account it is an objective of its own."
    assert text(unlike).splitlines()[-1] == expected


def long(width: int) -> Inspection:
    """Return an audit of which everything is long."""
    many = Fault("k" * 30, "a sentence " * 60, example(words="w" * 290))
    named = replace(LOSS, name="漢字" * 50, called="c" * 400)
    entries = (Entry("log-ratio clamp", "x" * 180, True), Entry("empty rows", "漢字 " * 60))
    return inspection(many, implementation=named, entries=entries, notes=("n" * 500,))


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_line_is_wider_than_the_page(width: int) -> None:
    for seen in (inspection(FAULT, PLAIN), long(width)):
        printed = text(seen, Page(width))
        assert max(map(cell_len, printed.splitlines())) <= min(width, 100)


def test_a_narrow_page_loses_no_convention() -> None:
    lost = "".join(text(inspection(FAULT), NARROW).split())
    for part in ("token:exp(logp_policy-logp_old)", "[1-0.2,1+0.28]", "1/(B^2)<-fault"):
        assert part in lost


@pytest.mark.parametrize("width", [40, 80])
def test_four_dtypes_fit_on_the_page(width: int) -> None:
    four = tuple(
        Precision(d, 1.0, 1.0, 1e-3) for d in ("float64", "float32", "bfloat16", "float16")
    )
    printed = text(inspection(precisions=four), Page(width))
    assert printed.count("k 1.0") == 8


def test_hostile_strings_are_escaped_and_markup_is_text() -> None:
    fault = Fault("raises", HOSTILE, example(words=f"it raised ValueError: {HOSTILE}"))
    loss = replace(LOSS, name=HOSTILE, called=HOSTILE, unknown=HOSTILE)
    seen = inspection(
        fault, implementation=loss, entries=(Entry("ratio", HOSTILE),), notes=(HOSTILE,)
    )
    for page in (WIDE, NARROW):
        printed = text(seen, page)
        assert not set("\x1b\u202e\r") & set(printed)
    printed = text(seen, Page(100))
    assert r"\x1b[31mred[bold]x[/bold]" in printed


def test_what_a_loss_raises_is_escaped_from_the_call_to_the_report() -> None:
    pytest.importorskip("torch", reason="losses are called with torch tensors")
    from rlvraudit.audit.implementations.inspection import inspect_implementation
    from rlvraudit.audit.implementations.loading import wrap

    def loss(logp_policy: Any, advantages: Any, mask: Any) -> Any:
        raise ValueError("\x1b[31mred\x1b[0m [bold]loud[/bold]")

    seen = inspect_implementation(wrap(loss, "loss", {}), Declared(), ())
    printed = text(seen)
    assert "\x1b" not in printed
    assert r"ValueError: \x1b[31mred\x1b[0m [bold]loud[/bold]" in words(printed)
    assert "\x1b" not in json.dumps(implementation.as_document(seen))


def test_colour_only_repeats_what_the_words_say() -> None:
    plain, coloured = text(inspection(FAULT)), text(inspection(FAULT), Page(80, True))
    assert "\x1b" not in plain
    assert "\x1b" in coloured


# --- For programs --------------------------------------------------------------------------------


def document(seen: Inspection) -> Any:
    """Return the document as it is read back from strict JSON."""
    return json.loads(json.dumps(implementation.as_document(seen), allow_nan=False))


def test_a_document_holds_all_that_the_text_says() -> None:
    found = document(inspection(FAULT, PLAIN))
    assert found["format"] == "rlvr-audit-implementation/1"
    assert set(found) == {
        "format",
        "implementation",
        "called",
        "device",
        "family",
        "objective",
        "declared",
        "parameters",
        "passed",
        "card",
        "faults",
        "notes",
        "rounding",
        "no_verdict",
    }
    assert (found["implementation"], found["device"]) == ("losses.py:grpo", "cpu")
    assert found["declared"] == {"objective": None, "parameters": {"clip_low": 0.2}}
    assert found["card"][2] == {"name": "aggregation", "words": "1 / (B^2)", "fault": True}
    assert [fault["kind"] for fault in found["faults"]] == ["ratio-detached", "other-objective"]
    assert (found["passed"], found["no_verdict"]) == (False, None)


def test_a_parameter_that_json_lacks_is_written_as_python_shows_it() -> None:
    parameters = document(inspection())["parameters"]
    assert parameters == {"clip_low": 0.2, "act": repr(math.exp), "norm": None}


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_a_parameter_that_is_not_finite_is_still_json(number: float) -> None:
    """A dual clip of infinity is a customary default."""
    loss = replace(LOSS, parameters={"dual_clip": number})
    said = Declared(None, {"dual_clip": number})
    found = document(inspection(implementation=loss, declared=said))
    assert found["parameters"] == {"dual_clip": str(number)}


def test_an_example_is_written_out_with_what_is_not_finite_as_a_string() -> None:
    shown, none = (fault["example"] for fault in document(inspection(FAULT, PLAIN))["faults"])
    assert none is None
    assert shown["inputs"]["mask"] == [[True, False], [True, True]]
    assert shown["inputs"]["logp_policy"] == [[-1.0, 0.0], [-0.5, -2.0]]
    assert shown["expected"] == {"value": 0.25, "gradient": [[0.5, 0.0], [0.0, 1.0]]}
    assert shown["actual"]["gradient"] == [[0.5, 0.0], ["nan", 1.0]]
    assert (shown["actual"]["error"], shown["dtype"]) == (None, "float64")
    assert shown["difference"] == "gradient at (1, 0) nan, closed form 0"


def test_rounding_is_written_by_dtype() -> None:
    first, _ = document(inspection())["rounding"]
    expected = {"dtype": "float64", "k_value": 1.04, "k_gradient": 1.96, "relative_error": 2e-16}
    assert first == expected


def test_what_gets_no_verdict_did_not_pass() -> None:
    found = document(inspection(implementation=replace(LOSS, unknown="trl 9 is not known")))
    assert (found["passed"], found["no_verdict"]) == (False, "trl 9 is not known")
    assert document(inspection())["passed"] is True
    assert document(inspection(objective=""))["objective"] is None


# --- All frameworks side by side -----------------------------------------------------------------


def advantages(*faults: Fault) -> Inspection:
    entries = (Entry("baseline", "group mean"), Entry("scale", "none"))
    return inspection(*faults, family="advantages", objective="grpo.advantages", entries=entries)


SURVEY = Survey(
    (
        ("trl grpo", inspection(FAULT)),
        ("verl grpo", inspection(notes=("A note.",))),
        ("verl grpo", advantages(PLAIN)),
        ("areal grpo", inspection(notes=("A note.",), objective="")),
    ),
    (("liger", "liger is not installed; pip install liger"),),
)


def table(printed: str, family: str) -> list[list[str]]:
    """Return the words of each line of a family's table, the head first."""
    lines = printed.splitlines()
    rows = lines[lines.index(family) + 1 :]
    return [row.split() for row in rows[: rows.index("")]]


def test_losses_of_a_family_stand_in_one_table() -> None:
    printed = frameworks.as_text(SURVEY, Page(100))
    head, *rows = table(printed, "surrogate")
    assert [head[0], head[1], head[-2], head[-1]] == ["ratio", "clip", "KL", "faults"]
    named = {row[0]: row for row in rows if row[0] in ("trl", "verl", "areal")}
    assert [(name, row[-1]) for name, row in named.items()] == [
        ("trl", "1"),
        ("verl", "0"),
        ("areal", "0"),
    ]
    assert printed.count("[1 - 0.2, 1 + 0.28]") == 3
    assert "divergence" not in printed.splitlines()


def test_what_a_card_lacks_is_a_dash() -> None:
    _, row = table(frameworks.as_text(SURVEY, Page(100)), "advantages")
    # Of baseline, scale, epsilon, no variance and group of one it has the first two.
    assert row == ["verl", "grpo", "group", "mean", "none", "-", "-", "-", "1"]


def test_faults_notes_and_what_was_not_run_stand_below() -> None:
    printed = words(frameworks.as_text(SURVEY, Page(100)))
    for part in (
        "trl grpo: losses.py:grpo, by keyword",
        "fault trl grpo: ratio-detached The ratio is detached: nothing moves.",
        "came back: gradient at (1, 0) nan, closed form 0.",
        "fault verl grpo: other-objective ",
        "verl grpo, areal grpo: A note.",
        "not run liger: liger is not installed; pip install liger",
    ):
        assert part in printed
    assert printed.endswith("4 losses, 2 faults")


def test_a_loss_without_a_verdict_is_named_below_the_tables() -> None:
    unlike = inspection(implementation=replace(LOSS, unlike="a loss of its own"), objective="")
    printed = words(frameworks.as_text(Survey((("prime-rl grpo", unlike),), ()), WIDE))
    assert "no verdict prime-rl grpo: by its own account it is a loss of its own" in printed
    assert printed.endswith("1 loss, 0 faults")


@pytest.mark.parametrize("width", [40, 80])
def test_no_line_of_a_survey_is_wider_than_the_page(width: int) -> None:
    survey = replace(SURVEY, inspections=(*SURVEY.inspections, ("unsloth gspo", long(width))))
    printed = frameworks.as_text(survey, Page(width))
    assert max(map(cell_len, printed.splitlines())) <= width


def test_hostile_strings_of_a_survey_are_escaped() -> None:
    fault = Fault("kind", HOSTILE, example(words=HOSTILE))
    seen = inspection(
        fault,
        implementation=replace(LOSS, called=HOSTILE, unknown=HOSTILE),
        entries=(Entry("ratio", HOSTILE),),
        notes=(HOSTILE,),
    )
    survey = Survey((("trl grpo", seen),), (("liger", HOSTILE),))
    printed = frameworks.as_text(survey, Page(100))
    assert not set("\x1b\u202e\r") & set(printed)
    assert "[bold]x[/bold]" in printed


def test_a_survey_is_written_by_framework_with_what_was_not_run() -> None:
    found = json.loads(json.dumps(frameworks.as_document(SURVEY), allow_nan=False))
    assert found["format"] == "rlvr-audit-frameworks/1"
    names = [seen["framework"] for seen in found["inspections"]]
    assert names == ["trl grpo", "verl grpo", "verl grpo", "areal grpo"]
    assert found["inspections"][0]["faults"][0]["kind"] == "ratio-detached"
    reason = "liger is not installed; pip install liger"
    assert found["not_run"] == [{"framework": "liger", "reason": reason}]


def test_the_worst_loss_of_a_survey_gives_its_status() -> None:
    assert int(SURVEY.exit) == 1
    assert int(Survey((("trl grpo", inspection()),), SURVEY.not_run).exit) == 0
    unknown = inspection(FAULT, implementation=replace(LOSS, unknown="trl 9 is not known"))
    assert int(Survey((*SURVEY.inspections, ("trl gspo", unknown)), ()).exit) == 3
