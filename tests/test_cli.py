"""The command line: every exit status, help that leads on, clean streams, a light start."""

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import MappingProxyType

import pytest
from click.testing import CliRunner, Result

from rlvraudit import __version__, schemas
from rlvraudit.audit import rules as rules_module
from rlvraudit.audit.rules import RULES
from rlvraudit.audit.rules.rule import Rule
from rlvraudit.cli import main
from rlvraudit.fixtures import ROOT

PASSING = str(ROOT / "rules" / "RA601" / "pass")
FAILING = str(ROOT / "rules" / "RA601" / "fail")
COMMANDS = (
    ("check",), ("bootstrap",), ("kernels",), ("vectors",), ("run",), ("run", "tar"),
    ("explain",), ("schema",), ("init",),
)  # fmt: skip


def rlvr_audit(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def process(*arguments: str, **more: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "rlvraudit", *arguments]
    environment = {**os.environ, **more}
    return subprocess.run(
        command, capture_output=True, encoding="utf-8", errors="replace", env=environment
    )


def test_a_supplement_that_holds_gives_0() -> None:
    assert rlvr_audit("check", PASSING).exit_code == 0


def test_a_finding_gives_1() -> None:
    result = rlvr_audit("check", FAILING)
    assert result.exit_code == 1
    assert "error RA601 level-too-low" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("check", "--select", "RA999", PASSING), "no rule's code begins with 'RA999'"),
        (("check", "--ignore", "RA1", PASSING), "RA1 integrity"),
        (("check", "--ignore", "RA4,RA601", PASSING), "RA6 evidence"),
        (("check", "--format", "yaml", PASSING), "'yaml' is not one of json, text"),
        (("check", "--fail-on", "never", PASSING), "never"),
        (("check", "/nowhere"), "nowhere"),
        (("explain", "level-to-low"), "the nearest is level-too-low"),
        (("schema", "recipt"), "receipt"),
        (("run", "tar", "--seeds", "42,x", "--output", "/tmp/never"), "42,43,44"),
        (("bootstrap", "--seed", "-1"), "--seed"),
        (("bootstrap", "--confidence", "1"), "--confidence"),
        (("nonsense",), "nonsense"),
    ],
)
def test_a_wrong_command_line_gives_2_and_says_what_was_expected(
    arguments: tuple[str, ...], said: str
) -> None:
    result = rlvr_audit(*arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stdout == ""


def with_rule(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Let the rule RA601 raise `error`."""

    def crash(_evidence: object) -> object:
        raise error

    old = RULES["RA601"]
    broken = Rule(old.name, old.slug, old.level, old.explanation, crash)  # type: ignore[arg-type]
    monkeypatch.setattr(rules_module, "RULES", MappingProxyType({**RULES, "RA601": broken}))


def test_a_crashed_rule_gives_3_and_the_others_still_run(monkeypatch: pytest.MonkeyPatch) -> None:
    with_rule(monkeypatch, ZeroDivisionError("deep inside"))
    result = rlvr_audit("check", PASSING)
    assert result.exit_code == 3
    assert "RA601 crashed" in result.stdout
    assert "incomplete, so no pass" in result.stdout


def test_nothing_to_check_gives_5_and_says_how_to_start(tmp_path: Path) -> None:
    result = rlvr_audit("check", str(tmp_path))
    assert result.exit_code == 5
    assert result.stderr.startswith(f"nothing to check: no supplement.json below {tmp_path}")
    assert "rlvr-audit init DIR" in result.stderr


def test_a_path_without_a_supplement_beside_one_that_has_is_no_pass(tmp_path: Path) -> None:
    assert rlvr_audit("check", PASSING, str(tmp_path)).exit_code == 5


def test_bootstrap_without_files_and_supplements_gives_5(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = rlvr_audit("bootstrap", "--seed", "1273")
    assert result.exit_code == 5
    assert "rlvr-audit init DIR" in result.stderr


def test_bootstrap_without_files_recomputes_what_the_supplements_claim(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(PASSING)
    result = rlvr_audit("bootstrap", "--seed", "1273")
    assert result.exit_code == 0
    assert "tapo-beats-grpo   [0.1250, 0.4750]" in result.stdout


def test_several_supplements_have_the_worst_status_of_one() -> None:
    result = rlvr_audit("check", PASSING, FAILING, "--format", "json")
    report = json.loads(result.stdout)
    assert [audit["exit"] for audit in report["audits"]] == [0, 1]
    assert result.exit_code == report["exit"] == 1


def test_a_supplement_that_was_named_twice_is_audited_once() -> None:
    result = rlvr_audit("check", PASSING, PASSING, "--format", "json")
    assert len(json.loads(result.stdout)["audits"]) == 1


def test_an_interrupt_gives_130(monkeypatch: pytest.MonkeyPatch) -> None:
    with_rule(monkeypatch, KeyboardInterrupt())
    assert rlvr_audit("check", PASSING).exit_code == 130


def test_a_fault_of_the_toolkit_gives_3_and_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlvraudit.audit.check.coverage", None)
    monkeypatch.delenv("RLVR_AUDIT_TRACEBACK", raising=False)
    result = rlvr_audit("check", PASSING)
    assert result.exit_code == 3
    assert "a fault of rlvr-audit itself: TypeError" in result.stderr
    assert "Traceback" not in result.stderr
    monkeypatch.setenv("RLVR_AUDIT_TRACEBACK", "1")
    assert isinstance(rlvr_audit("check", PASSING).exception, TypeError)


def test_a_file_that_cannot_be_read_gives_3_and_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    results = tmp_path / "items.csv"
    results.write_text("item,score\n1,1\n")
    monkeypatch.setattr(os, "open", refuse)
    result = rlvr_audit("bootstrap", str(results))
    assert result.exit_code == 3
    assert result.stderr == f"error: {results}: Permission denied\n"


@pytest.mark.parametrize("command", ["bootstrap", "vectors"])
def test_a_pipe_in_the_place_of_a_file_is_refused_and_never_waited_for(
    command: str, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "results.csv")
    result = rlvr_audit(command, str(tmp_path / "results.csv"))
    assert result.exit_code == 3
    assert "not a file" in result.stderr


def test_a_reader_that_closes_the_pipe_is_no_error() -> None:
    command = f"{sys.executable} -m rlvraudit explain; echo status $? >&2"
    script = f"set -o pipefail; ({command}) | head -c 10"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert "fault" not in done.stderr
    assert "status 141" in done.stderr or "status 0" in done.stderr


def test_a_message_never_drives_the_terminal(tmp_path: Path) -> None:
    folder = tmp_path / "evil\x1b[31m"
    folder.mkdir()
    result = rlvr_audit("check", str(folder))
    assert "\x1b" not in result.stderr
    assert r"\x1b[31m" in result.stderr


@pytest.mark.parametrize("command", [(), *COMMANDS])
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_every_command_has_help_that_names_the_next_step(
    command: tuple[str, ...], flag: str
) -> None:
    result = rlvr_audit(*command, flag)
    assert result.exit_code == 0
    assert "Next: " in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_every_command_is_in_the_list_of_this_test() -> None:
    assert {command[0] for command in COMMANDS} == set(main.commands)


def test_version_is_printed_by_the_script_and_by_the_module() -> None:
    assert rlvr_audit("--version").stdout == f"rlvr-audit, version {__version__}\n"
    assert process("--version").stdout == f"rlvr-audit, version {__version__}\n"


@pytest.mark.parametrize("code", sorted(RULES))
def test_every_rule_is_explained_by_code_and_by_slug(code: str) -> None:
    by_code, by_slug = rlvr_audit("explain", code.lower()), rlvr_audit("explain", RULES[code].slug)
    assert by_code.exit_code == 0
    assert by_code.stdout == by_slug.stdout
    assert by_code.stdout.startswith(f"{code} {RULES[code].slug}")
    assert "How to fix:" in by_code.stdout


def test_explain_without_a_code_lists_every_rule() -> None:
    listed = rlvr_audit("explain").stdout
    assert all(code in listed for code in RULES)


@pytest.mark.parametrize("name", schemas.names())
def test_every_schema_is_printed(name: str) -> None:
    assert json.loads(rlvr_audit("schema", name).stdout) == schemas.load(name)


def test_schema_without_a_name_lists_every_schema() -> None:
    assert rlvr_audit("schema").stdout.split() == schemas.names()


def test_a_supplement_that_was_just_started_is_not_yet_one(tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text("method,item,score\na,1,1\nb,1,0\n")
    started = rlvr_audit("init", str(tmp_path))
    assert started.exit_code == 0
    assert "Next: " in started.stdout
    assert rlvr_audit("check", str(tmp_path)).exit_code == 5
    before = (tmp_path / "supplement.json").read_bytes()
    assert rlvr_audit("init", str(tmp_path)).exit_code == 2
    assert (tmp_path / "supplement.json").read_bytes() == before


def test_mandatory_families_run_whatever_is_selected() -> None:
    result = rlvr_audit("check", "--select", "ra4,RA502", "--format", "json", PASSING)
    ran = {rule["rule"][:3] for rule in json.loads(result.stdout)["audits"][0]["rules"]}
    assert ran == {"RA0", "RA1", "RA3", "RA4", "RA5", "RA6"}


def test_pipes_get_neither_colour_nor_progress() -> None:
    done = process("check", FAILING, FORCE_COLOR="1", CLICOLOR_FORCE="1", COLUMNS="200")
    assert "\x1b" not in done.stdout
    assert done.stderr == ""
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_a_stream_that_lacks_a_character_gets_an_escape_not_an_error(tmp_path: Path) -> None:
    folder = shutil.copytree(PASSING, tmp_path / "漢字")
    done = process("check", str(folder), PYTHONIOENCODING="latin-1")
    assert done.returncode == 0
    assert done.stdout.startswith(r"\u6f22\u5b57")


def test_the_same_supplement_gives_the_same_report() -> None:
    for format_ in ("text", "json"):
        first, second = (process("check", FAILING, "--format", format_).stdout for _ in "ab")
        assert first == second


def imported_by(*arguments: str) -> set[str]:
    """Return the top-level modules that a command imports."""
    code = (
        "import sys\nfrom rlvraudit.cli import main\n"
        f"try: main({list(arguments)!r})\nexcept SystemExit as end: status = end.code\n"
        "print(*sorted({n.split('.')[0] for n in sys.modules}), "
        "*(n for n in sys.modules if n == 'scipy.stats'), file=sys.stderr)\n"
        "sys.exit(status)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return set(done.stderr.split())


def test_help_imports_click_and_little_else() -> None:
    heavy = {"numpy", "rich", "jsonschema", "array_api_compat", "pathlib", "json", "torch"}
    assert not imported_by("--help") & heavy


@pytest.mark.parametrize("supplement", [PASSING, str(ROOT / "supplement")])
def test_check_imports_no_library_that_it_does_not_need(supplement: str) -> None:
    imported = imported_by("check", supplement)
    assert "numpy" in imported
    assert not imported & {"torch", "scipy.stats", "pandas", "matplotlib"}
