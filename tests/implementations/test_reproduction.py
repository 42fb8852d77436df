"""The script that shows a fault: it runs by itself, and passes once the code is mended."""

import contextlib
import io
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from rlvraudit.audit.implementations.families import Declared
from rlvraudit.audit.implementations.inspection import inspect_implementation
from rlvraudit.audit.implementations.loading import load_implementation
from rlvraudit.audit.implementations.reproduction import script
from rlvraudit.cli import main

pytest.importorskip("torch", reason="losses are called with torch tensors")

CLIPPED = """import torch


def loss(logp_policy, logp_old, advantages, mask):
    ratio = (logp_policy - logp_old).masked_fill(~mask, 0.0).exp()
    a = advantages if advantages.ndim == 2 else advantages[:, None]
    gain = torch.minimum(ratio * a, ratio.clamp(0.8, 1.2) * a)
    return -gain.masked_fill(~mask, 0.0).sum() / mask.sum()
"""
WRONG, RIGHT = "torch.maximum(ratio", "torch.minimum(ratio"
FAULTY = CLIPPED.replace(RIGHT, WRONG)


@dataclass(frozen=True, slots=True)
class Place:
    """A folder with the code under test, and another one where scripts are run."""

    code: Path
    elsewhere: Path

    def write(self, text: str, name: str = "losses.py") -> Path:
        path = self.code / name
        path.write_text(text, encoding="utf-8")
        return path

    def shown(self, spec: str, **declared: Any) -> str:
        """Return the script for a loss."""
        loss = load_implementation(spec, None, declared)
        return script(inspect_implementation(loss, Declared(None, declared), ()))

    def alone(self, text: str) -> "subprocess.CompletedProcess[str]":
        """Run a script in a process of its own: no environment, another folder."""
        path = self.elsewhere / "shows.py"
        path.write_text(text, encoding="utf-8")
        command = [sys.executable, "-I", str(path)]
        return subprocess.run(command, capture_output=True, text=True, cwd=self.elsewhere)


def run(text: str) -> tuple[int, str]:
    """Run a script here, which starts no Python; return its exit status and what it prints."""
    printed = io.StringIO()
    with pytest.raises(SystemExit) as ended, contextlib.redirect_stdout(printed):
        exec(compile(text, "shows.py", "exec"), {"__name__": "__main__"})
    code = ended.value.code
    return (
        (code, printed.getvalue()) if isinstance(code, int) else (1, f"{printed.getvalue()}{code}")
    )


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "modules", sys.modules.copy())
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    found = Place(tmp_path / "code", tmp_path / "elsewhere")
    for folder in (found.code, found.elsewhere):
        folder.mkdir()
    return found


def mended(place: Place, text: str, wrong: str, right: str, spec: str = "loss") -> tuple[int, int]:
    """Return the exit statuses of the script for a faulty file, as it is and with it mended."""
    shown = place.shown(f"{place.write(text)}:{spec}")
    assert shown.count(wrong) == 1, "the code is written into the script"
    return run(shown)[0], run(shown.replace(wrong, right))[0]


# --- A file that stands alone --------------------------------------------------------------------


def test_the_script_shows_the_fault_by_itself_until_it_is_mended(place: Place) -> None:
    # The smallest example: one token of ratio exp(-0.25), A = 1. min(r A, clip(r) A) = r A is
    # free; the maximum takes clip(r) = 0.8, whose gradient is 0.
    shown = place.shown(f"{place.write(FAULTY)}:loss")
    done = place.alone(shown)
    assert (done.returncode, done.stderr) == (1, "")
    lines = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert lines["value"].startswith("value     -0.8  expected -0.778800783071")
    assert lines["gradient"].replace("-", "") == "gradient  [[0.0]]"
    assert lines["expected"].startswith("expected  [[-0.778800783071")
    assert done.stdout.splitlines()[-1] == "it differs from the closed form"
    again = place.alone(shown.replace(WRONG, RIGHT))
    assert again.stdout.splitlines()[-1] == "it agrees with the closed form"
    assert (again.returncode, again.stderr) == (0, "")


