"""The trained policy in PyTorch: a `torch.nn.GRU` language model, sampled by inverse transform.

Importing this module imports torch.
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rlvraudit.audit.runs.tar_recipe import END
from rlvraudit.kernels.gru import shapes


class Responses(NamedTuple):
    """Sampled responses: prompts `[B, P]`, tokens `[B, T]`, mask `[B, T]` bool."""

    prompts: Tensor
    tokens: Tensor
    mask: Tensor


class Scored(NamedTuple):
    """What a policy says of responses: log-probabilities `[B, T]`, logits `[B, T, V]`, states.

    `embeddings` `[B, H]` are the hidden states after the last active token.
    """

    logp: Tensor
    logits: Tensor
    embeddings: Tensor


class GruPolicy(nn.Module):
    """A one-layer GRU over token embeddings with a linear head, FP64."""

    def __init__(self, vocabulary: int, hidden: int, device: torch.device) -> None:
        """Make a policy; its parameters come from `load`."""
        super().__init__()
        self.shapes = shapes(vocabulary, hidden)
        self.embedding = nn.Embedding(vocabulary, hidden)
        self.gru = nn.GRU(hidden, hidden, batch_first=True)
        self.head = nn.Linear(hidden, vocabulary)
        self.to(device=device, dtype=torch.float64)

    def ordered(self) -> list[Tensor]:
        """Return the parameters in the order of the flat vector."""
        return [*self.embedding.parameters(), *self.gru.parameters(), *self.head.parameters()]

    @torch.no_grad()
    def load(self, flat: NDArray[np.float64]) -> None:
        """Set the parameters from a flat vector."""
        start = 0
        for parameter in self.ordered():
            part = flat[start : start + parameter.numel()].reshape(tuple(parameter.shape))
            parameter.copy_(torch.from_numpy(part.copy()))
            start += parameter.numel()

    def flat(self) -> NDArray[np.float64]:
        """Return the parameters as a flat vector."""
        return flatten([parameter.detach() for parameter in self.ordered()])

    def score(self, responses: Responses) -> Scored:
        """Return log-probabilities, logits and final states of `responses`."""
        length = responses.prompts.shape[1]
        tokens = torch.cat([responses.prompts, responses.tokens], dim=1)
        hidden, _ = self.gru(self.embedding(tokens))
        logits = self.head(hidden[:, length - 1 : -1])
        logp = torch.log_softmax(logits, dim=-1)
        chosen = torch.gather(logp, 2, responses.tokens[..., None])[..., 0]
        last = length - 1 + responses.mask.sum(dim=1)
        states = hidden[torch.arange(hidden.shape[0], device=hidden.device), last]
        return Scored(torch.where(responses.mask, chosen, 0.0), logits, states)

    @torch.no_grad()
    def sample(self, prompts: Tensor, uniforms: Tensor) -> Responses:
        """Sample a response for each prompt: token k where the cumulative probability passes u.

        Args:
            prompts: `[B, P]` integers.
            uniforms: One number in [0, 1) for each token to come, `[B, T]`.
        """
        tokens = torch.full(uniforms.shape, END, device=prompts.device)
        mask = torch.zeros(uniforms.shape, dtype=torch.bool, device=prompts.device)
        alive = torch.ones(len(prompts), dtype=torch.bool, device=prompts.device)
        for position in range(uniforms.shape[1]):
            prefix = torch.cat([prompts, tokens[:, :position]], dim=1)
            hidden, _ = self.gru(self.embedding(prefix))
            cumulative = torch.softmax(self.head(hidden[:, -1]), dim=-1).cumsum(dim=-1)
            passed = (cumulative <= uniforms[:, position, None]).sum(dim=-1)
            drawn = passed.clamp(max=cumulative.shape[1] - 1)
            tokens[:, position] = torch.where(alive, drawn, END)
            mask[:, position] = alive
            alive = alive & (drawn != END)
        return Responses(prompts, tokens, mask)


def flatten(parts: list[Tensor]) -> NDArray[np.float64]:
    """Return tensors as one flat vector in FP64 on the CPU."""
    return np.concatenate([part.detach().cpu().numpy().reshape(-1) for part in parts])
