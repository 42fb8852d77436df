import re
from collections.abc import Callable

import pytest
from rich.cells import cell_len

from rlvraudit.audit.check import Audit
from rlvraudit.audit.reports.formats import REPORTS
from rlvraudit.audit.reports.terminal import Page
from rlvraudit.audit.rules.rule import Discrepancy, Held, Problem, Skipped

MakeAudit = Callable[..., Audit]
text = REPORTS["text"].render
HOSTILE = "a\x1b[31mred\u202eevil[/]\r\n::set-env\x00\u200b"
LOSS = Held("runs/tar-42.json", "/loss", True)
MISMATCH = Problem(
    "runs/tar-42.json",
    "the recorded replay loss does not recompute",
    "/loss",
    88,
    Discrepancy("0.39755", "0.13252", "4.1e-16", "mean over active trajectories only"),
)


def test_a_clean_run_ends_with_the_share_of_numbers_recomputed(make_audit: MakeAudit) -> None:
    # Four numbers: the claim's 0.25, the loss, two gates; one of them was recomputed.
    last = text([make_audit({"RA412": [LOSS]})], Page()).splitlines()[-1]
    assert last == "no findings · 25 % of 4 numbers recomputed"


def test_a_share_is_never_rounded_up_to_all(make_audit: MakeAudit) -> None:
    held = [Held("runs/tar-42.json", f"/gates/{i}", True) for i in range(999)]
    document = make_audit({"RA412": []}).evidence.documents["runs/tar-42.json"]
    wide = {"runs/tar-42.json": type(document)(document.artifact, {"gates": [0.5] * 1000})}
    printed = text([make_audit({"RA412": held}, documents=wide, claims=())], Page())
    assert "99 % of 1,000 numbers" in printed


def test_a_finding_names_file_place_numbers_fault_and_fix(make_audit: MakeAudit) -> None:
    printed = text([make_audit({"RA412": [MISMATCH]})], Page())
    for part in (
        "\nruns/tar-42.json\n",
        "error RA412 slug-of-ra412   /loss  line 88",
        "recorded 0.39755, recomputed 0.13252, bound 4.1e-16",
        "mean over active trajectories only",
        "fix: mend RA412.",
        "1 error, 0 warnings · rlvr-audit explain RA412 says why",
    ):
        assert part in printed


def test_findings_alike_are_counted_after_the_third(make_audit: MakeAudit) -> None:
    many = [Problem("runs/tar-42.json", f"gate {i} is wrong", f"/gates/{i}") for i in range(100)]
    printed = text([make_audit({"RA410": many})], Page())
    assert printed.count("is wrong") == 3
    assert "and 97 more like it" in printed
    assert printed.count("fix: mend RA410.") == 1


def test_files_beyond_the_thirtieth_are_counted(make_audit: MakeAudit) -> None:
    many = [Problem(f"file-{i:03}.json", "is not in the manifest") for i in range(100)]
    printed = text([make_audit({"RA103": many})], Page())
    assert printed.count("is not in the manifest") == 30
    assert "and 70 more files with findings" in printed
    assert "100 errors" in printed


def test_a_crashed_rule_is_named_and_is_no_pass(make_audit: MakeAudit) -> None:
    printed = text([make_audit({"RA410": KeyError("gates"), "RA412": [LOSS]})], Page())
    assert "error RA002 rule-crashed" in printed
    assert "RA410 crashed" in printed
    assert "KeyError" in printed
    assert printed.splitlines()[-1].startswith("incomplete, so no pass")


def test_a_rule_that_says_nothing_is_no_pass(make_audit: MakeAudit) -> None:
    printed = text([make_audit({"RA410": []})], Page())
    assert "looked at nothing" in printed
    assert printed.splitlines()[-1].startswith("incomplete, so no pass")


def test_skipped_checks_are_listed_by_reason(make_audit: MakeAudit) -> None:
    said = {"RA414": [Skipped("no tapo-trace")], "RA415": [Skipped("no tapo-trace")]}
    assert "no tapo-trace: RA414 RA415" in text([make_audit(said)], Page())


def test_nothing_to_check_is_said_in_the_last_line(make_audit: MakeAudit) -> None:
    printed = text([make_audit({"RA001": [Problem("supplement.json", "no claim")]})], Page())
    assert printed.splitlines()[-1].startswith("nothing to check")


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_no_line_is_wider_than_the_page(make_audit: MakeAudit, width: int) -> None:
    said = {
        "RA103": [Problem("deep/" * 60 + "file.json", "is not in the manifest " * 20)],
        "RA410": RuntimeError("x" * 500),
        "RA412": [MISMATCH, Problem("漢字" * 80 + ".json", HOSTILE * 10, "/" + "é" * 300)],
        "RA414": [Skipped("a reason " * 30)],
    }
    printed = text([make_audit(said)], Page(width))
    assert max(map(cell_len, printed.splitlines())) <= min(width, 100)


def test_colour_only_repeats_what_the_words_say(make_audit: MakeAudit) -> None:
    audit = make_audit({"RA412": [MISMATCH]})
    plain, coloured = text([audit], Page()), text([audit], Page(colour=True))
    assert "\x1b" not in plain
    assert coloured != plain
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain


def test_hostile_strings_are_escaped(make_audit: MakeAudit) -> None:
    said = {
        "RA103": [Problem(HOSTILE, HOSTILE, HOSTILE)],
        "RA410": RuntimeError(HOSTILE),
        "RA412": [
            Problem("a", HOSTILE, discrepancy=Discrepancy(HOSTILE, HOSTILE, HOSTILE, HOSTILE))
        ],
        "RA414": [Skipped(HOSTILE)],
    }
    manifest = {"title": HOSTILE, "papers": [{"id": HOSTILE}]}
    printed = text([make_audit(said, name=HOSTILE, manifest=manifest)], Page(200))
    assert not set("\x1b\u202e\r\x00\u200b") & set(printed)
    assert "[/]" in printed  # markup is text, neither interpreted nor lost
    assert not any(line.startswith("::") for line in printed.splitlines())


def test_the_same_audit_gives_the_same_text(make_audit: MakeAudit) -> None:
    said = {"RA412": [MISMATCH], "RA414": [Skipped("no tapo-trace")]}
    assert text([make_audit(said)], Page()) == text([make_audit(said)], Page())


def test_findings_of_two_files_do_not_mix(make_audit: MakeAudit) -> None:
    said = {
        "RA410": [Problem("b.json", "second"), Problem("a.json", "first")],
        "RA412": [Problem("a.json", "also first")],
    }
    printed = text([make_audit(said)], Page())
    order = [printed.index(part) for part in ("\na.json\n", "first", "\nb.json\n", "second")]
    assert order == sorted(order)
    assert printed.count("\na.json\n") == 1
