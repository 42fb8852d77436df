"""A comparison of two methods as people read it, and as programs do."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rlvraudit import __version__
from rlvraudit.audit.reports.terminal import Page, clean, count, indent, paint
from rlvraudit.audit.results.comparison import Comparison, excluded_side, is_binary
from rlvraudit.audit.results.pairing import exact_sum

FORMAT = "rlvr-audit-comparison/1"
SMALLEST_PRINTED = 1e-12
NARROW = 68
"""Below this many columns what stands beside a value goes below it."""
BLANK = Text("")
NOT_COVERED = "Not covered: training seeds, prompts, grader, selection of the checkpoint."


def as_text(comparison: Comparison, page: Page) -> str:
    """Return the comparison for a terminal of that width."""
    return paint(_lines(comparison, page), page)


def as_document(comparison: Comparison) -> Mapping[str, Any]:
    """Return the comparison for JSON, in full precision."""
    pairs, drawn, protocol = comparison.pairs, comparison.bootstrap, comparison.protocol
    won, lost, tied = comparison.outcomes
    return {
        "format": FORMAT,
        "baseline": pairs.baseline,
        "treatment": pairs.treatment,
        "n": len(pairs.items),
        "scores_per_item": _by_side([list(counts) for counts in pairs.samples]),
        "mean": _by_side(_means(comparison)),
        "difference": drawn.difference,
        "interval": [drawn.ci_low, drawn.ci_high],
        "confidence": protocol.confidence,
        "method": "paired-item-bootstrap",
        "seed": protocol.seed,
        "resamples": protocol.resamples,
        "order": protocol.order,
        "p_value": drawn.p_value,
        "p_centred": drawn.p_centred,
        "exact": {
            "test": comparison.exact.name,
            "p_value": comparison.exact.p_value,
            "mid_p": comparison.exact.mid_p,
            "smallest_attainable_p": comparison.exact.attainable,
        },
        "won": won,
        "lost": lost,
        "tied": tied,
        "percentile_interval_reliable": comparison.reliable,
        "notes": list(comparison.notes),
        "versions": {"rlvr-audit": __version__, "numpy": np.__version__},
    }


def _by_side(values: Sequence[Any]) -> Mapping[str, Any]:
    return dict(zip(("baseline", "treatment"), values, strict=True))


def recipe(comparison: Comparison) -> str:
    """Return one line that says how to get the numbers again."""
    drawn, protocol = comparison.bootstrap, comparison.protocol
    return (
        f"diff={drawn.difference:+.6f} "
        f"ci{100 * protocol.confidence:g}=[{drawn.ci_low:.6f},{drawn.ci_high:.6f}] "
        f"paired-item-bootstrap n={drawn.n_items} seed={protocol.seed} B={protocol.resamples} "
        f"order={protocol.order} rlvr-audit={__version__} numpy={np.__version__}"
    )


def show_p(p_value: float) -> str:
    """Return a p-value to two digits, never as 0 and never rounded up to 1."""
    if p_value < SMALLEST_PRINTED:
        return f"< {SMALLEST_PRINTED:.0e}"
    if p_value == 1.0:
        return "1"
    return f"{p_value:.1e}" if p_value < 1e-4 else f"{min(p_value, 0.99):.2g}"


def _lines(comparison: Comparison, page: Page) -> Iterator[RenderableType]:
    yield from _heading(comparison, page)
    yield BLANK
    yield _table(_means_rows(comparison), page)
    yield BLANK
    yield _table(_test_rows(comparison), page)
    yield BLANK
    if comparison.bootstrap.ci_low != comparison.bootstrap.ci_high:
        yield from (indent(line, 2) for line in _forest(comparison, page))
        yield BLANK
    yield indent(f"{_conclusion(comparison)} {NOT_COVERED}", 2)
    yield from (indent(f"note  {clean(note)}", 2, "yellow") for note in _notes(comparison))
    yield indent(f"recipe: {recipe(comparison)}", 2)


def _heading(comparison: Comparison, page: Page) -> Iterator[RenderableType]:
    pairs = comparison.pairs
    title = f"{clean(pairs.treatment)} - {clean(pairs.baseline)}"
    counts = f"{count(len(pairs.items), 'item')}, {_samples(comparison)}"
    if len(title) + len(counts) + 3 > page.width:
        yield Text(title, "bold")
        yield indent(counts, 2)
        return
    row = Table.grid(expand=True)
    row.add_column()
    row.add_column(justify="right", no_wrap=True)
    row.add_row(Text(title, "bold"), Text(counts))
    yield row


def _samples(comparison: Comparison) -> str:
    counts = sorted({c for side in comparison.pairs.samples for c in side})
    if len(counts) == 1:
        return count(counts[0], "rollout")
    return f"{counts[0]} to {counts[-1]} rollouts"


def _table(rows: Iterator[tuple[str, str, str]], page: Page) -> RenderableType:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(min_width=16, max_width=max(16, page.width // 2 - 6), overflow="fold")
    table.add_column(overflow="fold")
    table.add_column(overflow="fold")
    for label, value, beside in rows:
        if page.width < NARROW:
            table.add_row(label, Text(f"{value}\n{beside}" if beside else value))
        else:
            table.add_row(label, Text(value), Text(beside))
    return Padding(table, (0, 0, 0, 2), expand=False)


def _means_rows(comparison: Comparison) -> Iterator[tuple[str, str, str]]:
    pairs, (won, lost, tied) = comparison.pairs, comparison.outcomes
    baseline, treatment = _means(comparison)
    unit = " %" if _proportions(comparison) else ""
    yield clean(pairs.treatment), f"{_number(comparison, treatment)}{unit}", ""
    yield clean(pairs.baseline), f"{_number(comparison, baseline)}{unit}", ""
    points = " points" if unit else ""
    told = f"{won:,} items won, {lost:,} lost, {tied:,} tied"
    yield "difference", f"{_signed(comparison, comparison.bootstrap.difference)}{points}", told


def _test_rows(comparison: Comparison) -> Iterator[tuple[str, str, str]]:
    """Yield the bootstrap and the exact test, first the one to read."""
    drawn, protocol, exact = comparison.bootstrap, comparison.protocol, comparison.exact
    interval = f"[{_signed(comparison, drawn.ci_low)}, {_signed(comparison, drawn.ci_high)}]"
    level = "" if protocol.confidence == 0.95 else f"{100 * protocol.confidence:g} %, "
    doubt = "" if comparison.reliable else "unreliable here: few items or few discordant"
    rows = [
        (
            "paired bootstrap",
            interval,
            f"{level}default_rng({protocol.seed}), {protocol.resamples:,} resamples",
        ),
        ("", f"p = {show_p(drawn.p_value)}".replace("= <", "<"), doubt or "bootstrap, not exact"),
    ]
    middle = "" if exact.mid_p is None else f"mid-p {show_p(exact.mid_p)}"
    headline = (exact.name, f"p = {show_p(exact.p_value)}".replace("= <", "<"), middle)
    yield from (*rows, headline) if comparison.reliable else (headline, *rows)


def _conclusion(comparison: Comparison) -> str:
    pairs, drawn = comparison.pairs, comparison.bootstrap
    treatment, baseline = clean(pairs.treatment), clean(pairs.baseline)
    alpha = 1 - comparison.protocol.confidence
    shown = excluded_side(pairs.differences, drawn.ci_low, drawn.ci_high) != 0
    if not comparison.reliable:
        shown = comparison.exact.p_value <= alpha
    if not shown:
        by = "the interval holds zero" if comparison.reliable else "the exact test shows none"
        if len(set(pairs.differences)) == 1 and not pairs.differences[0]:
            by = "every item ties"
        return f"No difference between {treatment} and {baseline} is established: {by}."
    verb = "solves" if is_binary(pairs) else "scores"
    more, fewer = ("more", "fewer") if is_binary(pairs) else ("higher", "lower")
    direction = more if drawn.difference > 0 else fewer
    link = "of items" if is_binary(pairs) else "on items"
    return f"{treatment} {verb} {direction} {link} like these than {baseline}."


def _notes(comparison: Comparison) -> Iterator[str]:
    yield from comparison.notes
    alpha = 1 - comparison.protocol.confidence
    won, lost, _ = comparison.outcomes
    if won + lost and comparison.exact.attainable > alpha:
        smallest = show_p(comparison.exact.attainable)
        yield f"with {won + lost} discordant items no exact p below {smallest} is attainable"


def _means(comparison: Comparison) -> tuple[float, float]:
    pairs = comparison.pairs
    n = len(pairs.items)
    return (
        float(exact_sum(pairs.baseline_means) / n),
        float(exact_sum(pairs.treatment_means) / n),
    )


def _proportions(comparison: Comparison) -> bool:
    means = (*comparison.pairs.baseline_means, *comparison.pairs.treatment_means)
    return all(0 <= mean <= 1 for mean in means)


def _scale(comparison: Comparison) -> float:
    return 100.0 if _proportions(comparison) else 1.0


def _digits(comparison: Comparison) -> int:
    """Return the decimals to print: two digits of the interval's width, and at least one."""
    drawn = comparison.bootstrap
    width = (drawn.ci_high - drawn.ci_low) * _scale(comparison)
    return min(9, max(1, 1 - math.floor(math.log10(width)))) if width > 0 else 1


