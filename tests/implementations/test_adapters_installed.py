"""Adapters of frameworks that pip installs: TRL, Liger, verl and OpenRLHF.

The expected numbers were measured with each framework installed by itself, outside this project.
"""

import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rlvraudit.audit.implementations.adapters import ADAPTERS, AdapterError, light
from rlvraudit.audit.implementations.adapters.verl import ActorConfig
from rlvraudit.audit.implementations.implementation import Implementation, Outcome, observe

pytest.importorskip("torch")

FRAMEWORKS = ("trl", "liger", "verl", "openrlhf")
GET = Callable[..., Implementation]
Parameters = dict[str, Any]

# --- The example: every clip region for both signs, one ratio of e^1.2 with A < 0 -------------

POLICY = (
    (-0.5, -1.2, -0.3, -2.0, -0.8, -0.1),
    (-0.9, -0.4, -1.6, -0.7),
    (-1.1, -0.6),
    (-0.2, -1.5, -0.35, -0.95, -2.4),
)
POLICY_LESS_OLD = (
    (0.05, 0.4, -0.1, -0.3, 0.0, 0.25),
    (-0.35, 0.1, 0.5, -0.05),
    (0.3, -0.28),
    (1.2, -0.02, -0.6, 0.15, 0.35),
)
REFERENCE_LESS_POLICY = (
    (0.1, -0.2, 0.05, 0.3, -0.15, 0.02),
    (-0.25, 0.12, 0.08, -0.4),
    (0.2, -0.1),
    (-0.05, 0.33, -0.12, 0.18, 0.07),
)
BOUNDS: Parameters = {"clip_low": 0.2, "clip_high": 0.28}
NARROW: Parameters = {"clip_low": 0.03, "clip_high": 0.04}
SEQUENCE: Parameters = {**BOUNDS, "aggregation": "seq-mean-token-mean"}
TOKEN: Parameters = {**BOUNDS, "aggregation": "token-mean"}
CONSTANT: Parameters = {**BOUNDS, "aggregation": "seq-mean-token-sum-norm", "norm": 6}
SUM: Parameters = {**BOUNDS, "aggregation": "seq-mean-token-sum"}
PLAIN: Parameters = {"use_bias_correction_kl": False}


def padded(rows: tuple[tuple[float, ...], ...], width: int = 6) -> Any:
    return np.array([[*row, *[0.0] * (width - len(row))] for row in rows])


def example(width: int = 6) -> dict[str, Any]:
    policy = padded(POLICY, width)
    return {
        "logp_policy": policy,
        "logp_old": policy - padded(POLICY_LESS_OLD, width),
        "logp_reference": policy + padded(REFERENCE_LESS_POLICY, width),
        "advantages": np.array([1.0, -0.5, 0.75, -1.25]),
        "mask": np.array([[t < len(row) for t in range(width)] for row in POLICY]),
    }


def skip_unless_installed(name: str) -> None:
    adapter = ADAPTERS[name]
    wanted = f"{adapter.package} {adapter.known[0]}"
    try:
        if metadata.version(adapter.package) in adapter.known:
            return
    except metadata.PackageNotFoundError:
        pass
    pytest.skip(f"{wanted} is not installed here; make frameworks runs this")


@pytest.fixture
def get() -> GET:
    """A framework's loss, where it is installed."""

    def loss(name: str, objective: str = "grpo.surrogate") -> Implementation:
        skip_unless_installed(name)
        return ADAPTERS[name].losses[objective](None)

    return loss


def norm(outcome: Outcome) -> float:
    return float(np.linalg.norm(outcome.gradient))


# --- What is called, without the frameworks ----------------------------------------------------


def installed(
    monkeypatch: pytest.MonkeyPatch, folder: Path, version: str, files: Mapping[str, str]
) -> None:
    """Let every distribution be of this version, and consist of these files."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    found = SimpleNamespace(locate_file=folder.joinpath)
    monkeypatch.setattr(metadata, "version", lambda _: version)
    monkeypatch.setattr(metadata, "distribution", lambda _: found)


TRL_FILES = {
    "trl/trainer/grpo_config.py": """
