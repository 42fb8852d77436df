"""Adapters of SkyRL, AReaL and Unsloth, and of slime, NeMo-RL and prime-rl by checkout.

The expected numbers were measured with each framework installed by itself, outside this project.
"""

import os
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rlvraudit.audit.implementations.adapters import ADAPTERS, AdapterError, checkouts, light
from rlvraudit.audit.implementations.implementation import Implementation, Outcome, observe

pytest.importorskip("torch")

INSTALLED = ("skyrl", "areal", "unsloth")
CHECKOUTS = {"slime": "slime", "nemo-rl": "NeMo-RL", "prime-rl": "prime-rl"}
"""By name, the folder below RLVR_AUDIT_CHECKOUTS."""
FRAMEWORKS = (*INSTALLED, *CHECKOUTS)
GRPO = ("skyrl", "areal", "unsloth", "slime", "nemo-rl")
"""Those whose default loss is a clipped surrogate."""
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


def padded(rows: tuple[tuple[float, ...], ...]) -> Any:
    return np.array([[*row, *[0.0] * (6 - len(row))] for row in rows])


def example() -> dict[str, Any]:
    policy = padded(POLICY)
    return {
        "logp_policy": policy,
        "logp_old": policy - padded(POLICY_LESS_OLD),
        "logp_reference": policy + padded(REFERENCE_LESS_POLICY),
        "advantages": np.array([1.0, -0.5, 0.75, -1.25]),
        "mask": np.array([[t < len(row) for t in range(6)] for row in POLICY]),
    }


def checkout(name: str) -> Path:
    folder = os.environ.get("RLVR_AUDIT_CHECKOUTS")
    if not folder:
        pytest.skip(f"no checkout of {name} is here; make frameworks runs this")
    return Path(folder) / CHECKOUTS[name]


def skip_unless_installed(name: str) -> None:
    adapter = ADAPTERS[name]
    try:
        if metadata.version(adapter.package) in adapter.known:
            return
    except metadata.PackageNotFoundError:
        pass
    wanted = f"{adapter.package} {adapter.known[0]}"
    pytest.skip(f"{wanted} is not installed here; make frameworks runs this")


@pytest.fixture
def get() -> GET:
    """A framework's loss, where it is installed or checked out."""

    def loss(name: str, objective: str = "grpo.surrogate") -> Implementation:
        if name in CHECKOUTS:
            return ADAPTERS[name].losses[objective](checkout(name))
        skip_unless_installed(name)
        return ADAPTERS[name].losses[objective](None)

    return loss


def without_kl(loss: Implementation) -> Parameters:
    return {"beta": 0.0} if "beta" in loss.parameters else {}


def norm(outcome: Outcome) -> float:
    return float(np.linalg.norm(outcome.gradient))


# --- What is called, without the frameworks ----------------------------------------------------