def test_the_script_needs_nothing_of_this_toolkit(place: Place) -> None:
    shown = place.shown(f"{place.write(FAULTY)}:loss")
    assert "rlvraudit" not in shown


def test_what_a_file_does_as_a_program_is_not_done_in_the_script(place: Place) -> None:
    program = FAULTY + "\n\nif __name__ == '__main__':\n    raise SystemExit(0)\n"
    assert mended(place, program, WRONG, RIGHT) == (1, 0)


def test_a_method_is_called_through_its_class(place: Place) -> None:
    body = FAULTY.partition("\n\n\n")[2].replace("\n", "\n    ").rstrip()
    text = f"import torch\n\n\nclass Losses:\n    @staticmethod\n    {body}\n"
    assert mended(place, text, WRONG, RIGHT, "Losses.loss") == (1, 0)


# --- A file that does not ------------------------------------------------------------------------

NEIGHBOUR = "import torch\n\n\ndef smaller(a, b):\n    return torch.maximum(a, b)\n"
IMPORTING = "from neighbour_of_a_loss import smaller\n" + CLIPPED.replace(
    "torch.minimum(", "smaller("
)


def test_a_file_that_imports_a_neighbour_is_run_where_it_stands(place: Place) -> None:
    place.write(NEIGHBOUR, "neighbour_of_a_loss.py")
    shown = place.shown(f"{place.write(IMPORTING)}:loss")
    assert "def loss" not in shown
    assert place.alone(shown).returncode == 1
    place.write(NEIGHBOUR.replace("maximum", "minimum"), "neighbour_of_a_loss.py")
    assert place.alone(shown).returncode == 0


def test_a_method_of_a_file_that_imports_a_neighbour_is_found_too(place: Place) -> None:
    place.write(NEIGHBOUR, "neighbour_of_a_loss.py")
    text = IMPORTING + "\n\nclass Losses:\n    wrong = staticmethod(loss)\n"
    status, printed = run(place.shown(f"{place.write(text)}:Losses.wrong"))
    assert (status, printed.splitlines()[-1]) == (1, "it differs from the closed form")


def test_a_file_from_the_future_is_run_where_it_stands(place: Place) -> None:
    text = f"from __future__ import annotations\n\n{FAULTY}"
    status, printed = run(place.shown(f"{place.write(text)}:loss"))
    assert (status, printed.splitlines()[-1]) == (1, "it differs from the closed form")


