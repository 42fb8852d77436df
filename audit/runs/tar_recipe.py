"""The recipe of the TAR component run: settings, random streams and the synthetic verifier.

Both the run and the rules that recompute it read this page; it holds no model and no PyTorch.
Every random number comes from a named stream of NumPy's PCG64, so that a checker can draw the
initial parameters and the uniforms behind each sampled token again from the recorded seed.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvraudit.kernels.gru import size

RECIPE = "synthetic:tar-gru-v1"
BUILD_TYPE = "urn:rlvr-audit:run:tar-component:v1"
END = 0
"""The token that ends a response; it also fills the positions after the end."""

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bits = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class TarSettings:
    """Everything that defines the run beside the seed and the device.

    The behaviour policy of an update is the policy before the previous one, so that ratios
    leave one and the clip is exercised.
    """

    prompts: tuple[tuple[int, ...], ...] = ((3, 7), (5, 1), (11, 4), (8, 13))
    vocabulary: int = 16
    hidden: int = 8
    init_scale: float = 0.8
    max_tokens: int = 5
    verifier_modulus: int = 5
    candidates: int = 8
    prototypes: int = 3
    updates: int = 3
    groups: int = 2
    group_size: int = 6
    learning_rate: float = 2.0
    clip_low: float = 0.2
    clip_high: float = 0.28
    advantage_ddof: int = 1
    advantage_epsilon: float = 1e-4
    kl_beta: float = 0.04
    replay_lambda: float = 1.0
    denominator_epsilon: float = 1e-8

    @property
    def parameters(self) -> int:
        """The number of parameters of the policy."""
        return size(self.vocabulary, self.hidden)


def initial_parameters(seed: int, settings: TarSettings) -> Floats:
    """Return the initial flat parameters, uniform in [-init_scale, init_scale), `[P]` FP64."""
    drawn = np.random.default_rng([seed, 0]).random(settings.parameters)
    return settings.init_scale * (2 * drawn - 1)


def bank_uniforms(seed: int, settings: TarSettings) -> Floats:
    """Return the uniforms behind the base candidates' tokens, `[prompts, candidates, T]`."""
    shape = (len(settings.prompts), settings.candidates, settings.max_tokens)
    return np.random.default_rng([seed, 1]).random(shape)


def group_uniforms(seed: int, settings: TarSettings, attempts: int) -> Floats:
    """Return the uniforms behind the first `attempts` sampled groups, `[attempts, G, T]`."""
    shape = (attempts, settings.group_size, settings.max_tokens)
    return np.random.default_rng([seed, 2]).random(shape)


def attempt_prompt(attempt: int, settings: TarSettings) -> int:
    """Return the index of the prompt that a sampled group answers: they take turns."""
    return attempt % len(settings.prompts)


def verify(prompts: Any, tokens: Integers, mask: Bits, settings: TarSettings) -> Bits:
    """Return the external verifier's bit for each response.

    Synthetic: a response is correct when the sum of its tokens is congruent to the sum of its
    prompt's tokens. It reads tokens only and knows nothing of any policy.

    Args:
        prompts: Prompt tokens, `[B, P]`.
        tokens: Response tokens, `[B, T]`.
        mask: Active tokens, `[B, T]`.
        settings: The run's settings; the modulus is used.
    """
    answer = np.sum(np.where(mask, tokens, 0), axis=-1)
    question = np.sum(np.asarray(prompts), axis=-1)
    correct: Bits = (answer - question) % settings.verifier_modulus == 0
    return correct