class GRPOConfig:
    loss_type: str = field(default="grpo", metadata={})
    epsilon: float = 0.1
    epsilon_high: float | None = field(default=None)
    delta: float | None = None
    beta: float = 0.0
    max_completion_length: int = 64
    top_entropy_quantile: float = 1.0
    off_policy_mask_threshold: float | None = None
    use_vllm: bool = False
    use_bias_correction_kl: bool = False
""",
    "trl/trainer/utils.py": "def nanmin(x): ...\ndef nanmax(x): ...\n",
    "trl/trainer/grpo_trainer.py": """
class GRPOTrainer:
    def _compute_loss(self, model, inputs):
        if self.args.z:
            return inputs["advantages"].sum()
""",
}


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_framework_that_is_not_installed_is_said_to_be_missing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(package: str) -> str:
        raise metadata.PackageNotFoundError(package)

    monkeypatch.setattr(metadata, "version", missing)
    for loss in ADAPTERS[name].losses.values():
        with pytest.raises(AdapterError, match=f"{ADAPTERS[name].package} is not installed"):
            loss(None)


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_framework_whose_files_moved_is_named_with_the_file(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    installed(monkeypatch, tmp_path, "99.0", {})
    package = ADAPTERS[name].package
    for loss in ADAPTERS[name].losses.values():
        with pytest.raises(AdapterError, match=rf"^{package} 99.0 needs \S+\.py, which is not"):
            loss(None)


def test_a_version_that_the_adapter_was_not_written_for_is_unknown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    installed(monkeypatch, tmp_path, "1.17.0", TRL_FILES)
    loss = ADAPTERS["trl"].losses["grpo.surrogate"](None)
    said = "trl 1.17.0 is not a version this adapter was written for (1.16.0)"
    assert loss.unknown == said
    installed(monkeypatch, tmp_path, "1.16.0", TRL_FILES)
    assert ADAPTERS["trl"].losses["grpo.surrogate"](None).unknown == ""


def test_the_defaults_are_those_of_the_installed_config(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    installed(monkeypatch, tmp_path, "1.17.0", TRL_FILES)
    loss = ADAPTERS["trl"].losses["grpo.surrogate"](None)
    assert loss.parameters["clip_low"] == loss.parameters["clip_high"] == 0.1
    assert loss.parameters["aggregation"] == "seq-mean-token-mean"
    assert loss.parameters["norm"] == 64


def test_an_attribute_that_a_stub_lacks_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    installed(monkeypatch, tmp_path, "1.17.0", TRL_FILES)
    loss = ADAPTERS["trl"].losses["grpo.surrogate"](None)
    with pytest.raises(AdapterError, match=r"trl 1.17.0 needs attribute z of GRPOTrainer.args"):
        observe(loss, example())


def test_a_method_that_is_gone_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    files = {**TRL_FILES, "trl/trainer/grpo_trainer.py": "class GRPOTrainer:\n    pass\n"}
    installed(monkeypatch, tmp_path, "1.17.0", files)
    with pytest.raises(AdapterError, match=r"trl 1.17.0 needs GRPOTrainer._compute_loss"):
        ADAPTERS["trl"].losses["grpo.surrogate"](None)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("beta: float = 0.0", "needs a default of GRPOConfig.beta"),
        ("delta: float | None = None", "needs a default of GRPOConfig.delta"),
    ],
)
def test_a_default_that_is_gone_is_named(
    line: str, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = TRL_FILES["trl/trainer/grpo_config.py"].replace(line, f"{line[0]}: int = compute()")
    installed(monkeypatch, tmp_path, "1.17.0", {**TRL_FILES, "trl/trainer/grpo_config.py": config})
    with pytest.raises(AdapterError, match=said):
        ADAPTERS["trl"].losses["grpo.surrogate"](None)


def test_a_default_aggregation_that_the_adapter_does_not_know_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = TRL_FILES["trl/trainer/grpo_config.py"].replace('"grpo"', '"newest"')
    installed(monkeypatch, tmp_path, "1.17.0", {**TRL_FILES, "trl/trainer/grpo_config.py": config})
    with pytest.raises(AdapterError, match=r"trl 1.17.0 has 'newest'"):
        ADAPTERS["trl"].losses["grpo.surrogate"](None)


def test_an_argument_that_is_gone_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    files = {
        "openrlhf/models/utils.py": "def masked_mean(): ...\n",
        "openrlhf/models/loss.py": "def aggregate_loss(): ...\nclass PolicyLoss: ...\n",
    }
    installed(monkeypatch, tmp_path, "0.12.0", files)
    said = "openrlhf 0.12.0, PolicyLoss, needs argument clip_eps_low"
    with pytest.raises(AdapterError, match=said):
        ADAPTERS["openrlhf"].losses["grpo.surrogate"](None)


def test_a_stub_gives_what_it_was_given_and_nothing_else() -> None:
    stub = light.Given("trl 1.17.0", "GRPOTrainer", beta=0.5)
    assert stub.beta == 0.5
    with pytest.raises(AdapterError, match=r"trl 1.17.0 needs attribute gamma of GRPOTrainer"):
        getattr(stub, "gamma", 1.0)


def test_verls_config_gives_no_default_that_its_caller_asks_for() -> None:
    config = ActorConfig("verl 1.0", "ActorConfig", clip_ratio_c=3.0)
    assert config.get("clip_ratio_c", 5.0) == 3.0
    with pytest.raises(AdapterError, match=r"verl 1.0 needs attribute newest of ActorConfig"):
        config.get("newest", 1.0)


def test_importing_the_adapters_imports_no_torch() -> None:
    code = f"import sys, {light.__package__} as _; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# --- The losses, as measured -------------------------------------------------------------------

CLIPPED: dict[str, tuple[Parameters, float, float]] = {
    "seq-mean-token-mean": (SEQUENCE, 0.1693011307, 0.275194),
    "token-mean": (TOKEN, 0.2394304706, 0.316696),
}
WITH_KL: dict[str, tuple[Parameters, float, float]] = {
    "seq-mean-token-mean": (SEQUENCE, 0.1702097365, 0.274838),
    "token-mean": (TOKEN, 0.2403449687, 0.316459),
    "seq-mean-token-sum-norm": (CONSTANT, 0.1702443528, 0.224158),
}
OFF: dict[str, Parameters] = {
    "trl": {"beta": 0.0},
    "liger": {"beta": 0.0},
    "verl": {"beta": 0.0, "dual_clip": None},
    "openrlhf": {"dual_clip": None},
}


def like(outcome: Outcome, loss: float, gradient: float) -> bool:
    """Whether value and norm are what was measured; 1e-8 in a denominator makes 2e-10."""
    return (
        outcome.error == ""
        and float(outcome.value) == pytest.approx(loss, abs=3e-10)
        and norm(outcome) == pytest.approx(gradient, abs=6e-7)
    )


@pytest.mark.parametrize("name", FRAMEWORKS)
@pytest.mark.parametrize("aggregation", CLIPPED)
def test_the_clipped_surrogate_is_the_closed_form(name: str, aggregation: str, get: GET) -> None:
    parameters, loss, gradient = CLIPPED[aggregation]
    outcome = observe(get(name), example(), **parameters, **OFF[name])
    assert like(outcome, loss, gradient), outcome


@pytest.mark.parametrize("name", ["trl", "liger", "verl"])
@pytest.mark.parametrize("aggregation", WITH_KL)
def test_the_surrogate_with_a_kl_term_is_the_closed_form(
    name: str, aggregation: str, get: GET
) -> None:
    parameters, loss, gradient = WITH_KL[aggregation]
    plain: Parameters = {"dual_clip": None} if name == "verl" else PLAIN
    outcome = observe(get(name), example(), **{**parameters, **plain, "beta": 0.05})
    assert like(outcome, loss, gradient), outcome


@pytest.mark.parametrize(
    ("name", "loss", "gradient"),
    [
        ("trl", 0.25237165, 0.31669650),
        ("openrlhf", 0.25237165, 0.31669650),
        ("liger", 0.25310325, 0.31650490),
        ("verl", 0.22883364, 0.20174006),
    ],
)
def test_each_at_its_own_defaults(name: str, loss: float, gradient: float, get: GET) -> None:
    outcome = observe(get(name), example())
    assert float(outcome.value) == pytest.approx(loss, abs=6e-9)
    assert norm(outcome) == pytest.approx(gradient, abs=6e-9)


def test_trl_multiplies_k3_by_the_ratio_unless_told_otherwise(get: GET) -> None:
    assert get("trl").parameters["use_bias_correction_kl"] is True
    outcome = observe(get("trl"), example(), **{**TOKEN, "beta": 0.05})
    assert like(outcome, 0.2403336273, 0.316670), outcome


@pytest.mark.parametrize(
    ("parameters", "loss", "gradient"),
    [
        (SEQUENCE, 0.1492938231, 0.180756),
        (TOKEN, 0.2158924615, 0.201740),
        ({**SEQUENCE, "beta": 0.05}, 0.1502024289, None),
        ({**TOKEN, "beta": 0.05}, 0.2168069596, None),
        ({**CONSTANT, "beta": 0.05}, 0.1535715964, None),
    ],
)
def test_verl_clips_twice_by_default(
    parameters: dict[str, Any], loss: float, gradient: float | None, get: GET
) -> None:
    outcome = observe(get("verl"), example(), **parameters)
    assert float(outcome.value) == pytest.approx(loss, abs=3e-10)
    assert gradient is None or norm(outcome) == pytest.approx(gradient, abs=6e-7)


@pytest.mark.parametrize("name", ["trl", "liger", "openrlhf"])
def test_dual_clip_is_verls_where_it_is_turned_on(name: str, get: GET) -> None:
    parameters = {**TOKEN, **OFF[name], "dual_clip": 3.0}
    assert like(observe(get(name), example(), **parameters), 0.2158924615, 0.201740)


def test_verl_without_dual_clip_stays_finite_where_there_is_no_advantage(get: GET) -> None:
    inputs = example()
    inputs["advantages"][3] = 0.0
    outcome = observe(get("verl"), inputs, **TOKEN, dual_clip=None)
    assert outcome.finite
    assert not outcome.gradient[3].any()


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_gspo_is_the_closed_form(name: str, get: GET) -> None:
    parameters = {**NARROW, "aggregation": "seq-mean-token-mean"}
    beta: Parameters = {} if name == "openrlhf" else {"beta": 0.0}
    outcome = observe(get(name, "gspo.surrogate"), example(), **parameters, **beta)
    assert like(outcome, 0.0698689742, 0.228768), outcome


@pytest.mark.parametrize("name", ["trl", "liger", "verl"])
def test_gspo_may_be_aggregated_over_tokens(name: str, get: GET) -> None:
    parameters = {**NARROW, "aggregation": "token-mean", "beta": 0.0}
    outcome = observe(get(name, "gspo.surrogate"), example(), **parameters)
    assert like(outcome, 0.1237856948, 0.222340), outcome


@pytest.mark.parametrize("name", ["trl", "verl"])
def test_a_mean_of_sums_is_the_closed_form(name: str, get: GET) -> None:
    outcome = observe(get(name), example(), **SUM, **OFF[name])
    assert float(outcome.value) == pytest.approx(1.017579, abs=1e-6)


@pytest.mark.parametrize(("width", "loss"), [(6, 0.861359), (10, 0.591815)])
def test_padding_leaks_into_ligers_mean_of_sums(width: int, loss: float, get: GET) -> None:
    """A fault of the release; the adapter must show it, not mend it."""
    outcome = observe(get("liger"), example(width), **SUM, beta=0.0)
    assert float(outcome.value) == pytest.approx(loss, abs=6e-7)


@pytest.mark.parametrize(
    ("name", "aggregation"),
    [
        ("trl", "token-sum"),
        ("liger", "token-sum"),
        ("verl", "seq-sum"),
        ("openrlhf", "token-sum"),
    ],
)
def test_an_aggregation_that_a_framework_lacks_is_refused(
    name: str, aggregation: str, get: GET
) -> None:
    outcome = observe(get(name), example(), aggregation=aggregation)
    assert outcome.error.startswith(f"ValueError: {name}")
    assert "it has token-mean, " in outcome.error


def test_openrlhf_aggregates_gspo_by_sequences_alone(get: GET) -> None:
    outcome = observe(get("openrlhf", "gspo.surrogate"), example(), aggregation="token-mean")
    assert outcome.error.endswith("it has seq-mean-token-mean")


def test_liger_refuses_an_advantage_per_token(get: GET) -> None:
    inputs = example()
    inputs["advantages"] = np.repeat(inputs["advantages"][:, None], 6, axis=1)
    assert "one advantage per trajectory" in observe(get("liger"), inputs).error


@pytest.mark.parametrize("name", ["trl", "verl", "openrlhf"])
def test_an_advantage_per_token_may_be_given(name: str, get: GET) -> None:
    inputs = example()
    inputs["advantages"] = np.repeat(inputs["advantages"][:, None], 6, axis=1)
    parameters, loss, gradient = CLIPPED["token-mean"]
    assert like(observe(get(name), inputs, **parameters, **OFF[name]), loss, gradient)


# --- Hostile padding, an empty row, wide types -------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "loss", "active", "padding"),
    [
        ("trl", -200.0, False, True, False),
        ("liger", -200.0, False, True, False),
        ("verl", -200.0, True, True, True),
        ("openrlhf", -200.0, True, True, True),
        ("trl", np.nan, False, True, False),
        ("liger", np.nan, False, True, False),
        ("verl", np.nan, True, True, True),
        ("openrlhf", np.nan, False, True, True),
    ],
)
def test_what_stands_in_padding_is_passed_on_as_it_is(
    name: str, value: float, loss: bool, active: bool, padding: bool, get: GET
) -> None:
    """Which of the loss and its gradients stay finite, in FP32, is the framework's own doing."""
    inputs = example()
    mask = inputs["mask"]
    inputs["logp_old"] = np.where(mask, inputs["logp_old"], value)
    outcome = observe(get(name), inputs, dtype="float32", **TOKEN, **OFF[name])
    assert bool(np.isfinite(outcome.value)) is loss
    assert bool(np.isfinite(outcome.gradient[mask]).all()) is active
    assert bool(np.isfinite(outcome.gradient[~mask]).all()) is padding