def test_a_module_is_imported_by_its_name(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write(FAULTY, "losses_of_a_module.py")
    monkeypatch.chdir(place.code)
    shown = place.shown("losses_of_a_module:loss")
    assert "\nimport losses_of_a_module\n" in shown
    assert "audited = losses_of_a_module.loss\n" in shown


# --- Every kind of fault -------------------------------------------------------------------------


def test_a_loss_that_raises_no_more_passes(place: Place) -> None:
    raising = CLIPPED.replace("    return", "    raise ValueError('not yet')\n    return")
    assert mended(place, raising, "    raise ValueError('not yet')\n", "") == (1, 0)


def test_a_loss_of_advantages_per_token_is_called_with_them(place: Place) -> None:
    text = FAULTY.replace(
        "    a = advantages if advantages.ndim == 2 else advantages[:, None]",
        "    assert advantages.shape == mask.shape\n    a = advantages",
    )
    assert mended(place, text, WRONG, RIGHT) == (1, 0)


def test_a_parameter_that_is_no_literal_does_not_spoil_the_script(place: Place) -> None:
    text = FAULTY.replace("mask):", "mask, exp=torch.exp):")
    assert mended(place, text, WRONG, RIGHT) == (1, 0)


KL = """import torch


def loss(logp_policy, logp_old, logp_reference, advantages, mask, beta=0.0):
    ratio = (logp_policy - logp_old).masked_fill(~mask, 0.0).exp()
    a = advantages if advantages.ndim == 2 else advantages[:, None]
    d = (logp_policy - logp_reference).masked_fill(~mask, 0.0)
    kl = d.expm1() - d
    term = beta * kl - torch.minimum(ratio * a, ratio.clamp(0.8, 1.2) * a)
    return term.masked_fill(~mask, 0.0).sum() / mask.sum()
"""


def test_a_kl_term_that_is_off_by_default_is_shown_with_the_weight_it_was_seen_at(
    place: Place,
) -> None:
    assert mended(place, KL, "d.expm1() - d", "(-d).expm1() + d") == (1, 0)


def test_a_loss_that_writes_into_its_inputs_is_shown_to_do_so(place: Place) -> None:
    writing = CLIPPED.replace("    gain", "    advantages.clamp_(-5.0, 5.0)\n    gain")
    assert mended(place, writing, "    advantages.clamp_(-5.0, 5.0)\n", "") == (1, 0)


REPLAY = """import torch


def phi(z):
    return -torch.expm1(-z.clamp(min=0))


def loss(logp_policy, logp_base, mask):
    policy, base = (x.masked_fill(~mask, 0.0) for x in (logp_policy, logp_base))
    delta = base - policy.detach()
    gate, weight = phi(delta.sum(1) / mask.sum(1)), phi(delta)
    return (gate * (weight * -policy).sum(1) / (1e-8 + weight.sum(1))).mean()
"""


def test_a_gradient_into_the_base_policy_is_shown_as_one(place: Place) -> None:
    right = "delta = (base - policy).detach()"
    assert mended(place, REPLAY, "delta = base - policy.detach()", right) == (1, 0)


UNEVEN = """import torch


def advantages(rewards, groups):
    same = groups[:, None] == groups[None, :]
    mean = rewards.mean()
    return rewards - mean
"""


def test_groups_by_number_are_called_with_their_numbers(place: Place) -> None:
    right = "mean = (same * rewards).sum(1) / same.sum(1)"
    assert mended(place, UNEVEN, "mean = rewards.mean()", right, "advantages") == (1, 0)


def test_nan_at_padding_is_written_as_such(place: Place) -> None:
    multiplied = CLIPPED.replace(".masked_fill(~mask, 0.0).exp()", ".exp()").replace(
        "gain.masked_fill(~mask, 0.0)", "(gain * mask)"
    )
    shown = place.shown(f"{place.write(multiplied)}:loss")
    assert "nan" in shown
    assert run(shown)[0] == 1
    # Both masks are put back: padding is not read any more.
    again = shown.replace("(gain * mask)", "gain.masked_fill(~mask, 0.0)").replace(
        "- logp_old).exp()", "- logp_old).masked_fill(~mask, 0.0).exp()"
    )
    assert run(again)[0] == 0


# --- The command ---------------------------------------------------------------------------------


def command(*arguments: str) -> Result:
    return CliRunner().invoke(main, ("kernels", "--dtype", "float64", "--impl", *arguments))


def test_the_command_writes_the_script_and_the_report(place: Place) -> None:
    path = place.elsewhere / "new.py"
    result = command(f"{place.write(FAULTY)}:loss", "--repro", str(path))
    assert result.exit_code == 1
    assert "maximum-for-minimum" in result.stdout
    assert run(path.read_text("utf-8"))[0] == 1


@pytest.mark.parametrize("link", [False, True])
def test_nothing_is_ever_overwritten(link: bool, place: Place) -> None:
    path = place.elsewhere / "old.py"
    kept = place.elsewhere / "kept.py" if link else path
    kept.write_text("mine", encoding="utf-8")
    if link:
        path.symlink_to(kept)
    result = command(f"{place.write(FAULTY)}:loss", "--repro", str(path))
    assert result.exit_code == 2
    assert "exists already; nothing is ever overwritten" in result.stderr
    assert kept.read_text("utf-8") == "mine"


def test_where_nothing_is_wrong_there_is_nothing_to_write(place: Place) -> None:
    path = place.elsewhere / "new.py"
    result = command(f"{place.write(CLIPPED)}:loss", "--repro", str(path))
    assert result.exit_code == 2
    assert "--repro has nothing to write" in result.stderr
    assert not path.exists()


def test_a_folder_that_is_not_there_is_named(place: Place) -> None:
    path = place.elsewhere / "nowhere" / "new.py"
    result = command(f"{place.write(FAULTY)}:loss", "--repro", str(path))
    assert result.exit_code == 3
    assert str(path) in result.stderr