COMMIT = "0123456789abcdef0123456789abcdef01234567"
FILES: dict[str, dict[str, str]] = {
    "skyrl": {
        "skyrl/backends/skyrl_train/utils/torch_utils.py": """
def masked_mean(tensor, mask): ...
def safe_exp_delta(delta): ...
""",
        "skyrl/backends/skyrl_train/utils/off_policy_correction_utils.py": """
def apply_off_policy_correction(loss): ...
""",
        "skyrl/backends/skyrl_train/utils/ppo_utils.py": """
def reduce_loss(loss, loss_mask): ...
def compute_approx_kl(log_probs, log_probs_base): ...
def apply_loss_reduction_to_advantages_minibatch(advantages, *_): return advantages
@register_policy_loss(PolicyLossType.REGULAR)
def ppo_policy_loss(log_probs, config): return (log_probs * config.z).sum()
""",
        "skyrl/train/config/config.py": """
class AlgorithmConfig(BaseConfig):
    eps_clip_low: float = 0.1
    eps_clip_high: float = 0.3
    loss_reduction: str = "sequence_mean"
    max_seq_len: int | None = None
    use_kl_loss: bool = False
    kl_loss_coef: float = 0.5
    kl_estimator_type: str = "k2"
    temperature: float | None = None
    use_entropy_loss: bool = False
    entropy_loss_coef: float = 0.01
""",
        "skyrl/backends/skyrl_train/workers/worker.py": """
class PolicyWorkerBase(Worker):
    def _forward_backward_micro(self, experience, microbatch_weight):
        logp, _ = self.model(experience.sequences)
        self.strategy.backward(self.policy_loss_fn(logp, self.cfg.algorithm), None, None)
""",
    },
    "areal": {
        "areal/utils/functional/functional.py": """
def _compute_sequence_level_ratio_and_advantages(log_ratio): ...
def ppo_actor_loss_fn(logprobs, **_): return logprobs.sum(), {}
""",
        "areal/utils/data.py": """
class Normalization:
    def __init__(self, config): self.z = config.z
""",
        "areal/api/cli_args.py": """
class NormConfig:
    mean_leave1out: bool = field(default=True, metadata={})
    std_unbiased: bool = field(default=False, metadata={})
    eps: float = field(default=0.5, metadata={})
class PPOActorConfig(TrainEngineConfig):
    eps_clip: float = field(default=0.1, metadata={})
    eps_clip_higher: float | None = field(default=None, metadata={})
    c_clip: float | None = field(default=7.0, metadata={})
""",
    },
    "unsloth": {
        "unsloth_zoo/rl_replacements.py": """
def another(**kwargs):
    beta = kwargs.get("epsilon_low", 0.7)
def grpo_compute_loss(ref, new, *rest, **kwargs):
    loss_type = kwargs.get("loss_type", "dr_grpo")
    epsilon_low = kwargs.get("epsilon_low", 0.1)
    epsilon_high = kwargs.get("epsilon_high", 0.3)
    max_completion_length = kwargs.get("max_completion_length", 64)
    delta = kwargs.get("delta", None)
    use_bias_correction_kl = kwargs.get("use_bias_correction_kl", True)
    return new.sum() * epsilon_low, None
"""
    },
    "slime": {
        "slime/utils/ppo_utils.py": """
@torch.compile(dynamic=True)
def compute_approx_kl(log_probs): ...
def compute_gspo_kl(log_probs): ...
@torch.compile(dynamic=True)
def compute_policy_loss(ppo_kl): ...
""",
        "slime/backends/megatron_utils/cp_utils.py": """
def get_sum_of_sample_mean(total_lengths): ...
def all_gather_with_cp(tensor): ...
""",
        "slime/backends/megatron_utils/loss.py": """
def _maybe_capture_log_probs(batch): ...
def get_rollout_top_p_logprob_kwargs(args): ...
def policy_loss_function(args, batch): ...
def loss_function(args, *_):
    return args.z
""",
        "slime/utils/arguments.py": """
def add_arguments(parser):
    parser.add_argument("--eps-clip", type=float, default=0.1)
    parser.add_argument("--eps-clip-high", type=float, default=None)
    parser.add_argument("--eps-clip-c", type=float, default=7.0)
    parser.add_argument("--kl-loss-coef", type=float, default=0.5)
    parser.add_argument("--kl-loss-type", type=str, default="k2")
    parser.add_argument("--use-unbiased-kl", action="store_true", default=False)
""",
    },
    "nemo-rl": {
        "nemo_rl/algorithms/utils.py": """
def calculate_kl(logprobs): ...
def masked_mean(values, mask): ...
""",
        "nemo_rl/algorithms/loss/interfaces.py": """
class LossType(enum.Enum):
    TOKEN_LEVEL = "token_level"
class MetricNormalizer(enum.Enum):
    TOKENS = "tokens"
class LossInputType(enum.Enum):
    LOGPROB = "logprob"
""",
        "nemo_rl/algorithms/loss/loss_functions.py": """
class ClippedPGLossConfig(BaseModel, extra="allow"):
    disable_ppo_ratio: bool = False
    token_level_loss: bool = False
    ratio_clip_min: float = 0.1
    ratio_clip_max: float = 0.3
    ratio_clip_c: float | None = 7.0
    reference_policy_kl_penalty: float = 0.5
    reference_policy_kl_type: str = "k2"
    kl_input_clamp_value: float | None = 20.0
    kl_output_clamp_value: float | None = 10.0
    use_kl_in_reward: bool = False
    use_importance_sampling_correction: bool = False
    truncated_importance_sampling_type: str | None = None
    truncated_importance_sampling_ratio: float | None = None
    truncated_importance_sampling_ratio_min: float | None = None
    use_on_policy_kl_approximation: bool = False
    force_on_policy_ratio: bool = False
    use_cispo: bool = False
    positive_example_nll_weight: float = 0.0
class ClippedPGLossFn(LossFunction):
    input_type = LossInputType.LOGPROB
    def __init__(self, cfg):
        self.z = cfg.z
""",
    },
    "prime-rl": {
        "src/prime_rl/trainer/rl/loss.py": """
@dataclass
class LossInputs:
    trainer_logprobs: Float[Tensor, " seq"]
@dataclass
class LossOutputs:
    loss: Float[Tensor, ""]
def _safe_mean(values, mask): ...
def compute_importance_ratio_and_mismatch_kl(trainer_logprobs, inference_logprobs): ...
def default_loss_fn(inputs, loss_config):
    return loss_config.z
def compute_loss(trainer_logprobs, rl_loss_fn, **_):
    return rl_loss_fn(LossInputs(trainer_logprobs[0])), {}
""",
        "packages/prime-rl-configs/src/prime_rl/configs/trainer.py": """
class DefaultLossConfig(BaseConfig):
    dppo_mask_low: float = Field(0.1, ge=0)
    dppo_mask_high: float = Field(0.3, ge=0)
    adv_tau: float = Field(1.0, ge=0)
    kl_tau: float = Field(1e-2, ge=0)
""",
    },
}
"""Sources like the frameworks', with other defaults, that read a new option z where they can."""
DEFAULTS: dict[str, Parameters] = {
    "skyrl": {
        "clip_low": 0.1,
        "clip_high": 0.3,
        "aggregation": "seq-mean-token-mean",
        "norm": None,
        "beta": 0.0,
        "dual_clip": None,
    },
    "areal": {"clip_low": 0.1, "clip_high": 0.1, "aggregation": "token-mean", "dual_clip": 7.0},
    "unsloth": {
        "clip_low": 0.1,
        "clip_high": 0.3,
        "norm": 64,
        "dual_clip": None,
        "use_bias_correction_kl": True,
        "aggregation": "seq-mean-token-sum-norm",
        "beta": 0.0,
    },
    "slime": {
        "clip_low": 0.1,
        "clip_high": 0.1,
        "dual_clip": 7.0,
        "beta": 0.5,
        "estimator": "k2",
        "use_unbiased_kl": False,
        "aggregation": "seq-mean-token-mean",
    },
    "nemo-rl": {
        "clip_low": 0.1,
        "clip_high": 0.3,
        "dual_clip": 7.0,
        "beta": 0.5,
        "estimator": "k2",
        "aggregation": "seq-mean-token-mean",
    },
    "prime-rl": {
        "dppo_mask_low": 0.1,
        "dppo_mask_high": 0.3,
        "adv_tau": 1.0,
        "kl_tau": 0.01,
        "aggregation": "token-mean",
    },
}
NEEDS = {
    "skyrl": "skyrl 99.0 needs attribute z of cfg.algorithm",
    "slime": "slime 0123456789ab needs attribute z of args",
    "nemo-rl": "NeMo-RL 0123456789ab needs attribute z of ClippedPGLossConfig",
    "prime-rl": "prime-rl 0123456789ab needs attribute z of DefaultLossConfig",
}


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> GET:
    """A loss of a framework whose sources are those of `FILES`, changed as wanted."""

    def loss(
        name: str, objective: str = "grpo.surrogate", version: str = "99.0", **changes: str
    ) -> Implementation:
        for path, text in FILES[name].items():
            for old, new in changes.items():
                text = text.replace(old, new)
            write(tmp_path, {path: text})
        if name in CHECKOUTS:
            write(tmp_path, {".git/HEAD": f"{COMMIT}\n"})
            return ADAPTERS[name].losses[objective](tmp_path)
        found = SimpleNamespace(locate_file=tmp_path.joinpath)
        monkeypatch.setattr(metadata, "version", lambda _: version)
        monkeypatch.setattr(metadata, "distribution", lambda _: found)
        return ADAPTERS[name].losses[objective](None)

    return loss