@pytest.mark.parametrize(
    ("name", "loss"),
    [("trl", 0.36015586), ("liger", 0.36015586), ("verl", 0.48020781), ("openrlhf", 0.48020781)],
)
def test_an_empty_row_counts_as_the_framework_counts_it(name: str, loss: float, get: GET) -> None:
    inputs = example()
    inputs["mask"][2] = False
    outcome = observe(get(name), inputs, **SEQUENCE, **OFF[name])
    assert float(outcome.value) == pytest.approx(loss, abs=2e-8)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("trl", "float32"), ("liger", "float32"), ("verl", "bfloat16"), ("openrlhf", "bfloat16")],
)
def test_a_loss_of_bfloat16_has_the_frameworks_own_dtype(name: str, dtype: str, get: GET) -> None:
    assert observe(get(name), example(), dtype="bfloat16").dtype == dtype


# --- KL and advantages -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["verl", "openrlhf"])
@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
def test_an_estimator_is_the_closed_form(name: str, estimator: str, get: GET) -> None:
    inputs = example()
    d = (inputs["logp_policy"] - inputs["logp_reference"])[inputs["mask"]]
    expected = {"k1": d, "k2": d * d / 2, "k3": np.expm1(-d) + d}[estimator].mean()
    outcome = observe(get(name, "kl.estimate"), inputs, estimator=estimator)
    exact = 1e-12 if name == "verl" else 1e-7  # OpenRLHF computes it in FP32
    assert float(outcome.value) == pytest.approx(expected, abs=exact)


