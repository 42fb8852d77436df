"""The caller's own project may leave folders out; a supplement under review may not."""

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from rlvraudit.audit.configuration import excluded_folders
from rlvraudit.audit.errors import UsageError
from rlvraudit.cli import main
from rlvraudit.fixtures import ROOT


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a project with one supplement that holds and one that is broken on purpose."""
    shutil.copytree(ROOT / "rules" / "RA601" / "pass", tmp_path / "supplement")
    shutil.copytree(ROOT / "rules" / "RA601" / "fail", tmp_path / "examples" / "broken")
    (tmp_path / "pyproject.toml").write_text('[tool.rlvr-audit]\nexclude = ["examples"]\n')
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_an_excluded_folder_is_not_searched_and_that_is_said(project: Path) -> None:
    result = CliRunner().invoke(main, ["check"])
    assert result.exit_code == 0
    assert result.stderr == "not searched, says pyproject.toml: examples\n"


@pytest.mark.parametrize("path", [".", "examples"])
def test_a_path_that_the_caller_names_is_searched_whatever_the_project_says(
    project: Path, path: str
) -> None:
    assert CliRunner().invoke(main, ["check", path]).exit_code == 1


def test_a_project_that_excludes_everything_has_nothing_to_check(project: Path) -> None:
    (project / "pyproject.toml").write_text(
        '[tool.rlvr-audit]\nexclude = ["examples", "supplement"]\n'
    )
    assert CliRunner().invoke(main, ["check"]).exit_code == 5


def test_without_a_configuration_nothing_is_excluded(tmp_path: Path) -> None:
    assert excluded_folders(tmp_path) == ()
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert excluded_folders(tmp_path) == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tool.rlvr-audit\n", "pyproject.toml: "),
        ('[tool.rlvr-audit]\nignore = ["RA4"]\n', "tool.rlvr-audit.ignore is unknown"),
        ('tool.rlvr-audit = "off"\n', "expected a table"),
        ('[tool.rlvr-audit]\nexclude = "examples"\n', "expected a list"),
        ("[tool.rlvr-audit]\nexclude = [1]\n", "expected a list"),
        ('[tool.rlvr-audit]\nexclude = [""]\n', "expected a list"),
        ('[tool.rlvr-audit]\nexclude = ["../other"]\n', "expected a list"),
        ('[tool.rlvr-audit]\nexclude = ["/tmp"]\n', "expected a list"),
    ],
)
def test_a_wrong_configuration_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(UsageError, match=said):
        excluded_folders(tmp_path)