@pytest.mark.parametrize("name", INSTALLED)
def test_a_framework_that_is_not_installed_is_said_to_be_missing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(package: str) -> str:
        raise metadata.PackageNotFoundError(package)

    monkeypatch.setattr(metadata, "version", missing)
    for loss in ADAPTERS[name].losses.values():
        with pytest.raises(AdapterError, match=f"{ADAPTERS[name].package} is not installed"):
            loss(None)


@pytest.mark.parametrize("name", INSTALLED)
def test_a_framework_whose_files_moved_is_named_with_the_file(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(metadata, "version", lambda _: "99.0")
    found = SimpleNamespace(locate_file=tmp_path.joinpath)
    monkeypatch.setattr(metadata, "distribution", lambda _: found)
    for loss in ADAPTERS[name].losses.values():
        with pytest.raises(AdapterError, match=r" 99.0 needs \S+\.py, which is not there"):
            loss(None)


@pytest.mark.parametrize("name", CHECKOUTS)
def test_without_a_checkout_the_user_is_told_how_to_give_one(name: str) -> None:
    for loss in ADAPTERS[name].losses.values():
        with pytest.raises(AdapterError, match=f"--impl {name}=/path/to/checkout"):
            loss(None)


@pytest.mark.parametrize("name", CHECKOUTS)
def test_a_checkout_of_something_else_is_named_with_the_file(name: str, tmp_path: Path) -> None:
    for loss in ADAPTERS[name].losses.values():
        with pytest.raises(AdapterError, match=rf"^{name} at .* needs \S+\.py, which is not there"):
            loss(tmp_path)


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_the_defaults_are_those_that_stand_in_the_source(name: str, fake: GET) -> None:
    assert fake(name).parameters == DEFAULTS[name]


def test_the_defaults_of_areals_normalisation_are_those_of_its_config(fake: GET) -> None:
    found = fake("areal", "grpo.advantages").parameters
    assert found == {"scale": "std", "ddof": 0, "epsilon": 0.5, "leave_one_out": True}


@pytest.mark.parametrize("name", INSTALLED)
def test_a_version_that_the_adapter_was_not_written_for_is_unknown(name: str, fake: GET) -> None:
    known = ADAPTERS[name].known[0]
    said = f"99.0 is not a version this adapter was written for ({known})"
    assert fake(name).unknown.endswith(said)
    assert fake(name, version=known).unknown == ""


@pytest.mark.parametrize("name", CHECKOUTS)
def test_a_commit_that_the_adapter_was_not_written_for_is_unknown(
    name: str, fake: GET, tmp_path: Path
) -> None:
    loss = fake(name)
    assert f"{COMMIT} is not a version this adapter was written for" in loss.unknown
    assert COMMIT[:12] in loss.called
    write(tmp_path, {".git/HEAD": ADAPTERS[name].known[0]})
    assert ADAPTERS[name].losses["grpo.surrogate"](tmp_path).unknown == ""
    (tmp_path / ".git" / "HEAD").unlink()
    loss = ADAPTERS[name].losses["grpo.surrogate"](tmp_path)
    assert "is not a version this adapter was written for" in loss.unknown
    assert "at an unknown commit" in loss.called


@pytest.mark.parametrize("name", NEEDS)
def test_an_option_that_the_adapter_does_not_know_is_named(name: str, fake: GET) -> None:
    loss = fake(name)
    with pytest.raises(AdapterError, match=f"^{NEEDS[name]}, which its adapter does not know"):
        observe(loss, example())


def test_an_option_of_areals_normalisation_that_is_not_known_is_named(fake: GET) -> None:
    loss = fake("areal", "grpo.advantages")
    with pytest.raises(AdapterError, match=r"^areal 99.0 needs attribute z of NormConfig"):
        observe(loss, {"rewards": np.array([[0.0, 1.0]])})


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("skyrl", "_forward_backward_micro"),
        ("skyrl", "apply_loss_reduction_to_advantages_minibatch"),
        ("areal", "ppo_actor_loss_fn"),
        ("unsloth", "grpo_compute_loss"),
        ("slime", "policy_loss_function"),
        ("nemo-rl", "ClippedPGLossFn"),
        ("prime-rl", "default_loss_fn"),
    ],
)
def test_a_function_that_is_gone_is_named(name: str, function: str, fake: GET) -> None:
    with pytest.raises(AdapterError, match=rf"needs (\w+\.)?{function}, which .* not define"):
        fake(name, **{function: "renamed"})