def _number(comparison: Comparison, value: float) -> str:
    return f"{value * _scale(comparison):,.{_digits(comparison)}f}"


def _signed(comparison: Comparison, value: float) -> str:
    return f"{value * _scale(comparison):+,.{_digits(comparison)}f}" if value else "0"


def _forest(comparison: Comparison, page: Page) -> Iterator[str]:
    """Yield the tick labels, the axis with a + at zero, and the interval with a # at the mean."""
    drawn, scale = comparison.bootstrap, _scale(comparison)
    low, mean, high = (scale * x for x in (drawn.ci_low, drawn.difference, drawn.ci_high))
    room = min(page.width, 76) - 12
    cell = 8 if room >= 40 else 6
    step = _step(max(high, 0.0) - min(low, 0.0), room // cell - 1)
    first, last = math.floor(min(low, 0.0) / step), math.ceil(max(high, 0.0) / step)
    last = max(last, first + 1)

    def column(value: float) -> int:
        return round((value / step - first) * cell) + 4

    width = column(last * step) + 1
    labels, axis, bar = [" "] * (width + 6), [" "] * width, [" "] * width
    axis[4:] = "-" * (width - 4)
    for tick in range(first, last + 1):
        at, label = column(tick * step), f"{tick * step:g}"
        axis[at] = "|" if tick else "+"
        labels[at - len(label) // 2 : at - len(label) // 2 + len(label)] = label
    bar[column(low) : column(high) + 1] = "=" * (column(high) - column(low) + 1)
    bar[column(low)], bar[column(high)], bar[column(mean)] = "[", "]", "#"
    yield from ("".join(line).rstrip() for line in (labels, axis, bar))


def _step(extent: float, cells: int) -> float:
    """Return the smallest 1, 2 or 5 times a power of ten that spans `extent` in so many cells."""
    rough = max(extent, 1e-9) / max(cells, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= rough * (1 - 1e-12))
