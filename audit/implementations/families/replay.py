"""TAR's replay loss: gate, token weights, mean, the denominator's epsilon, what is detached."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from rlvraudit.audit.implementations.card import Entry, Example, Fault, Finding
from rlvraudit.audit.implementations.closed_forms import parts
from rlvraudit.audit.implementations.closed_forms.replay import Replay
from rlvraudit.audit.implementations.families.family import Declared, Family, Recovery
from rlvraudit.audit.implementations.implementation import observe
from rlvraudit.audit.implementations.recovery.batches import holed_mask
from rlvraudit.audit.implementations.recovery.bench import (
    Bench,
    Floats,
    Inputs,
    mask_of,
    nice,
    spread,
)
from rlvraudit.audit.implementations.recovery.declared import mismatches
from rlvraudit.audit.implementations.recovery.evaluate import differs, evaluate
from rlvraudit.audit.implementations.recovery.examples import smallest
from rlvraudit.audit.implementations.recovery.structure import HOLED, positions

EPSILON = 1e-8
TINY = 1e-6
SIZES = ([1], [2], [1, 1], [3], [2, 1], [2, 2], [3, 1, 2])


def recover_replay(bench: Bench, declared: Declared) -> Recovery:
    """Return what a replay loss computes, and what of it is wrong or not as declared."""
    exact = bench.precision == "float64"
    epsilon = _epsilon(bench) if exact else EPSILON
    faults = list(positions(bench, _inputs(HOLES, np.full(HOLES.shape, 0.3)), "logp_policy"))
    form = _assemble(bench, epsilon)
    said = {**declared.called, **declared.parameters}.get("denominator_epsilon", EPSILON)
    right = replace(_right(), epsilon=float(said))
    if form is not None or not faults:
        faults.extend(_faults(bench, form))
    known = {"denominator_epsilon": epsilon} if exact else {}
    if not faults:
        # The paper has 1e-8; another epsilon has to be a parameter, or declared.
        usual = {"denominator_epsilon": EPSILON, **declared.called}
        faults.extend([*mismatches(declared.parameters, usual, known), *_into_base(bench)])
    example = smallest(bench, right, _small()) if faults and not declared.light else None
    return Recovery(
        objective="tar.replay_nll" if form else "",
        finding=Finding(
            tuple(_entries(form)),
            tuple(f if f.example else replace(f, example=example) for f in faults),
        ),
        form=form,
        right=right,
        batches=_batches(),
        numbers=known,
        normaliser="trajectories" if form and not form.mean.fault else None,
    )


HOLES = np.array(HOLED)


def _into_base(bench: Bench) -> Iterator[Fault]:
    """Yield whether the base policy, which is frozen, gets a gradient."""
    inputs = _batches()["suppressed"]
    seen = observe(bench.implementation, inputs, wrt="logp_base", **bench.parameters)
    if seen.error or not np.any(seen.gradient):
        return
    expected = replace(seen, gradient=np.zeros(seen.gradient.shape))
    yield Fault(
        "gradient-into-base",
        "The base policy gets a gradient: gate or weights are detached from the policy only.",
        Example(
            inputs,
            expected,
            seen,
            "gradient with respect to logp_base is not 0",
            wrt="logp_base",
        ),
        "detached parts",
    )


def _right() -> Replay:
    return Replay(
        parts("gate")["gate"],
        parts("token weight")["token-weight"],
        parts("replay mean")["replay-mean"],
    )


def _inputs(mask: NDArray[np.bool_], delta: Floats) -> Inputs:
    """Return a batch with these differences between base and policy."""
    policy = spread(mask.shape, -2.2, -0.3) + np.minimum(0.0, -delta)
    base = policy + delta
    return {
        "logp_policy": np.where(mask, policy, 0.0),
        "logp_base": np.where(mask, base, 0.0),
        "mask": mask,
    }


def _epsilon(bench: Bench) -> float:
    """Return what is added to the sum of weights: what a single tiny weight shows of it."""
    mask = mask_of([1])
    inputs = _inputs(mask, np.full(mask.shape, TINY))
    weight = -np.expm1(inputs["logp_policy"].item() - inputs["logp_base"].item())
    gradient = bench.run(inputs).gradient
    if gradient.size != 1 or not np.isfinite(gradient).all() or not gradient.any():
        return EPSILON
    extra = weight * weight / abs(gradient.item()) - weight
    found = float(f"{extra:.3g}") if 1e-13 < extra < 0.5 else 0.0
    return nice(found, 1e-14)


def _batches() -> dict[str, Inputs]:
    """Return batches with open and closed gates, holes, and as many rows as tokens."""
    holed, full = holed_mask(), mask_of([4, 4, 4, 4])
    tilt = np.resize([0.6, -0.7, 0.2, -0.1, 0.9], len(holed))[:, None]
    mixed = spread(holed.shape, -0.9, 0.9) + tilt
    suppressed = spread(full.shape, 0.05, 1.6, 13)
    closed = spread((3, 3), -1.4, -0.1, 7)
    return {
        "mixed": _inputs(holed, mixed),
        "suppressed": _inputs(full, suppressed),
        "short": _inputs(mask_of([1, 3, 2]), spread((3, 3), -0.4, 0.8, 5)),
        "closed": _inputs(mask_of([3, 2, 3]), closed),
    }


def _assemble(bench: Bench, epsilon: float) -> Replay | None:
    batches = [inputs for inputs in _batches().values() if bench.run(inputs).finite]
    if not batches:
        return None
    names = ("gate", "token weight", "replay mean")
    every = list(product(*(parts(name).values() for name in names)))
    every.sort(key=lambda chosen: sum(bool(part.fault) for part in chosen))
    for eps in dict.fromkeys((epsilon, EPSILON, 0.0)):
        for chosen in every:
            form = Replay(chosen[0], chosen[1], chosen[2], eps)
            if not any(differs(bench, form, inputs) for inputs in batches):
                return form
    return _scaled(bench, epsilon) or _scaled(bench, EPSILON)


def _scaled(bench: Bench, epsilon: float) -> Replay | None:
    """Return the right form times a constant, if that is what it is."""
    batches = _batches()
    form = replace(_right(), epsilon=epsilon)
    seen, expected = bench.run(batches["mixed"]), evaluate(form, batches["mixed"])
    if seen.error or not seen.value.any():
        return None
    factor = nice(float(seen.value / expected.value), bench.tolerance)
    form = replace(form, factor=factor)
    return None if any(differs(bench, form, inputs) for inputs in batches.values()) else form


def _faults(bench: Bench, form: Replay | None) -> Iterator[Fault]:
    if form is None:
        yield Fault(
            "unexplained", "Value and gradient are not those of any replay loss known here."
        )
        return
    for part in (form.gate, form.weight, form.mean):
        if part.fault:
            yield Fault(part.name, part.fault)
    if form.factor < 0:
        yield Fault("sign-flipped", "The sign is wrong: the loss unlearns the bank.")
    elif form.factor != 1.0:
        yield Fault("constant-factor", f"The loss is {form.factor:.6g} times TAR's.")
    if form.epsilon == 0.0:
        yield Fault(
            "epsilon-lost",
            "The denominator has no epsilon: where every weight is 0 it is 0 / 0. 1e-8 is 0 in "
            "FP16; add it in FP32 or better.",
        )


def _small() -> Iterator[Inputs]:
    for lengths in SIZES:
        mask = mask_of(lengths)
        for pattern in ([0.5, 0.2], [-0.4, 0.9, -0.3], [0.6, -0.8], [-0.5]):
            delta = np.resize(pattern, mask.shape)
            policy = np.where(mask, -1.5, 0.0)
            yield {
                "logp_policy": policy,
                "logp_base": np.where(mask, policy + delta, 0.0),
                "mask": mask,
            }


def _entries(form: Replay | None) -> Iterator[Entry]:
    if form is None:
        yield Entry("replay", "none of the forms known here", True)
        return
    for name, part in (("gate", form.gate), ("weights", form.weight), ("mean", form.mean)):
        yield Entry(name, part.words, bool(part.fault))
    epsilon = f"{form.epsilon:g}" if form.epsilon else "none"
    yield Entry("denominator epsilon", epsilon, form.epsilon == 0.0)


ROWS = 20


def sample(tokens: int, seed: int) -> Inputs:
    """Return a batch with open and closed gates."""
    draw = np.random.default_rng(seed)
    mask = mask_of([*draw.integers(1, tokens + 1, ROWS - 1), tokens])
    delta = draw.normal(0.2, 0.4, mask.shape)
    delta[0] = -np.abs(delta[0])  # nothing is suppressed here: every weight is 0
    return _inputs(mask, delta)


REPLAY = Family(
    "replay",
    ("tar.replay_nll",),
    ("logp_policy", "logp_base"),
    ("mask",),
    recover_replay,
    sample,
    {"denominator_epsilon": (1e-4,)},
)