@pytest.mark.parametrize(
    ("name", "option", "said"),
    [
        ("skyrl", "eps_clip_low", "AlgorithmConfig.eps_clip_low"),
        ("areal", "c_clip", "PPOActorConfig.c_clip"),
        ("unsloth", "delta", "delta in grpo_compute_loss"),
        ("slime", "--eps-clip-c", "--eps-clip-c"),
        ("nemo-rl", "ratio_clip_c", "ClippedPGLossConfig.ratio_clip_c"),
        ("prime-rl", "kl_tau", "DefaultLossConfig.kl_tau"),
    ],
)
def test_a_default_that_is_gone_is_named(name: str, option: str, said: str, fake: GET) -> None:
    with pytest.raises(AdapterError, match=f"needs a default of {said}, which is not there"):
        fake(name, **{option: "renamed"})


@pytest.mark.parametrize(
    ("name", "ours"),
    [("skyrl", '"sequence_mean"'), ("unsloth", '"dr_grpo"')],
)
def test_a_default_aggregation_that_the_adapter_does_not_know_is_named(
    name: str, ours: str, fake: GET
) -> None:
    with pytest.raises(AdapterError, match=r"99.0 has 'newest', which its adapter does not know"):
        fake(name, **{ours: '"newest"'})


# --- Commits, read from files ------------------------------------------------------------------


def test_a_commit_is_read_from_a_branch_or_from_the_packed_ones(tmp_path: Path) -> None:
    write(tmp_path, {".git/HEAD": "ref: refs/heads/main\n"})
    assert checkouts.commit(tmp_path) == ""
    other = COMMIT[::-1]
    packed = f"# pack-refs with: peeled\n{other} refs/tags/main\n{COMMIT} refs/heads/main\n"
    write(tmp_path, {".git/packed-refs": packed})
    assert checkouts.commit(tmp_path) == COMMIT
    write(tmp_path, {".git/refs/heads/main": f"{other}\n"})  # it is newer
    assert checkouts.commit(tmp_path) == other


