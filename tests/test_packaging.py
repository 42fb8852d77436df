"""What is built: a wheel with the code, schemas and fixtures, and nothing else."""

import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import requires
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[1]
LINKS = ("audit", "cli.py", "fixtures", "kernels", "schemas")
pytestmark = pytest.mark.skipif(
    not (CHECKOUT / "cli.py").is_file(), reason="only a checkout can be built"
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the names in a wheel that was built from an unpacked source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    source = build("sdist", CHECKOUT, folder)
    subprocess.run(["tar", "xzf", source, "-C", folder], check=True)
    [unpacked] = (path for path in folder.iterdir() if path.is_dir())
    with zipfile.ZipFile(build("wheel", unpacked, folder)) as archive:
        return archive.namelist()


def build(target: str, project: Path, folder: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "--target", target]
    before = set(folder.iterdir())
    subprocess.run(
        [*command, "--directory", str(folder)], cwd=project, check=True, capture_output=True
    )
    [built] = set(folder.iterdir()) - before
    return built


def tracked(folder: str) -> set[str]:
    """Return the files of a folder that git tracks: what anybody else gets."""
    command = ["git", "ls-files", "-z", folder]
    listed = subprocess.run(command, cwd=CHECKOUT, check=True, capture_output=True).stdout
    return {name for name in listed.decode("utf-8").split("\0") if name}


@pytest.mark.parametrize("folder", ["audit", "kernels", "schemas", "fixtures"])
def test_every_tracked_file_of_the_package_is_in_the_wheel(wheel: list[str], folder: str) -> None:
    missing = {f"rlvraudit/{name}" for name in tracked(folder)} - set(wheel)
    assert missing == set()


def test_the_wheel_has_the_shell_of_the_package(wheel: list[str]) -> None:
    names = ("__init__.py", "__main__.py", "cli.py", "py.typed")
    assert {f"rlvraudit/{name}" for name in names} <= set(wheel)


def test_the_wheel_holds_the_package_and_its_metadata_alone(wheel: list[str]) -> None:
    assert {name.split("/")[0].partition("-")[0] for name in wheel} == {
        "rlvraudit",
        "rlvr_audit_toolkit",
    }
    inside = {name.split("/")[1] for name in wheel if name.startswith("rlvraudit/")}
    assert not inside & {"tests", "docs", "Makefile", "README.md", ".ci"}
    assert not any("__pycache__" in name or name.endswith(".pyc") for name in wheel)


def test_no_example_holds_code_that_an_installer_compiles() -> None:
    # pip writes a __pycache__ beside every module that it installs, also beside examples of
    # supplements, where every file has to be listed. Examples of losses are modules.
    modules = {name for name in tracked("fixtures") if name.endswith(".py")}
    losses = ("fixtures/__init__.py", "fixtures/faults/", "fixtures/right/")
    assert {name for name in modules if not name.startswith(losses)} == set()


def test_the_core_needs_no_heavy_library() -> None:
    core = [
        line.split(";")[0] for line in requires("rlvr-audit-toolkit") or () if "extra" not in line
    ]
    names = {line.split(">")[0].strip() for line in core}
    assert names == {"array-api-compat", "click", "jsonschema", "numpy", "rich"}


def test_every_requirement_has_a_version_that_was_tested() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = (line for lines in project["optional-dependencies"].values() for line in lines)
    wanted = {line.split(">=")[0] for line in (*project["dependencies"], *extras)}
    pinned = (CHECKOUT / ".ci" / "constraints.txt").read_text("utf-8").splitlines()
    assert wanted <= {line.split("==")[0] for line in pinned if "==" in line}


@pytest.mark.parametrize("name", LINKS)
def test_editable_installs_see_the_code_through_relative_links(name: str) -> None:
    link = CHECKOUT / ".pkg" / "rlvraudit" / name
    assert link.is_symlink()
    assert str(link.readlink()) == f"../../{name}"