@pytest.mark.parametrize("name", ["verl", "openrlhf"])
@pytest.mark.parametrize("excess", [3.0, 15.0, 100.0])
def test_k3_is_cut_off_where_the_reference_is_far(name: str, excess: float, get: GET) -> None:
    inputs = {
        "logp_policy": np.array([[-1.0 - excess]]),
        "logp_reference": np.array([[-1.0]]),
        "mask": np.array([[True]]),
    }
    outcome = observe(get(name, "kl.estimate"), inputs, dtype="float32", estimator="k3")
    assert (float(outcome.value), norm(outcome)) == (10.0, 0.0)


@pytest.mark.parametrize(
    ("name", "rewards", "first"),
    [
        ("verl", [1, 0, 0, 0], 1.499997),
        ("verl", [1, 1, 0, 0], 0.866024),
        ("verl", [1, 0], 0.707106),
        ("verl", [1, 1.0001], -0.6981),
        ("verl", [1], 0.999999),
        ("openrlhf", [1, 0, 0, 0], 1.5),
        ("openrlhf", [1, 1, 0, 0], 0.866025),
        ("openrlhf", [1, 0], 0.707107),
        ("openrlhf", [1, 1.0001], -0.7079),
        ("openrlhf", [1], np.nan),
    ],
)
def test_advantages_are_as_measured(
    name: str, rewards: list[float], first: float, get: GET
) -> None:
    loss = get(name, "grpo.advantages")
    outcome = observe(loss, {"rewards": np.array([rewards], float)}, dtype="float32")
    assert outcome.value.shape == (1, len(rewards))
    assert outcome.value[0, 0] == pytest.approx(first, abs=5e-5, nan_ok=True)


