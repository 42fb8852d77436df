"""`rlvr-audit kernels --impl`: its options, its exit statuses, and that nothing else is run."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from rlvraudit.audit.implementations import backend
from rlvraudit.cli import main
from rlvraudit.fixtures import ROOT

torch: Any = pytest.importorskip("torch", reason="losses are called with torch tensors")

LOSS = """import torch


def loss(logp_policy, logp_old, advantages, mask, clip_low=0.2, clip_high=0.28):
    ratio = (logp_policy - logp_old).masked_fill(~mask, 0.0).exp()
    a = advantages if advantages.ndim == 2 else advantages[:, None]
    gain = torch.minimum(ratio * a, ratio.clamp(1 - clip_low, 1 + clip_high) * a)
    return -gain.masked_fill(~mask, 0.0).sum() / mask.sum()


def detached(logp_policy, logp_old, advantages, mask):
    return loss(logp_policy.detach(), logp_old, advantages, mask)


def leaves(logp_policy, logp_old, advantages, mask):
    raise SystemExit(0)
"""


def kernels(*arguments: str) -> Result:
    return CliRunner().invoke(main, ("kernels", *arguments))


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a file of losses; what importing it leaves behind is forgotten."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "modules", sys.modules.copy())
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path = tmp_path / "losses.py"
    path.write_text(LOSS, encoding="utf-8")
    return str(path)


def audited(file: str, *more: str, function: str = "loss") -> Result:
    """Audit a loss in one dtype, which is enough where rounding is not the question."""
    return kernels("--impl", f"{file}:{function}", "--dtype", "float64", *more)


# --- Exit statuses -------------------------------------------------------------------------------


def test_a_loss_that_is_right_gives_0(file: str) -> None:
    result = audited(file)
    assert result.exit_code == 0
    assert "".join(result.stdout.split()).startswith(f"{file}:lossoncpu")
    assert "grpo.surrogate, recovered" in result.stdout
    assert result.stdout.splitlines()[-1].startswith("No fault found.")
    assert result.stderr == ""


def test_a_loss_that_is_wrong_gives_1_and_the_name_of_its_fault(file: str) -> None:
    result = audited(file, function="detached")
    assert result.exit_code == 1
    assert "ratio-detached" in result.stdout
    assert "fault" in result.stdout.splitlines()[-1]


def test_a_loss_that_ends_the_process_is_no_pass(file: str) -> None:
    result = audited(file, function="leaves")
    assert result.exit_code == 1
    assert "SystemExit" in result.stdout


def test_a_checkout_that_is_not_there_gives_3(tmp_path: Path) -> None:
    result = kernels("--impl", f"slime={tmp_path / 'nowhere'}")
    assert result.exit_code == 3
    assert "nowhere" in result.stderr
    assert result.stdout == ""


def test_an_import_that_raises_gives_3(file: str) -> None:
    Path(file).write_text("1 / 0", encoding="utf-8")
    result = audited(file)
    assert result.exit_code == 3
    assert f"importing {file} raised ZeroDivisionError" in result.stderr
    assert "Traceback" not in result.stderr


def test_without_pytorch_it_gives_3_and_says_what_to_install(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "torch_module", lambda: None)
    result = audited(file)
    assert result.exit_code == 3
    assert "pip install torch" in result.stderr
    assert result.stdout == ""


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_there_gives_3_and_no_other_is_used(file: str) -> None:
    result = audited(file, "--device", "cuda")
    assert result.exit_code == 3
    assert "nothing was run in its place" in result.stderr
    assert result.stdout == ""


def test_all_without_any_framework_gives_5(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import metadata

    def nowhere(_name: str) -> str:
        raise metadata.PackageNotFoundError

    monkeypatch.setattr(metadata, "version", nowhere)
    result = kernels("--impl", "all")
    assert result.exit_code == 5
    assert "nothing to check: no framework is installed here" in result.stderr


# --- Wrong command lines -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--objective", "grpo.surrogate"), "--objective"),
        (("--set", "clip_low=0.2"), "--set"),
        (("--dtype", "float32"), "--dtype"),
        (("--repro", "new.py"), "--repro"),
        (("--impl", "losses:loss", "--output", "new"), "--output belongs to the built-in"),
        (("--impl", "losses:loss", "--set", "clip_low"), "'clip_low' is not NAME=VALUE"),
        (("--impl", "losses:loss", "--set", "=0.2"), "'=0.2' is not NAME=VALUE"),
        (("--impl", "losses:loss", "--set", "clip-low=1"), "'clip-low=1' is not NAME=VALUE"),
        (("--impl", "losses:loss", "--set", "a=1", "--set", "a=2"), "each name once"),
        (("--impl", "losses:loss", "--dtype", "float8"), "float8"),
        (("--impl", "losses:loss", "--device", "tpu"), "tpu"),
        (("--impl", "losses:loss", "--format", "yaml"), "yaml"),
        (("--impl", "losses"), "names no function"),
        (("--impl", ""), "names no function"),
        (("--impl", "no_module_of_that_name:loss"), "is it installed, or below here?"),
        (("--impl", "nowhere/losses.py:loss"), "there is no file"),
        (("--impl", "trl", "--objective", "tapo.surrogate"), "trl has no tapo.surrogate"),
        (("--impl", "all", "--set", "beta=1"), "--impl all audits many"),
        (("--impl", "all", "--repro", "new.py"), "--impl all audits many"),
    ],
)
def test_a_wrong_command_line_gives_2_and_says_what_was_expected(
    arguments: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    result = kernels(*arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stdout == ""
    assert [*tmp_path.iterdir()] == []


def test_an_objective_that_does_not_exist_gives_2(file: str) -> None:
    for name in ("ppo.surrogate", "pass_at_k", ""):
        result = audited(file, "--objective", name)
        assert result.exit_code == 2
        assert f"no objective {name!r} can be audited; there are " in result.stderr


def test_an_objective_that_does_not_exist_gives_2_for_all_frameworks_too() -> None:
    result = kernels("--impl", "all", "--objective", "ppo.surrogate")
    assert result.exit_code == 2
    assert "ppo.surrogate" in result.stderr


def test_a_function_without_a_signature_gives_2() -> None:
    result = kernels("--impl", "builtins:max")
    assert result.exit_code == 2
    assert "a fault of rlvr-audit itself" not in result.stderr


# --- Options -------------------------------------------------------------------------------------


def test_an_objective_is_what_it_is_held_to(file: str) -> None:
    right = audited(file, "--objective", "grpo.surrogate")
    assert right.exit_code == 0
    assert "grpo.surrogate, declared" in right.stdout
    wrong = audited(file, "--objective", "tapo.surrogate")
    assert wrong.exit_code == 1
    assert "other-objective" in wrong.stdout


def test_parameters_are_set_and_held_to(file: str) -> None:
    set_ = audited(file, "--set", "clip_low=0.1", "--set", "clip_high=0.3")
    assert set_.exit_code == 0
    assert "[1 - 0.1, 1 + 0.3]" in set_.stdout
    held = audited(file, "--set", "aggregation=seq-mean-token-mean")
    assert held.exit_code == 1
    assert "not-as-declared" in held.stdout


def test_a_parameter_that_nothing_is_held_to_gives_2(file: str) -> None:
    result = audited(file, "--set", "clip_hgih=0.5")
    assert result.exit_code == 2
    assert "clip_hgih" in result.stderr


def test_values_are_read_as_numbers_where_they_are_some(file: str) -> None:
    Path(file).write_text(
        LOSS.replace("mask, clip_low=0.2, clip_high=0.28", "mask, clip_low, clip_high, **more")
        .replace("import torch", "import torch\nSEEN = {}", 1)
        .replace(
            "    ratio", "    assert more == {'a': 'word', 'b': None, 'c': [1]}, more\n    ratio", 1
        ),
        encoding="utf-8",
    )
    more = ("--set", "a=word", "--set", "b=None", "--set", "c=[1]", "--format", "json")
    parameters = json.loads(audited(file, *more).stdout)["parameters"]
    assert parameters == {
        "clip_low": 0.2,
        "clip_high": 0.28,
        "a": "word",
        "b": None,
        "c": "[1]",
    }


def test_rounding_is_compared_in_the_dtypes_that_are_named(file: str) -> None:
    result = kernels(
        *("--impl", f"{file}:loss", "--format", "json"),
        *("--dtype", "float32", "--dtype", "bfloat16"),
    )
    rounding = json.loads(result.stdout)["rounding"]
    assert [row["dtype"] for row in rounding] == ["float32", "bfloat16"]


def test_rounding_is_compared_in_four_dtypes_unless_some_are_named(file: str) -> None:
    result = kernels("--impl", f"{file}:loss", "--format", "json")
    rounding = json.loads(result.stdout)["rounding"]
    assert [row["dtype"] for row in rounding] == ["float64", "float32", "bfloat16", "float16"]


def test_json_says_what_the_status_says(file: str) -> None:
    for function, status in (("loss", 0), ("detached", 1)):
        result = audited(file, "--format", "json", function=function)
        found = json.loads(result.stdout)
        assert found["format"] == "rlvr-audit-implementation/1"
        assert found["implementation"] == f"{file}:{function}"
        assert found["passed"] is (status == 0)
        assert result.exit_code == status


def test_a_default_of_infinity_is_still_json(file: str) -> None:
    infinite = LOSS.replace("clip_high=0.28", "clip_high=0.28, dual_clip=float('inf')")
    Path(file).write_text(infinite, encoding="utf-8")
    result = audited(file, "--format", "json")
    assert json.loads(result.stdout)["parameters"]["dual_clip"] == "inf"


def test_the_same_loss_gives_the_same_report(file: str) -> None:
    one, two = (audited(file, "--format", "json").stdout for _ in range(2))
    assert one == two


def test_a_script_is_written_only_where_it_is_asked_for(file: str, tmp_path: Path) -> None:
    before = set(tmp_path.iterdir())
    assert audited(file, function="detached").exit_code == 1
    assert set(tmp_path.iterdir()) == before
    path = tmp_path / "new.py"
    assert audited(file, "--repro", str(path), function="detached").exit_code == 1
    assert path.read_text("utf-8").startswith('"""')