def test_a_commit_is_read_where_a_worktree_points(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "clone/.git/refs/heads/topic": f"{COMMIT}\n",
            "clone/.git/worktrees/tree/HEAD": "ref: refs/heads/topic\n",
            "clone/.git/worktrees/tree/commondir": "../..\n",
            "tree/.git": f"gitdir: {tmp_path}/clone/.git/worktrees/tree\n",
        },
    )
    assert checkouts.commit(tmp_path / "tree") == COMMIT


def test_no_commit_is_made_up(tmp_path: Path) -> None:
    assert checkouts.commit(None) == checkouts.commit(tmp_path) == ""
    assert checkouts.described("slime", tmp_path) == "slime at an unknown commit"


def test_only_the_decorators_named_are_left_off(tmp_path: Path) -> None:
    path = tmp_path / "code.py"
    path.write_text("@compiled(dynamic=True)\n@doubled\ndef one(): return 1\n")
    namespace = {"doubled": lambda function: lambda: 2 * function()}
    found = light.extract(path, ("one",), namespace, without=("compiled",))
    assert found["one"]() == 2


# --- The losses, as measured -------------------------------------------------------------------

CLIPPED: dict[str, tuple[Parameters, float, float]] = {
    "seq-mean-token-mean": (SEQUENCE, 0.1693011307, 0.275194),
    "token-mean": (TOKEN, 0.2394304706, 0.316696),
}
EXACT = 3e-10
"""1e-8 in a denominator makes 2e-10."""
SINGLE = 5e-9
"""SkyRL takes exponentials in FP32."""


def like(outcome: Outcome, loss: float, gradient: float, allowed: float = EXACT) -> bool:
    """Whether value and norm are what was measured."""
    return (
        outcome.error == ""
        and float(outcome.value) == pytest.approx(loss, abs=allowed)
        and norm(outcome) == pytest.approx(gradient, abs=6e-7)
    )


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_the_version_at_hand_is_known(name: str, get: GET) -> None:
    for objective in ADAPTERS[name].losses:
        assert get(name, objective).unknown == ""


@pytest.mark.parametrize(
    ("name", "aggregation"),
    [
        *((name, "token-mean") for name in ("areal", "unsloth", "slime", "nemo-rl")),
        *((name, "seq-mean-token-mean") for name in ("unsloth", "slime", "nemo-rl")),
    ],
)
def test_the_clipped_surrogate_is_the_closed_form(name: str, aggregation: str, get: GET) -> None:
    parameters, loss, gradient = CLIPPED[aggregation]
    outcome = observe(get(name), example(), **parameters, **without_kl(get(name)))
    assert like(outcome, loss, gradient), outcome


@pytest.mark.parametrize(
    ("parameters", "loss", "gradient"),
    [
        ({**SEQUENCE, "beta": 0.0}, 0.1693011349, 0.275194),
        ({**TOKEN, "beta": 0.0}, 0.2394304752, 0.316697),
        ({**SEQUENCE, "beta": 0.05}, 0.1702097407, 0.274838),
    ],
)
def test_skyrl_is_the_closed_form_but_for_exponentials_in_single_precision(
    parameters: Parameters, loss: float, gradient: float, get: GET
) -> None:
    assert like(observe(get("skyrl"), example(), **parameters), loss, gradient)


@pytest.mark.parametrize(
    ("parameters", "loss"),
    [(TOKEN, 0.2403390810), (CONSTANT, 0.1705051924)],
)
def test_skyrls_worker_averages_the_kl_term_over_sequences_whatever_the_reduction(
    parameters: Parameters, loss: float, get: GET
) -> None:
    outcome = observe(get("skyrl"), example(), **parameters, beta=0.05)
    assert float(outcome.value) == pytest.approx(loss, abs=EXACT)


@pytest.mark.parametrize(
    ("parameters", "loss", "gradient"),
    [
        (SEQUENCE, 0.1702097365, 0.274838),
        (TOKEN, 0.2403449687, 0.316459),
        (CONSTANT, 0.1702443528, 0.224158),
    ],
)
def test_unsloth_with_a_kl_term_is_the_closed_form(
    parameters: Parameters, loss: float, gradient: float, get: GET
) -> None:
    outcome = observe(get("unsloth"), example(), **parameters, beta=0.05)
    assert like(outcome, loss, gradient), outcome


@pytest.mark.parametrize("name", ["unsloth", "slime"])
def test_the_kl_term_may_be_multiplied_by_the_ratio(name: str, get: GET) -> None:
    switches: dict[str, Parameters] = {
        "unsloth": {"use_bias_correction_kl": True},
        "slime": {"use_unbiased_kl": True, "estimator": "k3"},
    }
    outcome = observe(get(name), example(), **TOKEN, **switches[name], beta=0.05)
    assert like(outcome, 0.2403336273, 0.316670, SINGLE), outcome


