"""The batches on which a loss is compared with its closed form leave no clip region empty."""

import math

import numpy as np
import pytest

from rlvraudit.audit.implementations.recovery.batches import GENERIC, Zones, zones
from rlvraudit.audit.implementations.recovery.bench import Floats, Inputs

BOUNDS = [(0.2, 0.2), (0.2, 0.28), (3e-4, 4e-4), (0.5, 1.0), (0.1, 4.0)]
EVERY = {(zone, sign) for zone in ("below", "inside", "above") for sign in (-1.0, 1.0)}


def log_ratios(inputs: Inputs, level: str) -> Floats:
    """Return the log-ratio of each token: log r, the mean over the row, the mean up to t."""
    mask = inputs["mask"]
    x: Floats = np.where(mask, inputs["logp_policy"] - inputs["logp_old"], 0.0)
    if level == "sequence":
        x = np.repeat(x.sum(1, keepdims=True) / mask.sum(1, keepdims=True), x.shape[1], 1)
    if level == "prefix":
        x = x.cumsum(1) / np.maximum(mask.cumsum(1), 1)
    return x


def regions(around: Zones, low: float, high: float, level: str) -> set[tuple[str, float]]:
    found = set()
    for make in GENERIC.values():
        inputs = make(around)
        x = log_ratios(inputs, level)
        for b, t in np.argwhere(inputs["mask"]):
            below, above = x[b, t] < math.log(1.0 - low), x[b, t] > math.log(1.0 + high)
            zone = "below" if below else "above" if above else "inside"
            found.add((zone, float(np.sign(inputs["advantages"][b]))))
    return found


@pytest.mark.parametrize("level", ["token", "sequence", "prefix"])
@pytest.mark.parametrize(("low", "high"), BOUNDS)
def test_each_of_the_six_clip_regions_holds_a_token(low: float, high: float, level: str) -> None:
    assert regions(zones(1.0 - low, 1.0 + high), low, high, level) >= EVERY


@pytest.mark.parametrize("name", GENERIC)
def test_no_log_probability_of_a_batch_is_positive_and_padding_is_finite(name: str) -> None:
    inputs = GENERIC[name](zones(0.8, 1.2))
    for key in ("logp_policy", "logp_old", "logp_reference"):
        assert (inputs[key] <= 0.0).all()
        assert np.isfinite(inputs[key]).all()


def test_the_batches_hold_holes_one_token_rows_and_as_many_rows_as_tokens() -> None:
    masks = [make(zones(0.8, 1.2))["mask"] for make in GENERIC.values()]
    assert any(m.shape[0] == m.shape[1] and m.all() for m in masks)
    assert any((m.sum(1) == 1).any() for m in masks)
    holes = [(~m & (m[:, ::-1].cumsum(1)[:, ::-1] > 0)).any() for m in masks]
    assert any(holes)
