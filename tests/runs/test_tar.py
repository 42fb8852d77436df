"""`run tar` writes once, binds what it wrote, and never takes another device."""

import hashlib
import json
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the run trains a torch.nn.GRU")

from rlvraudit.audit.errors import DeviceError, UsageError
from rlvraudit.audit.runs import tar, tar_training
from rlvraudit.audit.runs.environment import find_device
from rlvraudit.audit.runs.tar_sampling import RunError


def silent(message: str) -> None:
    pass


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_each_seed_leaves_a_trace_its_arrays_and_a_receipt(tmp_path: Path) -> None:
    written = tar.run([42, 43], "cpu", tmp_path / "runs", silent)
    assert written == sorted(files_of(tmp_path / "runs"))
    assert {Path(name).name.partition(".")[0] for name in written} == {"tar-42", "tar-43"}
    assert len(written) == 6


def test_the_receipt_binds_what_was_written_and_says_what_it_is(tmp_path: Path) -> None:
    tar.run([42], "cpu", tmp_path / "runs", silent)
    files = files_of(tmp_path / "runs")
    statement = json.loads(files["tar-42.receipt.json"])
    for subject in statement["subject"]:
        digest = hashlib.sha256(files[subject["name"]]).hexdigest()
        assert subject["digest"]["sha256"] == digest
    evidence = statement["predicate"]["evidence"]
    assert evidence["level"] == "L1"
    assert evidence["diagnostic_only"] is True
    assert evidence["formal_comparison"] is False
    parameters = statement["predicate"]["buildDefinition"]["externalParameters"]
    assert parameters["seeds"] == {"run": 42}
    names = [
        d.get("name") for d in statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    ]
    assert {"audit/runs/tar_training.py", "kernels/objectives/replay.py"} <= set(names)


def test_subjects_are_named_relative_to_the_supplement_around_the_output(tmp_path: Path) -> None:
    (tmp_path / "supplement.json").write_text("{}")
    tar.run([42], "cpu", tmp_path / "runs", silent)
    statement = json.loads((tmp_path / "runs" / "tar-42.receipt.json").read_bytes())
    assert [s["name"] for s in statement["subject"]] == [
        "runs/tar-42.json",
        "runs/tar-42.safetensors",
    ]


def test_the_same_seed_gives_the_same_bytes_times_aside(tmp_path: Path) -> None:
    for name in ("first", "second"):
        tar.run([44], "cpu", tmp_path / name, silent)
    first, second = files_of(tmp_path / "first"), files_of(tmp_path / "second")
    receipts = [json.loads(files.pop("tar-44.receipt.json")) for files in (first, second)]
    assert first == second
    for receipt in receipts:
        del receipt["predicate"]["runDetails"]["metadata"]["startedOn"]
        del receipt["predicate"]["runDetails"]["metadata"]["finishedOn"]
    assert receipts[0] == receipts[1]


def test_an_existing_output_is_an_error_and_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "precious").write_text("keep me")
    with pytest.raises(UsageError, match="written once"):
        tar.run([42], "cpu", tmp_path / "runs", silent)
    assert files_of(tmp_path / "runs") == {"precious": b"keep me"}


def test_a_failed_run_leaves_nothing_but_its_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(seed: int, device: str) -> None:
        raise RunError("no base candidate of any prompt is correct")

    monkeypatch.setattr(tar_training, "train", fail)
    with pytest.raises(RunError):
        tar.run([42], "cpu", tmp_path / "runs", silent)
    (name, data), *others = files_of(tmp_path / "runs").items()
    assert (name, others) == ("failure.json", [])
    failure = json.loads(data)
    assert failure["stage"] == "seed 42"
    assert "no base candidate" in failure["error"]["message"]


def test_a_missing_cuda_device_never_becomes_a_cpu(tmp_path: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device here; its absence can't be tried")
    with pytest.raises(DeviceError, match="no CUDA device"):
        tar.run([42], "cuda", tmp_path / "runs", silent)
    assert set(files_of(tmp_path / "runs")) == {"failure.json"}


@pytest.mark.parametrize("seeds", [[], [42, 42], [-1], [2**53]])
def test_seeds_that_are_none_repeated_or_out_of_range_are_refused(
    tmp_path: Path, seeds: list[int]
) -> None:
    with pytest.raises(UsageError, match="seed"):
        tar.run(seeds, "cpu", tmp_path / "runs", silent)
    assert not (tmp_path / "runs").exists()


def test_an_unknown_device_is_refused() -> None:
    with pytest.raises(UsageError, match="'tpu' is unknown"):
        find_device("tpu")
