"""Wrong importance ratios, `[B, T]`: the faults that a ratio is known to have.

Each takes `logp_policy`, which carries the gradient, `logp_old` and the mask.
"""

from rlvraudit.audit.implementations.closed_forms.part import Tensor
from rlvraudit.audit.implementations.closed_forms.ratios import (
    carried,
    counts,
    log_ratio,
    mean_over_row,
    mean_up_to_t,
    none,
    positions,
    prefix,
    ratio,
    sequence,
    token,
)


@ratio(
    "prefix-attached",
    "prefix: geometric mean up to t, not detached",
    "The prefix ratio is differentiated through the mean: the gradient holds terms of later "
    "positions, each divided by its t. Detach it and multiply by pi / sg[pi] (TAPO, Eq. 15).",
    "prefix",
)
def prefix_attached(policy: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    """dR_t / dlogp_i = R_t / t."""
    return mean_up_to_t(log_ratio(policy, old, mask), mask).exp()


@ratio(
    "prefix-attached-and-carried",
    "prefix: geometric mean up to t, not detached, times pi / sg[pi]",
    "The prefix ratio is multiplied by pi / sg[pi] but not detached itself: its own gradient comes "
    "on top (TAPO, Eq. 15).",
    "prefix",
)
def prefix_attached_and_carried(policy: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    """Both gradients."""
    return prefix_attached.build(policy, old, mask) * (policy - policy.detach()).exp()


@ratio(
    "gradient-over-t",
    "prefix: geometric mean up to t, gradient of the own token divided by t",
    "The gradient is the closed form divided by t: the prefix ratio is differentiated through the "
    "mean, in the token's own term. Eq. 15 of TAPO has no 1/t.",
    "prefix",
)
def gradient_over_t(policy: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    """Local, but diluted."""
    value = prefix_attached.build(policy, old, mask)
    return value.detach() * ((policy - policy.detach()) / positions(mask).to(policy.dtype)).exp()


@ratio(
    "prefix-product",
    "prefix: product up to t",
    "The ratio is the product over the prefix, not its geometric mean.",
    "prefix",
)
def prefix_product(policy: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    """No 1/t in the exponent."""
    return carried(log_ratio(policy, old, mask).cumsum(1).exp(), policy)


@ratio(
    "padding-positions",
    "prefix: geometric mean, t counts columns",
    "The prefix counts padding and holes as positions: t is the column, not the number of active "
    "tokens so far.",
    "prefix",
)
def padding_positions(policy: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    """Columns stand for positions."""
    columns = mask.new_ones(mask.shape).cumsum(1).to(policy.dtype)
    return carried((log_ratio(policy, old, mask).cumsum(1) / columns).exp(), policy)


@ratio(
    "prefix-exclusive",
    "prefix: geometric mean over the tokens before t",
    "The prefix leaves the token itself out: it is shifted one position.",
    "prefix",
)
def prefix_exclusive(policy: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    """The mean up to t - 1."""
    x = log_ratio(policy, old, mask)
    before = (positions(mask) - 1).clamp(min=1).to(x.dtype)
    return carried(((x.cumsum(1) - x) / before).exp(), policy)


@ratio(
    "suffix",
    "suffix: geometric mean from t to the end",
    "The mean runs over the tokens from t to the end, not up to t.",
    "prefix",
)
def suffix(policy: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    """Reversed."""
    x, ones = log_ratio(policy, old, mask), mask.to(policy.dtype)
    left = ones.flip(1).cumsum(1).flip(1).clamp(min=1)
    return carried((x.flip(1).cumsum(1).flip(1) / left).exp(), policy)


@ratio(
    "prefix-arithmetic",
    "prefix: arithmetic mean of the ratios up to t",
    "The ratio is the arithmetic mean of the prefix's ratios, not their geometric mean.",
    "prefix",
)
def prefix_arithmetic(policy: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    """Mean of exponentials."""
    each = log_ratio(policy, old, mask).exp() * mask
    return carried(mean_up_to_t(each, mask), policy)


@ratio(
    "sequence-product",
    "sequence: product over the response",
    "The ratio is the product over the sequence, not its geometric mean.",
    "sequence",
)
def sequence_product(policy: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    """No division by the length."""
    return log_ratio(policy, old, mask).sum(1, keepdim=True).exp() * mask


@ratio(
    "sequence-product-carried",
    "sequence: product over the response, carried by each token",
    "The ratio is the product over the sequence, not its geometric mean.",
    "sequence",
)
def sequence_product_carried(policy: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    """No division by the length."""
    return carried(sequence_product.build(policy, old, mask), policy)


@ratio(
    "sequence-gradient-over-length",
    "sequence: geometric mean, gradient of the own token over T_b",
    "The gradient is the closed form divided by T_b: each token carries pi / sg[pi] over the "
    "length.",
    "sequence",
)
def sequence_over_length(policy: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    """Local, but diluted."""
    value = sequence.build(policy, old, mask).detach()
    return value * ((policy - policy.detach()) / counts(mask).to(policy.dtype)).exp()


@ratio(
    "sequence-arithmetic",
    "sequence: arithmetic mean of the ratios",
    "The ratio is the arithmetic mean of the sequence's ratios, not their geometric mean.",
    "sequence",
)
def sequence_arithmetic(policy: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    """Mean of exponentials."""
    return mean_over_row(log_ratio(policy, old, mask).exp() * mask, mask)


@ratio(
    "sequence-over-width",
    "sequence: geometric mean over the padded width",
    "The sequence ratio divides by the padded width, not by the number of active tokens.",
    "sequence",
)
def sequence_over_width(policy: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    """Padding counts."""
    return log_ratio(policy, old, mask).mean(1, keepdim=True).exp() * mask


@ratio(
    "sequence-over-width-carried",
    "sequence: geometric mean over the padded width, carried by each token",
    "The sequence ratio divides by the padded width, not by the number of active tokens.",
    "sequence",
)
def sequence_over_width_carried(policy: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    """Padding counts."""
    return carried(sequence_over_width.build(policy, old, mask), policy)


@ratio(
    "batch",
    "batch: geometric mean over all tokens of the batch",
    "The ratio is the mean over the whole batch: trajectories are mixed.",
    "sequence",
)
def batch(policy: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    """One ratio for all."""
    return (log_ratio(policy, old, mask).sum() / mask.sum()).exp() * mask


@ratio(
    "old-not-read",
    "1 by construction: logp_old is not read",
    "The ratio is 1 by construction: logp_old is an argument and is never read, so that the clip "
    "does nothing. On policy this is right, and has to be declared by leaving logp_old out.",
    "token",
)
def old_not_read(policy: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    """exp(logp - sg[logp]) though behaviour log-probabilities are given."""
    return none.build(policy, old, mask)


@ratio(
    "ratio-detached",
    "token, detached",
    "The ratio is detached: no gradient reaches the policy.",
    "token",
)
def detached(policy: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    """The right value, no gradient."""
    return token.build(policy, old, mask).detach()


@ratio(
    "sequence-detached",
    "sequence, detached",
    "The sequence ratio is detached: no gradient reaches the policy.",
    "sequence",
)
def sequence_detached(policy: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    """The right value, no gradient."""
    return sequence.build(policy, old, mask).detach()


@ratio(
    "prefix-detached",
    "prefix, detached",
    "The prefix ratio is detached and not multiplied by pi / sg[pi]: no gradient reaches the "
    "policy.",
    "prefix",
)
def prefix_detached(policy: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    """The right value, no gradient."""
    return prefix.build(policy, old, mask).detach()


@ratio(
    "ratio-reversed",
    "token: exp(logp_old - logp_policy)",
    "The ratio is upside down: exp(logp_old - logp_policy).",
    "token",
)
def reversed_(policy: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    """pi_old / pi."""
    return (-log_ratio(policy, old, mask)).exp()


@ratio(
    "ratio-not-exponentiated",
    "token: 1 + logp_policy - logp_old",
    "The ratio is 1 plus the log-ratio: the exponential is missing.",
    "token",
)
def linear(policy: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    """First order only."""
    return 1.0 + log_ratio(policy, old, mask)


@ratio(
    "log-ratio-for-ratio",
    "token: logp_policy - logp_old",
    "The log-ratio stands where the ratio should: the exponential is missing.",
    "token",
)
def logarithm(policy: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    """No exponential."""
    return log_ratio(policy, old, mask)


@ratio(
    "probability-for-ratio",
    "token: exp(logp_policy)",
    "The probability stands where the ratio should: logp_old is not subtracted.",
    "token",
)
def probability(policy: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    """No behaviour policy in it."""
    return policy.exp()


@ratio(
    "ratio-squared",
    "token: squared",
    "The ratio is squared: the log-ratio is counted twice.",
    "token",
)
def squared(policy: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    """Twice the exponent."""
    return (2.0 * log_ratio(policy, old, mask)).exp()


@ratio(
    "sequence-attached-and-carried",
    "sequence: geometric mean, not detached, carried by each token",
    "The sequence ratio is multiplied by pi / sg[pi] but not detached itself: the gradient is "
    "twice as large.",
    "sequence-token",
)
def sequence_attached_and_carried(policy: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    """Both gradients."""
    return sequence.build(policy, old, mask) * (policy - policy.detach()).exp()
