"""Importance ratios of a surrogate, `[B, T]`: those of the papers.

Each takes `logp_policy`, which carries the gradient, `logp_old` and the mask, and returns the
ratio at every position; what stands at inactive ones is not read.
"""

from functools import partial

from rlvraudit.audit.implementations.closed_forms.part import Tensor, part

ratio = partial(part, "ratio")


def log_ratio(policy: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    """Return logp_policy - logp_old, 0 at inactive positions."""
    return (policy - old).masked_fill(~mask, 0.0)


def positions(mask: Tensor) -> Tensor:
    """Return t among the active tokens, 1 before the first, in FP64."""
    return mask.cumsum(1).clamp(min=1).double()


def counts(mask: Tensor) -> Tensor:
    """Return T_b, `[B, 1]`, in FP64; 1 for an empty row, whose terms are not read."""
    return mask.sum(1, keepdim=True).clamp(min=1).double()


def carried(value: Tensor, policy: Tensor) -> Tensor:
    """Return sg[r] pi / sg[pi]: the value of r, the gradient of the token's own logp."""
    return value.detach() * (policy - policy.detach()).exp()


def mean_over_row(x: Tensor, mask: Tensor) -> Tensor:
    """Return the mean of a row's active tokens, at each of them."""
    return x.sum(1, keepdim=True) / counts(mask).to(x.dtype) * mask


def mean_up_to_t(x: Tensor, mask: Tensor) -> Tensor:
    """Return the mean of the active tokens up to and including each."""
    return x.cumsum(1) / positions(mask).to(x.dtype)


@ratio("token", "token: exp(logp_policy - logp_old)")
def token(policy: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    """GRPO's."""
    return log_ratio(policy, old, mask).exp()


@ratio("sequence", "sequence: geometric mean over the response")
def sequence(policy: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    """GSPO's, differentiated through the mean."""
    return mean_over_row(log_ratio(policy, old, mask), mask).exp()


@ratio("sequence-token", "sequence: geometric mean, carried by each token (GSPO-token)")
def sequence_token(policy: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    """GSPO-token's."""
    return carried(sequence.build(policy, old, mask), policy)


@ratio("prefix", "prefix: geometric mean up to t, detached")
def prefix(policy: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    """TAPO's."""
    return carried(mean_up_to_t(log_ratio(policy, old, mask), mask).exp(), policy)


@ratio("none", "none: 1 by construction, on policy")
def none(policy: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    """exp(logp - sg[logp])."""
    return (policy - policy.detach()).exp()