@pytest.mark.parametrize(("name", "least"), [("verl", 0.001), ("openrlhf", 0.5)])
def test_equal_rewards_that_are_not_dyadic_get_advantages_of_one_sign(
    name: str, least: float, get: GET
) -> None:
    """By rounding in FP32, which depends on the CPU's order of summation: no exact number."""
    loss = get(name, "grpo.advantages")
    outcome = observe(loss, {"rewards": np.full((1, 7), 0.3)}, dtype="float32")
    assert (np.abs(outcome.value) > least).all()
    assert len(set(np.sign(outcome.value).ravel())) == 1


@pytest.mark.parametrize("name", ["verl", "openrlhf"])
def test_advantages_may_be_centred_only(name: str, get: GET) -> None:
    outcome = observe(
        get(name, "grpo.advantages"), {"rewards": np.array([[1.0, 0.0], [3.0, 3.0]])}, scale="none"
    )
    assert outcome.value.tolist() == [[0.5, -0.5], [0.0, 0.0]]


def test_verl_takes_groups_that_differ_in_size(get: GET) -> None:
    inputs = {"rewards": np.array([1.0, 5.0, 3.0]), "groups": np.array([0, 1, 0])}
    outcome = observe(get("verl", "grpo.advantages"), inputs, scale="none")
    assert outcome.value.tolist() == [-1.0, 5.0, 1.0]
