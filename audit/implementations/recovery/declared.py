"""What was recovered, held against what is declared."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from rlvraudit.audit.implementations.card import Fault
from rlvraudit.audit.implementations.closed_forms import parts
from rlvraudit.audit.implementations.closed_forms.weighting import PUBLISHED

NORMED = "seq-mean-token-sum-norm"
"""The aggregation that a norm belongs to."""


def mismatches(
    said: Mapping[str, Any], called: Mapping[str, Any], known: Mapping[str, Any]
) -> Iterator[Fault]:
    """Yield the parameters whose recovered value is not the one said, or else called with."""
    wanted = {**called, **said}
    if wanted.get("aggregation", NORMED) != NORMED:
        wanted.pop("norm", None)
    differing = {
        name: (value, known[name])
        for name, value in wanted.items()
        if name in known
        and _comparable(name, value)
        and not (same(value, known[name]) if name in said else follows(value, known[name]))
    }
    if _swapped(differing):
        yield Fault(
            "bounds-swapped",
            "The clip bounds are swapped: it clips to [1 - clip_high, 1 + clip_low].",
            about="clip_low",
        )
        differing = {n: v for n, v in differing.items() if n not in ("clip_low", "clip_high")}
    for name, (value, seen) in differing.items():
        yield _mismatch(name, value, seen)


def _swapped(differing: Mapping[str, tuple[Any, Any]]) -> bool:
    if not {"clip_low", "clip_high"} <= differing.keys():
        return False
    low, high = differing["clip_low"], differing["clip_high"]
    return same(low[0], high[1]) and same(high[0], low[1])


def _mismatch(name: str, wanted: Any, seen: Any) -> Fault:
    sign = {"clip_low": -1.0, "clip_high": 1.0}.get(name)
    if sign is not None and same(sign * math.expm1(sign * float(wanted)), seen):
        return Fault(
            "log-ratio-clipped",
            f"The log-ratio is clipped at {sign * wanted:g}, not the ratio at "
            f"1 {sign * wanted:+g}.",
            about=name,
        )
    if name == "clip_low" and same(1.0 - float(wanted), seen):
        return Fault(
            "lower-bound-is-epsilon",
            f"The lower bound of the ratio is {wanted:g}, that is eps, not 1 - eps.",
            about=name,
        )
    sentence = f"{name} is {shown(wanted)}, but what acts is {shown(seen)}."
    return Fault("not-as-declared", sentence, about=name)


def vocabulary(name: str) -> set[str] | None:
    """Return the values that a parameter with names for values has here, or None for numbers."""
    return {
        "aggregation": {*PUBLISHED.values(), NORMED},
        "estimator": set(parts("estimator")),
        "scale": {"std", "none"},
    }.get(name)


def _comparable(name: str, value: Any) -> bool:
    """Whether the value of a parameter says something here."""
    known = vocabulary(name)
    return value in known if known is not None else value is not None or name == "dual_clip"


def same(a: Any, b: Any) -> bool:
    """Whether two values of a parameter are the same, numbers to six digits."""
    if isinstance(a, str) and isinstance(b, str):
        # A sum and a normed sum differ by the norm alone, which is held to its own value.
        return a == b or {a, b} == {NORMED, "seq-mean-token-sum"}
    if isinstance(a, str) or isinstance(b, str) or a is None or b is None:
        return bool(a == b)
    return bool(np.isclose(float(a), float(b), rtol=1e-6, atol=1e-9))


def follows(value: Any, seen: Any) -> bool:
    """Whether what acts is what a parameter asks for, in the code's own sense of its name.

    A loss whose "k3" has another gradient than k3 alone follows the parameter; whether it is the
    estimator that the caller means, only the caller can say.
    """
    return same(value, seen) or (isinstance(seen, str) and seen.partition(",")[0] == value)


def shown(value: Any) -> str:
    """Return the value of a parameter as the card shows it."""
    if value is None:
        return "none"
    return value if isinstance(value, str) else f"{value:g}"