@pytest.mark.parametrize(
    ("parameters", "loss", "gradient"),
    [(SEQUENCE, 0.1702097365, 0.274838), (TOKEN, 0.2403449687, 0.316459)],
)
def test_slime_with_k3_is_the_closed_form(
    parameters: Parameters, loss: float, gradient: float, get: GET
) -> None:
    outcome = observe(get("slime"), example(), **parameters, beta=0.05, estimator="k3")
    assert like(outcome, loss, gradient, SINGLE), outcome  # it estimates in FP32


@pytest.mark.parametrize(
    ("parameters", "loss", "gradient"),
    [(SEQUENCE, 0.1702097366, 0.274891), (TOKEN, 0.2403449685, 0.316509)],
)
def test_nemo_rls_kl_term_has_a_score_function_gradient(
    parameters: Parameters, loss: float, gradient: float, get: GET
) -> None:
    outcome = observe(get("nemo-rl"), example(), **parameters, beta=0.05)
    assert like(outcome, loss, gradient), outcome
    if parameters is SEQUENCE:
        assert float(outcome.gradient[2, 0]) == pytest.approx(-0.001250, abs=6e-7)


@pytest.mark.parametrize(
    ("name", "loss", "gradient"),
    [
        ("skyrl", 0.25237165, 0.31669651),
        ("areal", 0.25237165, 0.31669650),
        ("slime", 0.18346780, 0.27519422),
        ("nemo-rl", 0.25255455, 0.31665767),
        ("prime-rl", 0.23772161, 0.33474109),
    ],
)
def test_each_at_its_own_defaults(name: str, loss: float, gradient: float, get: GET) -> None:
    skyrl: Parameters = {"beta": 0.0} if name == "skyrl" else {}  # measured without the worker
    outcome = observe(get(name), example(), **skyrl)
    single = 4e-8 if name == "prime-rl" else 0.0  # measured in FP32
    assert float(outcome.value) == pytest.approx(loss, abs=6e-9 + single)
    assert norm(outcome) == pytest.approx(gradient, abs=6e-9 + single)


def test_skyrls_worker_adds_a_kl_term_by_default(get: GET) -> None:
    assert get("skyrl").parameters["beta"] == 0.001
    assert observe(get("skyrl"), example()).value > 0.25238


@pytest.mark.parametrize("name", GRPO)
def test_gspo_is_the_closed_form(name: str, get: GET) -> None:
    loss = get(name, "gspo.surrogate")
    parameters: Parameters = {**NARROW, **without_kl(loss)}
    if name != "areal":
        outcome = observe(loss, example(), **parameters, aggregation="seq-mean-token-mean")
        assert like(outcome, 0.0698689742, 0.228768), outcome
    if name != "nemo-rl":
        outcome = observe(loss, example(), **parameters, aggregation="token-mean")
        assert like(outcome, 0.1237856948, 0.222340), outcome


def test_nemo_rl_refuses_gspo_over_tokens(get: GET) -> None:
    loss = get("nemo-rl", "gspo.surrogate")
    assert "aggregation" not in loss.parameters
    outcome = observe(loss, example(), aggregation="token-mean")
    assert "mutually exclusive with token-level loss" in outcome.error


@pytest.mark.parametrize("name", GRPO)
def test_dual_clip_at_3_is_verls_default(name: str, get: GET) -> None:
    loss = get(name)
    outcome = observe(loss, example(), **TOKEN, **without_kl(loss), dual_clip=3.0)
    assert like(outcome, 0.2158924615, 0.201740, SINGLE), outcome


def test_skyrl_refuses_dual_clip_in_gspo(get: GET) -> None:
    outcome = observe(get("skyrl", "gspo.surrogate"), example(), dual_clip=3.0)
    assert outcome.error.startswith("ValueError: skyrl")


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_an_aggregation_that_a_framework_lacks_is_refused(name: str, get: GET) -> None:
    outcome = observe(get(name), example(), aggregation="token-sum")
    assert outcome.error.startswith(f"ValueError: {name} has no 'token-sum'; it has ")


@pytest.mark.parametrize("name", GRPO)
def test_an_advantage_per_token_may_be_given(name: str, get: GET) -> None:
    inputs = example()
    inputs["advantages"] = np.repeat(inputs["advantages"][:, None], 6, axis=1)
    parameters, loss, gradient = CLIPPED["token-mean"]
    outcome = observe(get(name), inputs, **parameters, **without_kl(get(name)))
    assert like(outcome, loss, gradient, SINGLE), outcome