def test_help_names_every_option_and_input() -> None:
    said = kernels("--help").stdout
    for part in ("--impl", "--objective", "--set", "--dtype", "--repro", "logp_policy", "rewards"):
        assert part in said


def test_what_a_loss_prints_never_mixes_with_the_report(file: str) -> None:
    printing = LOSS.replace("    ratio", "    print('a metric')\n    ratio", 1)
    Path(file).write_text(f"print('on import')\n{printing}", encoding="utf-8")
    result = audited(file, "--format", "json")
    assert json.loads(result.stdout)["passed"] is True


# --- Nothing else is run -------------------------------------------------------------------------

TRAP = "from pathlib import Path\nPath({marker!r}).touch()\n" + LOSS


def test_only_the_file_that_is_named_is_run(file: str, tmp_path: Path) -> None:
    marker = tmp_path / "was-run"
    for name in ("other.py", "torch.py", "numpy.py", "conftest.py", "__init__.py"):
        (tmp_path / name).write_text(TRAP.format(marker=str(marker)), encoding="utf-8")
    assert audited(file).exit_code == 0
    assert not marker.exists()


def test_check_never_imports_code_of_a_supplement(tmp_path: Path) -> None:
    folder = shutil.copytree(ROOT / "rules" / "RA601" / "pass", tmp_path / "supplement")
    marker = tmp_path / "was-run"
    names = ("losses.py", "grpo.py", "torch.py", "json.py", "sitecustomize.py", "__init__.py")
    for name in names:
        (folder / name).write_text(TRAP.format(marker=str(marker)), encoding="utf-8")
    manifest = folder / "supplement.json"
    document = json.loads(manifest.read_text("utf-8"))
    document["implementation"] = "losses.py:loss"
    manifest.write_text(json.dumps(document), encoding="utf-8")
    command = [str(Path(sys.executable).parent / "rlvr-audit"), "check", str(folder)]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)
    assert "losses.py" in done.stdout, "the files were seen"
    assert not marker.exists()
