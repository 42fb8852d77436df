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

from rlvraudit.kernels.arrays import Array, namespace


@dataclass(frozen=True, slots=True)
class Gru:
    """Parameters: embedding and head `[V, H]`, gate weights `[3H, H]` in the order r, z, n."""

    embedding: Array
    weight_ih: Array
    weight_hh: Array
    bias_ih: Array
    bias_hh: Array
    head: Array
    head_bias: Array


@dataclass(frozen=True, slots=True)
class Step:
    """What the backward pass needs of one position, each `[B, H]`."""

    previous: Array
    reset: Array
    update: Array
    candidate: Array
    recurrent: Array


@dataclass(frozen=True, slots=True)
class Pass:
    """A forward pass over `[B, L]` tokens: hidden states `[B, L, H]` and logits `[B, L, V]`."""

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
    """Return the parameters that the vector `flat` holds."""
    xp, start, parts = namespace(flat), 0, {}
    for name, shape in shapes(vocabulary, hidden).items():
        length = shape[0] * (shape[1] if len(shape) > 1 else 1)
        parts[name] = xp.reshape(flat[start : start + length], shape)
        start += length
    return Gru(**parts)


def forward(gru: Gru, tokens: Array) -> Pass:
    """Run the model over integer `tokens` `[B, L]`."""
    xp = namespace(gru.embedding)
    inputs = gru.embedding[tokens]
    from_input = inputs @ xp.matrix_transpose(gru.weight_ih) + gru.bias_ih
    width = gru.embedding.shape[1]
    state, steps, states = xp.zeros_like(inputs[:, 0]), [], []
    for position in range(tokens.shape[1]):
        step = _step(gru, from_input[:, position], state, width)
        state = (1 - step.update) * step.candidate + step.update * state
        steps.append(step)
        states.append(state)
    hidden = xp.stack(states, axis=1)
    logits = hidden @ xp.matrix_transpose(gru.head) + gru.head_bias
    return Pass(tokens, inputs, hidden, logits, tuple(steps))


def take(run: Pass, rows: Array) -> Pass:
    """Return the pass over some of the sequences."""
    steps = tuple(
        Step(*(getattr(step, name)[rows] for name in Step.__slots__)) for step in run.steps
    )
    return Pass(run.tokens[rows], run.inputs[rows], run.hidden[rows], run.logits[rows], steps)


def _step(gru: Gru, from_input: Array, state: Array, width: int) -> Step:
    xp = namespace(state)
    from_state = state @ xp.matrix_transpose(gru.weight_hh) + gru.bias_hh
    gates = _sigmoid(xp, from_input[:, : 2 * width] + from_state[:, : 2 * width])
    reset, update = gates[:, :width], gates[:, width:]
    recurrent = from_state[:, 2 * width :]
    candidate = xp.tanh(from_input[:, 2 * width :] + reset * recurrent)
    return Step(state, reset, update, candidate, recurrent)


def _sigmoid(xp: Any, x: Array) -> Array:
    return 1 / (1 + xp.exp(-x))


def backward(gru: Gru, run: Pass, grad_logits: Array) -> Array:
    """Return the gradient with respect to the flat parameters, for each sequence: `[B, P]`.

    Args:
        gru: The parameters that `run` was computed with.
        run: The forward pass.
        grad_logits: The loss's gradient with respect to the logits, `[B, L, V]`.
    """
    xp = namespace(gru.embedding)
    grad_hidden = grad_logits @ gru.head
    from_input, from_state = _through_time(gru, run, grad_hidden)
    previous = xp.stack([step.previous for step in run.steps], axis=1)
    one_hot = xp.astype(
        run.tokens[..., None] == xp.arange(gru.embedding.shape[0]), gru.embedding.dtype
    )
    parts = (
        xp.matrix_transpose(one_hot) @ (from_input @ gru.weight_ih),
        xp.matrix_transpose(from_input) @ run.inputs,
        xp.matrix_transpose(from_state) @ previous,
        xp.sum(from_input, axis=1),
        xp.sum(from_state, axis=1),
        xp.matrix_transpose(grad_logits) @ run.hidden,
        xp.sum(grad_logits, axis=1),
    )
    return xp.concat([xp.reshape(part, (part.shape[0], -1)) for part in parts], axis=1)


def _through_time(gru: Gru, run: Pass, grad_hidden: Array) -> tuple[Array, Array]:
    """Return the gradients of the gates' input and state parts, each `[B, L, 3H]`."""
    xp = namespace(grad_hidden)
    carried = xp.zeros_like(grad_hidden[:, 0])
    from_input, from_state = [], []
    for position in reversed(range(len(run.steps))):
        step, grad = run.steps[position], carried + grad_hidden[:, position]
        candidate = grad * (1 - step.update) * (1 - step.candidate * step.candidate)
        update = grad * (step.previous - step.candidate) * step.update * (1 - step.update)
        reset = candidate * step.recurrent * step.reset * (1 - step.reset)
        from_input.append(xp.concat([reset, update, candidate], axis=1))
        from_state.append(xp.concat([reset, update, candidate * step.reset], axis=1))
        carried = grad * step.update + from_state[-1] @ gru.weight_hh
    return xp.stack(from_input[::-1], axis=1), xp.stack(from_state[::-1], axis=1)