def test_areal_averages_advantages_of_tokens_over_a_sequence_in_gspo(get: GET) -> None:
    inputs = example()
    mask = inputs["mask"]
    inputs["advantages"] = np.linspace(-1.0, 2.0, mask.size).reshape(mask.shape)
    averaged = dict(inputs)
    averaged["advantages"] = np.mean(inputs["advantages"], axis=1, where=mask)
    loss = get("areal", "gspo.surrogate")
    assert float(observe(loss, inputs).value) == pytest.approx(
        float(observe(loss, averaged).value), abs=1e-12
    )


# --- Hostile padding, empty rows, distance ------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "objective", "loss", "valid", "padding"),
    [
        ("unsloth", "grpo.surrogate", "finite", "finite", "finite"),
        ("skyrl", "grpo.surrogate", "nan", "finite", "finite"),
        ("skyrl", "gspo.surrogate", "nan", "finite", "finite"),
        ("slime", "grpo.surrogate", "nan", "finite", "nan"),
        ("nemo-rl", "grpo.surrogate", "nan", "finite", "nan"),
        ("nemo-rl", "gspo.surrogate", "nan", "nan", "nan"),
        ("areal", "grpo.surrogate", "finite", "finite", "nan"),
        ("areal", "gspo.surrogate", "finite", "finite", "finite"),
        ("prime-rl", "grpo.surrogate", "nan", "finite", "nan"),
    ],
)
def test_nan_at_padding_does_what_was_measured(
    name: str, objective: str, loss: str, valid: str, padding: str, get: GET
) -> None:
    inputs = example()
    mask = inputs["mask"]
    inputs["logp_old"][~mask] = np.nan
    outcome = observe(get(name, objective), inputs, dtype="float32")

    def kind(values: Any) -> str:
        return "finite" if np.isfinite(values).all() else "nan"

    parts = (outcome.value, outcome.gradient[mask], outcome.gradient[~mask])
    assert tuple(map(kind, parts)) == (loss, valid, padding)
    assert get(name, objective).finite_padding


def test_nan_at_padding_gives_skyrls_gspo_a_finite_gradient_that_is_wrong(get: GET) -> None:
    inputs = example()
    loss = get("skyrl", "gspo.surrogate")
    right = observe(loss, inputs).gradient
    inputs["logp_old"][~inputs["mask"]] = np.nan
    assert np.abs(observe(loss, inputs).gradient - right).max() > 0.01


@pytest.mark.parametrize("name", ["skyrl", "unsloth", "slime", "nemo-rl"])
def test_a_row_that_is_masked_stays_in_the_denominator(name: str, get: GET) -> None:
    inputs = example()
    inputs["mask"][2] = False
    outcome = observe(get(name), inputs, **SEQUENCE, **without_kl(get(name)))
    assert float(outcome.value) == pytest.approx(0.36015586, abs=1e-8)


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_batch_that_is_masked_throughout_gives_0(name: str, get: GET) -> None:
    inputs = example()
    inputs["mask"][:] = False
    outcome = observe(get(name), inputs)
    assert float(outcome.value) == 0.0
    assert not outcome.gradient.any()


@pytest.mark.parametrize(
    ("name", "estimator", "distance", "value", "gradient"),
    [
        ("skyrl", "k3", 3.0, 10.0, 0.0),
        ("skyrl", "k3", 100.0, 10.0, 0.0),
        ("nemo-rl", "k3", 3.0, 10.0, 0.0),
        ("nemo-rl", "k3", 100.0, 10.0, 0.0),
        ("slime", "k3", 3.0, 16.085537, -19.085537),
        ("slime", "k3", 100.0, np.inf, -np.inf),
        ("slime", "low_var_kl", 3.0, 10.0, 0.0),
        ("slime", "low_var_kl", 100.0, 10.0, np.nan),
    ],
)
def test_kl_at_a_distance_is_what_was_measured(
    name: str, estimator: str, distance: float, value: float, gradient: float, get: GET
) -> None:
    inputs = {
        "logp_policy": np.array([[-1.0]]),
        "logp_reference": np.array([[-1.0 + distance]]),
        "mask": np.array([[True]]),
    }
    outcome = observe(get(name, "kl.estimate"), inputs, dtype="float32", estimator=estimator)
    assert float(outcome.value) == pytest.approx(value, rel=1e-6)
    assert float(outcome.gradient[0, 0]) == pytest.approx(gradient, rel=1e-6, nan_ok=True)


@pytest.mark.parametrize("name", ["skyrl", "slime", "nemo-rl"])
@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
def test_an_estimate_is_the_mean_of_its_closed_form(name: str, estimator: str, get: GET) -> None:
    inputs = example()
    d = (inputs["logp_policy"] - inputs["logp_reference"])[inputs["mask"]]
    expected = {"k1": d, "k2": d**2 / 2, "k3": np.expm1(-d) + d}[estimator]
    outcome = observe(get(name, "kl.estimate"), inputs, estimator=estimator)
    assert float(outcome.value) == pytest.approx(float(expected.mean()), abs=5e-8)


