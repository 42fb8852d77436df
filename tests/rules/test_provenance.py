"""RA3: what receipts say, and what a repository proves of it."""

import hashlib
import subprocess
from pathlib import Path
from typing import Any

import pytest
from supplements import GOOD, codes, copy, edit, problems, skips

from rlvraudit.audit.rules import RULES
from rlvraudit.fixtures import ROOT

CHAINED = ROOT / "rules" / "RA307" / "pass"


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=nobody", "-c", "user.email=nobody@localhost")
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository whose commit holds the source that the receipt names."""
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet")
    (folder / "loss.sh").write_bytes((GOOD / "loss.sh").read_bytes())
    git(folder, "add", "loss.sh")
    git(folder, "commit", "--quiet", "--message", "Add it")
    return folder


@pytest.fixture
def bound(tmp_path: Path, repository: Path) -> Path:
    """A supplement whose receipt names that commit."""
    folder = copy(tmp_path)
    with edit(folder, "receipt.json") as receipt:
        dependencies(receipt)[0]["digest"]["gitCommit"] = git(repository, "rev-parse", "HEAD")
    return folder


def dependencies(receipt: Any) -> Any:
    return receipt["predicate"]["buildDefinition"]["resolvedDependencies"]


def test_a_repository_proves_what_its_commit_holds(bound: Path, repository: Path) -> None:
    assert codes(bound, repo=repository) == set()
    assert not any("--repo" in reason for reason in skips(bound, "RA305", repo=repository))


def test_without_a_repository_the_commit_stays_unproven(bound: Path) -> None:
    assert "no --repo was given" in "".join(skips(bound, "RA305"))


@pytest.mark.parametrize("fault", ["name", "blob", "sha256", "commit", "no repository"])
def test_what_the_commit_does_not_hold_is_found(
    bound: Path, repository: Path, tmp_path: Path, fault: str
) -> None:
    with edit(bound, "receipt.json") as receipt:
        revision, source = dependencies(receipt)
        if fault == "name":
            source["name"] = "other.py"
        elif fault == "commit":
            revision["digest"]["gitCommit"] = "0" * 40
        elif fault != "no repository":
            algorithm = {"blob": "gitBlob"}.get(fault, fault)
            source["digest"][algorithm] = "0" * len(source["digest"][algorithm])
    folder = tmp_path if fault == "no repository" else repository
    assert "RA305" in codes(bound, repo=folder)


def test_a_commit_that_is_an_option_or_a_branch_is_never_given_to_git(
    bound: Path, repository: Path
) -> None:
    for name in ("--upload-pack=touch x", "main", "HEAD", "0" * 39, "A" * 40, "a" * 40 + "\n"):
        with edit(bound, "receipt.json") as receipt:
            dependencies(receipt)[0]["digest"]["gitCommit"] = name
        assert codes(bound, repo=repository) == {"RA303"}


def test_no_hook_or_configuration_of_the_repository_runs(
    bound: Path, repository: Path, tmp_path: Path
) -> None:
    script = tmp_path / "hook"
    script.write_text(f"#!/bin/sh\ntouch {tmp_path / 'ran'}\n")
    script.chmod(0o755)
    for key in ("core.fsmonitor", "core.sshCommand", "core.pager", "diff.external"):
        git(repository, "config", key, str(script))
    assert codes(bound, repo=repository) == set()
    assert not (tmp_path / "ran").exists()


def test_a_replaced_object_does_not_pass_for_the_original(bound: Path, repository: Path) -> None:
    old = git(repository, "rev-parse", "HEAD")
    (repository / "loss.sh").write_text("other\n")
    git(repository, "commit", "--quiet", "--all", "--message", "Change it")
    git(repository, "replace", old, git(repository, "rev-parse", "HEAD"))
    assert codes(bound, repo=repository) == set()


def test_traces_without_a_receipt_are_errors_and_tables_are_warnings(tmp_path: Path) -> None:
    folder = copy(tmp_path, ROOT / "rules" / "RA301" / "pass")
    (folder / "receipt.json").unlink()
    with edit(folder, "supplement.json") as manifest:
        manifest["artifacts"] = [a for a in manifest["artifacts"] if "receipt" not in a["type"]]
    levels = {p.path: p.level or RULES["RA301"].level for p in problems(folder, "RA301")}
    assert levels == {"results.csv": "warning", "x.safetensors": "error"}


def test_data_with_an_origin_need_no_receipt(tmp_path: Path) -> None:
    folder = copy(tmp_path, ROOT / "rules" / "RA001" / "fail")
    assert problems(folder, "RA301") == []
    assert "quoted" in "".join(skips(folder, "RA301"))


def test_a_renewed_manifest_does_not_hide_an_edited_artifact(tmp_path: Path) -> None:
    folder = copy(tmp_path)
    text = (folder / "results.csv").read_text()
    (folder / "results.csv").write_text(text.replace("q3,0", "q3,1"))
    with edit(folder, "receipt.json"):
        pass
    assert codes(folder) == {"RA302"}


def test_blob_ids_of_either_kind_are_compared(tmp_path: Path) -> None:
    folder = copy(tmp_path)
    blob = hashlib.sha256(b"blob 27\0" + (folder / "loss.sh").read_bytes()).hexdigest()
    assert (folder / "loss.sh").stat().st_size == 27
    with edit(folder, "receipt.json") as receipt:
        dependencies(receipt)[1]["digest"]["gitBlob"] = blob
    assert codes(folder) == set()
    with edit(folder, "receipt.json") as receipt:
        dependencies(receipt)[1]["digest"]["gitBlob"] = "0" * 64
    assert codes(folder) == {"RA302"}


def test_two_revisions_are_one_too_many(tmp_path: Path) -> None:
    folder = copy(tmp_path)
    with edit(folder, "receipt.json") as receipt:
        dependencies(receipt).append(dependencies(receipt)[0])
    assert "2 revisions" in problems(folder, "RA303")[0].message


@pytest.mark.parametrize(
    ("tree", "level"), [("untracked", "warning"), ("unknown", None), ("Clean", None), (None, None)]
)
def test_only_a_clean_tree_is_clean(tmp_path: Path, tree: str | None, level: str | None) -> None:
    folder = copy(tmp_path)
    with edit(folder, "receipt.json") as receipt:
        annotations = dependencies(receipt)[0]["annotations"]
        annotations.pop("tree") if tree is None else annotations.update(tree=tree)
    assert [p.level for p in problems(folder, "RA304")] == [level]


def test_a_cycle_of_parents_is_found_and_ends(tmp_path: Path) -> None:
    folder = copy(tmp_path, CHAINED)
    with edit(folder, "receipt.json") as receipt:
        parent = {"name": "other.json", "digest": {"sha256": "0" * 64}}
        dependencies(receipt).append({**parent, "annotations": {"role": "receipt"}})
    found = problems(folder, "RA307")
    assert len(found) == 2
    assert all("comes back" in problem.message for problem in found)


def test_a_parent_that_was_written_anew_is_found(tmp_path: Path) -> None:
    folder = copy(tmp_path, CHAINED)
    with edit(folder, "receipt.json") as receipt:
        receipt["predicate"]["outcome"]["cost"]["seconds"] = "9.2"
    assert codes(folder) == {"RA307"}


def test_a_parent_that_ends_as_its_child_begins_is_in_order(tmp_path: Path) -> None:
    folder = copy(tmp_path, CHAINED)
    with edit(folder, "other.json") as receipt:
        receipt["predicate"]["runDetails"]["metadata"]["startedOn"] = "2026-11-01T10:00:09Z"
    assert codes(folder) == set()


def test_a_claim_on_a_failure_is_found(tmp_path: Path) -> None:
    folder = copy(tmp_path, ROOT / "rules" / "RA308" / "pass")
    with edit(folder, "supplement.json") as manifest:
        claim = {"id": "c", "statement": "s", "kind": "component", "scope": {}}
        manifest["claims"] = [{**claim, "evidence": ["failure.json"]}]
    assert [p.pointer for p in problems(folder, "RA308")] == ["/claims/0/evidence/0"]


@pytest.mark.parametrize(
    ("asked", "kind", "found"),
    [
        ("cuda:1", "cuda", False),
        ("cuda", "cpu", True),
        ("cpu", "cuda", True),
        ("auto", "cpu", True),
    ],
)
def test_the_device_that_ran_is_the_one_asked_for(
    tmp_path: Path, asked: str, kind: str, found: bool
) -> None:
    folder = copy(tmp_path)
    with edit(folder, "receipt.json") as receipt:
        receipt["predicate"]["buildDefinition"]["externalParameters"]["device"] = asked
        receipt["predicate"]["environment"]["device"]["kind"] = kind
    assert ("RA312" in codes(folder)) is found


def test_the_driver_is_due_where_there_is_one(tmp_path: Path) -> None:
    folder = copy(tmp_path)
    with edit(folder, "receipt.json") as receipt:
        receipt["predicate"]["buildDefinition"]["externalParameters"]["device"] = "cuda"
        receipt["predicate"]["environment"]["device"]["kind"] = "cuda"
    assert [p.level for p in problems(folder, "RA310")] == ["warning"]
    with edit(folder, "receipt.json") as receipt:
        receipt["predicate"]["runDetails"]["builder"]["version"]["driver"] = "535.104.05"
    assert problems(folder, "RA310") == []


@pytest.mark.parametrize(
    ("seeds", "message"),
    [
        ({"run": 43}, "of seed 42, which the run was not given"),
        ({"run-a": 42, "run-b": 7}, "no result of seed 7"),
        ({"run": 42, "data": 7}, ""),
        ({"training": 42}, ""),
    ],
)
def test_seeds_given_and_seeds_found_agree(
    tmp_path: Path, seeds: dict[str, int], message: str
) -> None:
    folder = copy(tmp_path)
    with edit(folder, "receipt.json") as receipt:
        receipt["predicate"]["buildDefinition"]["externalParameters"]["seeds"] = seeds
    found = " ".join(problem.message for problem in problems(folder, "RA313"))
    assert (message in found) if message else not found


@pytest.mark.parametrize(("level", "found"), [("L0", False), ("L1", True)])
def test_only_a_run_on_deterministic_tensors_may_have_no_seed(
    tmp_path: Path, level: str, found: bool
) -> None:
    folder = copy(tmp_path)
    with edit(folder, "receipt.json") as receipt:
        receipt["predicate"]["buildDefinition"]["externalParameters"]["seeds"] = {}
        receipt["predicate"]["evidence"]["level"] = level
    assert bool(problems(folder, "RA313")) is found


@pytest.mark.parametrize(
    ("place", "key", "code"),
    [
        (("buildDefinition", "externalParameters"), "seeds", "RA313"),
        (("buildDefinition", "externalParameters"), "device", "RA312"),
        (("environment",), "device", "RA310"),
        (("runDetails", "builder"), "version", "RA310"),
    ],
)
def test_what_a_receipt_leaves_out_is_told_by_the_rule_that_needs_it(
    tmp_path: Path, place: tuple[str, ...], key: str, code: str
) -> None:
    folder = copy(tmp_path)
    with edit(folder, "receipt.json") as receipt:
        holder = receipt["predicate"]
        for part in place:
            holder = holder[part]
        del holder[key]
    assert code in codes(folder)
    assert "RA202" not in codes(folder)
