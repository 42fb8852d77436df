"""RA7: where leaks are looked for, and that findings don't repeat them."""

from pathlib import Path

import pytest
from supplements import codes, copy, edit, problems

TOKEN = "hf_" + "aB" * 17


def note(folder: Path, text: str | bytes, name: str = "loss.sh") -> None:
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())


def rules_of(folder: Path) -> set[str]:
    return {code for code in codes(folder) if code.startswith("RA7")}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("open('/home/someone/x')", "RA701"),
        ("someone@gpu-node-7", "RA702"),
        ("someone@example.org", "RA703"),
        (TOKEN, "RA704"),
    ],
)
def test_each_kind_is_found_by_its_rule_alone_with_its_line(
    tmp_path: Path, text: str, code: str
) -> None:
    folder = copy(tmp_path)
    note(folder, f"# one\n# two\n# {text}\n")
    (problem,) = problems(folder, code)
    assert rules_of(folder) == {code}
    assert (problem.path, problem.line) == ("loss.sh", 3)
    assert text[5:] not in problem.message


@pytest.mark.parametrize(
    "escaped", ["\\u002fhome\\u002fsomeone\\u002fx", "\\/home\\/someone", "C:\\\\Users\\\\someone"]
)
def test_escapes_in_json_hide_nothing(tmp_path: Path, escaped: str) -> None:
    folder = copy(tmp_path)
    note(folder, '{\n"a": "' + escaped + '"}')
    (problem,) = problems(folder, "RA701")
    assert problem.line == 2


def test_strings_in_binary_files_are_searched_too(tmp_path: Path) -> None:
    folder = copy(tmp_path)
    note(folder, b"\x00\xff\x89/home/someone/secret.bin\x00\x01" + TOKEN.encode() + b"\xfe")
    assert rules_of(folder) == {"RA701", "RA704"}


def test_a_leak_in_a_receipt_or_manifest_is_found(tmp_path: Path) -> None:
    folder = copy(tmp_path)
    with edit(folder, "receipt.json") as receipt:
        parameters = receipt["predicate"]["buildDefinition"]["externalParameters"]
        parameters["entrypoint"] = "python /scratch/someone/run.py"
    with edit(folder, "supplement.json") as manifest:
        manifest["title"] = "by someone@example.org"
    assert {p.path for p in problems(folder, "RA701")} == {"receipt.json"}
    assert {p.path for p in problems(folder, "RA703")} == {"supplement.json"}


@pytest.mark.parametrize(
    "name",
    [
        *(".DS_Store", "x.swp", "x~", ".idea/a.xml", "wandb/run/a.json", "._x", "#x#", "Thumbs.db"),
        *(
            "events.out.tfevents.1.host",
            "a/__pycache__/b.pyc",
            ".ipynb_checkpoints/a.ipynb",
            ".env",
        ),
    ],
)
def test_files_of_editors_systems_and_trackers_are_found(tmp_path: Path, name: str) -> None:
    folder = copy(tmp_path)
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    note(folder, "x", name)
    assert [p.path for p in problems(folder, "RA705")] == [name]


def test_a_folder_of_version_control_is_found_and_not_read(tmp_path: Path) -> None:
    folder = copy(tmp_path)
    (folder / ".git").mkdir()
    note(folder, TOKEN, ".git/config")
    assert codes(folder) == {"RA705"}


@pytest.mark.parametrize("name", [".gitignore", ".gitattributes", "wandb.md", "environment"])
def test_ordinary_files_are_left_alone(tmp_path: Path, name: str) -> None:
    folder = copy(tmp_path)
    note(folder, "x", name)
    assert problems(folder, "RA705") == []


def test_many_leaks_of_one_kind_do_not_hide_one_of_another(tmp_path: Path) -> None:
    folder = copy(tmp_path)
    note(folder, "someone@example.org\n" * 20_000 + f'"\\u0068{TOKEN[1:]}"\n')
    assert rules_of(folder) == {"RA703", "RA704"}
    (problem,) = problems(folder, "RA704")
    assert problem.line == 20_001
