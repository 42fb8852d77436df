"""The GRU in closed form against torch.nn.GRU and autograd."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rlvraudit.kernels import gru
from rlvraudit.kernels.bounds import exact

VOCABULARY, HIDDEN = 7, 5
Floats = NDArray[np.float64]


@pytest.fixture
def flat() -> Floats:
    return np.random.default_rng(3).uniform(-1, 1, gru.size(VOCABULARY, HIDDEN))


@pytest.fixture
def tokens() -> NDArray[np.int64]:
    return np.random.default_rng(4).integers(0, VOCABULARY, (6, 8))


def torch_model(flat: Floats, tokens: NDArray[np.int64]) -> tuple[Any, list[Any]]:
    """Return torch's logits and its parameters in the order of the flat vector."""
    torch = pytest.importorskip("torch", reason="torch.nn.GRU is the authority here")
    embedding = torch.nn.Embedding(VOCABULARY, HIDDEN)
    layer = torch.nn.GRU(HIDDEN, HIDDEN, batch_first=True)
    head = torch.nn.Linear(HIDDEN, VOCABULARY)
    for module in (embedding, layer, head):
        module.double()
    gates = [layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0, layer.bias_hh_l0]
    ordered = [embedding.weight, *gates, head.weight, head.bias]
    start = 0
    for parameter in ordered:
        part = flat[start : start + parameter.numel()].reshape(tuple(parameter.shape))
        parameter.data = torch.from_numpy(part.copy())
        start += parameter.numel()
    assert start == len(flat)
    hidden, _ = layer(embedding(torch.from_numpy(tokens)))
    return head(hidden), ordered


def test_logits_are_those_of_torch(flat: Floats, tokens: NDArray[np.int64]) -> None:
    expected, _ = torch_model(flat, tokens)
    run = gru.forward(gru.unpack(flat, VOCABULARY, HIDDEN), tokens)
    np.testing.assert_allclose(run.logits, expected.detach().numpy(), rtol=1e-13, atol=1e-13)


def test_gradient_is_that_of_autograd(flat: Floats, tokens: NDArray[np.int64]) -> None:
    logits, ordered = torch_model(flat, tokens)
    upstream = np.random.default_rng(5).standard_normal(logits.shape)
    (logits * logits.new_tensor(upstream)).sum().backward()
    expected = np.concatenate([parameter.grad.numpy().reshape(-1) for parameter in ordered])
    parameters = gru.unpack(flat, VOCABULARY, HIDDEN)
    found = gru.backward(parameters, gru.forward(parameters, tokens), upstream).sum(axis=0)
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)


def test_bound_covers_float32_and_is_not_vacuous(flat: Floats, tokens: NDArray[np.int64]) -> None:
    narrow = flat.astype(np.float32)
    right = gru.forward(gru.unpack(narrow.astype(np.float64), VOCABULARY, HIDDEN), tokens).logits
    ball = gru.forward(gru.unpack(exact(narrow, "float32"), VOCABULARY, HIDDEN), tokens).logits
    computed = gru.forward(gru.unpack(narrow, VOCABULARY, HIDDEN), tokens).logits
    assert computed.dtype == np.float32
    assert np.all(np.abs(computed - right) <= ball.radius)
    assert ball.radius.max() < 1e-3


def test_several_models_at_once_are_each_alone(tokens: NDArray[np.int64]) -> None:
    rng = np.random.default_rng(6)
    flat = rng.uniform(-1, 1, (2, gru.size(VOCABULARY, HIDDEN)))
    rows = np.array([[4, 0], [1, 4]])
    together = gru.unpack(flat, VOCABULARY, HIDDEN)
    some = gru.take(gru.forward(together, tokens), rows)
    upstream = rng.standard_normal(some.logits.shape)
    gradient = gru.backward(together, some, upstream)
    for model in range(2):
        alone = gru.unpack(flat[model], VOCABULARY, HIDDEN)
        run = gru.forward(alone, tokens[rows[model]])
        expected = gru.backward(alone, run, upstream[model])
        np.testing.assert_allclose(some.logits[model], run.logits, rtol=1e-13, atol=1e-14)
        np.testing.assert_allclose(gradient[model], expected, rtol=1e-12, atol=1e-13)
