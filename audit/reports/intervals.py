"""Claimed intervals beside their recomputation, as people read them and as programs do."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from rlvraudit.audit.errors import Exit, NothingToCheckError
from rlvraudit.audit.evidence.supplement import Claim, Evidence
from rlvraudit.audit.reports.terminal import Page, count, grid, indent, paint, short
from rlvraudit.audit.rules.intervals import IntervalCheck, recheck
from rlvraudit.audit.rules.reported import show

FORMAT = "rlvr-audit-intervals/1"


@dataclass(frozen=True, slots=True)
class Recheck:
    """Every interval that one supplement claims: recomputed, or why it could not be."""

    name: str
    checks: tuple[IntervalCheck, ...]
    unchecked: tuple[tuple[Claim, str], ...]

    @property
    def wrong(self) -> int:
        """How many intervals do not recompute."""
        return sum(check.order is None for check in self.checks)

    @property
    def exit(self) -> Exit:
        """The exit status: what could not be looked at comes before what was found."""
        if self.unchecked:
            return Exit.INCOMPLETE
        return Exit.FINDINGS if self.wrong else Exit.PASSED


def recheck_intervals(supplements: Iterable[Evidence]) -> list[Recheck]:
    """Recompute every interval that the claims of supplements state.

    Raises:
        NothingToCheckError: None of them states one.
    """
    rechecks = [_recheck(evidence) for evidence in supplements]
    stating = [each for each in rechecks if each.checks or each.unchecked]
    if not stating:
        names = ", ".join(each.name for each in rechecks)
        raise NothingToCheckError(f"no claim of {names} states an interval")
    return stating


def _recheck(evidence: Evidence) -> Recheck:
    results = list(recheck(evidence))
    checks = tuple(r for r in results if isinstance(r, IntervalCheck))
    unchecked = tuple(r for r in results if not isinstance(r, IntervalCheck))
    return Recheck(evidence.name, checks, unchecked)


def as_text(rechecks: Sequence[Recheck], page: Page) -> str:
    """Return the checks of several supplements, for a terminal of that width."""
    return "\n".join(paint(_lines(each), page) for each in rechecks)


def as_document(rechecks: Sequence[Recheck]) -> Mapping[str, Any]:
    """Return the checks for JSON; endpoints are in the unit in which they were reported."""
    return {
        "format": FORMAT,
        "supplements": [
            {
                "name": each.name,
                "intervals": [_interval(check) for check in each.checks],
                "unchecked": [{"claim": c.id, "reason": reason} for c, reason in each.unchecked],
                "exit": int(each.exit),
            }
            for each in rechecks
        ],
    }


def _interval(check: IntervalCheck) -> Mapping[str, Any]:
    return {
        "claim": check.claim.id,
        "pointer": check.pointer,
        "recorded": list(check.entry["interval"]),
        "recomputed": list(_recomputed(check)),
        "confidence": check.entry["confidence"],
        "seed": check.entry["seed"],
        "resamples": check.entry["resamples"],
        "order": check.declared,
        "order_that_reproduces": check.order,
        "holds": check.order is not None,
    }


def _lines(rechecked: Recheck) -> Iterator[RenderableType]:
    total = len(rechecked.checks) + len(rechecked.unchecked)
    yield Text.assemble((short(rechecked.name), "bold"), f"   {count(total, 'claimed interval')}")
    protocols = {_protocol(check) for check in rechecked.checks}
    if len(protocols) == 1:
        yield Text(protocols.pop())
    yield Text("")
    for check in rechecked.checks:
        yield from _check(check, alone=bool(protocols))
    for claim, reason in rechecked.unchecked:
        yield grid([(Text("·"), Text(short(claim.id)), Text("not checked", "yellow"))])
        yield indent(short(reason, 200), 5)
    yield Text("")
    yield _verdict(rechecked)


def _check(check: IntervalCheck, *, alone: bool) -> Iterator[RenderableType]:
    """Yield a claimed interval beside its recomputation, with the protocol if it is `alone`."""
    word, style = ("differs", "bold red") if check.order is None else ("ok", "green")
    low, high = check.entry["interval"]
    row = f"{short(check.claim.id)}   [{low}, {high}]"
    yield grid([(Text("·"), Text(row), Text(word, style))])
    yield indent(f"recomputed [{', '.join(_recomputed(check))}]", 5)
    if alone:
        yield indent(_protocol(check), 5)
    if check.order not in (None, check.declared):
        yield indent(f"not in the declared order, by {check.declared}", 5, "yellow")


def _protocol(check: IntervalCheck) -> str:
    entry = check.entry
    return (
        f"default_rng({entry['seed']}), {entry['resamples']:,} resamples, "
        f"confidence {short(entry['confidence'])}, by {check.order or check.declared}"
    )


def _recomputed(check: IntervalCheck) -> tuple[str, str]:
    unit = check.entry.get("unit", "proportion")
    drawn = (check.recomputed.ci_low, check.recomputed.ci_high)
    low, high = (
        show(Fraction(end), like, unit) for end, like in zip(drawn, check.ends, strict=True)
    )
    return low, high


def _verdict(rechecked: Recheck) -> Text:
    if rechecked.exit is Exit.INCOMPLETE:
        return Text(f"incomplete: {count(len(rechecked.unchecked), 'interval')} not checked", "red")
    if rechecked.wrong:
        told = f"{rechecked.wrong} of {count(len(rechecked.checks), 'interval')}"
        return Text(f"{told} did not recompute · rlvr-audit explain RA502 says why", "bold red")
    return Text(f"{count(len(rechecked.checks), 'interval')} recomputed", "green")