# --- Advantages, as measured --------------------------------------------------------------------

SEVEN = [0.3] * 7


@pytest.mark.parametrize(
    ("name", "rewards", "first"),
    [
        ("skyrl", [1.0, 0.0, 0.0, 0.0], 1.499997),
        ("skyrl", [1.0, 1.0, 0.0, 0.0], 0.866024),
        ("skyrl", [1.0, 0.0], 0.707106),
        ("skyrl", [1.0, 1.0001], -0.6981),
        ("skyrl", SEVEN, 0.0289),
        ("skyrl", [1.0], 0.999999),
        ("slime", [1.0, 0.0, 0.0, 0.0], 1.499997),
        ("slime", [1.0, 1.0, 0.0, 0.0], 0.866024),
        ("slime", [1.0, 0.0], 0.707106),
        ("slime", [1.0, 1.0001], -0.6981),
        ("slime", SEVEN, 0.0298),
        ("slime", [1.0], np.nan),
        ("nemo-rl", [1.0, 0.0, 0.0, 0.0], 1.0),
        ("nemo-rl", [0.0, 1.0, 0.0, 0.0], -0.577349),
        ("nemo-rl", [1.0, 1.0, 0.0, 0.0], 1.1547),
        ("nemo-rl", [1.0, 0.0], 1.0),
        ("nemo-rl", [1.0, 1.0001], -0.0001),
        ("nemo-rl", [1.0], 0.0),
        ("areal", [1.0, 0.0, 0.0, 0.0], 1.49997),
        ("areal", [1.0, 1.0, 0.0, 0.0], 0.86601),
        ("areal", [1.0, 0.0], 0.707097),
        ("areal", [1.0, 1.0001], -0.6202),
        ("areal", [1.0], 0.0),
        ("prime-rl", [1.0, 0.0, 0.0, 0.0], 0.75),
        ("prime-rl", [1.0], 0.0),
    ],
)
def test_the_first_advantage_of_a_group_is_what_was_measured(
    name: str, rewards: list[float], first: float, get: GET
) -> None:
    inputs = {"rewards": np.array([rewards, rewards])}
    outcome = observe(get(name, "grpo.advantages"), inputs, dtype="float32")
    assert outcome.error == ""
    rounding = 6e-5 if rewards in (SEVEN, [1.0, 1.0001]) else 2e-6
    assert outcome.value.shape == inputs["rewards"].shape
    expected = np.full(2, first)
    assert outcome.value[:, 0] == pytest.approx(expected, abs=5 * rounding, nan_ok=True)


def test_rounding_makes_an_advantage_of_thousands_in_nemo_rl(get: GET) -> None:
    inputs = {"rewards": np.array([[0.0, *SEVEN]])}
    outcome = observe(get("nemo-rl", "grpo.advantages"), inputs)
    assert float(outcome.value[0, 0]) < -1000.0  # -3183.6 where it was measured


@pytest.mark.parametrize("name", ["skyrl", "areal", "slime", "nemo-rl"])
def test_advantages_may_be_centred_alone(name: str, get: GET) -> None:
    loss = get(name, "grpo.advantages")
    flat: Parameters = {"leave_one_out": False} if "leave_one_out" in loss.parameters else {}
    outcome = observe(loss, {"rewards": np.array([[1.0, 0.0, 0.0, 0.0]])}, scale="none", **flat)
    assert outcome.value[0] == pytest.approx([0.75, -0.25, -0.25, -0.25], abs=1e-7)
    assert "ValueError" in observe(loss, {"rewards": np.ones((1, 2))}, scale="batch").error


@pytest.mark.parametrize("name", ["skyrl", "nemo-rl"])
def test_groups_may_differ_in_size(name: str, get: GET) -> None:
    loss = get(name, "grpo.advantages")
    rewards = np.array([[1.0, 0.0, 1.0, 0.0, 0.0, 0.0]])
    outcome = observe(loss, {"rewards": rewards, "groups": np.array([[0, 0, 1, 1, 1, 1]])})
    apart = [observe(loss, {"rewards": part}).value[0] for part in (rewards[:, :2], rewards[:, 2:])]
    assert outcome.value[0] == pytest.approx(np.concatenate(apart), abs=1e-6)


def test_areal_normalises_with_either_ddof(get: GET) -> None:
    loss = get("areal", "grpo.advantages")
    inputs = {"rewards": np.array([[1.0, 0.0, 0.0, 0.0]])}
    outcome = observe(loss, inputs, ddof=0, epsilon=0.0)
    assert float(outcome.value[0, 0]) == pytest.approx(1.732051, abs=1e-6)
