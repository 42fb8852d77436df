"""Naming an implementation: every way to, and every message where it can't be had."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlvraudit.audit.errors import AuditError, Exit, UnreadableError, UsageError
from rlvraudit.audit.implementations.adapters import AdapterError
from rlvraudit.audit.implementations.implementation import Implementation
from rlvraudit.audit.implementations.loading import CUSTOMARY, load_implementation, wrap

LOSS = "def loss(logp_policy, mask):\n    return 'called'\n"
Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Return what writes a file of code and names it; imports are forgotten afterwards."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "modules", sys.modules.copy())
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def to(text: str = LOSS, name: str = "losses.py") -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return str(path)

    return to


def load(spec: str, objective: str | None = None, **chosen: Any) -> Implementation:
    return load_implementation(spec, objective, chosen)


# --- What can be named ---------------------------------------------------------------------------


def test_a_function_of_a_file_is_named_by_path_and_name(write: Write) -> None:
    spec = f"{write()}:loss"
    found = load(spec)
    assert found.call(None, None) == "called"
    assert (found.name, found.inputs) == (spec, ("logp_policy", "mask"))
    assert found.called == f"{spec}, by keyword"
    assert not found.unknown


def test_a_function_of_a_module_below_the_current_folder_is_named_by_both(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(name="package_for_loading/losses.py")
    monkeypatch.chdir(tmp_path)
    assert load("package_for_loading.losses:loss").inputs == ("logp_policy", "mask")


def test_a_method_is_named_through_its_class(write: Write) -> None:
    text = "class Losses:\n    @staticmethod\n    def loss(logp_policy, mask): ...\n"
    assert load(f"{write(text)}:Losses.loss").inputs == ("logp_policy", "mask")


def test_a_path_may_hold_colons(write: Write) -> None:
    assert load(f"{write(name='a:b/losses.py')}:loss").inputs == ("logp_policy", "mask")


def test_two_files_of_one_name_are_two_modules(write: Write) -> None:
    one, two = (write(LOSS.replace("called", folder), f"{folder}/losses.py") for folder in "ab")
    first, second = load(f"{one}:loss"), load(f"{two}:loss")
    assert (first.call(None, None), second.call(None, None)) == ("a", "b")


def test_a_file_may_import_its_neighbours(write: Write) -> None:
    write("NAME = 'of the neighbour'\n", "neighbour_for_loading.py")
    text = "from neighbour_for_loading import NAME\n" + LOSS.replace("'called'", "NAME")
    assert load(f"{write(text)}:loss").call(None, None) == "of the neighbour"


def test_a_dataclass_of_a_file_finds_its_own_module(write: Write) -> None:
    text = (
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        f"@dataclass\nclass Config:\n    low: float = 0.2\n{LOSS}"
    )
    assert load(f"{write(text)}:loss").inputs == ("logp_policy", "mask")


# --- The import path -----------------------------------------------------------------------------


def test_a_users_folder_is_searched_last(write: Write, tmp_path: Path) -> None:
    before = [*sys.path]
    load(f"{write()}:loss")
    assert sys.path == [*before, str(tmp_path)]
    load(f"{write()}:loss")
    assert sys.path == [*before, str(tmp_path)]


def test_the_current_folder_is_searched_last(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(name="module_for_loading.py")
    monkeypatch.chdir(tmp_path)
    before = [*sys.path]
    load("module_for_loading:loss")
    assert sys.path == [*before, str(tmp_path)]


def test_a_users_file_never_stands_in_for_a_library(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    write("raise SystemError('the wrong colorsys')\n", "colorsys.py")
    found = load(f"{write(f'import colorsys{chr(10)}{LOSS}')}:loss")
    assert found.call(None, None) == "called"


# --- What can't be had, and why ------------------------------------------------------------------


def refused(kind: type[AuditError], spec: str, objective: str | None = None, **chosen: Any) -> str:
    with pytest.raises(kind) as caught:
        load(spec, objective, **chosen)
    return str(caught.value)


@pytest.mark.parametrize("spec", ["", "losses.py", "losses", ":loss", "losses.py:", "nowhere=x"])
def test_what_names_no_function_is_told_what_does(spec: str) -> None:
    said = refused(UsageError, spec)
    assert f"--impl {spec!r} names no function" in said
    assert "MODULE:FUNCTION, FILE.py:FUNCTION or one of " in said
    assert "trl" in said


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "nowhere.py"
    assert refused(UsageError, f"{path}:loss") == f"--impl: there is no file {path}"


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "folder.py").mkdir()
    assert "there is no file" in refused(UsageError, f"{tmp_path / 'folder.py'}:loss")


def test_a_module_that_is_not_there_is_named(write: Write) -> None:
    said = refused(UsageError, "no_such_module_at_all.losses:loss")
    assert "No module named 'no_such_module_at_all'; is it installed, or below here?" in said


def test_a_library_that_a_file_lacks_is_named(write: Write) -> None:
    said = refused(UsageError, f"{write('import no_such_library_at_all')}:loss")
    assert "No module named 'no_such_library_at_all'" in said


def test_a_function_that_is_not_there_is_answered_with_those_that_are(write: Write) -> None:
    text = "LOSS = 1\ndef grpo(mask): ...\ndef gspo(mask): ...\n"
    for name in ("loss", "LOSS", "grpo.inner"):
        said = refused(UsageError, f"{write(text)}:{name}")
        assert said.endswith(f"losses.py:{name}: no function {name}; it defines grpo, gspo")


def test_a_module_without_functions_says_so(write: Write) -> None:
    said = refused(UsageError, f"{write('LOSS = 1')}:loss")
    assert "no function loss" in said
    assert said == said.rstrip()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise ValueError('not today')", "raised ValueError: not today"),
        ("import sys; sys.exit(0)", "raised SystemExit: 0"),
        ("def loss(:", "raised SyntaxError"),
        ("from json import no_such_name", "raised ImportError"),
    ],
)
def test_an_import_that_raises_is_incomplete_and_no_pass(
    text: str, said: str, write: Write
) -> None:
    path = write(text)
    message = refused(UnreadableError, f"{path}:loss")
    assert message.startswith(f"importing {path} {said}")
    assert UnreadableError.exit == Exit.INCOMPLETE


def test_an_interrupt_during_an_import_is_an_interrupt(write: Write) -> None:
    with pytest.raises(KeyboardInterrupt):
        load(f"{write('raise KeyboardInterrupt')}:loss")


def test_what_a_module_prints_on_import_is_not_printed(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    load(f"{write(f'print(1){chr(10)}{LOSS}')}:loss")
    assert capsys.readouterr().out == ""


def test_positional_only_arguments_cannot_be_given_by_keyword(write: Write) -> None:
    said = refused(UsageError, f"{write('def loss(logp_policy, /, mask): ...')}:loss")
    assert said.endswith("has positional-only arguments; it is called by keyword")


def test_a_parameter_that_nothing_gives_is_asked_for_with_set(write: Write) -> None:
    path = write("def loss(logp_policy, mask, temperature): ...")
    said = refused(UsageError, f"{path}:loss")
    assert "demands 'temperature'" in said
    assert said.endswith("give it with --set temperature=VALUE")
    assert load(f"{path}:loss", temperature=0.5).parameters == {"temperature": 0.5}


def test_a_function_without_a_known_input_is_told_their_names(write: Write) -> None:
    said = refused(UsageError, f"{write('def loss(logits_policy, masks): ...')}:loss")
    assert "asks for none of logp_policy, logp_old, logp_base" in said


@pytest.mark.parametrize("spec", ["builtins:max", "builtins:dict"])
def test_a_function_without_a_signature_is_a_wrong_usage_not_a_fault_of_ours(spec: str) -> None:
    refused(UsageError, spec)


# --- Frameworks ----------------------------------------------------------------------------------


def test_a_framework_that_is_not_installed_says_how_to(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import metadata

    def nowhere(_name: str) -> str:
        raise metadata.PackageNotFoundError

    monkeypatch.setattr(metadata, "version", nowhere)
    assert refused(AdapterError, "trl") == "trl is not installed; pip install --no-deps trl"
    assert AdapterError.exit == Exit.INCOMPLETE


@pytest.mark.parametrize("name", ["slime", "nemo-rl", "prime-rl"])
def test_a_checkout_that_is_missing_is_asked_for(name: str, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="adapters build losses of torch")
    assert "checkout" in refused(AdapterError, name).lower()
    said = refused(AdapterError, f"{name}={tmp_path}")
    assert str(tmp_path) in said
    assert "which is not there" in said


def test_a_loss_that_a_framework_lacks_is_answered_with_those_it_has() -> None:
    said = refused(UsageError, "trl", "tapo.surrogate")
    assert said.startswith("trl has no tapo.surrogate here; there are grpo.surrogate")


# --- Parameters ----------------------------------------------------------------------------------


def parameters(function: Callable[..., Any], **chosen: Any) -> dict[str, Any]:
    return dict(wrap(function, "loss", chosen).parameters)


def test_a_parameter_gets_what_is_set_else_its_default_else_the_customary_value() -> None:
    def loss(logp_policy: Any, mask: Any, clip_low: float, clip_high: float = 0.3) -> None: ...

    assert parameters(loss) == {"clip_low": 0.2, "clip_high": 0.3}
    assert parameters(loss, clip_high=0.4, clip_low=0.1) == {"clip_low": 0.1, "clip_high": 0.4}


def test_keyword_only_parameters_are_parameters_like_others() -> None:
    def loss(logp_policy: Any, *, mask: Any, dual_clip: float) -> None: ...

    assert wrap(loss, "loss", {}).inputs == ("logp_policy", "mask")
    assert parameters(loss) == {"dual_clip": 3.0}


def test_a_function_of_any_keywords_gets_what_is_set_and_nothing_else() -> None:
    def loss(logp_policy: Any, mask: Any, **more: Any) -> None: ...

    assert parameters(loss) == {}
    assert parameters(loss, method="grpo", beta=0.1) == {"method": "grpo", "beta": 0.1}


def test_what_is_set_and_not_asked_for_is_not_passed() -> None:
    def loss(logp_policy: Any, mask: Any, clip_low: float = 0.1) -> None: ...

    assert parameters(loss, clip_high=0.28) == {"clip_low": 0.1}


def test_more_positions_are_no_parameter() -> None:
    def loss(logp_policy: Any, mask: Any, *more: Any) -> None: ...

    assert parameters(loss) == {}


def test_customary_values_are_those_of_the_papers() -> None:
    # DAPO's bounds, dual clip of its paper, GRPO's epsilon; TAPO's range.
    assert (CUSTOMARY["clip_low"], CUSTOMARY["clip_high"]) == (0.2, 0.28)
    assert (CUSTOMARY["dual_clip"], CUSTOMARY["epsilon"]) == (3.0, 1e-4)
    assert (CUSTOMARY["clip_min"], CUSTOMARY["clip_max"]) == (0.1, 0.3)
