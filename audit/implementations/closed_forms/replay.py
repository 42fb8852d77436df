"""TAR's replay loss put together from parts: gate, token weights, and the mean over both."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rlvraudit.audit.implementations.closed_forms.part import Part


@dataclass(frozen=True, slots=True)
class Replay:
    """The parts of a replay loss."""

    gate: Part
    weight: Part
    mean: Part
    epsilon: float = 1e-8
    factor: float = 1.0
    slack: float = 0.0

    def loss(self, inputs: Mapping[str, Any]) -> Any:
        """Return the loss of a batch of tensors, differentiable in `logp_policy`."""
        mask = inputs["mask"]
        policy = inputs["logp_policy"].masked_fill(~mask, 0.0)
        delta = inputs["logp_base"].masked_fill(~mask, 0.0) - policy
        g = self.gate.build(delta, mask)
        w = self.weight.build(delta) * mask
        return self.factor * self.mean.build(g, w, -policy, self._epsilon(policy.dtype))

    def _epsilon(self, dtype: Any) -> float:
        """Return an epsilon that survives in the dtype: 1e-8 is 0 in FP16."""
        import torch

        return max(self.epsilon, float(torch.finfo(dtype).tiny)) if self.epsilon else 0.0
