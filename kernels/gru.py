"""The diagnostic policy: a one-layer GRU language model, forward and backward, in closed form.

Equations of `torch.nn.GRU` (Cho et al. 2014, with the reset gate applied after the matrix
product): with x_t the embedding of token t and h_0 = 0,

    r_t = sigmoid(W_ir x_t + b_ir + W_hr h_{t-1} + b_hr)
    z_t = sigmoid(W_iz x_t + b_iz + W_hz h_{t-1} + b_hz)
    n_t = tanh(W_in x_t + b_in + r_t * (W_hn h_{t-1} + b_hn))
    h_t = (1 - z_t) * n_t + z_t * h_{t-1},        logits_t = W_o h_t + b_o

Written on the array API without PyTorch, it is an independent second computation of what a
training run recorded; on `bounds.Ball` it bounds the rounding error of both.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from rlvraudit.kernels.arrays import Array, namespace


@dataclass(frozen=True, slots=True)
class Gru:
    """Parameters: embedding and head `[V, H]`, gate weights `[3H, H]` in the order r, z, n.

    Those of several models are stacked along a first axis.
    """

    embedding: Array
    weight_ih: Array
    weight_hh: Array
    bias_ih: Array
    bias_hh: Array
    head: Array
    head_bias: Array


@dataclass(frozen=True, slots=True)
class Step:
    """What the backward pass needs of one position, each `[..., B, H]`."""

    previous: Array
    reset: Array
    update: Array
    candidate: Array
    recurrent: Array


@dataclass(frozen=True, slots=True)
class Pass:
    """A forward pass over `[B, L]` tokens: hidden states `[B, L, H]` and logits `[B, L, V]`.

    Of several models, arrays have a first axis for them, except `tokens` where these are shared.
    """

    tokens: Array
    inputs: Array
    hidden: Array
    logits: Array
    steps: tuple[Step, ...]


def shapes(vocabulary: int, hidden: int) -> dict[str, tuple[int, ...]]:
    """Return the shape of each parameter, in the order in which a flat vector holds them."""
    return {
        "embedding": (vocabulary, hidden),
        "weight_ih": (3 * hidden, hidden),
        "weight_hh": (3 * hidden, hidden),
        "bias_ih": (3 * hidden,),
        "bias_hh": (3 * hidden,),
        "head": (vocabulary, hidden),
        "head_bias": (vocabulary,),
    }


def size(vocabulary: int, hidden: int) -> int:
    """Return the number of parameters."""
    return 2 * vocabulary * hidden + 6 * hidden * hidden + 6 * hidden + vocabulary


def unpack(flat: Array, vocabulary: int, hidden: int) -> Gru:
    """Return the parameters that `flat` holds, `[P]`, or those of several models, `[S, P]`."""
    xp, start, parts = namespace(flat), 0, {}
    for name, shape in shapes(vocabulary, hidden).items():
        length = shape[0] * (shape[1] if len(shape) > 1 else 1)
        part = flat[..., start : start + length]
        parts[name] = xp.reshape(part, (*flat.shape[:-1], *shape))
        start += length
    return Gru(**parts)


def forward(gru: Gru, tokens: Array) -> Pass:
    """Run the model over integer `tokens` `[B, L]`, or several models over the same ones."""
    xp = namespace(gru.embedding)
    inputs = gru.embedding[..., tokens, :]
    from_input = _affine(inputs, gru.weight_ih, gru.bias_ih)
    width = gru.embedding.shape[-1]
    state, steps, states = xp.zeros_like(inputs[..., 0, :]), [], []
    for position in range(tokens.shape[-1]):
        step = _step(gru, from_input[..., position, :], state, width)
        state = (1 - step.update) * step.candidate + step.update * state
        steps.append(step)
        states.append(state)
    hidden = xp.stack(states, axis=-2)
    logits = _affine(hidden, gru.head, gru.head_bias)
    return Pass(tokens, inputs, hidden, logits, tuple(steps))


def take(run: Pass, rows: Any) -> Pass:
    """Return the pass of several models over some of the sequences: of model s those in `rows[s]`.

    Args:
        run: The pass of S models.
        rows: Indices of sequences, `[S, B]`, as a NumPy array.
    """
    key = (np.arange(rows.shape[0])[:, None], rows)
    steps = tuple(Step(*(getattr(step, n)[key] for n in Step.__slots__)) for step in run.steps)
    return Pass(run.tokens[rows], run.inputs[key], run.hidden[key], run.logits[key], steps)


def _affine(x: Array, weight: Array, bias: Array) -> Array:
    """Return W x + b over the last axis of `x` `[..., B, L, K]`, the parameters of each model."""
    xp = namespace(x)
    lead, rows = tuple(weight.shape[:-2]), tuple(x.shape[len(weight.shape) - 2 : -1])
    flat = xp.reshape(x, (*lead, -1, x.shape[-1]))
    product = flat @ xp.matrix_transpose(weight) + bias[..., None, :]
    return xp.reshape(product, (*lead, *rows, weight.shape[-2]))


def _linear(x: Array, weight: Array) -> Array:
    """Return x W over the last axis: what `_affine` passes back to its input."""
    xp = namespace(x)
    lead, rows = tuple(weight.shape[:-2]), tuple(x.shape[len(weight.shape) - 2 : -1])
    flat = xp.reshape(x, (*lead, -1, x.shape[-1]))
    return xp.reshape(flat @ weight, (*lead, *rows, weight.shape[-1]))


def _step(gru: Gru, from_input: Array, state: Array, width: int) -> Step:
    xp = namespace(state)
    from_state = state @ xp.matrix_transpose(gru.weight_hh) + gru.bias_hh[..., None, :]
    gates = _sigmoid(xp, from_input[..., : 2 * width] + from_state[..., : 2 * width])
    reset, update = gates[..., :width], gates[..., width:]
    recurrent = from_state[..., 2 * width :]
    candidate = xp.tanh(from_input[..., 2 * width :] + reset * recurrent)
    return Step(state, reset, update, candidate, recurrent)


def _sigmoid(xp: Any, x: Array) -> Array:
    return 1 / (1 + xp.exp(-x))


def backward(gru: Gru, run: Pass, grad_logits: Array) -> Array:
    """Return the gradient by the flat parameters, for each sequence: `[B, P]` or `[S, B, P]`.

    Args:
        gru: The parameters that `run` was computed with.
        run: The forward pass.
        grad_logits: The loss's gradient with respect to the logits, `[..., B, L, V]`.
    """
    xp = namespace(gru.embedding)
    from_input, from_state = _through_time(gru, run, _linear(grad_logits, gru.head))
    previous = xp.stack([step.previous for step in run.steps], axis=-2)
    one_hot = xp.astype(
        run.tokens[..., None] == xp.arange(gru.embedding.shape[-2]), gru.embedding.dtype
    )
    parts = (
        xp.matrix_transpose(one_hot) @ _linear(from_input, gru.weight_ih),
        xp.matrix_transpose(from_input) @ run.inputs,
        xp.matrix_transpose(from_state) @ previous,
        xp.sum(from_input, axis=-2),
        xp.sum(from_state, axis=-2),
        xp.matrix_transpose(grad_logits) @ run.hidden,
        xp.sum(grad_logits, axis=-2),
    )
    lead = tuple(grad_logits.shape[:-2])
    return xp.concat([xp.reshape(part, (*lead, -1)) for part in parts], axis=-1)


def _through_time(gru: Gru, run: Pass, grad_hidden: Array) -> tuple[Array, Array]:
    """Return the gradients of the gates' input and state parts, each `[..., B, L, 3H]`."""
    xp = namespace(grad_hidden)
    carried = xp.zeros_like(grad_hidden[..., 0, :])
    from_input, from_state = [], []
    for position in reversed(range(len(run.steps))):
        step, grad = run.steps[position], carried + grad_hidden[..., position, :]
        candidate = grad * (1 - step.update) * (1 - step.candidate * step.candidate)
        update = grad * (step.previous - step.candidate) * step.update * (1 - step.update)
        reset = candidate * step.recurrent * step.reset * (1 - step.reset)
        from_input.append(xp.concat([reset, update, candidate], axis=-1))
        from_state.append(xp.concat([reset, update, candidate * step.reset], axis=-1))
        carried = grad * step.update + from_state[-1] @ gru.weight_hh
    return xp.stack(from_input[::-1], axis=-2), xp.stack(from_state[::-1], axis=-2)
